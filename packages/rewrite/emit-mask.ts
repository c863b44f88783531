/**
 * The mask that an Attention over a whole cache still needs: windows and whatever else the exporter built, one column for each row of the
 * capacity. Causality and the padding behind the last row are no masks any more.
 */
import {
  addDims,
  bindDim,
  type Dim,
  isKnown,
  sameDim,
  type Shape,
  subtractDims,
  symbolsOf,
} from "#insitu/graph/dim.js";
import type { Value } from "#insitu/graph/graph.js";
import { type ElementType, traitsOf } from "#insitu/tensor/element-type.js";
import type { CachedAttention } from "./attention.js";
import { type Element, joined, type Lookup, mentions } from "./element.js";
import { emitElement, type IndexTensors } from "./emit-element.js";
import type { ModelEdit } from "./model-edit.js";
import { Ranges } from "./ranges.js";
import { batch, past as rowsBefore, positiveSizes, sequence } from "./role-words.js";

/** Where masks take their numbers from. */
export interface MaskSources {
  /** The capacity of the caches, as a list of one number. */
  capacity(): string;
  /** The first row that each sample's new tokens are written to. */
  readonly starts: string;
  /** A size as a list of one number. */
  size(name: string): string | undefined;
  /** For masks that are kept: [batch, capacity], not 0 for valid rows. */
  readonly padding: { readonly name: string; readonly type: ElementType } | undefined;
  /** Called for inputs with one column for each row: they get as many as the capacity. */
  widen(input: Value, axis: number): void;
  /** Called for values whose elements masks are made of. */
  reads(value: Value): void;
  /** Rows before the first query, as conditions count them. */
  readonly past: Dim;
  /** True for inputs of the graph. */
  isInput(value: Value): boolean;
}

/** The name of the mask; undefined where none is needed, a reason where it cannot be built. `windows`: the node itself has windows. */
export function emitMask(
  edit: ModelEdit,
  attention: CachedAttention,
  sources: MaskSources,
  windows: boolean,
): string | undefined | { readonly reason: string } {
  const { mask, query } = attention;
  const { query: i, key: k } = attention.index;
  const own = addDims(sources.past, i);
  // What callers decide is kept, and theirs to get right; of the rest, it must be known that a query sees a key.
  const decided = mask.others.filter(
    (condition) => !mentions(condition, (part) => part.kind === "read" && sources.isInput(part.from)),
  );
  if (!attention.blindIsZero && !decided.every((condition) => holdsAt(condition, own)))
    return { reason: "its mask may hide every key from a query, which Softmax and Attention answer in different ways" };
  const conditions = [...mask.others];
  if (mask.window !== undefined && !windows)
    conditions.push({ kind: "at-least-zero", value: addDims(subtractDims(k, own), mask.window - 1) });
  const { type } = query;
  const visible = joined("and", conditions);
  const tensors = tensorsFor(edit, attention, sources);
  return edit.atFront(() => {
    const shown = visible.kind === "truth" && visible.value ? undefined : emitElement(visible, "bool", edit, tensors);
    if (typeof shown === "object") return shown;
    const seen = withPadding(edit, shown, sources);
    const bias = mask.bias === undefined ? undefined : emitElement(mask.bias, type, edit, tensors);
    if (typeof bias === "object") return bias;
    const whole =
      bias === undefined
        ? seen
        : seen === undefined
          ? bias
          : edit.node("Where", [seen, bias, edit.scalar(type, -Infinity)]);
    const byQuery = [visible, ...(mask.bias === undefined ? [] : [mask.bias])].some((element) =>
      mentions(element, (part) => depends(part, "%i")),
    );
    return whole === undefined || byQuery ? whole : forEveryQuery(edit, whole, sources);
  });
}

/** True if a condition is shown to hold for a query's own key. */
function holdsAt(condition: Element, own: Dim): boolean {
  const ranges = new Ranges(positiveSizes);
  const at = (dim: Dim): Dim => bindDim(dim, new Map([["%k", own]]));
  // Queries are new tokens, one after another.
  ranges.variable("%i", sequence);
  switch (condition.kind) {
    case "truth":
      return condition.value;
    case "at-least-zero":
      return ranges.isNeverNegative(at(condition.value));
    case "zero":
      return at(condition.value) === 0;
    case "and":
      return condition.of.every((part) => holdsAt(part, own));
    case "or":
      return condition.of.some((part) => holdsAt(part, own));
    default:
      return false;
  }
}

/** True if an element itself depends on an index or a size. */
function depends(element: Element, name: string): boolean {
  switch (element.kind) {
    case "integer":
    case "at-least-zero":
    case "zero":
      return symbolsOf(element.value).has(name);
    case "read":
    case "lookup":
      return element.index.some((dim) => symbolsOf(dim).has(name));
    default:
      return false;
  }
}

function withPadding(edit: ModelEdit, shown: string | undefined, { padding }: MaskSources): string | undefined {
  if (padding === undefined) return shown;
  const valid =
    padding.type === "bool"
      ? padding.name
      : edit.node("Cast", [padding.name], { attributes: { to: traitsOf("bool").code } });
  const columns = edit.node("Unsqueeze", [valid, edit.integers([1, 2])]);
  return shown === undefined ? columns : edit.node("And", [shown, columns]);
}

