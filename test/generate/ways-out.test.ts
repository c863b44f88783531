// Every way out of a text gives its caches back: blocks of pages, and the states of linear caches. Counted from outside.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import type { LoadLanguageModelOptions } from "../../src/generate/causal-lm.js";
import type { GenerateOptions } from "../../src/generate/options.js";
import { Session } from "../../src/session/session.js";
import { State } from "../../src/session/state.js";
import type { TensorLike } from "../../src/tensor/tensor-like.js";
import { hubFolder } from "./support.js";

/** Enough for several chunks of 8 tokens, and each time another: nothing of it was read before. */
let asked = 0;
const newPrompt = (): string => `${++asked} years ago there lived a king`;
const others = ["The wolf", "One day"];
const options: GenerateOptions = { maxTokens: 6, temperature: 0, ignoreEnd: true };

/** A way in: the texts it makes, and what must be let go of by hand. */
interface Door {
  readonly open: (
    lm: CausalLM,
    options: GenerateOptions,
  ) => Promise<{ readonly texts: readonly AsyncIterable<unknown>[]; readonly close?: () => void }>;
  /** Texts that can be iterated once say so. */
  readonly once?: RegExp;
}

const doors: Readonly<Record<string, Door>> = {
  generate: { open: async (lm, given) => ({ texts: [lm.generate(newPrompt(), given)] }), once: /can be iterated once/ },
  speculation: {
    open: async (lm, given) => ({
      texts: [lm.generate(newPrompt(), { ...given, speculate: { ngram: 2, draft: 3, adaptive: false } })],
    }),
  },
  samples: {
    open: async (lm, given) => ({ texts: await lm.samples(newPrompt(), 3, given) }),
    once: /can be iterated once/,
  },
  generateBatch: { open: async (lm, given) => ({ texts: [lm.generateBatch([newPrompt(), ...others], given)] }) },
  chat: {
    async open(lm, given) {
      const chat = lm.chat([{ role: "system", content: others[0] }], { ...given, stop: ["\u0000"] });
      return { texts: [chat.send(newPrompt())], close: () => chat.release() };
    },
    once: /can be iterated once/,
  },
  beams: {
    async open(lm, given) {
      async function* found(): AsyncGenerator<unknown> {
        yield* await lm.beamSearch(newPrompt(), { ...given, beams: 3 });
      }
      return { texts: [found()] };
    },
  },
};

const read = async (text: AsyncIterable<unknown>, each: (count: number) => void = () => {}): Promise<number> => {
  let count = 0;
  for await (const _ of text) each(++count);
  return count;
};

/** Reads texts side by side, all to their ends; throws what the first one threw. */
async function allRead(texts: readonly AsyncIterable<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(texts.map((text) => read(text)));
  for (const result of results) if (result.status === "rejected") throw result.reason;
}

/** What looks at runs. */
let watching: { mockRestore(): void } | undefined;

/** Lets something happen when the model runs for the nth time from now on, and each time after that: what fails for several texts is tried for each. */
function atRun(lm: CausalLM, count: number, happens: () => void): void {
  const run = lm.session.run.bind(lm.session);
  let runs = 0;
  watching = vi.spyOn(lm.session, "run").mockImplementation(async (...given) => {
    if (++runs >= count) happens();
    return run(...given);
  });
}

const aborting = (): { readonly controller: AbortController; readonly given: GenerateOptions } => {
  const controller = new AbortController();
  return { controller, given: { ...options, signal: controller.signal } };
};

