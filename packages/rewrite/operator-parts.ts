/**
 * The operands of attention operators with their cache inside, and the nodes that do outside what the operators did inside: parts of a
 * packed projection, biases, norms of heads, rotary embedding.
 */
import { isKnown } from "#insitu/graph/dim.js";
import type { Node, Value } from "#insitu/graph/graph.js";
import { float } from "#insitu/onnx/build.js";
import type { CachedAttention, Form, OperatorParts } from "./attention.js";
import { relay } from "./emit-attention.js";
import type { ModelEdit } from "./model-edit.js";
import { tableRows } from "./table-rows.js";
import type { Surroundings } from "./written-attention.js";

/** An operator taken apart. */
export interface TakenOperator extends Pick<CachedAttention, "heads" | "scale" | "softcap" | "precision" | "sinks"> {
  readonly kvHeads: number;
  readonly size: number;
  readonly valueSize: number;
  readonly causal: boolean;
  /** Keys that a query sees, its own included. */
  readonly window: number | undefined;
  /** A mask that is added to the scores, or chooses among keys. */
  readonly mask: Value | undefined;
  /** One entry a key that is 0 for padding. */
  readonly padding: Value | undefined;
  /** How queries and results lie. */
  readonly form: Form;
  readonly parts: OperatorParts;
}

type Operands = Readonly<Record<string, Value | undefined>>;

/** The operands and attributes of a node; a sentence where something has no counterpart. */
export function takeOperator(node: Node, around: Pick<Surroundings, "index" | "tables">): TakenOperator | string {
  const operands: Operands = Object.fromEntries(Object.keys(node.op.inputs).map((name, at) => [name, node.inputs[at]]));
  const [size, valueSize] = [lastDim(operands["past_key"]), lastDim(operands["past_value"])];
  if (size === undefined || valueSize === undefined) return "the size of its heads is not known";
  if (node.outputs[3] !== undefined) return "its scores are asked for";
  switch (node.op.name) {
    case "Attention":
      return takeAttention(node, operands, size, valueSize);
    case "GroupQueryAttention":
      return takeGroupQuery(node, operands, size, around);
    default:
      return takeMultiHead(node, operands, size, valueSize);
  }
}

function lastDim(value: Value | undefined): number | undefined {
  const dim = value?.fact?.shape?.at(-1);
  return dim !== undefined && isKnown(dim) ? dim : undefined;
}

const asHeads = (edit: ModelEdit, name: string, heads: number, size: number): string =>
  relay(edit, name, "packed", "heads", { heads, groups: heads, size });

function takeAttention(
  node: Node,
  { Q, K, V, attn_mask: mask }: Operands,
  size: number,
  valueSize: number,
): TakenOperator | string {
  const form: Form = Q?.fact?.shape?.length === 4 ? "heads" : "packed";
  const { attrs } = node;
  const heads = form === "heads" ? Q?.fact?.shape?.[1] : (attrs["q_num_heads"] as number);
  const kvHeads = form === "heads" ? K?.fact?.shape?.[1] : (attrs["kv_num_heads"] as number);
  if (
    Q === undefined ||
    K === undefined ||
    V === undefined ||
    heads === undefined ||
    kvHeads === undefined ||
    !isKnown(heads) ||
    !isKnown(kvHeads)
  )
    return "the number of its heads is not known";
  const rows =
    (value: Value, of: number) =>
    (edit: ModelEdit): string =>
      form === "heads" ? value.name : asHeads(edit, value.name, kvHeads, of);
  const [left, right] = [attrs["left_window_size"], attrs["right_window_size"]] as (number | undefined)[];
  if ((right ?? -1) > 0 && attrs["is_causal"] !== true) return "its window reaches behind the query";
  return {
    heads,
    kvHeads,
    size,
    valueSize,
    scale: (attrs["scale"] as number | undefined) ?? 1 / Math.sqrt(size),
    softcap: attrs["softcap"] as number,
    precision: attrs["softmax_precision"] as CachedAttention["precision"],
    causal: attrs["is_causal"] === true || right === 0,
    window: left === undefined || left < 0 ? undefined : left + 1,
    mask,
    padding: undefined,
    form,
    parts: { query: () => Q.name, keys: rows(K, size), values: rows(V, valueSize) },
  };
}

