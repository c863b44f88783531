// The steps that random models are made of: each adds a node or two to a draft, where there is something it can work on.
import { graph, node, value } from "../../src/onnx/build.js";
import type { ModelGraph, ModelNode } from "../../src/onnx/model.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { batch, capacity, type Dims, type Draft, type Made, sameDims } from "./draft.js";

/** Types that have arithmetic. */
export const arithmetic: readonly ElementType[] = ["float32", "float64", "float16", "int32", "int64"];

/** Rows written where an input says. */
export function scatter(draft: Draft, into: Made): void {
  // Sometimes a whole cache is written over another, or over itself.
  const whole = draft.chance.of(0.06) ? draft.cacheLike(({ type }) => type === into.type) : undefined;
  const rows = whole !== undefined && into.dims[1] === capacity ? whole : draft.rows(into.type);
  const mode = rows !== whole && into.dims[1] === capacity && draft.chance.of(0.5) ? "linear" : "circular";
  const where = draft.feed(`${mode}_${draft.chance.below(2)}`, "int64", [batch], mode);
  const inputs = [into.name, rows.name, ...(mode === "circular" || draft.chance.of(0.9) ? [where] : [])];
  const axis = draft.chance.of(0.5) ? 1 : -2;
  draft.follow(into, draft.emit("TensorScatter", inputs, { type: into.type, dims: into.dims }, { axis, mode }));
}

/** Elements written along the rows. */
export function scatterElements(draft: Draft, into: Made): void {
  const rows = draft.rows(into.type);
  if (rows.dims[1] !== "rows" || into.type === "int4") return;
  const picks = draft.feed("picks", "int64", [batch, "rows", draft.width], "picks");
  const inputs = [into.name, picks, rows.name];
  draft.follow(into, draft.emit("ScatterElements", inputs, { type: into.type, dims: into.dims }, { axis: 1 }));
}

/** Rows written by sample and row. */
export function scatterND(draft: Draft, into: Made): void {
  if (into.type === "int4") return;
  const slots = draft.feed("slots", "int64", ["rows", 2], "slots");
  const rows = draft.feed(`slot_rows_${into.type}`, into.type, ["rows", draft.width], "elements");
  draft.follow(into, draft.emit("ScatterND", [into.name, slots, rows], { type: into.type, dims: into.dims }));
}

/** The same bytes under another shape. */
export function view(draft: Draft): void {
  const from = draft.pick(() => true)!;
  const { type, dims } = from;
  const flat = [batch, capacity * draft.width];
  const ways: (() => Made)[] = [() => draft.emit("Identity", [from.name], { type, dims })];
  ways.push(() => draft.emit("Unsqueeze", [from.name, draft.constant("axis0", [0])], { type, dims: [1, ...dims] }));
  if (dims[0] === 1)
    ways.push(() => draft.emit("Squeeze", [from.name, draft.constant("axis0", [0])], { type, dims: dims.slice(1) }));
  if (sameDims(dims, draft.fixed)) {
    ways.push(() => draft.emit("Reshape", [from.name, draft.constant("to_flat", flat)], { type, dims: flat }));
    ways.push(() => draft.emit("Flatten", [from.name], { type, dims: flat }, { axis: 1 }));
    ways.push(() => draft.emit("Flatten", [from.name], { type, dims: [batch * capacity, draft.width] }, { axis: 2 }));
  }
  if (sameDims(dims, flat))
    ways.push(() =>
      draft.emit("Reshape", [from.name, draft.constant("to_cache", draft.fixed as number[])], {
        type,
        dims: draft.fixed,
      }),
    );
  if (dims.length > 1)
    ways.push(() =>
      draft.emit("Reshape", [from.name, draft.constant("to_line", [-1])], { type, dims: [dims.join("*")] }),
    );
  const made = draft.chance.oneOf(ways)();
  if (sameDims(dims, made.dims) && draft.chance.of(0.5)) draft.follow(from, made);
}

