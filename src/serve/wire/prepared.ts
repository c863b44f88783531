/** A request that was read: its texts, and what becomes of what they tell. */
import type { HeldConstraint } from "../../engine/constraint.js";
import type { RequestedText } from "../text-group.js";
import type { Answer } from "./answer.js";

/** What an endpoint hands to the server. Once it is there, its asks' constraints are the server's to release. */
export interface Prepared {
  readonly asks: readonly RequestedText[];
  readonly answer: Answer;
  readonly stream: boolean;
  /** Higher ones first. */
  readonly priority: number;
  /** What was asked, for logs that are to show it. */
  readonly shown: unknown;
}

/** Several texts of one prompt: each with a seed and a constraint of its own. */
export const asksOf = (ask: RequestedText, count: number, constraints: readonly HeldConstraint[]): RequestedText[] =>
  Array.from({ length: count }, (_, index) => ({
    ...ask,
    sampling: { ...ask.sampling, seed: ask.sampling.seed + index },
    ...(constraints.length === 0 ? {} : { constraint: constraints[index] }),
  }));
