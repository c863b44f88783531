/** A request that was read: its texts, and what becomes of what they tell; or what its answer is, where that is one object. */
import type { HeldConstraint } from "#insitu/choice/constraint.js";
import type { TextEmbedder } from "#insitu/embedding/text-embedder.js";
import type { Client } from "../keys.js";
import type { RequestedText } from "../text-group.js";
import type { Answer } from "./answer.js";
import type { RequestLimits } from "./limits.js";
import type { ServedModel } from "./served-model.js";

/** What is made of a request's body, which is needed no more then. */
export type Reading<T> = (body: unknown, model: ServedModel, limits: RequestLimits) => Promise<T>;

/** The same for an embedding model. */
export type Embedding<T> = (body: unknown, name: string, embedder: TextEmbedder, limits: RequestLimits) => Promise<T>;

/** An answer that is one object. */
export type Answering = (signal: AbortSignal, client: Client) => Promise<object>;

/** What an endpoint hands to the server. Once it is there, its asks' constraints are the server's to release. */
export interface Prepared {
  /** None where all that was asked for is that the model is there. */
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
