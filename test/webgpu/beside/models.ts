// Small models with caches of every kind, and what each says alone: computed by the reference implementation of the graph as it is, without a
// state, its caches carried by hand.
import { smallSizes, generatedDecoder } from "../../../tools/demo/decoder.js";
import { InferenceSession } from "../../../src/entry/node.js";
import { buildModel, initializer, node, value } from "../../../src/onnx/build.js";
import { writeModel } from "../../../src/onnx/write.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import { int64, tokenFeeds } from "../../support/decoding.js";

const [heads, width] = [2, 4];
/** Rows of a cache that does not grow. */
export const capacity = 8;

export const floats = (data: ArrayLike<number>, dims: readonly number[]): Tensor =>
  new Tensor("float32", Float32Array.from(data), dims);

const weights = (rows: number, columns: number): Tensor =>
  floats(
    Array.from({ length: rows * columns }, (_, at) => Math.sin(at + 1) / 2),
    [rows, columns],
  );

/** Caches as they are carried by hand: their elements by name, all of so many valid rows. */
export interface Carried {
  readonly caches: Readonly<Record<string, Tensor>>;
  readonly rows: number;
}

/** A model that a state holds the caches of. */
export interface CachedModel {
  readonly bytes: Uint8Array;
  /** Pasts by name, and the presents that become them. */
  readonly pairs: Readonly<Record<string, string>>;
  /** True if caches get longer. */
  readonly grows: boolean;
  /** Numbers of `x` for one row. */
  readonly rowSize: number;
  /** What runs are fed beside caches, for so many new rows after others. */
  readonly feeds: (x: readonly number[], rows: number) => Record<string, Tensor>;
  /** What functional runs are fed beside, which states fill in. */
  readonly lengths: (rows: number) => Record<string, Tensor>;
  /** The shape of a cache with so many rows. */
  readonly shape: (rows: number) => readonly number[];
}

/** The end of a model: a product of what all rows sum to, so that every row counts. */
const summed = (cache: string): ReturnType<typeof node>[] => [
  node("ReduceSum", [cache, "axes"], ["sums"], { keepdims: 1 }),
  node("MatMul", ["sums", "weights"], ["y"]),
];
const constants = [initializer("axes", int64([2])), initializer("weights", weights(width, 3))];
const rowsOf = (x: readonly number[]): Record<string, Tensor> => ({
  x: floats(x, [1, heads, x.length / (heads * width), width]),
});

/** A cache that Concat makes anew; `past` names it. */
export const concatModel = (past = "past"): CachedModel => ({
  bytes: writeModel(
    buildModel({
      opset: 24,
      inputs: [value(past, "float32", [1, heads, "P", width]), value("x", "float32", [1, heads, "S", width])],
      outputs: [value("present", "float32", [1, heads, "T", width]), value("y", "float32", [1, heads, 1, 3])],
      initializers: constants,
      nodes: [node("Concat", [past, "x"], ["present"], { axis: 2 }), ...summed("present")],
    }),
  ),
  pairs: { [past]: "present" },
  grows: true,
  rowSize: heads * width,
  feeds: rowsOf,
  lengths: () => ({}),
  shape: (rows) => [1, heads, rows, width],
});

/** A cache that TensorScatter writes; `past` names it. */
export const scatterModel = (past = "past"): CachedModel => ({
  bytes: writeModel(
    buildModel({
      opset: 24,
      inputs: [
        value(past, "float32", [1, heads, capacity, width]),
        value("x", "float32", [1, heads, "S", width]),
        value("write_indices", "int64", [1]),
      ],
      outputs: [value("present", "float32", [1, heads, capacity, width]), value("y", "float32", [1, heads, 1, 3])],
      initializers: constants,
      nodes: [
        node("TensorScatter", [past, "x", "write_indices"], ["present"], { axis: 2, mode: "linear" }),
        ...summed("present"),
      ],
    }),
  ),
  pairs: { [past]: "present" },
  grows: false,
  rowSize: heads * width,
  feeds: rowsOf,
  lengths: (rows) => ({ write_indices: int64([rows]) }),
  shape: () => [1, heads, capacity, width],
});

