// Runs a plan on the reference backend the way a session with a state would: pasts stay in their buffers from run to run.
import { prepareReference } from "../../src/backends/reference/reference.js";
import type { Graph, Value } from "../../src/graph/graph.js";
import { makePlan, type Plan, type PlanOptions } from "../../src/plan/plan.js";
import { cloneView } from "../../src/tensor/copy.js";
import type { View } from "../../src/tensor/view.js";
import { runOn } from "../support/executable.js";

/**
 * The outputs of consecutive runs, one for each set of feeds, as copies in the order of the graph's outputs. Inputs that a later
 * set leaves out are fed the very buffer of the run before: a plan that writes one it must not is found out.
 */
export async function runPlan(
  graph: Graph,
  options: PlanOptions,
  feeds: readonly ReadonlyMap<string, View>[],
): Promise<{ plan: Plan; outputs: View[][] }> {
  const plan = makePlan(graph, options);
  const executable = prepareReference(plan);
  const inputs = new Map<Value, View>();
  const outputs: View[][] = [];
  for (const given of feeds) {
    for (const value of graph.inputs) if (given.has(value.name)) inputs.set(value, cloneView(given.get(value.name)!));
    const views = graph.inputs.map((value) => inputs.get(value)!);
    const results = await runOn(executable, views);
    outputs.push(graph.outputs.map((value) => cloneView(results.get(value)!)));
    const presents = plan.pairs.map(({ past, present }) => [past, results.get(present)!] as const);
    // Two pairs may hand over one buffer only if the graph says so; a state then owns separate copies.
    const seen = new Set<unknown>();
    for (const [past, view] of presents) {
      inputs.set(past, seen.has(view.data) ? cloneView(view) : view);
      seen.add(view.data);
    }
  }
  return { plan, outputs };
}
