/**
 * How much a rewrite may look at before it gives up: every step counts against what the size of the graph allows. A graph of a few
 * kilobytes can be made to ask for any amount of it.
 */
import { InsituError } from "#insitu/base/error.js";
import { mostRewriteSteps, mostRewriteTerms } from "#insitu/base/limits.js";
import { withTermAllowance } from "#insitu/graph/dim.js";

let left = Infinity;
let most = Infinity;

/** Does what looks at a graph; throws `invalid-graph`, naming the limit, where that takes more steps than its size allows. */
export function withEffort<T>({ nodes }: { readonly nodes: readonly unknown[] }, work: () => T): T {
  // A part of what is counted already.
  if (left !== Infinity) return work();
  left = most = mostRewriteSteps(nodes.length);
  try {
    return withTermAllowance(mostRewriteTerms(nodes.length), work);
  } finally {
    left = most = Infinity;
  }
}

/** Counts steps. */
export function spend(steps = 1): void {
  left -= steps;
  if (left < 0)
    throw new InsituError(
      "invalid-graph",
      `finding the model's caches takes more than ${most} steps, the most for a graph of this size: it is not one that can be rewritten`,
    );
}
