/**
 * One write into a KV cache, in the forms that graphs use for it: a model and its feeds for each. Every form makes the same
 * cache, bit for bit. Runs nothing.
 */
import { buildModel, initializer, node, value } from "#insitu/onnx/build.js";
import type { Model } from "#insitu/onnx/model.js";

/** A cache of float32 [batch, heads, capacity, head], and how many tokens one run writes into it. */
export interface ScatterSizes {
  readonly batch: number;
  readonly heads: number;
  readonly capacity: number;
  readonly head: number;
  readonly tokens: number;
}

/** One feed, without a runtime's tensor class around it. */
export interface Feed {
  readonly type: "float32" | "int64";
  readonly data: Float32Array | BigInt64Array;
  readonly dims: readonly number[];
}

/** A way to write rows into a cache. */
export interface Form {
  readonly name: string;
  /** The past as the form takes it. */
  pastDims(sizes: ScatterSizes): readonly number[];
  /** The form makes a new, longer tensor each time: its past has room for no more, and nothing can be written in place. */
  readonly appends: boolean;
  model(sizes: ScatterSizes): Model;
  /** Where the rows go, `start` being their first position; no feed where the form has no say in it. */
  indices(sizes: ScatterSizes, start: number): Readonly<Record<string, Feed>>;
  /** Bytes of the indices that the writing operator reads. */
  indexBytes(sizes: ScatterSizes): number;
}

const bytesPerIndex = 8;
const writes = { appends: false } as const;

const cacheDims = ({ batch, heads, capacity, head }: ScatterSizes): readonly number[] => [batch, heads, capacity, head];
const updateDims = ({ batch, heads, tokens, head }: ScatterSizes): readonly number[] => [batch, heads, tokens, head];
const pieces = ({ batch, heads, tokens }: ScatterSizes): number => batch * heads * tokens;

/** A model of opset 24 around some nodes, with the inputs `past` and `update` and the output `present`. */
function around(
  sizes: ScatterSizes,
  parts: Pick<Parameters<typeof buildModel>[0], "nodes" | "initializers">,
  indices: ReturnType<typeof value>[] = [],
  pastDims: readonly number[] = cacheDims(sizes),
  presentDims: readonly number[] = cacheDims(sizes),
): Model {
  return buildModel({
    name: "cache_write",
    opset: 24,
    inputs: [value("past", "float32", pastDims), value("update", "float32", updateDims(sizes)), ...indices],
    outputs: [value("present", "float32", presentDims)],
    ...parts,
  });
}

/** int64 numbers of [batch, heads, tokens, width], each row made from its coordinates. */
function perPiece(
  sizes: ScatterSizes,
  width: number,
  row: (sample: number, head: number, token: number) => readonly number[],
): Feed & { data: BigInt64Array } {
  const data = new BigInt64Array(pieces(sizes) * width);
  let at = 0;
  for (let sample = 0; sample < sizes.batch; sample++)
    for (let head = 0; head < sizes.heads; head++)
      for (let token = 0; token < sizes.tokens; token++)
        for (const index of row(sample, head, token)) data[at++] = BigInt(index);
  return { type: "int64", data, dims: [sizes.batch, sizes.heads, sizes.tokens, width] };
}

const writeIndices = ({ batch }: ScatterSizes, start: number): Feed => ({
  type: "int64",
  data: new BigInt64Array(batch).fill(BigInt(start)),
  dims: [batch],
});

/** TensorScatter: one start a sample. */
const tensorScatter: Form = {
  name: "TensorScatter",
  ...writes,
  pastDims: cacheDims,
  model: (sizes) =>
    around(sizes, { nodes: [node("TensorScatter", ["past", "update", "write_indices"], ["present"], { axis: -2 })] }, [
      value("write_indices", "int64", [sizes.batch]),
    ]),
  indices: (sizes, start) => ({ write_indices: writeIndices(sizes, start) }),
  indexBytes: ({ batch }) => batch * bytesPerIndex,
};

/** ScatterND on the cache as it is: sample, head and position for each head and token. */
const scatterND: Form = {
  name: "ScatterND",
  ...writes,
  pastDims: cacheDims,
  model: (sizes) =>
    around(sizes, { nodes: [node("ScatterND", ["past", "indices", "update"], ["present"])] }, [
      value("indices", "int64", [...updateDims(sizes).slice(0, 3), 3]),
    ]),
  indices: (sizes, start) => ({
    indices: perPiece(sizes, 3, (sample, head, token) => [sample, head, start + token]),
  }),
  indexBytes: (sizes) => pieces(sizes) * 3 * bytesPerIndex,
};

const rowDims = ({ batch, heads, capacity, head }: ScatterSizes): readonly number[] => [batch * heads * capacity, head];

/** The nodes of the dense row form: the cache seen as [batch * heads * capacity, head], one row number for each head and token. */
const throughRows = [
  node("Reshape", ["past", "as_rows"], ["past_rows"]),
  node("ScatterND", ["past_rows", "row_indices", "update"], ["present_rows"]),
  node("Reshape", ["present_rows", "as_cache"], ["present"]),
];

