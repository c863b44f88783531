/**
 * Per-sample lengths of a state: filled into inputs that say where new rows start or how many are valid, and read back from
 * those inputs when they are fed. Which inputs those are is what operators declare.
 */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { Graph, Node, Value } from "../graph/graph.js";
import type { Pair } from "../plan/pairs.js";
import { inputPosition, type Uses } from "../plan/uses.js";
import { readIntegers, writeIntegers } from "../tensor/access.js";
import type { Placed } from "../tensor/placed.js";
import { hostView, View } from "../tensor/view.js";

/** The graph inputs that carry lengths. */
export interface LengthInputs {
  /** Where new rows start: the lengths before a run. */
  readonly start: ReadonlySet<Value>;
  /** How many rows are valid after the write: the lengths after a run. */
  readonly end: ReadonlySet<Value>;
  /** The nodes that each of them tells of rows. */
  readonly told: ReadonlyMap<Value, readonly Node[]>;
}

/** Finds them: inputs that reach a declared parameter through views, or an end that may still be raised. */
export function findLengthInputs(graph: Graph, uses: Uses): LengthInputs {
  const start = new Set<Value>();
  const end = new Set<Value>();
  const told = new Map<Value, Node[]>();
  const follow = (value: Value | undefined, into: Set<Value>, node: Node): void => {
    const base = value && uses.baseOf(value);
    if (base === undefined) return;
    if (graph.inputs.includes(base)) {
      into.add(base);
      told.set(base, [...(told.get(base) ?? []), node]);
    }
    const producer = uses.producers.get(base);
    if (into === end && producer?.op.largest === true)
      for (const operand of producer.inputs) follow(operand, into, node);
  };
  const add = (node: Node, name: string | undefined, into: Set<Value>): void => {
    if (name !== undefined) follow(node.inputs[inputPosition(node, name)], into, node);
  };
  for (const node of graph.nodes) {
    add(node, node.op.lengths.start, start);
    add(node, node.op.lengths.end, end);
  }
  return { start, end, told };
}

/**
 * True if no run can leave lengths that no cache of these pairs has rows for: they are read back from an input that a node checks against
 * a cache which it reads, or which it alone writes. An input that tells others of rows may say anything.
 */
export function areBounded({ start, end, told }: LengthInputs, pairs: readonly Pair[]): boolean {
  const along = pairs.filter(({ axis }) => axis !== undefined);
  if (along.some(({ writers }) => writers.some(({ op, attrs }) => op.lengths.wraps(attrs)))) return false;
  const [counting] = end;
  if (counting !== undefined) {
    const caches = new Set<Value | undefined>(along.flatMap(({ past, present }) => [past, present]));
    return told.get(counting)!.some(({ inputs }) => inputs.some((value) => caches.has(value)));
  }
  const [starting] = start;
  if (starting === undefined) return true;
  const writers = along.find(({ kind }) => kind === "update")?.writers ?? [];
  return writers.length === 1 && told.get(starting)!.includes(writers[0]);
}

/** The lengths that `rewind` is asked for, one for each sample. Throws unless there are so many rows now. */
export function rewoundLengths(asked: number | readonly number[], now: readonly number[]): readonly number[] {
  if (typeof asked !== "number" && !Array.isArray(asked))
    throw new InsituError(
      "invalid-argument",
      `rewind takes a length, or a list of one for each sample, got ${valueText(asked)}`,
    );
  const lengths = typeof asked === "number" ? now.map(() => asked) : [...(asked as readonly number[])];
  if (lengths.length !== now.length)
    throw new InsituError(
      "invalid-argument",
      `rewind needs one length for each of ${now.length} samples, got ${lengths.length}`,
    );
  lengths.forEach((wanted, sample) => {
    if (!Number.isInteger(wanted) || wanted < 0 || wanted > now[sample])
      throw new InsituError(
        "invalid-argument",
        `sample ${sample} has ${now[sample]} rows and cannot be rewound to ${valueText(wanted)}`,
      );
  });
  return lengths;
}

/** Tensors for lengths that the caller leaves out, made once: runs that take turns need each their own. */
export class LengthViews {
  readonly #views = new Map<Value, View>();

  /** An int64 (or int32) tensor with one length a sample; it shows the lengths of the last call. */
  of(value: Value, lengths: readonly number[]): View {
    let view = this.#views.get(value);
    if (view === undefined) {
      view = View.allocate(value.fact!.type, value.fact!.shape?.length === 0 ? [] : [lengths.length]);
      this.#views.set(value, view);
    }
    writeIntegers(view, view.rank === 0 ? [lengths[0] ?? 0] : lengths);
    return view;
  }
}

/** The lengths after a run: from what was fed, else from what the run added. */
export function lengthsAfter(
  before: readonly number[],
  inputs: ReadonlyMap<Value, Placed>,
  found: Pick<LengthInputs, "start" | "end">,
  added: number | undefined,
  grown: number | undefined,
): readonly number[] {
  for (const value of found.end) {
    const view = inputs.get(value);
    if (view !== undefined) return perSample(view, before.length);
  }
  for (const value of found.start) {
    const view = inputs.get(value);
    if (view !== undefined && added !== undefined) return perSample(view, before.length).map((start) => start + added);
  }
  if (grown !== undefined) return before.map(() => grown);
  // A write without indices starts at row 0.
  return added === undefined ? before : before.map(() => added);
}

const perSample = (place: Placed, batch: number): number[] => {
  const values = readIntegers(hostView(place));
  return values.length === batch ? values : Array.from({ length: batch }, () => values[0] ?? 0);
};
