/**
 * Where a cache comes from: the way back from a value through views, updates, joins and other layouts, whether or not anything
 * is done in place. The explanation's own look at a graph; the planner decides without it.
 */
import type { Graph, Node, Value } from "../graph/graph.js";
import { effectOf, inputPosition } from "./uses.js";

/** One step back from a value to the value it carries on. */
export interface ChainStep {
  readonly source: Value;
  readonly node: Node;
  /** `view`, `update`: by effect. `append`: joined anew. `permute`: copied into another order. */
  readonly kind: "view" | "update" | "append" | "permute";
}

/** Steps back by value, for a graph and every body inside it. */
export class Chains {
  readonly #steps = new Map<Value, ChainStep>();

  constructor(graph: Graph) {
    this.#add(graph);
  }

  #add(graph: Graph): void {
    for (const node of graph.nodes) {
      node.outputs.forEach((value, position) => {
        const step = stepOf(node, position);
        if (value !== undefined && step !== undefined) this.#steps.set(value, step);
      });
      for (const body of node.bodies.values()) this.#add(body);
    }
  }

  /** The step that made a value out of an earlier one, if it was made so. */
  stepOf(value: Value): ChainStep | undefined {
    return this.#steps.get(value);
  }

  /** The value at the start of a chain of views and updates. */
  rootOf(value: Value): Value {
    let root = value;
    for (let step = this.stepOf(root); step !== undefined; step = this.stepOf(root)) {
      if (step.kind !== "view" && step.kind !== "update") break;
      root = step.source;
    }
    return root;
  }

  /** Every step back from a value, the last one first, and the value they start from. */
  trace(value: Value): { readonly origin: Value; readonly steps: readonly (ChainStep & { readonly made: Value })[] } {
    const steps: (ChainStep & { made: Value })[] = [];
    let origin = value;
    for (let step = this.stepOf(origin); step !== undefined; step = this.stepOf(origin)) {
      steps.push({ ...step, made: origin });
      origin = step.source;
    }
    return { origin, steps };
  }
}

function stepOf(node: Node, position: number): ChainStep | undefined {
  const effect = effectOf(node, position);
  if (effect?.kind === "view" || effect?.kind === "update")
    return { source: effect.sources[0], node, kind: effect.kind };
  if (position !== 0) return undefined;
  const { appends, permutes } = node.op;
  const name = appends?.to ?? permutes;
  const source = name === undefined ? undefined : node.inputs[inputPosition(node, name)];
  return source && { source, node, kind: appends === undefined ? "permute" : "append" };
}

/** A node's name, or its first output's if it has none. */
export const nameOf = (node: Node): string =>
  node.name || (node.outputs.find((value) => value !== undefined)?.name ?? node.op.name);
