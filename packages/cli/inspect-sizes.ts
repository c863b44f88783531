/** The inputs of a plan with sizes in the place of symbols. */
import { bindShape } from "#insitu/graph/dim.js";
import type { Fact } from "#insitu/graph/fact.js";
import type { Sizes } from "#insitu/explain/bytes.js";
import type { Plan } from "#insitu/plan/plan.js";

/** Facts of the inputs with the sizes put in: a cache's rows are its capacity, the first dimension of a cache is the batch. */
export function inputFacts({ graph, pairs }: Plan, sizes: Sizes): Fact[] {
  const all = new Map(sizes);
  for (const { past, axis } of pairs) {
    past.fact?.shape?.forEach((dim, at) => {
      const role = at === axis ? "capacity" : at === 0 ? "batch" : "";
      if (sizes.has(role) && !all.has(String(dim))) all.set(String(dim), sizes.get(role)!);
    });
  }
  return graph.inputs.map(({ fact }) => ({ type: fact!.type, shape: fact!.shape && bindShape(fact!.shape, all) }));
}
