// Layers that write a step's rows into their caches and attend over them: linear caches of three and of four dimensions.
import { float } from "../../../../src/onnx/build.js";
import { type Base, Draft, type Drawn } from "../draft.js";

const capacity = 6;
const [heads, shared, size] = [4, 2, 8];

interface Form {
  /** Caches with heads in front of rows, and a Transpose around the attention. */
  readonly front?: boolean;
  readonly batch?: number;
  readonly rows?: number;
  /** Names of the samples and rows of the keys; those of the queries when left out. */
  readonly keyBatch?: string;
  readonly keyRows?: string;
  readonly norms?: "both" | "queries" | "keys" | "values" | "other epsilon" | "all of a row" | "none";
  readonly turn?: "both" | "queries" | "keys" | "other tables" | "interleaved keys" | "part of keys" | "none";
  readonly turnHeads?: number;
  readonly part?: number;
  readonly given?: boolean;
  readonly target?: "join" | "swap" | "flat" | "numbers";
  readonly split?: "heads" | "rows first" | "length first";
  readonly writes?:
    | "both"
    | "one"
    | "one past"
    | "other indices"
    | "axis from behind"
    | "circular"
    | "one circular"
    | "no indices";
  readonly values?: "own" | "keys" | "other size";
  readonly attributes?: Readonly<Record<string, ReturnType<typeof float> | number>>;
  readonly factor?: readonly number[];
  readonly mask?: boolean;
  readonly scores?: boolean;
  readonly layers?: "shared" | "queries of the present" | "values of the present";
  readonly products?: boolean;
  readonly reader?: "past" | "present" | "rows";
  readonly positions?: "rows" | "samples";
}

