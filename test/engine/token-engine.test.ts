// The loop on a layout that a script plays, without a model: what is begun before what, who hears what, and who fails alone.
import { expect, test } from "vitest";
import { Context } from "../../src/engine/context.js";
import { Lane } from "../../src/engine/lane.js";
import { MadeText, type MadeToken, type TextListener } from "../../src/engine/made-text.js";
import type { Rows } from "../../src/engine/rows.js";
import { readSampling } from "../../packages/choice/sampling.js";
import type { BegunRuns, Layout, PartResult, Step, StepPart, StepPlan } from "../../src/engine/step.js";
import type { EngineText } from "../../src/engine/text.js";
import type { TextAsk, TextEnd } from "../../src/engine/text-ask.js";
import { TokenEngine } from "../../src/engine/token-engine.js";

/** Rows that nothing lies in. */
class NoRows implements Rows {
  readonly byteLength = 0;
  readonly goesBack = true;
  readonly mayGuess = true;
  readonly heldBytes = 0;
  readonly movedBytes = 0;
  readonly countedRows = 0;
  readonly tellsKinds = false;
  readonly rewinds: number[] = [];
  readonly learnt: number[] = [];
  mark(): void {}
  readAs(): void {}
  rewind(length: number): number {
    this.rewinds.push(length);
    return length;
  }
  fork(): Rows {
    return new NoRows();
  }
  share(_tokens: readonly number[], length: number): number {
    return length;
  }
  learn(tokens: readonly number[]): void {
    this.learnt.push(...tokens);
  }
  save(): Promise<Uint8Array> {
    return Promise.resolve(new Uint8Array());
  }
  restore(): Promise<void> {
    return Promise.resolve();
  }
  release(): void {}
}

/** What a step was asked for, and what ends it. */
interface Played {
  readonly parts: readonly StepPart[];
  readonly count: number;
  readonly land: (results?: readonly (readonly PartResult[])[]) => void;
  readonly break: (error: Error) => void;
}

/** All texts in one lane; each step lands when the test says so. The token after n tokens is n. */
class PlayedLayout implements Layout {
  readonly draws: boolean;
  readonly checks = false;
  readonly goesAhead: boolean;
  readonly lane: Lane = new Lane();
  readonly played: Played[] = [];
  readonly #texts = new Set<EngineText>();
  refuses: (step: Step) => boolean = () => false;

  constructor(isDevice: boolean) {
    this.draws = isDevice;
    this.goesAhead = isDevice;
  }

  add(text: EngineText): void {
    this.#texts.add(text);
    text.start();
  }

  remove(text: EngineText): void {
    this.#texts.delete(text);
  }

  laneOf(): Lane {
    return this.lane;
  }

  plan(isReady: (text: EngineText) => boolean): StepPlan {
    const parts = [...this.#texts].filter(isReady).map((text) => text.part(4));
    return { steps: parts.length === 0 ? [] : [{ lane: this.lane, parts }], failed: [] };
  }

  mayRepeat({ parts }: Step): boolean {
    return parts.every(({ tokens }) => tokens === "drawn");
  }

  begin(step: Step, count: number): Promise<BegunRuns> {
    if (this.refuses(step)) return Promise.reject(new Error("refused"));
    const { parts } = step;
    const lengths = parts.map(({ text, tokens }) => text.context.length + (tokens === "drawn" ? 1 : tokens.length));
    const tokenOf = (at: number, run: number): number => lengths[at] + run;
    const usual = Array.from({ length: count }, (_, run) =>
      parts.map(({ wants }, at): PartResult => {
        if (wants === "token") return { kind: "token", token: tokenOf(at, run) };
        if (wants === "nothing") return { kind: "nothing" };
        const logits = new Float32Array(100).fill(-1);
        logits[tokenOf(at, run)] = 1;
        return { kind: "logits", at: () => logits };
      }),
    );
    let played: Pick<Played, "land" | "break"> = { land: () => {}, break: () => {} };
    const results = new Promise<readonly (readonly PartResult[])[]>((resolve, reject) => {
      played = { land: (given = usual) => resolve(given), break: reject };
    });
    results.catch(() => undefined);
    this.lane.drawn = new Map(parts.flatMap(({ text, wants }, at) => (wants === "token" ? [[text, at]] : [])));
    this.played.push({ parts, count, ...played });
    if (!this.goesAhead) played.land(usual);
    return Promise.resolve({ results });
  }

  settle(): void {}
}

interface Heard extends TextListener {
  readonly tokens: number[];
  end: TextEnd | undefined;
  error: Error | undefined;
}

const listener = (onToken: (made: MadeToken) => "stop" | undefined = () => undefined): Heard => {
  const heard: Heard = {
    tokens: [],
    end: undefined,
    error: undefined,
    token(made) {
      heard.tokens.push(made.token);
      return onToken(made);
    },
    ended: (end) => void (heard.end = end),
    failed: (error) => void (heard.error = error),
  };
  return heard;
};

let named = 0;
function textOf(
  engine: TokenEngine,
  prompt: readonly number[],
  heard: TextListener,
  more: Partial<TextAsk> = {},
): { readonly text: MadeText; readonly rows: NoRows } {
  const rows = new NoRows();
  const context = new Context(rows, { capacity: 50, sinks: 0, overwrites: false, isWhole: true });
  const ask = {
    prompt,
    endTokens: new Set<number>(),
    sampling: readSampling({ temperature: 0 }),
    maxTokens: 8,
    ...more,
  };
  const owner = { id: `text ${++named}`, tenant: "", priority: 0, salt: "" };
  const text = new MadeText(ask, owner, context, heard, engine.layout);
  engine.add(text);
  return { text, rows };
}

/** Lets what was asked happen as far as it can. */
const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
};