function takeGroupQuery(
  node: Node,
  operands: Operands,
  size: number,
  { index, tables }: Pick<Surroundings, "index" | "tables">,
): TakenOperator | string {
  const { attrs } = node;
  const { query, key, value, cos_cache: cos, sin_cache: sin, position_ids: own, attention_bias: mask } = operands;
  if (attrs["kv_cache_bit_width"] !== 0) return "its caches are quantized, for which Attention has no counterpart";
  const [heads, kvHeads] = [attrs["num_heads"] as number, attrs["kv_num_heads"] as number];
  const rotates = attrs["do_rotary"] === true;
  const pairs = lastDim(cos);
  if (query === undefined || (rotates && (cos === undefined || sin === undefined || pairs === undefined)))
    return "its rotary embedding has no tables of known size";
  if (rotates && [cos, sin].some((table) => (index.producerOf(table!)?.bodies.size ?? 0) > 0))
    return "its rotary tables are chosen while the model runs, and not by the mask's columns alone";
  const isChosen = tables !== undefined && rotates && tables.names.includes(cos!.name);
  if (isChosen && own !== undefined) return "it has positions of its own beside rotary tables for short and long texts";
  const split = (edit: ModelEdit, part: 0 | 1 | 2): string => {
    if (key !== undefined && value !== undefined) return [query, key, value][part].name;
    const widths = [heads, kvHeads, kvHeads].map((count) => count * size);
    const start = widths.slice(0, part).reduce((sum, width) => sum + width, 0);
    return slice(edit, query.name, 2, start, start + widths[part]);
  };
  const rows = (edit: ModelEdit, positions: string): string =>
    isChosen ? edit.atFront(() => tableRows(edit, positions, tables)) : positions;
  const turned = (edit: ModelEdit, part: 0 | 1, count: number, positions: string): string => {
    const name = normalized(edit, split(edit, part), operands[part === 0 ? "q_norm_weight" : "k_norm_weight"], {
      heads: count,
      size,
      epsilon: attrs["qk_norm_epsilon"] as number,
    });
    return rotates
      ? edit.node("RotaryEmbedding", [name, cos!.name, sin!.name, own?.name ?? rows(edit, positions)], {
          attributes: {
            num_heads: count,
            interleaved: attrs["rotary_interleaved"] === true ? 1 : 0,
            ...(2 * pairs! === size ? {} : { rotary_embedding_dim: 2 * pairs! }),
          },
        })
      : name;
  };
  const window = attrs["local_window_size"] as number;
  const scale = attrs["scale"] as number;
  return {
    heads,
    kvHeads,
    size,
    valueSize: size,
    scale: scale === 0 ? 1 / Math.sqrt(size) : scale,
    softcap: attrs["softcap"] as number,
    precision: undefined,
    sinks: operands["head_sink"] ?? (attrs["smooth_softmax"] === true ? "zero" : undefined),
    causal: attrs["causal"] !== false,
    window: window < 0 ? undefined : window,
    mask,
    padding: undefined,
    form: "packed",
    parts: {
      query: (edit, positions) => turned(edit, 0, heads, positions),
      keys: (edit, positions) => asHeads(edit, turned(edit, 1, kvHeads, positions), kvHeads, size),
      values: (edit) => asHeads(edit, split(edit, 2), kvHeads, size),
    },
  };
}

/** Heads side by side, each brought to a root mean square of 1 and scaled, where there are weights for that. */
function normalized(
  edit: ModelEdit,
  name: string,
  weight: Value | undefined,
  { heads, size, epsilon }: { readonly heads: number; readonly size: number; readonly epsilon: number },
): string {
  if (weight === undefined) return name;
  const apart = edit.node("Reshape", [name, edit.integers([0, 0, heads, size])]);
  const scaled = edit.node("RMSNormalization", [apart, weight.name], {
    attributes: { axis: -1, epsilon: float(epsilon) },
  });
  return edit.node("Reshape", [scaled, edit.integers([0, 0, heads * size])]);
}

function takeMultiHead(node: Node, operands: Operands, size: number, valueSize: number): TakenOperator | string {
  const { attrs } = node;
  const { query, key, value, bias, key_padding_mask: padding, attention_bias: mask, cache_indirection } = operands;
  if (cache_indirection !== undefined)
    return "it looks its cache up through cache_indirection, for which Attention has no counterpart";
  if (query?.fact?.shape?.length !== 3 || key?.fact?.shape?.length !== 3 || value?.fact?.shape?.length !== 3)
    return "its queries, keys and values are not three tensors of [batch, length, heads · size]";
  const heads = attrs["num_heads"] as number;
  const widths = [heads * size, heads * size, heads * valueSize];
  const biased = (edit: ModelEdit, part: 0 | 1 | 2): string => {
    const { name } = [query, key, value][part];
    if (bias === undefined) return name;
    const start = widths.slice(0, part).reduce((sum, width) => sum + width, 0);
    return edit.node("Add", [name, slice(edit, bias.name, 0, start, start + widths[part])]);
  };
  const scale = attrs["scale"] as number;
  return {
    heads,
    kvHeads: heads,
    size,
    valueSize,
    scale: scale === 0 ? 1 / Math.sqrt(size) : scale,
    softcap: 0,
    precision: undefined,
    causal: attrs["unidirectional"] === true,
    window: undefined,
    mask,
    padding,
    form: "packed",
    parts: {
      query: (edit) => biased(edit, 0),
      keys: (edit) => asHeads(edit, biased(edit, 1), heads, size),
      values: (edit) => asHeads(edit, biased(edit, 2), heads, valueSize),
    },
  };
}

const slice = (edit: ModelEdit, name: string, axis: number, start: number, end: number): string =>
  edit.node("Slice", [name, edit.integers([start]), edit.integers([end]), edit.integers([axis])]);
