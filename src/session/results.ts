/**
 * Which outputs a run is asked for, and the tensors they become: the caller's own, or fresh ones. A tensor of the caller's may lie in memory
 * that the run reads: it is then written last.
 */
import type { Move, Places } from "../backends/backend.js";
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import { isKnownShape } from "../graph/dim.js";
import { factText } from "../graph/fact.js";
import type { Graph, Value } from "../graph/graph.js";
import type { Program } from "../plan/program.js";
import { cloneView } from "../tensor/copy.js";
import type { Placed } from "../tensor/placed.js";
import { isTensor, Tensor } from "../tensor/tensor.js";
import { type TensorLike, tensorOf } from "../tensor/tensor-like.js";
import { hostView, sameNumbers, sharesBytes, View } from "../tensor/view.js";

/**
 * The outputs to compute: names, or names with tensors to write into (null for a fresh one). What is written into a tensor that another
 * package made comes back as one of insitu's over the same array.
 */
export type Fetches = readonly string[] | Readonly<Record<string, TensorLike | null>>;

const outputsByName = new WeakMap<Graph, ReadonlyMap<string, Value>>();

/** A graph's outputs by name. */
function outputsOf(graph: Graph): ReadonlyMap<string, Value> {
  const known = outputsByName.get(graph) ?? new Map(graph.outputs.map((value) => [value.name, value]));
  outputsByName.set(graph, known);
  return known;
}

/** Reads `run`'s second argument: outputs by name with their targets, or undefined where it is the options. */
export function readFetches(
  fetches: unknown,
  graph: Graph,
  optionsFollow: boolean,
): Map<Value, Tensor | null> | undefined {
  if (fetches === undefined) return undefined;
  if (typeof fetches !== "object" || fetches === null || isTensor(fetches)) {
    throw new InsituError(
      "invalid-argument",
      `argument[1] of run must be 'fetches' (output names, or an object by output name) or options, got ${isTensor(fetches) ? "a Tensor" : valueText(fetches)}`,
      { as: "TypeError" },
    );
  }
  const known = outputsOf(graph);
  const find = (name: unknown): Value => {
    const value = known.get(name as string);
    if (value === undefined)
      throw new InsituError(
        "invalid-argument",
        `'fetches': ${valueText(name)} is no output of the model; its outputs are ${[...known.keys()].join(", ")}`,
        { as: typeof name === "string" ? "RangeError" : "TypeError" },
      );
    return value;
  };
  if (Array.isArray(fetches)) {
    if (fetches.length === 0)
      throw new InsituError("invalid-argument", "'fetches' must name at least one output", { as: "TypeError" });
    return new Map(Array.from(fetches as readonly unknown[], (name) => [find(name), null]));
  }
  const entries = Object.entries(fetches as Record<string, unknown>);
  if (!optionsFollow && !entries.some(([name]) => known.has(name))) return undefined;
  return new Map(
    entries.map(([name, target]) => {
      const value = find(name);
      if (target === null) return [value, null];
      const tensor = tensorOf(target, `fetches["${name}"]`);
      if (tensor === undefined)
        throw new InsituError(
          "invalid-argument",
          `fetches["${name}"] must be a Tensor or null, got ${valueText(target)}`,
        );
      return [value, tensor];
    }),
  );
}

/** What bytes lie in: views of one memory have it in common, whatever their arrays are. */
const memoryOf = (place: Placed): object =>
  place instanceof View && !Array.isArray(place.buffer) ? place.buffer.buffer : place.buffer;

/** Memory that results must not lie in: they are copied out of it. */
export class Taken {
  readonly #memories = new Set<object>();
  /** What is taken beside: asked, never copied. */
  readonly #others: Taken | undefined;

  constructor(places: Iterable<Placed> = [], others?: Taken) {
    this.#others = others;
    for (const place of places) this.add(place);
  }

  add(place: Placed): void {
    this.#memories.add(memoryOf(place));
  }

  has(place: Placed): boolean {
    return this.#memories.has(memoryOf(place)) || (this.#others?.has(place) ?? false);
  }
}

/**
 * The outputs that a run is to bring to the host, with the caller's buffers that they can be computed into: not those that it also reads; and
 * those for slots, with their places. Throws, before anything runs, for a tensor that does not have the output's type and shape, and for two
 * that have bytes in common.
 */
export function buffersOf(
  targets: ReadonlyMap<Value, Tensor | null>,
  taken: Taken,
  program: Program,
  slotOf: (tensor: unknown) => Placed | undefined,
): ReadonlyMap<Value, Placed | null> {
  const given = new Map<Value, View>();
  const buffers = new Map<Value, Placed | null>();
  for (const [value, target] of targets) {
    if (target === null) continue;
    const fact = program.facts.get(value);
    if (isKnownShape(fact?.shape) && (fact.type !== target.type || !sameNumbers(fact.shape, target.dims)))
      throw misfit(value, factText(fact), target);
    const slot = slotOf(target);
    if (slot === undefined) given.set(value, target.toView());
    else buffers.set(value, slot);
  }
  if (given.size > 1) checkApart(given);
  for (const value of targets.keys()) {
    if (buffers.has(value)) continue;
    const view = given.get(value);
    const free = view !== undefined && !taken.has(view);
    buffers.set(value, free ? view : null);
    if (free) taken.add(view);
  }
  return buffers;
}

/** Throws where two results would be written over each other. */
function checkApart(given: ReadonlyMap<Value, View>): void {
  const byMemory = new Map<object, [Value, View][]>();
  for (const [value, view] of given) {
    const others = byMemory.get(memoryOf(view)) ?? [];
    byMemory.set(memoryOf(view), others);
    const other = others.find(([, before]) => sharesBytes(before, view));
    if (other !== undefined)
      throw new InsituError(
        "invalid-argument",
        `fetches["${other[0].name}"] and fetches["${value.name}"] share memory, so that one result would be written over the other; give each a tensor of its own`,
      );
    others.push([value, view]);
  }
}

const misfit = (value: Value, expected: string, target: Tensor): InsituError =>
  new InsituError("invalid-argument", `fetches["${value.name}"] must be ${expected}, got ${target}`);

/**
 * The tensors a caller gets. Those that lie in taken memory are copied, the others handed over; what goes into the caller's own is still to
 * be moved. Throws, with nothing changed, for a tensor that does not have the type and shape that the run found.
 */
export function makeResults(
  wanted: ReadonlyMap<Value, Tensor | null>,
  outputs: ReadonlyMap<Value, Placed>,
  taken: Taken,
  places: Pick<Places, "owns">,
  slotOf: (tensor: unknown) => Placed | undefined,
): { readonly results: Record<string, Tensor>; readonly moves: readonly Move[] } {
  const moves: Move[] = [];
  for (const [value, target] of wanted) {
    if (target === null || slotOf(target) !== undefined) continue;
    const from = outputs.get(value)!;
    if (String(target) !== String(from)) throw misfit(value, String(from), target);
    moves.push({ from, to: target.toView() });
  }
  const results: [string, Tensor][] = [];
  for (const [value, target] of wanted) {
    if (target !== null && slotOf(target) !== undefined) {
      results.push([value.name, target]);
      continue;
    }
    const view = hostView(outputs.get(value)!);
    const fresh = target ?? Tensor.fromView(places.owns(view) || taken.has(view) ? cloneView(view) : view);
    results.push([value.name, fresh]);
    taken.add(view);
  }
  // Properties of the object's own, whatever an output is called.
  return { results: Object.fromEntries(results), moves };
}
