/** A head as what guesses for the model that it was made for. */
import { InsituError } from "#insitu/base/error.js";
import type { DraftSource, Follower } from "#insitu/engine/text-ask.js";
import type { TokenEngine } from "#insitu/engine/token-engine.js";
import type { Session } from "#insitu/session/session.js";
import { HeadFollower } from "./head-follower.js";
import { HeadModel, type HeadNames } from "./head-model.js";

/** What exporters call the hidden states that decoders hand out. */
const hiddenOutputs: readonly string[] = ["hidden_states", "last_hidden_state"];

/** The model that a head guesses for. */
interface HeadTarget {
  readonly session: Session;
  readonly forServers: { readonly engine: TokenEngine };
  readonly vocabulary: number;
}

/** What a folder says of a head, and of the output that it reads. */
export interface HeadFile extends HeadNames {
  readonly reads?: string | undefined;
}

/** A model's own head for speculative decoding, from `loadHead`: `speculate: { draft: head }`. */
export class DraftHead {
  /** How many tokens there are. */
  readonly vocabulary: number;
  /** For servers: what guesses for texts. */
  readonly forServers: { readonly draft: DraftSource };
  readonly #head: HeadModel;

  /** For `loadHead`: throws for a head that does not fit the model. */
  constructor(session: Session, target: HeadTarget, { reads, ...names }: HeadFile) {
    const head = new HeadModel(session, names);
    const output = [reads, ...hiddenOutputs].find(
      (name) => name !== undefined && target.session.outputNames.includes(name),
    );
    const given = target.session.outputMetadata.find(({ name }) => name === output)?.shape.at(-1);
    if (output === undefined)
      throw new InsituError(
        "invalid-model",
        `the model hands out ${target.session.outputNames.join(", ")} and none of the hidden states that its head reads: export it with hidden_states`,
      );
    if (typeof given === "number" && given !== head.size)
      throw new InsituError(
        "invalid-model",
        `the model's "${output}" has ${given} numbers a token, and its head reads ${head.size}`,
      );
    if (head.vocabulary !== target.vocabulary)
      throw new InsituError(
        "invalid-model",
        `the head has ${head.vocabulary} tokens in its vocabulary, the model has ${target.vocabulary}: take a head with all tokens`,
      );
    this.#head = head;
    this.vocabulary = head.vocabulary;
    const draft: DraftSource = {
      of: target.forServers.engine,
      reads: output,
      follow: (made) => new HeadFollower(made, head),
      async advance(asked: readonly Follower[]) {
        for (const follower of asked) await (follower as HeadFollower).advance();
        return asked.length > 0;
      },
      leave: (follower) => (follower as HeadFollower).release(),
    };
    this.forServers = { draft };
  }

  /** Frees the head's memory. Completions that it guesses for go on without. */
  release(): Promise<void> {
    return this.#head.release();
  }
}
