/** insitu as a decoder on a device by `session.run`, one call a token, with ArgMax in the graph: on linear caches and on pages. */
import { PagedState } from "#insitu/cache/paged-state.js";
import { pages } from "#insitu/cache/pages.js";
import type { BackendName } from "#insitu/entry/backends.js";
import { InferenceSession } from "#insitu/entry/node.js";
import type { Feeds } from "#insitu/session/feeds.js";
import type { State } from "#insitu/session/state.js";
import { integers } from "../work.js";
import type { DecoderEntry, DeviceDecoder } from "./decoder.js";
import type { ModelFolder } from "./model-files.js";
import { blockSize, type DeviceSizes, poolBlocks } from "./sizes.js";
import { StepBytes } from "./step-bytes.js";

type Prompts = readonly (readonly number[])[];

/** Texts that were read, on whatever caches. */
interface Texts {
  /** The likeliest tokens behind one token or more for each text, which follow what was read so far. */
  step(tokens: Prompts): Promise<number[]>;
  rewind(length: number): void;
  release(): void;
}

/** The likeliest tokens behind those at these positions. */
async function nextTokens(
  session: InferenceSession,
  tokens: Prompts,
  positions: readonly number[],
  state: State,
  more: Feeds = {},
): Promise<number[]> {
  const dims = [tokens.length, tokens[0].length];
  const all = tokens.flatMap((each, text) => each.map((_, at) => positions[text] + at));
  const feeds = {
    ...more,
    input_ids: integers("int64", tokens.flat(), dims),
    position_ids: integers("int64", all, dims),
  };
  const { next } = await session.run(feeds, ["next"], { state });
  return Array.from(next.data as BigInt64Array, Number);
}

function linearTexts(session: InferenceSession, count: number, capacity: number): Texts {
  const state = session.createState({ dims: { batch: count, capacity } });
  return {
    step: (tokens) => nextTokens(session, tokens, state.lengths, state),
    rewind: (length) => state.rewind(length),
    release: () => state.release(),
  };
}

/** Sequences of one pool. */
function pagedTexts(session: InferenceSession, pages: PagedState, count: number): Texts {
  const sequences = Array.from({ length: count }, () => pages.add());
  return {
    step: (tokens) =>
      pages.run(
        sequences.map((sequence, text) => ({ sequence, tokens: tokens[text] })),
        ({ state, feeds, tokens: read, positions }) => nextTokens(session, read, positions, state, feeds),
      ),
    rewind: (length) => {
      for (const sequence of sequences) sequence.truncate(length);
    },
    release: () => {
      for (const sequence of sequences) sequence.release();
    },
  };
}

/** Texts that were read, and the tokens behind them. */
interface ReadTexts {
  readonly texts: Texts;
  readonly first: readonly number[];
}

class SteppingDecoder implements DeviceDecoder {
  readonly #session: InferenceSession;
  readonly #texts: (count: number, capacity: number) => Texts;
  readonly #bytes: StepBytes;
  readonly #read = new Map<string, ReadTexts>();

  constructor(session: InferenceSession, texts: (count: number, capacity: number) => Texts, bytes: StepBytes) {
    this.#session = session;
    this.#texts = texts;
    this.#bytes = bytes;
  }

  get bytesAStep(): number | undefined {
    return this.#bytes.last;
  }

  async #readOnce(prompts: Prompts, capacity: number): Promise<ReadTexts> {
    const key = `${prompts.length} of ${prompts[0].length} from ${prompts[0][0]}`;
    const known = this.#read.get(key);
    if (known !== undefined) return known;
    const texts = this.#texts(prompts.length, capacity);
    const read = { texts, first: await texts.step(prompts) };
    this.#read.set(key, read);
    return read;
  }

  async decode(prompts: Prompts, steps: number): Promise<number> {
    const length = prompts[0].length;
    const { texts, first } = await this.#readOnce(prompts, length + steps);
    texts.rewind(length);
    this.#bytes.begin();
    const start = performance.now();
    let tokens = first;
    for (let step = 0; step < steps; step++) tokens = await texts.step(tokens.map((token) => [token]));
    const took = performance.now() - start;
    this.#bytes.end(steps);
    return took / steps;
  }

  async prefill(prompt: readonly number[]): Promise<number> {
    const texts = this.#texts(1, prompt.length);
    const start = performance.now();
    await texts.step([prompt]);
    const took = performance.now() - start;
    texts.release();
    return took;
  }

  async next(prompts: Prompts): Promise<readonly number[]> {
    const tokens: number[] = [];
    for (const prompt of prompts) {
      const texts = this.#texts(1, prompt.length);
      tokens.push(...(await texts.step([prompt])));
      texts.release();
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
  cache: "linear" | "paged",
): DecoderEntry => ({
  name: `insitu, session.run${cache === "paged" ? ", on pages" : ""}, ArgMax in the graph`,
  runtime: "insitu",
  async open() {
    const bytes = await StepBytes.start(backend);
    const session = await InferenceSession.create(files().next, {
      ...(backend === undefined ? {} : { backend }),
      ...(cache === "paged" ? { change: pages() } : { rewrite: "auto" }),
      inPlace: "require",
    });
    if (cache === "linear")
      return new SteppingDecoder(session, (count, capacity) => linearTexts(session, count, capacity), bytes);
    const pool = new PagedState(session, { blockSize, blocks: poolBlocks(sizes) });
    return new SteppingDecoder(session, (count) => pagedTexts(session, pool, count), bytes);
  },
});
