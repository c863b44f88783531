/** Attention nodes of ONNX over caches that are written outside them: the operands are seen through to the caches they repeat or reshape. */
import { addDims, type Dim, isKnown, multiplyDims, sameDim } from "#insitu/graph/dim.js";
import type { Node, Value } from "#insitu/graph/graph.js";
import type { CachedAttention, Form, Refusal } from "./attention.js";
import { type CacheRead, cacheReadOf, scaledRead } from "./cache-read.js";
import { atLeastZero, type Element, joined, truth } from "./element.js";
import { Elements } from "./elements.js";
import { meaningOf, type Visibility, visibilityOf } from "./mask.js";
import { Ranges } from "./ranges.js";
import { positiveSizes } from "./role-words.js";
import type { Surroundings } from "./written-attention.js";

/** An Attention node over caches; undefined where it reads none, a refusal where it does but is not understood. */
export function attentionNode(node: Node, around: Surroundings): CachedAttention | Refusal | undefined {
  if (node.op.name !== "Attention" || node.op.domain !== "") return undefined;
  const [query, keys, values, mask, pastKeys, pastValues, lengths] = node.inputs;
  if (
    query === undefined ||
    keys === undefined ||
    values === undefined ||
    pastKeys !== undefined ||
    pastValues !== undefined
  )
    return undefined;
  const closed = new Set([...(around.assumptions.closed ?? []), ...around.trails.map(({ written }) => written)]);
  const [form, own, q] = [formOf(query), formOf(keys), query.fact?.shape];
  const refuse = (reason: string): Refusal => ({ node, reason });
  const heads = form === "heads" ? q?.[1] : (node.attrs["q_num_heads"] as number | undefined);
  const ownHeads = own === "heads" ? keys.fact?.shape?.[1] : (node.attrs["kv_num_heads"] as number | undefined);
  if (
    q === undefined ||
    form === undefined ||
    own === undefined ||
    heads === undefined ||
    ownHeads === undefined ||
    !isKnown(heads) ||
    !isKnown(ownHeads)
  )
    return undefined;
  const rows = keys.fact!.shape!.at(own === "heads" ? 2 : 1)!;
  const ranges = new Ranges(positiveSizes);
  const b = ranges.variable("%b", q[0]);
  const h = ranges.variable("%h", heads);
  const i = ranges.variable("%i", q.at(form === "heads" ? 2 : 1)!);
  const k = ranges.variable("%k", rows);
  const elements = new Elements(around.graph, ranges, { ...around.assumptions, closed });
  const readOf = (
    value: Value,
    name: string,
  ): { readonly read: CacheRead; readonly factor: number } | string | undefined => {
    const packed = value.fact!.shape!.at(-1)!;
    const size = own === "heads" || !isKnown(packed) ? packed : packed / ownHeads;
    const d = ranges.variable(name, size);
    const head = ranges.divide(h, heads / ownHeads).quotient;
    const index: Dim[] = own === "heads" ? [b, head, k, d] : [b, k, addDims(multiplyDims(head, size), d)];
    const found = scaledRead(elements.of(value, index));
    if (found === undefined || !around.trails.some(({ written }) => written === found.read.from)) return undefined;
    const read = cacheReadOf(
      found.read,
      around.trails,
      { batch: b, head: h, headCount: heads, row: k, value: d, size },
      ranges,
    );
    return typeof read === "string" ? read : { read, factor: found.factor };
  };
  const [readKeys, readValues] = [readOf(keys, "%d"), readOf(values, "%e")];
  if (readKeys === undefined && readValues === undefined) return undefined;
  if (typeof readKeys === "string") return refuse(readKeys);
  if (typeof readValues === "string") return refuse(readValues);
  if (readKeys === undefined || readValues === undefined)
    return refuse("its keys and its values do not both come from caches");
  if (readValues.factor !== 1) return refuse("its values are scaled behind the cache");
  if (node.outputs.slice(1).some((value) => value !== undefined))
    return refuse("more than its first output is asked for");
  if (lengths !== undefined) return refuse("it takes lengths of its own");
  const visibility = maskOf(node, mask, [b, h, i, k], elements, rows);
  if (typeof visibility === "string") return refuse(visibility);
  const size = readKeys.read.headSize;
  const scale = (node.attrs["scale"] as number | undefined) ?? (isKnown(size) ? 1 / Math.sqrt(size) : undefined);
  if (scale === undefined) return refuse("the size of its heads is not known");
  return {
    node,
    query: { name: query.name, type: query.fact!.type, form },
    result: { name: node.outputs[0]!.name, type: query.fact!.type, form },
    heads,
    groups: heads,
    keys: readKeys.read,
    values: readValues.read,
    scale: scale * readKeys.factor,
    softcap: node.attrs["softcap"] as number,
    precision: node.attrs["softmax_precision"] as CachedAttention["precision"],
    blindIsZero: mask === undefined || mask.fact?.type === "bool",
    mask: meaningOf(visibility, { query: i, key: k, past: around.past }),
    index: { batch: b, head: h, query: i, key: k },
  };
}

const formOf = ({ fact }: Value): Form | undefined =>
  fact?.shape?.length === 4 ? "heads" : fact?.shape?.length === 3 ? "packed" : undefined;

/** What the node's mask and its own causality hide. */
function maskOf(
  node: Node,
  mask: Value | undefined,
  index: readonly Dim[],
  elements: Elements,
  rows: Dim,
): Visibility | string {
  const [, , i, k] = index;
  // Without a past inside, the first query is taken for the first row.
  const causal =
    node.attrs["is_causal"] === true ? atLeastZero(addDims(i, multiplyDims(k, -1)), elements.ranges) : truth(true);
  if (mask === undefined) return { visible: causal, bias: undefined };
  const shape = mask.fact?.shape;
  if (shape === undefined || shape.length < 1 || shape.length > 4)
    return `the shape of its mask "${mask.name}" is not known`;
  if (!sameDim(shape.at(-1)!, rows))
    return `its mask "${mask.name}" has ${String(shape.at(-1))} columns for ${String(rows)} keys`;
  const own = shape.map((dim, axis) => (dim === 1 ? 0 : index[4 - shape.length + axis]));
  const element: Element = elements.of(mask, own);
  const found = mask.fact?.type === "bool" ? { visible: element, bias: undefined } : visibilityOf(element);
  return { ...found, visible: joined("and", [found.visible, causal]) };
}