/** Two caches that GroupQueryAttention makes longer. */
const groupedModel: CachedModel = {
  bytes: writeModel(
    buildModel({
      opset: { "": 24, "com.microsoft": 1 },
      inputs: [
        value("past_key", "float32", [1, 1, "P", 8]),
        value("past_value", "float32", [1, 1, "P", 8]),
        value("x", "float32", [1, "S", 32]),
        value("seqlens_k", "int32", [1]),
        value("total_sequence_length", "int32", []),
      ],
      outputs: [
        value("y", "float32", [1, "S", 16]),
        value("present_key", "float32", [1, 1, "T", 8]),
        value("present_value", "float32", [1, 1, "T", 8]),
      ],
      initializers: [initializer("parts", int64([16, 8, 8]))],
      nodes: [
        node("Split", ["x", "parts"], ["q", "k", "v"], { axis: 2 }),
        node(
          "GroupQueryAttention",
          ["q", "k", "v", "past_key", "past_value", "seqlens_k", "total_sequence_length"],
          ["y", "present_key", "present_value"],
          { num_heads: 2, kv_num_heads: 1 },
          { domain: "com.microsoft" },
        ),
      ],
    }),
  ),
  pairs: { past_key: "present_key", past_value: "present_value" },
  grows: true,
  rowSize: 32,
  feeds: (x, rows) => {
    const total = rows + x.length / 32;
    return {
      x: floats(x, [1, x.length / 32, 32]),
      seqlens_k: new Tensor("int32", Int32Array.of(total - 1), [1]),
      total_sequence_length: new Tensor("int32", Int32Array.of(total), []),
    };
  },
  lengths: () => ({}),
  shape: (rows) => [1, 1, rows, 8],
};

export const cachedModels: Readonly<Record<string, CachedModel>> = {
  concat: concatModel(),
  scatter: scatterModel(),
  grouped: groupedModel,
};

const oracle = {
  backend: "reference",
  inPlace: "never",
  graphOptimizationLevel: "disabled",
  presents: "copy",
} as const;
const alone = new Map<CachedModel, Promise<InferenceSession>>();

/** Caches without rows. */
export const emptyCaches = ({ pairs, grows, shape }: CachedModel): Carried => {
  const dims = shape(grows ? 0 : capacity);
  const size = dims.reduce((a, b) => a * b, 1);
  return {
    caches: Object.fromEntries(Object.keys(pairs).map((past) => [past, floats(new Float32Array(size), dims)])),
    rows: 0,
  };
};

/** What a model says to new rows after others, and its caches then. */
export async function said(
  model: CachedModel,
  { caches, rows }: Carried,
  x: readonly number[],
): Promise<{ readonly y: Float32Array; readonly after: Carried }> {
  const session = alone.get(model) ?? InferenceSession.create(model.bytes, oracle);
  alone.set(model, session);
  const results = await (await session).run({ ...model.feeds(x, rows), ...model.lengths(rows), ...caches });
  const carried = Object.entries(model.pairs).map(([past, present]) => [past, results[present]]);
  return {
    y: results["y"].data as Float32Array,
    after: {
      caches: Object.fromEntries(carried) as Record<string, Tensor>,
      rows: rows + x.length / model.rowSize,
    },
  };
}

/** A decoder, for pages. */
const decoder = generatedDecoder({ ...smallSizes, layers: 1, vocabulary: 32, positions: 64 });
export const decoderBytes: Uint8Array = writeModel(decoder);
const texts = new Map<string, Promise<Float32Array>>();
let whole: Promise<InferenceSession> | undefined;

/** The logits after the last of some tokens, read at once from empty caches. */
export function logitsAfter(tokens: readonly number[]): Promise<Float32Array> {
  const known = texts.get(tokens.join()) ?? readWhole(tokens);
  texts.set(tokens.join(), known);
  return known;
}

async function readWhole(tokens: readonly number[]): Promise<Float32Array> {
  const session = await (whole ??= InferenceSession.create(decoderBytes, oracle));
  const count = tokens.length;
  const caches = session.inputMetadata.flatMap(({ name, shape }) => {
    if (!name.startsWith("past.")) return [];
    const dims = shape.map((dim) => (typeof dim === "number" ? dim : dim === "batch" ? 1 : count));
    return [[name, floats(new Float32Array(dims.reduce((a, b) => a * b, 1)), dims)] as const];
  });
  const { logits } = await session.run({
    ...tokenFeeds([tokens], [0]),
    write_indices: int64([0]),
    nonpad_kv_seqlen: int64([count]),
    ...Object.fromEntries(caches),
  });
  return (logits.data as Float32Array).slice(-32);
}