/** A mask with one row for each query: other runtimes take no fewer. */
function forEveryQuery(edit: ModelEdit, mask: string, sources: MaskSources): string {
  const queries = sources.size(String(sequence)) ?? edit.integers([1]);
  const shape = edit.node("Concat", [edit.integers([1, 1]), queries, edit.integers([1])], { attributes: { axis: 0 } });
  return edit.node("Expand", [mask, shape]);
}

function tensorsFor(edit: ModelEdit, attention: CachedAttention, sources: MaskSources): IndexTensors {
  const scalar = (list: string): string => edit.node("Squeeze", [list]);
  const count = (size: string): string =>
    edit.node("Range", [edit.scalar("int64", 0), scalar(size), edit.scalar("int64", 1)]);
  const samplesFirst = (name: string): string => edit.node("Unsqueeze", [name, edit.integers([1, 2, 3])]);
  const heads = Array.from({ length: attention.heads }, (_, head) => head);
  return {
    of(symbol) {
      switch (symbol) {
        case "%k":
          return count(sources.capacity()); // [capacity]
        case "%i": {
          const rows = edit.node("Unsqueeze", [count(sources.size(String(sequence))!), edit.integers([1])]); // [sequence, 1]
          return sources.past === 0 ? edit.node("Add", [samplesFirst(sources.starts), rows]) : rows;
        }
        case "%h":
          return edit.integers(heads, [1, heads.length, 1, 1]);
        case "%b":
          return samplesFirst(count(sources.size(String(batch))!));
        case String(rowsBefore):
          return samplesFirst(sources.starts);
        default:
          return sources.size(symbol);
      }
    },
    read: (from, index) => readTensor(edit, from, index, sources),
    lookup: (element, at) => lookupTensor(edit, element, at, sources),
  };
}

/** What a table holds for each head, or for all of them, at places that are computed for each query and key. */
function lookupTensor(
  edit: ModelEdit,
  { from, axis, at, index }: Lookup,
  places: string,
  sources: MaskSources,
): string | { readonly reason: string } {
  const others = index.flatMap((dim, other) => (other === axis || isKnown(dim) ? [] : [String(dim)]));
  const byHead = others.length === 1 && others[0] === "%h";
  if ((others.length > 0 && !byHead) || mentions(at, (part) => depends(part, "%h")))
    return { reason: `"${from.name}" is looked up at places that cannot be built for a whole cache` };
  sources.reads(from);
  const rows = from.fact!.shape![axis] as number;
  // Rows that no query sees yet have places too, which may lie outside the table: any element does there.
  const bounds = [rows - 1, -rows].map((bound) => edit.integers([bound], [1, 1, 1, 1]));
  const inside = edit.node("Max", [edit.node("Min", [places, bounds[0]]), bounds[1]]); // [batch, 1, sequence, capacity]
  let [table, along, heads] = [from.name, axis, index.findIndex((dim) => String(dim) === "%h")];
  for (const [fixed, dim] of [...index.entries()].toReversed()) {
    if (fixed === axis || !isKnown(dim)) continue;
    table = edit.node("Gather", [table, edit.scalar("int64", dim)], { attributes: { axis: fixed } });
    if (fixed < axis) along--;
    if (fixed < heads) heads--;
  }
  if (!byHead) return edit.node("Gather", [table, inside], { attributes: { axis: along } });
  if (heads > along) table = edit.node("Transpose", [table], { attributes: { perm: [1, 0] } });
  const found = edit.node("Gather", [table, inside], { attributes: { axis: 1 } }); // [heads, batch, 1, sequence, capacity]
  const ordered = edit.node("Transpose", [found], { attributes: { perm: [1, 0, 2, 3, 4] } });
  return edit.node("Squeeze", [ordered, edit.integers([2])]);
}

const axes = ["%b", "%h", "%i", "%k"];

/** A tensor with its dimensions in the places of batch, head, query and key. */
function readTensor(
  edit: ModelEdit,
  from: Value,
  index: readonly Dim[],
  sources: MaskSources,
): string | { readonly reason: string } {
  const shape: Shape = from.fact!.shape!;
  sources.reads(from);
  const places = index.map((dim) => axes.indexOf(String(dim)));
  const fits = index.every((dim, axis) => places[axis] >= 0 || (isKnown(dim) && dim >= 0));
  if (!fits || new Set(places.filter((place) => place >= 0)).size !== places.filter((place) => place >= 0).length)
    return {
      reason: `"${from.name}" is looked up at [${index.map(String).join(", ")}], which cannot be built for a whole cache`,
    };
  for (const [axis, dim] of shape.entries()) {
    if (!symbolsOf(dim).has(String(rowsBefore))) continue;
    if (!sources.isInput(from) || places[axis] !== 3 || !sameDim(dim, addDims(rowsBefore, sequence)))
      return { reason: `"${from.name}" depends on how many rows the cache holds` };
    sources.widen(from, axis);
  }
  let name = from.name;
  // Dimensions at a fixed index go first, the last ones before the others.
  for (const [axis, dim] of [...index.entries()].toReversed())
    if (places[axis] < 0)
      name = edit.node("Gather", [name, edit.scalar("int64", Number(dim))], { attributes: { axis } });
  const left = places.filter((place) => place >= 0);
  const order = left.map((_, at) => at).sort((a, b) => left[a] - left[b]);
  if (order.some((at, position) => at !== position))
    name = edit.node("Transpose", [name], { attributes: { perm: order } });
  const missing = axes.flatMap((_, place) => (left.includes(place) ? [] : [place]));
  return missing.length === 0 ? name : edit.node("Unsqueeze", [name, edit.integers(missing)]);
}