/** The ways out; each leaves nothing behind. */
const ways: Readonly<Record<string, (lm: CausalLM, door: Door) => Promise<{ readonly close?: () => void }>>> = {
  async "to the end, one after another"(lm, { open }) {
    const opened = await open(lm, options);
    for (const text of opened.texts) expect(await read(text)).toBeGreaterThan(0);
    return opened;
  },
  async "to the end, side by side"(lm, { open }) {
    const opened = await open(lm, options);
    await allRead(opened.texts);
    return opened;
  },
  "never iterated": (lm, { open }) => open(lm, options),
  async "the last one never iterated"(lm, { open }) {
    const opened = await open(lm, options);
    for (const text of opened.texts.slice(0, -1)) await read(text);
    return opened;
  },
  async "only the last one iterated"(lm, { open }) {
    const opened = await open(lm, options);
    await read(opened.texts.at(-1)!);
    return opened;
  },
  async "iterated twice"(lm, { open, once }) {
    const opened = await open(lm, options);
    await read(opened.texts[0]);
    if (once !== undefined) await expect(read(opened.texts[0])).rejects.toThrow(once);
    return opened;
  },
  async "returned before the first token"(lm, { open }) {
    const opened = await open(lm, options);
    for (const text of opened.texts) await text[Symbol.asyncIterator]().return?.();
    return opened;
  },
  async "the loop left"(lm, { open }) {
    const opened = await open(lm, options);
    for (const text of opened.texts) for await (const _ of text) break;
    return opened;
  },
  async "a loop that throws"(lm, { open }) {
    const opened = await open(lm, options);
    for (const text of opened.texts)
      await expect(
        read(text, () => {
          throw new Error("enough");
        }),
      ).rejects.toThrow("enough");
    return opened;
  },
  async "aborted before it begins"(lm, { open }) {
    const signal = AbortSignal.abort(new Error("not at all"));
    let opened: { readonly close?: () => void } = {};
    await expect(
      (async () => {
        const made = await open(lm, { ...options, signal });
        opened = made;
        await allRead(made.texts);
      })(),
    ).rejects.toThrow("not at all");
    return opened;
  },
  async "aborted while the prompt is read"(lm, { open }) {
    const { controller, given } = aborting();
    atRun(lm, 2, () => controller.abort(new Error("enough read")));
    let opened: { readonly close?: () => void } = {};
    await expect(
      (async () => {
        const made = await open(lm, given);
        opened = made;
        await allRead(made.texts);
      })(),
    ).rejects.toThrow("enough read");
    return opened;
  },
  async "aborted between the prompt and the first token"(lm, { open }) {
    const { controller, given } = aborting();
    const opened = await open(lm, given);
    controller.abort(new Error("too late"));
    for (const text of opened.texts) await expect(read(text)).rejects.toThrow("too late");
    return opened;
  },
  async "aborted while the text is made"(lm, { open }) {
    const { controller, given } = aborting();
    const opened = await open(lm, given);
    atRun(lm, 6, () => controller.abort(new Error("enough told")));
    await expect(allRead(opened.texts)).rejects.toThrow("enough told");
    return opened;
  },
  async "a run that fails while the prompt is read"(lm, { open }) {
    atRun(lm, 2, () => {
      throw new Error("no device");
    });
    let opened: { readonly close?: () => void } = {};
    await expect(
      (async () => {
        const made = await open(lm, options);
        opened = made;
        await allRead(made.texts);
      })(),
    ).rejects.toThrow("no device");
    return opened;
  },
  async "a run that fails while the text is made"(lm, { open }) {
    const opened = await open(lm, options);
    atRun(lm, 6, () => {
      throw new Error("no device");
    });
    await expect(allRead(opened.texts)).rejects.toThrow("no device");
    return opened;
  },
};

/** Counts the states of sessions that were made and not given back. */
const states = new Set<State>();
const isLive = (state: State): boolean => {
  try {
    return state.get(state.names[0]) !== undefined;
  } catch {
    return false;
  }
};
const live = (lm: CausalLM): number =>
  lm.pages === undefined ? [...states].filter(isLive).length : lm.pages.pool.sequences.length;

beforeAll(() => {
  const method = <T>(prototype: object, name: string): T =>
    Object.getOwnPropertyDescriptor(prototype, name)!.value as T;
  const createState = method<Session["createState"]>(Session.prototype, "createState");
  vi.spyOn(Session.prototype, "createState").mockImplementation(function (this: Session, ...given) {
    const state = createState.apply(this, given);
    states.add(state);
    return state;
  });
  const fork = method<State["fork"]>(State.prototype, "fork");
  vi.spyOn(State.prototype, "fork").mockImplementation(function (this: State) {
    const state = fork.call(this);
    states.add(state);
    return state;
  });
});
const folder = hubFolder("llama_op24");
/** A tiny model: a byte is a token. */
const load = (given: LoadLanguageModelOptions): Promise<CausalLM> =>
  CausalLM.load(folder.path, { inPlace: "require", threads: 1, chunk: 8, context: 96, ...given });