/** Arithmetic on one or two values. */
export function compute(draft: Draft): void {
  const from = draft.pick((made) => arithmetic.includes(made.type));
  if (from === undefined) return;
  const { type, dims } = from;
  const other = draft.pick((made) => made.type === type && sameDims(made.dims, dims)) ?? from;
  const ways = [
    () => draft.emit("Neg", [from.name], { type, dims }),
    () => draft.emit("Abs", [from.name], { type, dims }),
    () => draft.emit("Sub", [from.name, other.name], { type, dims }),
    () => draft.emit("Max", [from.name, other.name], { type, dims }),
  ];
  if (sameDims(dims, draft.fixed)) {
    ways.push(() =>
      draft.emit("ReduceMax", [from.name, draft.constant("axis1", [1])], { type, dims: [batch, 1, draft.width] }),
    );
    const rows = draft.pick((made) => made.type === type && sameDims(made.dims, [batch, 1, draft.width]));
    if (rows !== undefined) ways.push(() => draft.emit("Add", [from.name, rows.name], { type, dims }));
  }
  draft.chance.oneOf(ways)();
}

/** A copy of some elements. */
export function take(draft: Draft): void {
  const from = draft.cacheLike(({ type }) => type !== "int4" && type !== "complex64");
  if (from === undefined) return;
  const { type } = from;
  const one = draft.constant(`index${draft.chance.below(capacity)}`, [draft.chance.below(capacity)]);
  const axis = draft.constant("axis1", [1]);
  const ways = [
    () => draft.emit("Transpose", [from.name], { type, dims: [batch, draft.width, capacity] }, { perm: [0, 2, 1] }),
    () => draft.emit("Gather", [from.name, one], { type, dims: [batch, 1, draft.width] }, { axis: 1 }),
    () =>
      draft.emit("Slice", [from.name, draft.constant("from1", [1]), draft.constant("until2", [2]), axis], {
        type,
        dims: [batch, 1, draft.width],
      }),
    () => {
      // The last rows of old and new ones together: a cache that moves on, which no declaration recognises.
      const joined = draft.emit(
        "Concat",
        [from.name, draft.rows(type).name],
        { type, dims: [`longer${draft.count}`] },
        { axis: 1 },
      );
      const ends = [draft.constant("from_end", [-capacity]), draft.constant("to_end", [1000])];
      return draft.emit("Slice", [joined.name, ...ends, axis], { type, dims: draft.fixed });
    },
    () => draft.emit("Shape", [from.name], { type: "int64", dims: [3] }),
  ];
  draft.chance.oneOf(ways)();
  const turned = draft.pick((made) => sameDims(made.dims, [batch, draft.width, capacity]));
  if (turned !== undefined && draft.chance.of(0.3))
    draft.emit("Transpose", [turned.name], { type: turned.type, dims: draft.fixed }, { perm: [0, 2, 1] });
}

/** A cache that grows, joined to. */
export function append(draft: Draft): void {
  const from = draft.pick(
    ({ dims, type }) =>
      dims.length === 3 && String(dims[1]).startsWith("past") && dims[2] === draft.width && type !== "int4",
  );
  if (from === undefined) return;
  const dims = [batch, `${from.dims[1]}+`, draft.width];
  const rows = draft.rows(from.type);
  if (rows.dims[1] !== "rows") return;
  draft.follow(from, draft.emit("Concat", [from.name, rows.name], { type: from.type, dims }, { axis: 1 }));
}

/** A branch with one output. */
function body(
  draft: Draft,
  name: string,
  operation: (out: string) => readonly ModelNode[],
  type: ElementType,
): ModelGraph {
  const out = `${name}_out${draft.count}`;
  return graph({ name, nodes: operation(out), outputs: [value(out, type)] });
}

/** An If whose branches capture caches. */
export function branch(draft: Draft): void {
  const [one, two] = [draft.cacheLike()!, draft.cacheLike()!];
  if (one.type !== two.type) return;
  const { type } = one;
  const flag = draft.feed("flag", "bool", [], "flag");
  const rows = draft.rows(type);
  const where = draft.feed("circular_0", "int64", [batch], "circular");
  const ways: ((from: string) => (out: string) => readonly ModelNode[])[] = [
    (from) => (out) => [node("Identity", [from], [out])],
    (from) => (out) => [node("TensorScatter", [from, rows.name, where], [out], { axis: 1, mode: "circular" })],
  ];
  if (arithmetic.includes(type)) ways.push((from) => (out) => [node("Neg", [from], [out])]);
  // Branches of different shapes: what the node gives is known when it runs.
  const short = (from: string) => (out: string) => [
    node("Gather", [from, draft.constant("index0", [0])], [out], { axis: 1 }),
  ];
  const uneven = type !== "int4" && type !== "complex64" && draft.chance.of(0.3);
  const [first, second] = [
    draft.chance.oneOf(ways)(one.name),
    uneven ? short(two.name) : draft.chance.oneOf(ways)(two.name),
  ];
  draft.emit(
    "If",
    [flag],
    { type, dims: uneven ? [`uneven${draft.count}`] : draft.fixed },
    {
      then_branch: body(draft, "then", first, type),
      else_branch: body(draft, "else", second, type),
    },
  );
}

