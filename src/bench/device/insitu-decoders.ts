/** insitu as a decoder on a device: by `generate`, on linear caches and on pages, and by `session.run` with ArgMax in the graph. */
import type { BackendName } from "../../entry/backends.js";
import { CausalLM, InferenceSession } from "../../entry/node.js";
import type { State } from "../../session/state.js";
import { integers } from "../work.js";
import type { DecoderEntry, DeviceDecoder } from "./decoder.js";
import { countMade, type Made } from "./gpu.js";
import type { ModelFolder } from "./model-files.js";
import { type DeviceSizes, longestText } from "./sizes.js";

type Prompts = readonly (readonly number[])[];

/** Greedy, and never ended by a token. */
const greedy = { temperature: 0, ignoreEnd: true } as const;

/** What bytes were made on the device by work, for each of `steps` steps; nothing is told where no device is asked for. */
class StepBytes {
  readonly #made: (() => Made) | undefined;
  #before = 0;
  last: number | undefined;

  constructor(made: (() => Made) | undefined) {
    this.#made = made;
  }

  static async start(backend: BackendName | undefined): Promise<StepBytes> {
    return new StepBytes(backend === "webgpu" ? await countMade() : undefined);
  }

  begin(): void {
    this.#before = this.#made?.().bytes ?? 0;
  }

  end(steps: number): void {
    if (this.#made !== undefined) this.last = (this.#made().bytes - this.#before) / steps;
  }
}

/** What a summary says of tokens that are drawn on the device, where they are. */
interface Flying {
  readonly tokensInFlight?: number;
}

class GeneratingDecoder implements DeviceDecoder {
  readonly #lm: CausalLM;
  readonly #bytes: StepBytes;
  tokensInFlight: number | undefined;

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

/** `generate`, for one text and for many. */
export const byGenerate = (
  files: () => ModelFolder,
  sizes: DeviceSizes,
  backend: BackendName | undefined,
  cache: "linear" | "paged",
): DecoderEntry => ({
  name: cache === "paged" ? "insitu, generate, on pages" : "insitu, generate",
  runtime: "insitu",
  async open() {
    const bytes = await StepBytes.start(backend);
    const { folder } = files();
    const context = longestText(sizes);
    const { texts, context: each, steps } = sizes.batch;
    const blockSize = 16;
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
            blocks: texts * (Math.ceil((each + steps) / blockSize) + 1) + Math.ceil(context / blockSize),
          }
        : {}),
    });
    return new GeneratingDecoder(lm, bytes);
  },
});

/** The caches of some prompts, which were read once. */
interface ReadPrompts {
  readonly state: State;
  readonly first: readonly number[];
}

class SteppingDecoder implements DeviceDecoder {
  readonly #session: InferenceSession;
  readonly #sizes: DeviceSizes;
  readonly #bytes: StepBytes;
  readonly #read = new Map<string, ReadPrompts>();

  constructor(session: InferenceSession, sizes: DeviceSizes, bytes: StepBytes) {
    this.#session = session;
    this.#sizes = sizes;
    this.#bytes = bytes;
  }

  get bytesAStep(): number | undefined {
    return this.#bytes.last;
  }

  /** The likeliest tokens behind tokens that follow `from` others. */
  async #step(state: State, tokens: Prompts, from: number): Promise<number[]> {
    const [texts, count] = [tokens.length, tokens[0].length];
    const positions = tokens.flatMap((each) => each.map((_, at) => from + at));
    const feeds = {
      input_ids: integers("int64", tokens.flat(), [texts, count]),
      position_ids: integers("int64", positions, [texts, count]),
    };
    const { next } = await this.#session.run(feeds, ["next"], { state });
    return Array.from(next.data as BigInt64Array, Number);
  }

  async #readOnce(prompts: Prompts, capacity: number): Promise<ReadPrompts> {
    const key = `${prompts.length} of ${prompts[0].length} from ${prompts[0][0]}`;
    const known = this.#read.get(key);
    if (known !== undefined) return known;
    const state = this.#session.createState({ dims: { batch: prompts.length, capacity } });
    const read = { state, first: await this.#step(state, prompts, 0) };
    this.#read.set(key, read);
    return read;
  }

  async decode(prompts: Prompts, steps: number): Promise<number> {
    const length = prompts[0].length;
    const { state, first } = await this.#readOnce(prompts, length + steps);
    state.rewind(length);
    this.#bytes.begin();
    const start = performance.now();
    let tokens = first;
    for (let step = 0; step < steps; step++)
      tokens = await this.#step(
        state,
        tokens.map((token) => [token]),
        length + step,
      );
    const took = performance.now() - start;
    this.#bytes.end(steps);
    return took / steps;
  }

  async prefill(prompt: readonly number[]): Promise<number> {
    const state = this.#session.createState({ dims: { batch: 1, capacity: this.#sizes.prompt } });
    const start = performance.now();
    await this.#step(state, [prompt], 0);
    const took = performance.now() - start;
    state.release();
    return took;
  }

  async next(prompts: Prompts): Promise<readonly number[]> {
    const tokens: number[] = [];
    for (const prompt of prompts) {
      const state = this.#session.createState({ dims: { batch: 1, capacity: prompt.length } });
      tokens.push(...(await this.#step(state, [prompt], 0)));
      state.release();
    }
    return tokens;
  }

  stop(): Promise<void> {
    return this.#session.release();
  }
}

/** `session.run`: a token is waited for before the next is asked for. */
export const byRun = (
  files: () => ModelFolder,
  sizes: DeviceSizes,
  backend: BackendName | undefined,
): DecoderEntry => ({
  name: "insitu, session.run, ArgMax in the graph",
  runtime: "insitu",
  async open() {
    const bytes = await StepBytes.start(backend);
    const session = await InferenceSession.create(files().next, {
      ...(backend === undefined ? {} : { backend }),
      rewrite: "auto",
      inPlace: "require",
    });
    return new SteppingDecoder(session, sizes, bytes);
  },
});
