/**
 * Where a cache comes from: the way back from a value through views, updates, joins and other layouts, whether or not anything
 * is done in place. The explanation's own look at a graph; the planner decides without it.
 */
import type { Graph, Node, Value } from "#insitu/graph/graph.js";
import { effectOf, inputPosition } from "#insitu/plan/uses.js";

/** One step back from a value to the value it carries on. */
export interface ChainStep {
  readonly source: Value;
  readonly node: Node;
  /** `view`, `update`: by effect. `append`: joined anew. `permute`: copied into another order. */
  readonly kind: "view" | "update" | "append" | "permute";
}

/** The whole way back from a value. */
interface Trail {
  readonly step: ChainStep;
  /** The value at the start of all steps, and at the start of the last of them that are views and updates. */
  readonly origin: Value;
  readonly root: Value;
  /** The last step that writes, by an update or a join; and the first one that copies into another order. */
  readonly writer: ChainStep | undefined;
  readonly layout: ChainStep | undefined;
}

/** Steps back by value, for a graph and every body inside it. */
export class Chains {
  readonly #trails = new Map<Value, Trail>();

  constructor(graph: Graph) {
    this.#add(graph);
  }

  /** What a step goes on from was made before: the way to it is known. */
  #add(graph: Graph): void {
    for (const node of graph.nodes) {
      node.outputs.forEach((value, position) => {
        const step = value && stepOf(node, position);
        if (value !== undefined && step !== undefined) this.#trails.set(value, this.#follow(value, step));
      });
      for (const body of node.bodies.values()) this.#add(body);
    }
  }

  #follow(value: Value, step: ChainStep): Trail {
    const before = this.#trails.get(step.source);
    const { kind } = step;
    return {
      step,
      origin: before?.origin ?? step.source,
      root: kind === "view" || kind === "update" ? (before?.root ?? step.source) : value,
      writer: kind === "update" || kind === "append" ? step : before?.writer,
      layout: before?.layout ?? (kind === "permute" ? step : undefined),
    };
  }

  /** The step that made a value out of an earlier one, if it was made so. */
  stepOf(value: Value): ChainStep | undefined {
    return this.#trails.get(value)?.step;
  }

  /** The value at the start of a chain of views and updates. */
  rootOf(value: Value): Value {
    return this.#trails.get(value)?.root ?? value;
  }

  /** The value that all steps back from a value lead to. */
  originOf(value: Value): Value {
    return this.#trails.get(value)?.origin ?? value;
  }

  /** On the way to a value: the last step that writes, and the first one that copies into another order. */
  stepsTo(value: Value): Pick<Trail, "writer" | "layout"> {
    return this.#trails.get(value) ?? { writer: undefined, layout: undefined };
  }

  /** Every step back from a value, the last one first. */
  *trace(value: Value): Generator<ChainStep & { readonly made: Value }> {
    let made = value;
    for (let step = this.stepOf(made); step !== undefined; step = this.stepOf(made)) {
      yield { ...step, made };
      made = step.source;
    }
  }
}

function stepOf(node: Node, position: number): ChainStep | undefined {
  const effect = effectOf(node, position);
  if (effect?.kind === "view" || effect?.kind === "update")
    return { source: effect.sources[0], node, kind: effect.kind };
  if (position !== 0) return undefined;
  const { appends, permutes } = node.op;
  const name = appends?.to ?? permutes?.input;
  const source = name === undefined ? undefined : node.inputs[inputPosition(node, name)];
  return source && { source, node, kind: appends === undefined ? "permute" : "append" };
}

/** A node's name, or its first output's if it has none. */
export const nameOf = (node: Node): string =>
  node.name || (node.outputs.find((value) => value !== undefined)?.name ?? node.op.name);