test("on a device three steps are under way before the first lands, and each landing begins one more", async () => {
  const layout = new PlayedLayout(true);
  const engine = new TokenEngine(layout);
  const heard = listener();
  const { text, rows } = textOf(engine, [1, 2, 3], heard, { tokensAtOnce: 1 });
  let turn = engine.advance();
  await settle();
  // The prompt, and two that read what is not known yet.
  expect(layout.played.map(({ parts: [{ tokens }] }) => tokens)).toEqual([[1, 2, 3], "drawn", "drawn"]);
  expect([text.drawnAhead, heard.tokens]).toEqual([3, []]);
  for (let at = 0; at < 8; at++) {
    layout.played[at].land();
    expect(await turn).toBe(true);
    expect(heard.tokens).toEqual(Array.from({ length: at + 1 }, (_, token) => 3 + token));
    turn = engine.advance();
    await settle();
    expect(layout.played).toHaveLength(Math.min(8, at + 4));
  }
  expect(heard.end).toBe("max-tokens");
  expect(await turn).toBe(false);
  // Every token but the last was read before it was known.
  expect(rows.learnt).toEqual([3, 4, 5, 6, 7, 8, 9]);
  expect(text.figures.mostAhead).toBe(3);
});

test("what was begun behind a text's end is taken back, and not waited for", async () => {
  const layout = new PlayedLayout(true);
  const engine = new TokenEngine(layout);
  const heard = listener();
  const { rows } = textOf(engine, [1, 2, 3], heard, { endTokens: new Set([4]) });
  for (const at of [0, 1]) {
    const turn = engine.advance();
    await settle();
    layout.played[at].land();
    await turn;
  }
  expect([heard.tokens, heard.end]).toEqual([[3], "end-token"]);
  expect(rows.rewinds).toEqual([4]);
  expect(layout.lane.underWay).toBe(0);
  expect(await engine.advance()).toBe(false);
});

test("a text that is chosen on the host waits for itself; others go ahead", async () => {
  const layout = new PlayedLayout(true);
  const engine = new TokenEngine(layout);
  const [drawn, chosen] = [listener(), listener()];
  textOf(engine, [1, 2], drawn);
  textOf(engine, [5, 6, 7], chosen, { logprobs: 1 });
  const turn = engine.advance();
  await settle();
  expect(layout.played.map(({ parts }) => parts.map(({ wants }) => wants))).toEqual([
    ["token", "logits"],
    ["token"],
    ["token"],
  ]);
  layout.played[0].land();
  await turn;
  expect([drawn.tokens, chosen.tokens]).toEqual([[2], [3]]);
  void engine.advance();
  await settle();
  // It takes part again with what was chosen, beside one that is drawn.
  expect(layout.played[3].parts.map(({ tokens }) => tokens)).toEqual(["drawn", [3]]);
});

test("several steps are one where texts ask for it, never more than a text may have", async () => {
  const layout = new PlayedLayout(true);
  const engine = new TokenEngine(layout);
  const heard = listener();
  textOf(engine, [1], heard, { tokensAtOnce: 3 });
  while (heard.end === undefined) {
    const turn = engine.advance();
    await settle();
    layout.played.forEach(({ land }) => land());
    await turn;
  }
  expect(layout.played.map(({ count }) => count)).toEqual([1, 1, 1, 3, 2]);
  expect(heard.tokens).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
});