const rowShapes = (sizes: ScatterSizes): ReturnType<typeof initializer>[] => [
  initializer("as_rows", "int64", rowDims(sizes).map(BigInt), [2]),
  initializer("as_cache", "int64", cacheDims(sizes).map(BigInt), [4]),
];

const rowNumber = ({ heads, capacity }: ScatterSizes, sample: number, head: number, position: number): number =>
  (sample * heads + head) * capacity + position;

/** The dense row form, with row numbers made by the caller. */
const denseRows: Form = {
  name: "ScatterND on rows",
  ...writes,
  pastDims: cacheDims,
  model: (sizes) =>
    around(sizes, { nodes: throughRows, initializers: rowShapes(sizes) }, [
      value("row_indices", "int64", [...updateDims(sizes).slice(0, 3), 1]),
    ]),
  indices: (sizes, start) => ({
    row_indices: perPiece(sizes, 1, (sample, head, token) => [rowNumber(sizes, sample, head, start + token)]),
  }),
  indexBytes: (sizes) => pieces(sizes) * bytesPerIndex,
};

/** The dense row form, with row numbers made in the graph from one start a sample. */
const denseRowsInGraph: Form = {
  name: "ScatterND on rows, indices made in the graph",
  ...writes,
  pastDims: cacheDims,
  model: (sizes) => {
    const offsets = perPiece(sizes, 1, (sample, head, token) => [rowNumber(sizes, sample, head, token)]);
    return around(
      sizes,
      {
        nodes: [
          node("Reshape", ["write_indices", "one_a_sample"], ["starts"]),
          node("Add", ["row_offsets", "starts"], ["row_indices"]),
          ...throughRows,
        ],
        initializers: [
          ...rowShapes(sizes),
          initializer("one_a_sample", "int64", [BigInt(sizes.batch), 1n, 1n, 1n], [4]),
          initializer("row_offsets", "int64", offsets.data, offsets.dims),
        ],
      },
      [value("write_indices", "int64", [sizes.batch])],
    );
  },
  indices: (sizes, start) => ({ write_indices: writeIndices(sizes, start) }),
  indexBytes: (sizes) => denseRows.indexBytes(sizes),
};

/** The dense row form on a cache that is declared as rows: no Reshape around the write. */
const cacheOfRows: Form = {
  name: "ScatterND, cache declared as rows",
  ...writes,
  pastDims: rowDims,
  model: (sizes) =>
    around(
      sizes,
      { nodes: [node("ScatterND", ["past", "row_indices", "update"], ["present"])] },
      [value("row_indices", "int64", [...updateDims(sizes).slice(0, 3), 1])],
      rowDims(sizes),
      rowDims(sizes),
    ),
  indices: (sizes, start) => denseRows.indices(sizes, start),
  indexBytes: (sizes) => denseRows.indexBytes(sizes),
};

/** Concat: a new tensor of all rows; the new ones come last. */
const concat: Form = {
  name: "Concat",
  appends: true,
  pastDims: (sizes) => updateDims({ ...sizes, tokens: sizes.capacity - sizes.tokens }),
  model: (sizes) =>
    around(
      sizes,
      { nodes: [node("Concat", ["past", "update"], ["present"], { axis: -2 })] },
      [],
      concat.pastDims(sizes),
    ),
  indices: () => ({}),
  indexBytes: () => 0,
};

/** The forms; TensorScatter, which the others are compared with, first. */
export const forms: readonly Form[] = [tensorScatter, scatterND, denseRows, denseRowsInGraph, cacheOfRows, concat];

/** Contents of a cache with `rows` rows a head: those of the full one, cut off. */
function contents({ batch, heads, capacity, head }: ScatterSizes, rows: number): Float32Array {
  const data = new Float32Array(batch * heads * rows * head);
  for (let at = 0; at < batch * heads; at++)
    for (let inside = 0; inside < rows * head; inside++)
      data[at * rows * head + inside] = ((at * capacity * head + inside) % 65_521) + 0.5;
  return data;
}

/** The past that a form is fed, or that its state begins with. */
export function pastFeed(form: Form, sizes: ScatterSizes): Feed & { data: Float32Array } {
  const rows = form.appends ? sizes.capacity - sizes.tokens : sizes.capacity;
  return { type: "float32", data: contents(sizes, rows), dims: form.pastDims(sizes) };
}

/** Contents of the new rows. */
export function updateFeed(sizes: ScatterSizes): Feed & { data: Float32Array } {
  const data = Float32Array.from({ length: pieces(sizes) * sizes.head }, (_, at) => -(at % 4_093) - 0.25);
  return { type: "float32", data, dims: updateDims(sizes) };
}

/** The cache after the write at `start`, by plain loops: what every form must give. */
export function writtenCache(sizes: ScatterSizes, start: number): Float32Array {
  const cache = contents(sizes, sizes.capacity);
  const { data: rows } = updateFeed(sizes);
  const run = sizes.tokens * sizes.head;
  for (let at = 0; at < sizes.batch * sizes.heads; at++)
    cache.set(rows.subarray(at * run, (at + 1) * run), (at * sizes.capacity + start) * sizes.head);
  return cache;
}
