/** Operators that come with a model that calls them: pages fetch the others' code alone. */
import { lateOperators } from "./late-operators.js";
import { operators } from "./index.js";

/** What a model calls. Bodies need no look: the operators that have them are late ones, and all late ones come together. */
interface Calling {
  readonly graph: { readonly nodes: Iterable<Called> };
  readonly functions: Iterable<{ readonly nodes: Iterable<Called> }>;
}

interface Called {
  readonly domain: string;
  readonly opType: string;
}

/** The model, once every operator that it calls is there. Those that nobody has are told where its graph is built. */
export async function withOperators<M extends Calling>(model: M): Promise<M> {
  if (lateOperators === undefined) return model;
  for (const { nodes } of [model.graph, ...model.functions])
    for (const { domain, opType } of nodes)
      if (operators.find(domain === "ai.onnx" ? "" : domain, opType, Infinity) === undefined) {
        await lateOperators();
        return model;
      }
  return model;
}
