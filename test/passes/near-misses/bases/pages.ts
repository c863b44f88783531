// A layer that writes a step's rows into pages and attends over them.
import { float } from "../../../../src/onnx/build.js";
import { type Base, Draft, type Drawn } from "../draft.js";

const [heads, shared, size] = [4, 2, 8];

/** Blocks of 4 rows, two for each sample. */
interface PagedForm {
  readonly front?: boolean;
  readonly layout?: "Norm" | "NHSD";
  readonly reads?: "Norm" | "NHSD";
  readonly batch?: number;
  readonly rows?: number;
  readonly turn?: boolean;
  readonly turnHeads?: number;
  readonly part?: number;
  readonly norm?: boolean;
  readonly check?: boolean;
  readonly sums?: boolean;
  readonly target?: "join" | "swap" | "flat";
  readonly two?: boolean;
  readonly values?: "own" | "keys";
  readonly attributes?: Readonly<Record<string, ReturnType<typeof float> | number>>;
  readonly factor?: number;
  readonly reader?: "present" | "rows";
  readonly crossed?: boolean;
  readonly sinks?: boolean;
}

function paged(form: PagedForm = {}): Drawn {
  const { front = false, layout = "Norm", batch = 2, rows = 3, turn = true, norm = true } = form;
  const g = new Draft({ batch, rows });
  let q = g.input("q", ["batch", "rows", heads * size]);
  let k = g.input("k", ["batch", "rows", shared * size]);
  const v = form.values === "keys" ? k : g.input("v", ["batch", "rows", shared * size]);
  const normed = (of: string, count: number): string => {
    const apart = g.op("Reshape", [of, g.list(0, 0, count, size)]);
    const made = g.op("RMSNormalization", [apart, g.weights(size)], { axis: -1, epsilon: float(1e-2) });
    return g.op("Reshape", [made, g.list(0, 0, count * size)]);
  };
  if (norm) [q, k] = [normed(q, heads), normed(k, shared)];
  if (turn) {
    const width = (form.part ?? size) / 2;
    const tables = [g.weights(9, width), g.weights(9, width)];
    const positions = g.input(
      "positions",
      ["batch", "rows"],
      "int64",
      Array.from({ length: batch * rows }, (_, at) => at % 9),
    );
    const turned = (of: string, count: number): string =>
      g.op("RotaryEmbedding", [of, ...tables, positions], {
        num_heads: count * (form.turnHeads ?? 1),
        ...(form.part === undefined ? {} : { rotary_embedding_dim: form.part }),
      });
    [q, k] = [turned(q, heads), turned(k, shared)];
  }
  const dims = layout === "NHSD" ? [6, shared, 4, size] : [6, 4, shared, size];
  const pasts = [g.input("pk", dims), g.input("pv", dims)];
  const slots = Array.from({ length: batch * rows }, (_, at) => 8 * Math.floor(at / rows) + (at % rows) + 1);
  const slot = g.input("slots", [batch * rows], "int64", slots);
  const tokens = (of: string): string => g.op("Reshape", [of, g.list(-1, shared, size)]);
  const modes = {
    ...(layout === "NHSD" ? { scatter_mode: "NHSD" } : { cache_mode: layout }),
    ...(form.check === true ? { check: 1 } : {}),
  };
  const presents = g.ops(2, "ScatterPaKvCache", [tokens(k), pasts[0], slot, tokens(v), pasts[1]], modes, "insitu");
  const read = form.crossed === true ? presents.toReversed() : presents;
  const tables = g.input(
    "tables",
    [batch, 2],
    "int64",
    Array.from({ length: 2 * batch }, (_, at) => at),
  );
  const lengths = g.input(
    "seq_lens",
    [batch],
    "int64",
    Array.from({ length: batch }, () => rows + 1),
  );
  let query = front ? g.op("Transpose", [g.op("Reshape", [q, g.list(0, 0, heads, size)])], { perm: [0, 2, 1, 3] }) : q;
  if (form.factor !== undefined) query = g.op("Mul", [query, g.constant(form.factor)]);
  const attributes = {
    cache_mode: form.reads ?? layout,
    is_causal: 1,
    ...(front ? {} : { q_num_heads: heads, kv_num_heads: shared }),
    ...form.attributes,
  };
  const operandsOf = (of: string): string[] => [
    of,
    ...read,
    tables,
    lengths,
    ...(form.sinks === true ? ["", "", "", g.weights(heads)] : []),
  ];
  const attend = (of: string): string[] =>
    g.ops(form.sums === true ? 2 : 1, "PagedAttention", operandsOf(of), attributes, "insitu");
  const made = attend(query);
  let y = made[0];
  if (front) {
    const part = (index: number): string => g.op("Shape", [q], { start: index, end: index + 1 });
    const width = g.list(heads * size);
    const target = {
      join: () => g.list(0, 0, heads * size),
      swap: () => g.op("Concat", [part(1), part(0), width], { axis: 0 }),
      flat: () => g.op("Concat", [g.list(1), g.op("Mul", [part(0), part(1)]), width], { axis: 0 }),
    }[form.target ?? "join"]();
    y = g.op("Reshape", [g.op("Transpose", [y], { perm: [0, 2, 1, 3] }), target]);
  }
  if (form.two === true) y = g.op("Add", [y, attend(g.op("Tanh", [y]))[0]]);
  const outputs = made.slice(1);
  if (form.reader === "present") outputs.push(g.op("Neg", [presents[0]]));
  if (form.reader === "rows") outputs.push(g.op("Neg", [k]));
  return g.drawn(y, ...presents, ...outputs);
}

const pagedMisses: Readonly<Record<string, Drawn>> = {
  "heads in front": paged({ front: true }),
  "samples and rows change places behind": paged({ front: true, target: "swap" }),
  "samples and rows change places behind, as many of both": paged({ front: true, target: "swap", rows: 2 }),
  "samples and rows are joined behind": paged({ front: true, target: "flat" }),
  "the other layout": paged({ layout: "NHSD" }),
  "the other layout, heads in front": paged({ layout: "NHSD", front: true }),
  "a part of each head is turned": paged({ part: 4 }),
  "heads are turned by halves": paged({ part: 4, turnHeads: 2 }),
  "nothing is turned": paged({ turn: false }),
  "no norm": paged({ norm: false }),
  "slots are checked": paged({ check: true }),
  "sums are asked for": paged({ sums: true }),
  "heads have sinks": paged({ sinks: true }),
  "two attentions over one write": paged({ two: true }),
  "values are the keys": paged({ values: "keys" }),
  "keys are read as values": paged({ crossed: true }),
  "not causal": paged({ attributes: { is_causal: 0 } }),
  "a scale": paged({ attributes: { scale: float(0.5) } }),
  "a cap": paged({ attributes: { softcap: float(2) } }),
  "a window": paged({ attributes: { left_window_size: 1 } }),
  "queries times a number": paged({ factor: 0.75 }),
  "others read the present": paged({ reader: "present" }),
  "others read the rows": paged({ reader: "rows" }),
  "one row": paged({ rows: 1 }),
  "one sample": paged({ batch: 1 }),
};

export const pageBases: readonly Base[] = [
  {
    pass: "fuse-cached-attention",
    form: "pages",
    makes: "CachedAttention",
    on: ["webgpu"],
    drawn: paged(),
    others: pagedMisses,
  },
  {
    pass: "fuse-cached-attention",
    form: "pages, heads in front",
    makes: "CachedAttention",
    on: ["webgpu"],
    drawn: paged({ front: true, layout: "NHSD" }),
  },
];