/** A Loop that carries a cache and captures another. */
export function loop(draft: Draft): void {
  const [carried, captured] = [draft.cacheLike()!, draft.cacheLike()!];
  const { type } = carried;
  const rows = draft.rows(type);
  const where = draft.feed("circular_0", "int64", [batch], "circular");
  const at = draft.count;
  const work =
    captured.type === type && arithmetic.includes(type) && draft.chance.of(0.5)
      ? node("Sub", [captured.name, `carried${at}`], [`next${at}`])
      : node("TensorScatter", [`carried${at}`, rows.name, where], [`next${at}`], { axis: 1, mode: "circular" });
  const body = graph({
    name: `body${at}`,
    inputs: [value(`turn${at}`, "int64", []), value(`go${at}`, "bool", []), value(`carried${at}`, type, draft.fixed)],
    nodes: [node("Identity", [`go${at}`], [`again${at}`]), work],
    outputs: [value(`again${at}`, "bool", []), value(`next${at}`, type)],
  });
  const times = draft.feed("times", "int64", [], "count");
  const made = draft.emit("Loop", [times, "", carried.name], { type, dims: draft.fixed }, { body });
  if (draft.chance.of(0.3)) draft.follow(carried, made);
}

/** Attention over caches that other nodes write. */
export function attendOutside(draft: Draft): void {
  const [keys, values] = [
    draft.cacheLike(({ type }) => type === "float32"),
    draft.cacheLike(({ type }) => type === "float32"),
  ];
  if (keys === undefined || values === undefined || draft.isWide) return; // a head is not as wide as that
  const query = draft.feed("query", "float32", [batch, "rows", draft.width], "elements");
  const valid = draft.feed("valid", "int64", [batch], "valid");
  draft.emit(
    "Attention",
    [query, keys.name, values.name, "", "", "", valid],
    { type: "float32", dims: ["attended"], approximate: true },
    { q_num_heads: 1, kv_num_heads: 1 },
  );
}

/** Attention with its own cache, which grows. */
export function attendInside(draft: Draft): void {
  const grouped = draft.chance.of(0.3);
  const type: ElementType = grouped || draft.chance.of(0.8) ? "float32" : "float16";
  const at = draft.caches.length;
  const head = grouped ? 8 : 3;
  const rows = grouped ? 1 : "rows"; // more queries than one after a past are served for a batch of 1 alone
  const dims = (length: number | string): Dims => [batch, 1, length, head];
  const [key, value] = [`past_key_${at}`, draft.chance.of(0.15) ? `past_key_${at}` : `past_value_${at}`];
  for (const name of new Set([key, value])) draft.cache(name, type, dims(`length_${at}`), 2);
  const made = ["y", "present_key", "present_value"].map((name): Made => ({
    name: `${name}_${at}`,
    type,
    dims: name === "y" ? dims(rows) : dims(`length_${at}+`),
    approximate: name === "y",
  }));
  const results = made.map(({ name }) => name);
  const fed = ["query", "key", "value"].map((name) =>
    draft.feed(`${name}_${at}`, type, grouped ? [batch, rows, head] : dims(rows), "elements"),
  );
  if (grouped) {
    draft.microsoft = true;
    const lengths = [draft.feed("ends", "int32", [batch], "ends"), draft.feed("total", "int32", [], "total")];
    const [attributes, more] = [
      { num_heads: 1, kv_num_heads: 1 },
      { name: `attend_${at}`, domain: "com.microsoft" },
    ];
    draft.nodes.push(node("GroupQueryAttention", [...fed, key, value, ...lengths], results, attributes, more));
  } else
    draft.nodes.push(node("Attention", [...fed, "", key, value], results, { is_causal: 1 }, { name: `attend_${at}` }));
  draft.pool.push(...made);
  draft.ends.set(key, results[1]);
  if (value !== key) draft.ends.set(value, results[2]);
}