function layer(form: Form = {}): Drawn {
  const { front = false, batch = 2, rows = 3, turn = "both", norms = "both", writes = "both", split = "heads" } = form;
  const g = new Draft({ batch, rows, samples: batch, length: rows, capacity });
  const outputs: string[] = [];
  const [b, s] = ["batch", "rows"];
  const product = (name: string, count: number, dims: readonly (string | number)[]): string => {
    if (form.products !== true) return g.input(name, [...dims, count]);
    return g.op("MatMul", [hidden(dims), g.weights(16, count)]);
  };
  let x: string | undefined;
  const hidden = (dims: readonly (string | number)[]): string => (x ??= g.input("x", [...dims, 16]));
  const other = [form.keyBatch ?? b, form.keyRows ?? s];
  let q = product("q", heads * size, [b, s]);
  let k = product("k", shared * size, other);
  const valueSize = form.values === "other size" ? 4 : size;
  let v = form.values === "keys" ? k : product("v", shared * valueSize, other);
  const apart = (of: string, count: number, width = size): string => g.op("Reshape", [of, g.list(0, 0, count, width)]);
  const normed = (of: string, count: number, epsilon: number): string => {
    if (norms === "all of a row")
      return g.op("RMSNormalization", [of, g.weights(count * size)], { axis: -1, epsilon: float(epsilon) });
    const made = g.op("RMSNormalization", [apart(of, count), g.weights(size)], { axis: -1, epsilon: float(epsilon) });
    return g.op("Reshape", [made, g.list(0, 0, count * size)]);
  };
  if (norms !== "none" && norms !== "keys") q = normed(q, heads, 1e-2);
  if (norms !== "none" && norms !== "queries") k = normed(k, shared, norms === "other epsilon" ? 0.5 : 1e-2);
  if (norms === "values") v = normed(v, shared, 1e-2);
  const turned = form.part ?? size;
  const tables = (): string[] =>
    form.given === true
      ? [g.weights(batch, rows, turned / 2), g.weights(batch, rows, turned / 2)]
      : [g.weights(9, turned / 2), g.weights(9, turned / 2)];
  const own = tables();
  const positions =
    form.given === true
      ? []
      : [
          g.input(
            "positions",
            form.positions === "samples" ? ["samples", "length"] : [b, s],
            "int64",
            Array.from({ length: batch * rows }, (_, at) => (at * 2) % 9),
          ),
        ];
  const rotary = (of: string, count: number, which: "q" | "k"): string =>
    g.op("RotaryEmbedding", [of, ...(turn === "other tables" && which === "k" ? tables() : own), ...positions], {
      num_heads: form.turnHeads === undefined ? count : form.turnHeads * count,
      ...(form.part === undefined ? {} : { rotary_embedding_dim: form.part }),
      ...(turn === "interleaved keys" && which === "k" ? { interleaved: 1 } : {}),
      ...(turn === "part of keys" && which === "k" ? { rotary_embedding_dim: size } : {}),
    });
  if (turn !== "none" && turn !== "keys") q = rotary(q, heads, "q");
  if (turn !== "none" && turn !== "queries") k = rotary(k, shared, "k");
  const inFront = (of: string, count: number, width = size): string => {
    if (!front) return of;
    const shape =
      split === "heads"
        ? [0, 0, count, width]
        : split === "rows first"
          ? [0, count, -1, width]
          : [-1, batch, count, width];
    return g.op("Transpose", [g.op("Reshape", [of, g.list(...shape)])], { perm: [0, 2, 1, 3] });
  };
  const cache = (name: string, width = size): string =>
    g.input(name, front ? [b, shared, "capacity", width] : [b, "capacity", shared * width]);
  const pasts = [cache("pk"), writes === "one past" || writes === "one" ? "pk" : cache("pv", valueSize)];
  const indices = (name: string): string =>
    g.input(
      name,
      [b],
      "int64",
      Array.from({ length: batch }, (_, at) => at % 3),
    );
  const at = writes === "no indices" ? undefined : indices("write");
  const axis = front ? 2 : 1;
  const scatter = (
    past: string,
    of: string,
    index: string | undefined,
    attributes: Readonly<Record<string, number | string>>,
  ): string => g.op("TensorScatter", [past, of, index], { axis, ...attributes });
  const circular = { mode: "circular" };
  const presentKey = scatter(pasts[0], inFront(k, shared), at, writes === "circular" ? circular : {});
  const behind =
    form.layers === "values of the present"
      ? g.op("Add", [inFront(v, shared), g.op("ReduceMax", [presentKey, g.list(axis)], { keepdims: 1 })])
      : inFront(v, shared, valueSize);
  const presentValue =
    writes === "one"
      ? presentKey
      : scatter(
          pasts[1],
          behind,
          writes === "other indices" ? indices("others") : at,
          writes === "axis from behind"
            ? { axis: axis - (front ? 4 : 3) }
            : writes === "circular" || writes === "one circular"
              ? circular
              : {},
        );
  const lengths = g.input(
    "lengths",
    [b],
    "int64",
    Array.from({ length: batch }, (_, sample) => (writes === "no indices" ? rows : (sample % 3) + rows)),
  );
  let query = inFront(q, heads);
  if (form.layers === "queries of the present")
    query = g.op("Add", [query, g.op("ReduceMean", [presentKey], { keepdims: 1 })]);
  if (form.factor !== undefined) query = g.op("Mul", [query, g.constant([0.75], form.factor)]);
  const sizesOf: Readonly<Record<string, number>> = front ? {} : { q_num_heads: heads, kv_num_heads: shared };
  const attributes = { is_causal: 1, ...sizesOf, ...form.attributes };
  const mask = form.mask === true ? g.weights(rows, capacity) : undefined;
  const attend = (of: string): string[] =>
    g.ops(
      form.scores === true ? 4 : 1,
      "Attention",
      [of, presentKey, presentValue, mask, undefined, undefined, lengths],
      attributes,
    );
  const [made, , , scores] = attend(query);
  const result = (of: string): string => {
    if (!front) {
      if (form.target === undefined) return of;
    }
    const back = front ? g.op("Transpose", [of], { perm: [0, 2, 1, 3] }) : of;
    const part = (index: number): string => g.op("Shape", [q], { start: index, end: index + 1 });
    const width = g.list(heads * valueSize);
    const target = {
      join: () => g.list(0, 0, heads * valueSize),
      numbers: () => g.list(batch, rows, heads * valueSize),
      swap: () => g.op("Concat", [part(1), part(0), width], { axis: 0 }),
      flat: () => g.op("Concat", [g.list(1), g.op("Mul", [part(0), part(1)]), width], { axis: 0 }),
    }[form.target ?? "join"]();
    return g.op("Reshape", [back, target]);
  };
  let y = result(made);
  if (form.layers === "shared") {
    const next = g.op("Tanh", [y]);
    y = result(attend(front ? g.op("Transpose", [apart(next, heads)], { perm: [0, 2, 1, 3] }) : next)[0]);
  }
  if (scores !== undefined) outputs.push(scores);
  if (form.reader === "past") outputs.push(g.op("Neg", [pasts[0]]));
  if (form.reader === "present") outputs.push(g.op("Neg", [presentKey]));
  if (form.reader === "rows") outputs.push(g.op("Neg", [k]));
  return g.drawn(y, ...new Set([presentKey, presentValue]), ...outputs);
}

