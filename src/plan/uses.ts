/**
 * Who makes, reads and views what: the questions the planner asks of a graph. Pure look-ups over declarations; decides nothing.
 */
import type { Effect } from "../graph/effect.js";
import type { Graph, Node, Value } from "../graph/graph.js";

/** The operand position of the input that `name` means in an operator's declaration. */
export const inputPosition = (node: Node, name: string): number => Object.keys(node.op.inputs).indexOf(name);

/** An output's effect, with its operands in place of their names. */
export interface DeclaredEffect {
  readonly kind: Effect["kind"];
  /** The operands that are there; at least one. */
  readonly sources: readonly Value[];
  /** Where the first of them stands among the node's inputs: the same value may stand elsewhere too. */
  readonly position: number;
  readonly grows?: number | undefined;
  readonly general: boolean;
  /** The axis of the sequence, as the node writes it (negative ones count from the end). */
  readonly axis?: number | undefined;
}

/** The effect an output position declares, with the operands it names; undefined where it has none. */
export function effectOf(node: Node, position: number): DeclaredEffect | undefined {
  const names = Object.keys(node.op.outputs);
  if (position >= names.length) return undefined; // the tail of a variadic output has no effect of its own
  const effect = node.op.effects[names[position]];
  if (effect === undefined) return undefined;
  const positions = (effect.kind === "reuse" ? effect.of : [effect.of])
    .map((operand) => inputPosition(node, operand))
    .filter((at) => node.inputs[at] !== undefined);
  if (positions.length === 0) return undefined;
  const sources = positions.map((at) => node.inputs[at]!);
  const { grows, general = false, along } = effect.kind === "update" ? effect : {};
  const axis = grows ?? (along === undefined ? undefined : Number(node.attrs[along]));
  return { kind: effect.kind, sources, position: positions[0], grows, general, axis };
}

/** True if a node reads more of an operand than its shape. */
function readsBytesAt(node: Node, position: number): boolean {
  const names = Object.keys(node.op.inputs);
  return !node.op.readsOnlyShape.includes(names[Math.min(position, names.length - 1)]);
}

/** The values that a node reads beside the operand at one position. */
export const bytesReadBeside = (node: Node, position: number): readonly Value[] =>
  node.inputs.filter((value, at) => value !== undefined && at !== position && readsBytesAt(node, at)) as Value[];

/** Values whose bytes a node reads: operands it reads more than the shape of, and what its subgraphs capture. */
export function bytesReadBy(node: Node): Set<Value> {
  const read = new Set<Value>();
  node.inputs.forEach((value, position) => {
    if (value !== undefined && readsBytesAt(node, position)) read.add(value);
  });
  for (const body of node.bodies.values()) for (const value of body.captured) read.add(value);
  return read;
}

/** The producers, readers and views of one graph. */
export class Uses {
  readonly producers: ReadonlyMap<Value, Node>;
  readonly readers: ReadonlyMap<Value, readonly Node[]>;
  /** For each value that is a view: the value whose bytes it shows. */
  readonly viewed: ReadonlyMap<Value, Value>;
  /** The values that show the same bytes as a base, the base first. */
  readonly #groups = new Map<Value, Value[]>();

  constructor(graph: Graph) {
    const producers = new Map<Value, Node>();
    const readers = new Map<Value, Node[]>();
    const viewed = new Map<Value, Value>();
    const join = (value: Value): void => {
      const base = this.#baseIn(viewed, value);
      const group = this.#groups.get(base) ?? [base];
      this.#groups.set(base, group);
      if (value !== base) group.push(value);
    };
    for (const node of graph.nodes) {
      node.outputs.forEach((value, position) => {
        if (value === undefined) return;
        producers.set(value, node);
        const effect = effectOf(node, position);
        if (effect?.kind === "view") {
          viewed.set(value, effect.sources[0]);
          join(value);
        }
      });
      for (const value of bytesReadBy(node)) {
        const list = readers.get(value) ?? [];
        readers.set(value, list);
        list.push(node);
      }
    }
    this.producers = producers;
    this.readers = readers;
    this.viewed = viewed;
  }

  #baseIn(viewed: ReadonlyMap<Value, Value>, value: Value): Value {
    let base = value;
    for (let next = viewed.get(base); next !== undefined; next = viewed.get(base)) base = next;
    return base;
  }

  /** The value whose bytes `value` shows: itself, unless it is a view. */
  baseOf(value: Value): Value {
    return this.#baseIn(this.viewed, value);
  }

  /** Every value that shows the same bytes: the base and its views. */
  sameBytes(value: Value): readonly Value[] {
    const base = this.baseOf(value);
    return this.#groups.get(base) ?? [base];
  }
}