afterAll(() => {
  vi.restoreAllMocks();
  folder.remove();
});

describe.each(["linear", "paged"] as const)("in %s caches", (cache) => {
  describe.each([0, 1])("of a model that keeps %i contexts", (keep) => {
    let lm: CausalLM;
    beforeAll(async () => {
      states.clear();
      lm = await load({ cache, keep });
    });
    afterAll(() => lm.release());
    afterEach(() => watching?.mockRestore());

    test.each(Object.keys(doors))("%s", async (name) => {
      const door = doors[name];
      for (const [way, goes] of Object.entries(ways)) {
        const opened = await goes(lm, door);
        watching?.mockRestore();
        opened.close?.();
        expect(live(lm), `${name}, ${way}`).toBeLessThanOrEqual(keep);
        const { used, kept, free } = lm.pages?.pool.statistics ?? { used: 0, kept: 0, free: 0 };
        if (lm.pages !== undefined) expect(used + kept + free).toBe(lm.pages.pool.blocks);
        if (keep === 0) expect(used, `${name}, ${way}`).toBe(0);
      }
      // And the model still says what it says.
      expect((await lm.generate(others[1], { ...options, maxTokens: 4 }).text()).length).toBeGreaterThan(0);
    });
  });
});

test.each(["linear", "paged"] as const)("a model that is released takes all with it: %s", async (cache) => {
  for (const name of Object.keys(doors)) {
    if (name === "beams") continue;
    const lm = await load({ cache });
    const { texts, close } = await doors[name].open(lm, options);
    const iterators = texts.map((text) => text[Symbol.asyncIterator]());
    await iterators[0].next();
    await lm.release();
    const rest = async (iterator: AsyncIterator<unknown>): Promise<void> => {
      while (!(await iterator.next()).done);
    };
    for (const iterator of iterators) await expect(rest(iterator), name).rejects.toThrow(/released/);
    close?.();
    if (lm.pages !== undefined) expect(lm.pages.pool.statistics.used, name).toBe(0);
  }
});

test("texts that are dropped in the middle give their blocks back when they are garbage", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const lm = await load({ cache: "paged", keep: 0 });
  const prompt = newPrompt();
  const drop = async (): Promise<void> => {
    for (const text of [lm.generate(prompt, options), ...(await lm.samples(prompt, 2, options))])
      await text[Symbol.asyncIterator]().next();
    const chat = lm.chat([], options);
    await chat.send(prompt).text();
  };
  await drop();
  expect(lm.pages!.pool.statistics.used).toBeGreaterThan(0);
  for (let turn = 0; turn < 50 && lm.pages!.pool.sequences.length > 0; turn++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  expect(lm.pages!.pool.statistics.used).toBe(0);
  await lm.release();
});

test("the prompt of samples is read once, side by side and one after another", async () => {
  for (const cache of ["linear", "paged"] as const)
    for (const order of ["side by side", "one after another"]) {
      const lm = await load({ cache });
      const prompt = newPrompt();
      const length = lm.tokenizer.encode(prompt).length;
      const run = vi.spyOn(lm.session, "run");
      const texts = await lm.samples(prompt, 3, options);
      if (order === "side by side") await Promise.all(texts.map((text) => text.text()));
      else for (const text of texts) await text.text();
      // On pages tokens may stand in either dimension, and some that are written nowhere may fill a run up.
      const tokensOf = ({ input_ids, slot_mapping: slots }: Readonly<Record<string, TensorLike>>): number =>
        slots === undefined ? input_ids.dims[1] : (slots.data as BigInt64Array).filter((slot) => slot >= 0n).length;
      const read = run.mock.calls.reduce((sum, [feeds]) => sum + tokensOf(feeds), 0);
      // All but the last token once; then each text reads that one, and all its own tokens but the last.
      expect(read, `${cache}, ${order}`).toBe(length - 1 + 3 * 6);
      for (const text of texts) expect(text.summary.reusedTokens).toBe(length - 1);
      expect(new Set(texts.map((text) => text.textSoFar)).size).toBe(1);
      await lm.release();
    }
});