test("a text whose tokens come in series is in the step that a new one is read in, and in those behind it", async () => {
  const layout = new PlayedLayout(true);
  const engine = new TokenEngine(layout);
  const streaming = listener();
  const { text } = textOf(engine, [1], streaming, { tokensAtOnce: 3, maxTokens: 40 });
  for (let at = 0; at < 6; at++) {
    const turn = engine.advance();
    await settle();
    layout.played[at].land();
    await turn;
  }
  let turn = engine.advance();
  await settle();
  // Two series are under way, which is all that it has alone.
  expect(layout.lane.underWay).toBe(2);
  expect(layout.played.at(-1)!.count).toBe(3);
  const before = layout.played.length;
  const fresh = textOf(engine, [1, 2, 3, 4, 5, 6, 7, 8, 9], listener()).text;
  layout.played[6].land();
  await turn;
  turn = engine.advance();
  await settle();
  const steps = layout.played.slice(before).map(({ parts }) => parts.map(({ text: own }) => own));
  expect(steps.length).toBeGreaterThan(0);
  expect(steps.every((own) => own.includes(text) && own.includes(fresh))).toBe(true);
  layout.played.forEach(({ land: end }) => end());
  await turn;
});

test("a step that is refused is tried text by text: only who fails alone has failed", async () => {
  for (const isDevice of [false, true]) {
    const layout = new PlayedLayout(isDevice);
    const engine = new TokenEngine(layout);
    const all = [listener(), listener(), listener()];
    const texts = all.map((heard, at) => textOf(engine, [at + 1], heard, { maxTokens: 2 }));
    layout.refuses = ({ parts }) => parts.some(({ text }) => text === texts[1].text);
    while (all.some(({ end, error }) => end === undefined && error === undefined)) {
      const turn = engine.advance();
      await settle();
      layout.played.forEach(({ land }) => land());
      await turn;
    }
    expect(all.map(({ end }) => end)).toEqual(["max-tokens", undefined, "max-tokens"]);
    expect(all[1].error?.message).toBe("refused");
    expect(all[0].tokens).toEqual([1, 2]);
    expect(engine.texts.size).toBe(0);
  }
});

test("a run that fails after it was begun fails the texts in it; a listener that throws fails its own", async () => {
  const layout = new PlayedLayout(true);
  const engine = new TokenEngine(layout);
  const throwing = listener(() => {
    throw new Error("a listener's own");
  });
  const plain = listener();
  textOf(engine, [1, 2], throwing);
  textOf(engine, [4], plain);
  let turn = engine.advance();
  await settle();
  layout.played[0].land();
  await turn;
  expect(throwing.error?.message).toBe("a listener's own");
  expect([plain.error, plain.tokens]).toEqual([undefined, [1]]);
  turn = engine.advance();
  await settle();
  layout.played[1].break(new Error("device lost"));
  expect(await turn).toBe(true);
  expect(plain.error?.message).toBe("device lost");
  expect(engine.texts.size).toBe(0);
  expect(await engine.advance()).toBe(false);
});

test("who leaves while a step is begun is gone once it was, and nothing is told", async () => {
  const layout = new PlayedLayout(true);
  const engine = new TokenEngine(layout);
  const heard = listener();
  const { text, rows } = textOf(engine, [1, 2], heard);
  const turn = engine.advance();
  const gone = engine.quit(text);
  await settle();
  await gone;
  expect(engine.texts.size).toBe(0);
  layout.played.forEach(({ land }) => land());
  await turn;
  expect([heard.tokens, heard.end, heard.error]).toEqual([[], undefined, undefined]);
  expect(rows.rewinds.length).toBeLessThanOrEqual(1);
});

test("on a host each step lands before the next is planned, and nothing goes ahead of who asks", async () => {
  const layout = new PlayedLayout(false);
  const engine = new TokenEngine(layout);
  let isAsking = false;
  const heard = Object.defineProperty(listener(), "isAsking", { get: () => isAsking });
  textOf(engine, [1, 2, 3, 4, 5, 6], heard);
  expect(await engine.advance()).toBe(false);
  isAsking = true;
  expect(await engine.advance()).toBe(true);
  expect(heard.tokens).toEqual([]);
  expect(await engine.advance()).toBe(true);
  expect([heard.tokens, layout.played.length]).toEqual([[6], 2]);
});
