/** A graph: values, nodes and their order. Passes rewrite it, the planner reads it. Holds structure and facts, runs nothing. */
import { longestShownName } from "../base/limits.js";
import type { View } from "../tensor/view.js";
import type { AttributeValues } from "./attribute.js";
import type { Callable } from "./call.js";
import type { Shape } from "./dim.js";
import type { Fact } from "./fact.js";

/** A named tensor of the graph: an input, an initializer or a node's output. */
export interface Value {
  readonly name: string;
  /** The weights behind an initializer. */
  readonly initializer?: View | undefined;
  /** What the file says of the value: filled in where inference cannot tell. */
  readonly declared?: { readonly type?: Fact["type"] | undefined; readonly shape?: Shape | undefined } | undefined;
  /** What inference found at load. */
  fact?: Fact;
}

/** One call of an operator. */
export interface Node extends Callable {
  readonly name: string;
  readonly inputs: readonly (Value | undefined)[];
  readonly outputs: readonly (Value | undefined)[];
  /** The attributes as the file carries them; `attrs` holds them as the declaration reads them. */
  readonly attributes: AttributeValues;
  /** Subgraphs by attribute name. */
  readonly bodies: ReadonlyMap<string, Graph>;
}

/** Nodes in an order that computes every value before it is used. */
export interface Graph {
  readonly name: string;
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly nodes: readonly Node[];
  /** Values of enclosing graphs that this one (or one inside it) reads. */
  readonly captured: readonly Value[];
}

/** A value's name as messages show it: names may be of any length, and a message may name one for every node. */
export const quoted = ({ name }: { readonly name: string }): string => `"${shortened(name)}"`;

/** A name cut in its middle where it is very long. */
export const shortened = (name: string): string =>
  name.length <= longestShownName
    ? name
    : `${name.slice(0, longestShownName / 2)}…${name.slice(-longestShownName / 2)}`;

/** Every value a node reads: its operands, and what its subgraphs capture from outside. */
export function readsOf(node: Node): readonly Value[] {
  const reads: Value[] = [];
  for (const input of node.inputs) if (input !== undefined) reads.push(input);
  if (node.bodies.size > 0)
    for (const body of node.bodies.values()) for (const value of body.captured) reads.push(value);
  return reads;
}