const misses = (front: boolean): Record<string, Drawn> => {
  const of = (form: Form): Drawn => layer({ front, ...form });
  const made: Record<string, Drawn> = {
    "samples and rows change places behind": of({ target: "swap" }),
    "samples and rows change places behind, as many of both": of({ target: "swap", batch: 2, rows: 2 }),
    "samples and rows change places behind, one sample": of({ target: "swap", batch: 1 }),
    "samples and rows are joined behind": of({ target: "flat" }),
    "samples and rows are joined behind, as many of both": of({ target: "flat", batch: 2, rows: 2 }),
    "the shape behind is in numbers": of({ target: "numbers" }),
    "heads are cut along rows": of({ split: "rows first", turn: "none", norms: "none", rows: 2 }),
    "samples are cut along rows": of({ split: "length first", rows: 2 }),
    "keys have names of their own": of({ keyBatch: "samples", keyRows: "length" }),
    "keys have rows of their own name": of({ keyRows: "length" }),
    "keys' samples are named as rows": of({ keyBatch: "rows", keyRows: "batch", batch: 2, rows: 2 }),
    "positions have names of their own": of({ positions: "samples" }),
    "queries alone are normalized": of({ norms: "queries" }),
    "keys alone are normalized": of({ norms: "keys" }),
    "values are normalized too": of({ norms: "values" }),
    "keys have another epsilon": of({ norms: "other epsilon" }),
    "whole rows are normalized": of({ norms: "all of a row" }),
    "no norm": of({ norms: "none" }),
    "queries alone are turned": of({ turn: "queries" }),
    "keys alone are turned": of({ turn: "keys" }),
    "keys are turned by other tables": of({ turn: "other tables" }),
    "keys are turned in neighbours": of({ turn: "interleaved keys" }),
    "nothing is turned": of({ turn: "none" }),
    "a part of each head is turned": of({ part: 4 }),
    "heads are turned by halves": of({ part: 4, turnHeads: 2 }),
    "angles are given for each row": of({ given: true }),
    "keys say that all is turned": of({ turn: "part of keys" }),
    "one write": of({ writes: "one", values: "keys" }),
    "two writes of one past": of({ writes: "one past" }),
    "other indices for values": of({ writes: "other indices" }),
    "a cache that wraps": of({ writes: "circular" }),
    "one cache wraps": of({ writes: "one circular" }),
    "no indices": of({ writes: "no indices" }),
    "one axis counted from behind": of({ writes: "axis from behind" }),
    "values are the keys": of({ values: "keys" }),
    "values of another size": of({ values: "other size", norms: "none" }),
    "not causal": of({ attributes: { is_causal: 0 } }),
    "a scale": of({ attributes: { scale: float(0.5) } }),
    "a scale below 0": of({ attributes: { scale: float(-0.5) } }),
    "a cap": of({ attributes: { softcap: float(2) } }),
    "scores in float32": of({ attributes: { softmax_precision: 1 } }),
    "queries times a number": of({ factor: [] }),
    "queries times a list of one": of({ factor: [1] }),
    "queries times one of three dimensions": of({ factor: [1, 1, 1] }),
    "a mask": of({ mask: true }),
    "scores are asked for": of({ scores: true }),
    "two attentions over one cache": of({ layers: "shared" }),
    "values of the new keys": of({ layers: "values of the present" }),
    "queries of the new keys": of({ layers: "queries of the present" }),
    "others read the past": of({ reader: "past" }),
    "others read the present": of({ reader: "present" }),
    "others read the rows": of({ reader: "rows" }),
    "products of one value": of({ products: true }),
    "one row": of({ rows: 1 }),
    "one sample and one row": of({ batch: 1, rows: 1 }),
  };
  return made;
};

const cached = (form: string, drawn: Drawn, others: Readonly<Record<string, Drawn>>): Base => ({
  pass: "fuse-cached-attention",
  form,
  makes: "CachedAttention",
  on: ["webgpu"],
  drawn,
  others,
});

export const cacheBases: readonly Base[] = [
  cached("heads side by side", layer(), misses(false)),
  cached("heads in front", layer({ front: true }), misses(true)),
  cached("products of one value", layer({ products: true }), {}),
];
