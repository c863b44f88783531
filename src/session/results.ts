/** Which outputs a run is asked for, and the tensors they become: the caller's own, or the caller's to fill. */
import { InsituError } from "../base/error.js";
import { isKnownShape } from "../graph/dim.js";
import { factText } from "../graph/fact.js";
import type { Graph, Value } from "../graph/graph.js";
import type { Program } from "../plan/program.js";
import { cloneView, copyView } from "../tensor/copy.js";
import { Tensor } from "../tensor/tensor.js";
import type { View } from "../tensor/view.js";

/** The outputs to compute: names, or names with tensors to write into (null for a fresh one). */
export type Fetches = readonly string[] | Readonly<Record<string, Tensor | null>>;

/** Reads `run`'s second argument: outputs by name with their targets, or undefined where it is the options. */
export function readFetches(
  fetches: unknown,
  graph: Graph,
  optionsFollow: boolean,
): Map<Value, Tensor | null> | undefined {
  if (fetches === undefined) return undefined;
  if (typeof fetches !== "object" || fetches === null) {
    throw new InsituError(
      "invalid-argument",
      `fetches must be output names or options, got ${fetches === null ? "null" : typeof fetches}`,
    );
  }
  const known = new Map(graph.outputs.map((value) => [value.name, value]));
  const find = (name: string): Value => {
    const value = known.get(name);
    if (value === undefined)
      throw new InsituError(
        "invalid-argument",
        `"${name}" is no output of the model; its outputs are ${[...known.keys()].join(", ")}`,
      );
    return value;
  };
  if (Array.isArray(fetches)) {
    if (fetches.length === 0) throw new InsituError("invalid-argument", "fetches must name at least one output");
    return new Map(fetches.map((name) => [find(String(name)), null]));
  }
  const entries = Object.entries(fetches as Record<string, unknown>);
  if (!optionsFollow && !entries.some(([name]) => known.has(name))) return undefined;
  return new Map(
    entries.map(([name, target]) => {
      const value = find(name);
      if (target !== null && !(target instanceof Tensor))
        throw new InsituError("invalid-argument", `fetches["${name}"] must be a Tensor or null`);
      return [value, target];
    }),
  );
}

type Bytes = ArrayBufferLike | readonly string[];

const bytesOf = (view: View): Bytes => (Array.isArray(view.data) ? view.data : view.data.buffer);

/** Memory that results must not lie in: they are copied out of it. */
export class Taken {
  readonly #bytes = new Set<Bytes>();
  /** What is taken beside: asked, never copied. */
  readonly #others: Taken | undefined;

  constructor(views: Iterable<View> = [], others?: Taken) {
    this.#others = others;
    for (const view of views) this.add(view);
  }

  add(view: View): void {
    this.#bytes.add(bytesOf(view));
  }

  has(view: View): boolean {
    return this.#bytes.has(bytesOf(view)) || (this.#others?.has(view) ?? false);
  }
}

/**
 * Buffers of the caller's that outputs can be computed into: not those that the run also reads. Throws, before anything runs, for a
 * tensor that does not have the output's type and shape.
 */
export function buffersOf(
  targets: ReadonlyMap<Value, Tensor | null>,
  taken: Taken,
  program: Program,
): ReadonlyMap<Value, View> {
  let buffers: Map<Value, View> | undefined;
  for (const [value, target] of targets) {
    if (target === null) continue;
    const fact = program.facts.get(value);
    if (isKnownShape(fact?.shape) && factText(fact) !== String(target)) throw misfit(value, factText(fact), target);
    const view = target.toView();
    if (taken.has(view)) continue;
    (buffers ??= new Map()).set(value, view);
    taken.add(view);
  }
  return buffers ?? noBuffers;
}

const noBuffers: ReadonlyMap<Value, View> = new Map();

const misfit = (value: Value, expected: string, target: Tensor): InsituError =>
  new InsituError("invalid-argument", `fetches["${value.name}"] must be ${expected}, got ${target}`);

/** The tensors a caller gets. Those that lie in taken memory are copied, the others handed over. */
export function makeResults(
  wanted: ReadonlyMap<Value, Tensor | null>,
  outputs: ReadonlyMap<Value, View>,
  taken: Taken,
  backend: { owns(view: View): boolean },
): Record<string, Tensor> {
  const results: Record<string, Tensor> = {};
  for (const [value, target] of wanted) {
    const view = outputs.get(value)!;
    if (target !== null) {
      if (String(target) !== String(view)) throw misfit(value, String(view), target);
      const into = target.toView();
      if (into.data !== view.data) copyView(view, into);
      results[value.name] = target;
    } else {
      results[value.name] = Tensor.fromView(backend.owns(view) || taken.has(view) ? cloneView(view) : view);
      taken.add(view);
    }
  }
  return results;
}
