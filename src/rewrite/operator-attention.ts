/**
 * Attention operators with their cache inside (ONNX's Attention with a past, onnxruntime's GroupQueryAttention and MultiHeadAttention),
 * taken apart: what they do to queries and new rows, and how they attend. What has no counterpart is refused.
 */
import { isKnown, type Dim } from "../graph/dim.js";
import type { Node, Value } from "../graph/graph.js";
import type { CachedAttention, Form, OperatorParts, Refusal } from "./attention.js";
import { atLeastZero, type Element, integer, joined, truth } from "./element.js";
import { Elements } from "./elements.js";
import { relay } from "./emit-attention.js";
import { type MaskMeaning, meaningOf, type Visibility, visibilityOf } from "./mask.js";
import type { ModelEdit } from "./model-edit.js";
import { Ranges } from "./ranges.js";
import { cacheAxis, positiveSizes } from "./roles.js";
import type { Surroundings } from "./written-attention.js";
import { addDims, sameDim, subtractDims } from "../graph/dim.js";

/** The operands and sizes that all three have. */
interface Taken {
  readonly node: Node;
  readonly heads: number;
  readonly kvHeads: number;
  readonly size: number;
  readonly valueSize: number;
  readonly scale: number;
  readonly softcap: number;
  readonly precision?: CachedAttention["precision"];
  readonly causal: boolean;
  readonly window: number | undefined;
  /** The mask that is added, or chooses, and its name in messages. */
  readonly mask: Value | undefined;
  /** Padding that must be none: 1 for all keys. */
  readonly padding?: Value | undefined;
  readonly form: Form;
  readonly parts: OperatorParts;
}

/** An operator with its cache inside; undefined where the node is none, a refusal where it cannot be taken apart. */
export function operatorAttention(node: Node, around: Surroundings): CachedAttention | Refusal | undefined {
  const trails = around.trails.filter(({ writer, kind }) => writer === node && kind === "attention");
  if (trails.length === 0) return undefined;
  const refuse = (reason: string): Refusal => ({ node, reason });
  const [keys, values] = [node.outputs[1], node.outputs[2]].map((value) => trails.find(({ written }) => written === value));
  if (keys === undefined || values === undefined) return refuse("its keys and its values are not both caches");
  const taken = take(node);
  if (typeof taken === "string") return refuse(taken);
  const read = (trail: typeof keys, headSize: number): CachedAttention["keys"] => ({
    trail,
    rows: cacheAxis(trail)!,
    heads: trail.order[1],
    values: trail.order[3],
    headCount: taken.kvHeads,
    headSize,
  });
  const mask = maskOf(taken, around);
  if (typeof mask === "string") return refuse(mask);
  const type = node.inputs[0]!.fact!.type;
  return {
    node,
    query: { name: node.inputs[0]!.name, type, form: taken.form },
    result: { name: node.outputs[0]!.name, type, form: taken.form },
    heads: taken.heads,
    groups: taken.heads,
    keys: read(keys, taken.size),
    values: read(values, taken.valueSize),
    scale: taken.scale,
    softcap: taken.softcap,
    precision: taken.precision,
    ...mask,
    parts: taken.parts,
  };
}

/** The operands and attributes of a node; a sentence where something has no counterpart. */
function take(node: Node): Taken | string {
  const operands = Object.fromEntries(Object.keys(node.op.inputs).map((name, at) => [name, node.inputs[at]]));
  switch (node.op.name) {
    case "Attention":
      return takeAttention(node, operands);
    case "GroupQueryAttention":
      return takeGroupQuery(node, operands);
    default:
      return takeMultiHead(node, operands);
  }
}

type Operands = Readonly<Record<string, Value | undefined>>;

const lastDim = (value: Value | undefined): number | undefined => {
  const dim = value?.fact?.shape?.at(-1);
  return dim !== undefined && isKnown(dim) ? dim : undefined;
};

const asHeads = (edit: ModelEdit, name: string, heads: number, size: number): string =>
  relay(edit, name, "packed", "heads", { heads, groups: heads, size });

function takeAttention(node: Node, { Q, K, V, attn_mask: mask, past_key, past_value }: Operands): Taken | string {
  const form: Form = Q?.fact?.shape?.length === 4 ? "heads" : "packed";
  const [heads, kvHeads] =
    form === "heads" ? [Q?.fact?.shape?.[1], K?.fact?.shape?.[1]] : [node.attrs["q_num_heads"] as number, node.attrs["kv_num_heads"] as number];
  const [size, valueSize] = [lastDim(past_key), lastDim(past_value)];
  if (Q === undefined || K === undefined || V === undefined || size === undefined || valueSize === undefined) return "the shapes of its operands are not known";
  if (!isKnown(heads ?? "?0") || !isKnown(kvHeads ?? "?0")) return "the number of its heads is not known";
  if (node.outputs[3] !== undefined) return "its scores are asked for";
  const rows = (value: Value, of: number) => (edit: ModelEdit) => (form === "heads" ? value.name : asHeads(edit, value.name, kvHeads as number, of));
  return {
    node,
    heads: heads as number,
    kvHeads: kvHeads as number,
    size,
    valueSize,
    scale: (node.attrs["scale"] as number | undefined) ?? 1 / Math.sqrt(size),
    softcap: node.attrs["softcap"] as number,
    precision: node.attrs["softmax_precision"] as CachedAttention["precision"],
    causal: node.attrs["is_causal"] === true,
    window: undefined,
    mask,
    form,
    parts: { query: () => Q.name, keys: rows(K, size), values: rows(V, valueSize) },
  };
}
