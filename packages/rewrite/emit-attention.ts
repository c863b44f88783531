/** Attention over a cache of fixed capacity, made of what is known of an attention: the node, and the layouts around it. */
import { isKnown } from "#insitu/graph/dim.js";
import type { AttributeInput } from "#insitu/onnx/build.js";
import { float } from "#insitu/onnx/build.js";
import { type ElementType, traitsOf } from "#insitu/tensor/element-type.js";
import type { CachedAttention, Form } from "./attention.js";
import type { CacheRead } from "./cache-read.js";
import type { ModelEdit } from "./model-edit.js";

/** Names that attentions read beside their own operands. */
interface AttentionInputs {
  /** Rows that are valid after the write, one number a sample. */
  readonly lengths: string;
  /** The mask; undefined for none. */
  readonly mask: string | undefined;
  /** Of an Attention of opset 25: keys seen before a query's own. */
  readonly window: number | undefined;
  /** Positions of the new tokens, [batch, sequence]. */
  readonly positions: string;
  /** The type of the queries and of the result, where the caches are wider. */
  readonly narrow?: ElementType;
}

/** Makes the nodes that compute an attention's result from the caches' presents. */
export function emitAttention(edit: ModelEdit, attention: CachedAttention, inputs: AttentionInputs): void {
  const { keys, values, heads, query, result, groups } = attention;
  const form: Form = isPacked(keys) && isPacked(values) ? "packed" : "heads";
  const size = sizeOf(keys);
  const layout = { heads, groups };
  const queries = attention.parts?.query(edit, inputs.positions) ?? query.name;
  const { narrow } = inputs;
  const own = relay(edit, queries, query.form, form, { ...layout, size });
  const q = narrow === undefined ? own : cast(edit, own, query.type);
  const [k, v] = [keys, values].map((read) => cacheOperand(edit, read, form));
  const attributes: Record<string, AttributeInput> = {
    scale: float(attention.scale),
    ...(attention.mask.causal ? { is_causal: 1 } : {}),
    ...(attention.softcap === 0 ? {} : { softcap: float(attention.softcap) }),
    ...(attention.precision === undefined ? {} : { softmax_precision: traitsOf(attention.precision).code }),
    ...(form === "heads" ? {} : { q_num_heads: heads, kv_num_heads: keys.headCount }),
    ...(inputs.window === undefined ? {} : { left_window_size: inputs.window - 1 }),
  };
  const direct = form === result.form && narrow === undefined;
  const sinks = sinksOf(edit, attention);
  const operands = [q, k, v, inputs.mask ?? "", "", "", inputs.lengths];
  let made = edit.node(sinks === undefined ? "Attention" : "SinkAttention", [...operands, ...(sinks ?? [])], {
    attributes,
    ...(sinks === undefined ? {} : { domain: "insitu" }),
    name: attention.node.name === "" ? undefined : attention.node.name,
    ...(direct ? { output: result.name } : {}),
  });
  if (narrow !== undefined) made = cast(edit, made, narrow, form === result.form ? result.name : undefined);
  if (form !== result.form) relay(edit, made, form, result.form, { ...layout, size: sizeOf(values) }, result.name);
}

/** The sinks in the type of the queries, where there are any. */
function sinksOf(edit: ModelEdit, { sinks, query, heads }: CachedAttention): [string] | undefined {
  if (sinks === undefined) return undefined;
  if (sinks === "zero") return [edit.zeros(query.type, heads)];
  const list = sinks.fact?.shape?.length === 1 ? sinks.name : edit.node("Reshape", [sinks.name, edit.integers([-1])]);
  return [sinks.fact?.type === query.type ? list : cast(edit, list, query.type)];
}

const cast = (edit: ModelEdit, name: string, to: ElementType, output?: string): string =>
  edit.node("Cast", [name], { attributes: { to: traitsOf(to).code }, ...(output === undefined ? {} : { output }) });

function sizeOf({ headSize }: CacheRead): number {
  return isKnown(headSize) ? headSize : 0;
}

/** True where a cache lies as [batch, length, heads · size], its last axes joined if need be: a view. */
const isPacked = ({ rows, heads, values }: CacheRead): boolean =>
  rows === 1 && (heads === undefined ? values === 2 : heads === 2 && values === 3);

/** A cache as Attention takes it. */
function cacheOperand(edit: ModelEdit, read: CacheRead, form: Form): string {
  const { trail, rows, heads, values, headCount, part } = read;
  const cut = (list: readonly number[]): string => edit.integers(list);
  const name =
    part === undefined
      ? trail.present.name
      : edit.node("Slice", [trail.present.name, cut([part.start]), cut([part.end]), cut([values])]);
  if (form === "packed") return heads === undefined ? name : edit.node("Reshape", [name, edit.integers([0, 0, -1])]);
  if (heads === undefined) {
    const turned = rows === 1 ? name : edit.node("Transpose", [name], { attributes: { perm: [0, 2, 1] } });
    return relay(edit, turned, "packed", "heads", { heads: headCount, groups: headCount, size: sizeOf(read) });
  }
  const order = [0, heads, rows, values];
  return order.every((axis, at) => axis === at)
    ? name
    : edit.node("Transpose", [name], { attributes: { perm: order } });
}

/** The sizes that layouts are made of. */
interface Sizes {
  readonly heads: number;
  readonly groups: number;
  readonly size: number;
}

const swap = { attributes: { perm: [0, 2, 1, 3] } };

/** A tensor of queries or results in another form. */
export function relay(edit: ModelEdit, name: string, from: Form, to: Form, sizes: Sizes, output?: string): string {
  const last = output === undefined ? {} : { output };
  if (from === to) return name;
  if (from !== "heads" && to !== "heads")
    return relay(edit, relay(edit, name, from, "heads", sizes), "heads", to, sizes, output);
  const { heads, groups, size } = sizes;
  const reshape = (list: readonly number[], options: { readonly output?: string } = {}): string =>
    edit.node("Reshape", [name, edit.integers(list)], options);
  if (from === "heads") {
    if (to === "grouped") return reshape([0, groups, heads / groups, -1, size], last);
    if (to === "packed") {
      const swapped = edit.node("Transpose", [name], swap);
      return edit.node("Reshape", [swapped, edit.integers([0, 0, heads * size])], last);
    }
    return edit.node("Reshape", [name, joinedShape(edit, [-1], name, 2, [size])], last);
  }
  if (from === "grouped") return reshape([0, heads, -1, size], last);
  if (from === "packed") return edit.node("Transpose", [reshape([0, 0, heads, size])], { ...swap, ...last });
  return edit.node("Reshape", [name, joinedShape(edit, [-1, heads], name, 1, [size])], last);
}

/** A shape with one dimension of a tensor in the middle. */
function joinedShape(
  edit: ModelEdit,
  before: readonly number[],
  name: string,
  axis: number,
  after: readonly number[],
): string {
  const length = edit.node("Shape", [name], { attributes: { start: axis, end: axis + 1 } });
  return edit.node("Concat", [edit.integers(before), length, edit.integers(after)], { attributes: { axis: 0 } });
}
