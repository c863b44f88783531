/** insitu as a decoder on a device by `generate`, with the tokenizer and text around it, on linear caches and on pages. */
import type { BackendName } from "#insitu/entry/backends.js";
import { CausalLM } from "#insitu/entry/node.js";
import type { DecoderEntry, DeviceDecoder } from "./decoder.js";
import type { ModelFolder } from "./model-files.js";
import { blockSize, type DeviceSizes, poolBlocks } from "./sizes.js";
import { StepBytes } from "./step-bytes.js";

type Prompts = readonly (readonly number[])[];

/** Greedy, and never ended by a token. */
const greedy = { temperature: 0, ignoreEnd: true } as const;

/** What a summary says of tokens that are drawn on the device, where they are. */
interface Flying {
  readonly tokensInFlight?: number;
}

class GeneratingDecoder implements DeviceDecoder {
  readonly #lm: CausalLM;
  readonly #bytes: StepBytes;
  tokensInFlight: number | undefined;
  firstTokenMs: number | undefined;

  constructor(lm: CausalLM, bytes: StepBytes) {
    this.#lm = lm;
    this.#bytes = bytes;
  }

  get bytesAStep(): number | undefined {
    return this.#bytes.last;
  }

  async decode(prompts: Prompts, steps: number): Promise<number> {
    const options = { ...greedy, maxTokens: steps + 1 };
    const single = prompts.length === 1 ? this.#lm.generate(prompts[0], options) : undefined;
    const tokens = single ?? this.#lm.generateBatch(prompts, options);
    // Every text's first token ends its reading.
    let left = prompts.length;
    let start = 0;
    for await (const _ of tokens) {
      if (--left !== 0) continue;
      this.#bytes.begin();
      start = performance.now();
    }
    const took = performance.now() - start;
    this.#bytes.end(steps);
    this.tokensInFlight = (single?.summary as Flying | undefined)?.tokensInFlight;
    return took / steps;
  }

  async prefill(prompt: readonly number[]): Promise<number> {
    const start = performance.now();
    for await (const _ of this.#lm.generate(prompt, { ...greedy, maxTokens: 1 }));
    return performance.now() - start;
  }

  async batch(prompts: Prompts, tokens: number): Promise<number> {
    const start = performance.now();
    this.firstTokenMs = undefined;
    for await (const _ of this.#lm.generateBatch(prompts, { ...greedy, maxTokens: tokens }))
      this.firstTokenMs ??= performance.now() - start;
    return performance.now() - start;
  }

  async next(prompts: Prompts): Promise<readonly number[]> {
    const tokens: number[] = [];
    for (const prompt of prompts)
      for await (const { token } of this.#lm.generate(prompt, { ...greedy, maxTokens: 1 })) tokens.push(token);
    return tokens;
  }

  stop(): Promise<void> {
    return this.#lm.release();
  }
}

/** `generate`, for one text and for many, of `context` tokens at most, prompts read in one run. */
export const byGenerate = (
  files: () => ModelFolder,
  sizes: DeviceSizes,
  backend: BackendName | undefined,
  cache: "linear" | "paged",
  context: number,
): DecoderEntry => ({
  name: cache === "paged" ? "insitu, generate, on pages" : "insitu, generate",
  runtime: "insitu",
  async open() {
    const bytes = await StepBytes.start(backend);
    const { folder } = files();
    const lm = await CausalLM.load(folder, {
      ...(backend === undefined ? {} : { backend }),
      inPlace: "require",
      context,
      // A prompt is read by one run.
      chunk: sizes.prompt,
      keep: 3,
      ...(cache === "paged"
        ? {
            cache,
            blockSize,
            blocks: poolBlocks(sizes),
          }
        : {}),
    });
    return new GeneratingDecoder(lm, bytes);
  },
});

/** The same as users have it: prompts are read in the runs that the runtime chooses. Without a context the model's own is taken. */
export const byDefault = (
  files: () => ModelFolder,
  backend: BackendName | undefined,
  name: string,
  context?: number,
): DecoderEntry => ({
  name,
  runtime: "insitu",
  async open() {
    const bytes = await StepBytes.start(backend);
    const lm = await CausalLM.load(files().folder, {
      ...(backend === undefined ? {} : { backend }),
      ...(context === undefined ? {} : { context }),
    });
    return new GeneratingDecoder(lm, bytes);
  },
});
