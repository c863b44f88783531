/**
 * Values that depend on the old length, computed anew from the positions of the tokens: rows of a table that were cut out from that length
 * on, angles of all rows of which some are looked up. What a value is comes from its elements; how it lies stays as it was.
 */
import { bindDim, type Dim, isKnown, type Shape, subtractDims, symbol, symbolsOf } from "#insitu/graph/dim.js";
import type { Value } from "#insitu/graph/graph.js";
import type { ElementType } from "#insitu/tensor/element-type.js";
import type { Element, Lookup } from "./element.js";
import { emitElement, type IndexTensors } from "./emit-element.js";
import type { ModelEdit } from "./model-edit.js";

/** A value to be computed anew. */
export interface Wanted {
  readonly element: Element;
  readonly type: ElementType;
  /** The sizes of its axes, and for each the index that the element has there. */
  readonly shape: Shape;
  readonly index: readonly Dim[];
  /** The axes of samples and of tokens. */
  readonly samples: number;
  readonly tokens: number;
  /** The name of the positions, [batch, sequence]. */
  readonly positions: string;
  readonly size: (name: string) => string | undefined;
}

/** The word for a token's position. */
const position = symbol("%position");

/** The element with `past` + the token's index as its position. */
export function byPosition(element: Element, token: Dim, past: Dim): Element {
  const bindings = new Map<string, Dim>([[String(past), subtractDims(position, token)]]);
  return mapDims(element, (dim) => bindDim(dim, bindings));
}

/** The element with an index replaced by the position. */
export const atPosition = (element: Element, index: Dim): Element =>
  mapDims(element, (dim) => bindDim(dim, new Map([[String(index), position]])));

function mapDims(element: Element, map: (dim: Dim) => Dim): Element {
  switch (element.kind) {
    case "integer":
    case "at-least-zero":
    case "zero":
      return { ...element, value: map(element.value) };
    case "not":
      return { ...element, of: mapDims(element.of, map) };
    case "and":
    case "or":
    case "call":
      return { ...element, of: element.of.map((part) => mapDims(part, map)) };
    case "choose":
      return {
        ...element,
        when: mapDims(element.when, map),
        yes: mapDims(element.yes, map),
        no: mapDims(element.no, map),
      };
    case "read":
      return { ...element, index: element.index.map(map) };
    case "lookup":
      return { ...element, at: mapDims(element.at, map), index: element.index.map(map) };
    default:
      return element;
  }
}

/** The name of a tensor that holds the value, by fresh nodes; a reason where it cannot be made. */
export function regenerate(edit: ModelEdit, wanted: Wanted): string | { readonly reason: string } {
  return emitElement(wanted.element, wanted.type, edit, new Axes(edit, wanted));
}

/** The tensors that indices stand for, each with its dimensions in their places. */
class Axes implements IndexTensors {
  readonly #edit: ModelEdit;
  readonly #wanted: Wanted;

  constructor(edit: ModelEdit, wanted: Wanted) {
    this.#edit = edit;
    this.#wanted = wanted;
  }

  of(name: string): string | undefined {
    const { samples, tokens, positions, index, shape, size } = this.#wanted;
    if (name === String(position)) return this.#arrange(positions, [samples, tokens]);
    const axis = index.findIndex((dim) => String(dim) === name);
    if (axis < 0) return size(name);
    const extent = shape[axis];
    if (isKnown(extent))
      return this.#arrange(this.#edit.integers(Array.from({ length: extent }, (_, at) => at)), [axis]);
    const length = size(String(extent));
    if (length === undefined) return undefined;
    const [zero, one] = [0, 1].map((number) => this.#edit.scalar("int64", number));
    return this.#arrange(this.#edit.node("Range", [zero, this.#edit.node("Squeeze", [length]), one]), [axis]);
  }

  read(from: Value, index: readonly Dim[]): string | { readonly reason: string } {
    const { samples, tokens, positions } = this.#wanted;
    const own = this.#wanted.index;
    const refuse = { reason: `"${from.name}" is looked up at [${index.map(String).join(", ")}]` };
    if ((from.fact?.constant ?? from.initializer) === undefined) return refuse;
    const edit = this.#edit;
    const row = index.findIndex((dim) => symbolsOf(dim).has(String(position)));
    const shift = row < 0 ? 0 : subtractDims(index[row], position);
    if (!isKnown(shift)) return refuse;
    let name = from.name;
    // Fixed indices go first, the last ones before the others; what is left keeps its order.
    const kept: number[] = [];
    for (const [axis, dim] of [...index.entries()].toReversed()) {
      if (isKnown(dim)) name = edit.node("Gather", [name, edit.scalar("int64", dim)], { attributes: { axis } });
      else kept.unshift(axis);
    }
    const places = kept.map((axis) =>
      axis === row ? -1 : own.findIndex((dim) => String(dim) === String(index[axis])),
    );
    if (places.some((place, at) => (place < 0 && kept[at] !== row) || places.indexOf(place) !== at)) return refuse;
    if (row < 0) return this.#inPlace(name, places);
    const rows = shift === 0 ? positions : edit.node("Add", [positions, edit.scalar("int64", shift)]);
    const along = kept.indexOf(row);
    const found = edit.node("Gather", [name, rows], { attributes: { axis: along } });
    return this.#inPlace(found, [...places.slice(0, along), samples, tokens, ...places.slice(along + 1)]);
  }

  lookup({ from }: Lookup): { readonly reason: string } {
    return { reason: `"${from.name}" is looked up at places that are computed` };
  }

  /** A tensor whose axes go to these places. */
  #inPlace(name: string, places: readonly number[]): string {
    const order = places.map((_, at) => at).sort((a, b) => places[a] - places[b]);
    const sorted = order.every((from, at) => from === at)
      ? name
      : this.#edit.node("Transpose", [name], { attributes: { perm: order } });
    return this.#arrange(
      sorted,
      order.map((at) => places[at]),
    );
  }

  #arrange(name: string, places: readonly number[]): string {
    const missing = this.#wanted.shape.flatMap((_, axis) => (places.includes(axis) ? [] : [axis]));
    return missing.length === 0 ? name : this.#edit.node("Unsqueeze", [name, this.#edit.integers(missing)]);
  }
}
