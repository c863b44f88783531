/**
 * Who makes, reads and views what: the questions the planner asks of a graph. Pure look-ups over declarations; decides nothing.
 */
import type { Effect } from "../graph/effect.js";
import type { Graph, Node, Value } from "../graph/graph.js";
import type { Op } from "../graph/op.js";

/** Names by operator, in the order of their positions: asked for every node, several times. */
const names = new WeakMap<Op, { readonly inputs: readonly string[]; readonly outputs: readonly string[] }>();

function namesOf(op: Op): { readonly inputs: readonly string[]; readonly outputs: readonly string[] } {
  let found = names.get(op);
  if (found === undefined)
    names.set(op, (found = { inputs: Object.keys(op.inputs), outputs: Object.keys(op.outputs) }));
  return found;
}

/** The operand position of the input that `name` means in an operator's declaration. */
export const inputPosition = (node: Node, name: string): number => namesOf(node.op).inputs.indexOf(name);

/** An output's effect, with its operands in place of their names. */
interface DeclaredEffect {
  readonly kind: Effect["kind"];
  /** The operands that are there; at least one. */
  readonly sources: readonly Value[];
  /** Where the first of them stands among the node's inputs: the same value may stand elsewhere too. */
  readonly position: number;
  readonly grows?: number | undefined;
  /** For an output that keeps the last rows: along which axis, and how many at least. */
  readonly keeps?: { readonly axis: number; readonly rows: number } | undefined;
  readonly general: boolean;
  /** The axis of the sequence, as the node writes it (negative ones count from the end). */
  readonly axis?: number | undefined;
  /** What brings the rows that are written, and the axis that counts them where it is another than the cache's, as far as that is declared. */
  readonly brings?: { readonly value: Value; readonly axis: number | undefined } | undefined;
}

/** The effect an output position declares, with the operands it names; undefined where it has none. */
export function effectOf(node: Node, position: number): DeclaredEffect | undefined {
  // The tail of a variadic output has no effect of its own.
  const name = namesOf(node.op).outputs.at(position);
  const effect = name === undefined ? undefined : node.op.effects[name];
  if (effect === undefined) return undefined;
  const positions = (effect.kind === "reuse" ? effect.of : [effect.of])
    .map((operand) => inputPosition(node, operand))
    .filter((at) => node.inputs[at] !== undefined);
  if (positions.length === 0) return undefined;
  const sources = positions.map((at) => node.inputs[at]!);
  const { grows: longer, keeps: kept, general = false, along, brings } = effect.kind === "update" ? effect : {};
  const keeps =
    kept !== undefined && longer !== undefined && node.attrs[kept.where] === true
      ? { axis: longer, rows: Number(node.attrs[kept.rows]) }
      : undefined;
  const grows = keeps === undefined ? longer : undefined;
  const told = along === undefined ? undefined : node.attrs[along];
  const axis = grows ?? (told === undefined ? undefined : Number(told));
  const rows = brings && node.inputs[inputPosition(node, brings.input)];
  return {
    kind: effect.kind,
    sources,
    position: positions[0],
    grows,
    ...(keeps === undefined ? {} : { keeps }),
    general,
    axis,
    ...(brings === undefined || rows === undefined ? {} : { brings: { value: rows, axis: brings.axis } }),
  };
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
  /** For each value that is a view: the value that its bytes belong to. */
  readonly #bases = new Map<Value, Value>();
  /** The values that show the same bytes as a base, the base first. */
  readonly #groups = new Map<Value, Value[]>();

  constructor(graph: Graph) {
    const producers = new Map<Value, Node>();
    const readers = new Map<Value, Node[]>();
    // A view's source is made before the view: its base is known.
    for (const node of graph.nodes) {
      node.outputs.forEach((value, position) => {
        if (value === undefined) return;
        producers.set(value, node);
        const effect = effectOf(node, position);
        if (effect?.kind === "view") this.#join(value, this.baseOf(effect.sources[0]));
      });
      for (const value of bytesReadBy(node)) {
        const list = readers.get(value);
        if (list === undefined) readers.set(value, [node]);
        else list.push(node);
      }
    }
    this.producers = producers;
    this.readers = readers;
  }

  #join(view: Value, base: Value): void {
    this.#bases.set(view, base);
    const group = this.#groups.get(base);
    if (group === undefined) this.#groups.set(base, [base, view]);
    else group.push(view);
  }

  /** The value whose bytes `value` shows: itself, unless it is a view. */
  baseOf(value: Value): Value {
    return this.#bases.get(value) ?? value;
  }

  /** Every value that shows the same bytes: the base and its views. */
  sameBytes(value: Value): readonly Value[] {
    const base = this.baseOf(value);
    return this.#groups.get(base) ?? [base];
  }
}
