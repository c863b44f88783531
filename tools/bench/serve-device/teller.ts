/** Who makes texts: a server that clients ask, or `generate` and `generateBatch` of a model in this process. All are asked in tokens. */
import type { CausalLM } from "#insitu/entry/node.js";
import { type Answered, request, type Target } from "../serve/client.js";

type Tokens = readonly number[];

/** One who makes texts, greedily and never ended by a token. Nothing here rejects: an answer has its error. */
export interface Teller {
  readonly name: string;
  /** "insitu", or the name of a peer. */
  readonly runtime: string;
  /** A text; `onPiece` is told how many pieces of it have come. */
  stream(prompt: Tokens, tokens: number, onPiece?: (count: number) => void): Promise<Answered>;
  /** Several texts, asked for at once. */
  together(prompts: readonly Tokens[], tokens: number): Promise<readonly Answered[]>;
}

/** Clients of a server. */
export function serverTeller(name: string, runtime: string, target: Target): Teller {
  const stream: Teller["stream"] = (prompt, tokens, onPiece) =>
    request(target, { prompt: "", tokens: prompt, maxTokens: tokens }, onPiece);
  return {
    name,
    runtime,
    stream,
    together: (prompts, tokens) => Promise.all(prompts.map((prompt) => stream(prompt, tokens))),
  };
}

const greedy = { temperature: 0, ignoreEnd: true } as const;

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

/** What became of one text in this process. */
class Telling {
  readonly pieces: number[] = [];
  readonly #began = performance.now();
  #text = "";

  hear(text: string): void {
    this.#text += text;
    this.pieces.push(performance.now() - this.#began);
  }

  end(promptTokens: number, error?: string): Answered {
    return {
      error,
      text: this.#text,
      pieces: this.pieces,
      milliseconds: performance.now() - this.#began,
      promptTokens,
      cachedTokens: 0,
      newTokens: this.pieces.length,
    };
  }
}

/** A loaded model: one text by `generate`, several by `generateBatch`. */
export const modelTeller = (lm: CausalLM): Teller => ({
  name: "generate",
  runtime: "insitu",
  async stream(prompt, tokens, onPiece) {
    const telling = new Telling();
    try {
      for await (const { text } of lm.generate(prompt, { ...greedy, maxTokens: tokens })) {
        telling.hear(text);
        onPiece?.(telling.pieces.length);
      }
      return telling.end(prompt.length);
    } catch (cause) {
      return telling.end(prompt.length, messageOf(cause));
    }
  },
  async together(prompts, tokens) {
    const tellings = prompts.map(() => new Telling());
    let failure: string | undefined;
    try {
      for await (const { sample, text } of lm.generateBatch(prompts, { ...greedy, maxTokens: tokens }))
        tellings[sample].hear(text);
    } catch (cause) {
      failure = messageOf(cause);
    }
    return tellings.map((telling, at) => telling.end(prompts[at].length, failure));
  },
});
