// Texts in an engine, heard to their end; and what the same model makes of a prompt alone.
import type { GenerateOptions } from "../../src/generate/options.js";
import { readSampling } from "../../packages/choice/sampling.js";
import type { LanguageModel } from "../../src/generate/causal-lm.js";
import type { Engine, MadeToken, RunningText, TextEnd, TextRequest } from "../../packages/serve/engine.js";

/** What became of a text. */
export interface Heard {
  readonly tokens: number[];
  readonly made: MadeToken[];
  cachedTokens: number | undefined;
  end: TextEnd | "failed" | undefined;
  error: Error | undefined;
  /** Fulfilled at its end; never after a cancellation. */
  readonly over: Promise<void>;
  readonly text: RunningText;
}

/** Options of a text as tests give them. */
export interface Wanted extends Partial<Omit<TextRequest, "sampling" | "prompt">> {
  readonly prompt: readonly number[];
  readonly sampling?: GenerateOptions;
  readonly onToken?: (count: number) => "stop" | undefined;
}

let named = 0;

/** Submits a text and listens. */
export function submit(engine: Engine, { sampling = {}, onToken, ...wanted }: Wanted): Heard {
  let resolve: () => void = () => {};
  const promise = new Promise<void>((done) => void (resolve = done));
  const heard = { tokens: [] as number[], made: [] as MadeToken[] };
  const request: TextRequest = {
    id: `text ${++named}`,
    tenant: "anybody",
    maxTokens: 24,
    endTokens: new Set(),
    sampling: readSampling({ temperature: 0, ...sampling }),
    ...wanted,
  };
  const told: Heard = Object.assign(heard, {
    cachedTokens: undefined as number | undefined,
    end: undefined as Heard["end"],
    error: undefined as Error | undefined,
    over: promise,
    text: { cancel: () => {} },
  });
  return Object.assign(told, {
    text: engine.submit(request, {
      started: ({ cachedTokens }) => void (told.cachedTokens = cachedTokens),
      token(made) {
        heard.made.push(made);
        heard.tokens.push(made.token);
        return onToken?.(heard.tokens.length);
      },
      ended(end) {
        told.end = end;
        resolve();
      },
      failed(error) {
        told.end = "failed";
        told.error = error;
        resolve();
      },
    }),
  });
}

/** The tokens of a text that is made alone. */
export async function tokensAlone(
  model: LanguageModel,
  prompt: readonly number[],
  options: GenerateOptions,
): Promise<number[]> {
  const tokens: number[] = [];
  for await (const { token } of model.generate(prompt, { temperature: 0, ignoreEnd: true, ...options }))
    tokens.push(token);
  return tokens;
}
