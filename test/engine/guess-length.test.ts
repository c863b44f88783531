// How many tokens a draft is asked for, by costs and acceptance that the test makes up.
import { describe, expect, test } from "vitest";
import { Acceptance, Costs, GuessLength, Rest } from "../../packages/choice/guess-length.js";

/** Costs of steps of up to 16 tokens. */
function costsOf(cost: (tokens: number) => number): Costs {
  const costs = new Costs();
  for (let tokens = 1; tokens <= 16; tokens++) for (let at = 0; at < 5; at++) costs.note(tokens, cost(tokens));
  return costs;
}

/** Guesses of a draft that is right with this chance, over so many tokens: how many were made in all, and in how much time beside the time without. */
function simulate(chance: number, steps: Costs, draft: number, tokens: number): { guessed: number; speedup: number } {
  let seed = 5;
  const random = (): number => ((seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0), seed / 2 ** 32);
  const length = new GuessLength(4, new Acceptance(), new Rest());
  let [made, time, guessed] = [0, 0, 0];
  while (made < tokens) {
    const count = length.choose(1, steps, draft);
    let right = 0;
    while (right < count && random() < chance) right++;
    if (count > 0) length.note(count, right);
    made += 1 + right;
    guessed += count;
    time += steps.of(1 + count)! + count * draft;
  }
  return { guessed, speedup: (made * steps.of(1)!) / time };
}

/** A run of several tokens costs little more than one, and each token as much as a run of its own. */
const [cheap, dear] = [costsOf((tokens) => 10 + 0.2 * tokens), costsOf((tokens) => 10 * tokens)];

describe("guesses", () => {
  test("are as many as there may be where they are right and cost little", () => {
    const { speedup } = simulate(0.95, cheap, 0.5, 2000);
    expect(speedup).toBeGreaterThan(3);
  });

  test("cost less than a twentieth on a processor, however seldom they are right", () => {
    // Steps of the embedded model on two threads, as multiples of one token's.
    const measured = [1, 1.72, 2.35, 2.42, 3.26, 4.08, 4.2, 4.39];
    const steps = costsOf((tokens) => measured[tokens - 1] ?? tokens / 2);
    for (const chance of [0, 0.05, 0.2, 0.45, 0.6, 0.8, 0.95])
      for (const draft of [0, 0.1, 0.4]) expect(simulate(chance, steps, draft, 2000).speedup).toBeGreaterThan(0.95);
    expect(simulate(0.95, steps, 0, 2000).speedup).toBeGreaterThan(1.2);
  });

  test("are fewer where they are seldom right", () => {
    const [often, seldom] = [simulate(0.9, cheap, 2, 2000), simulate(0.5, cheap, 2, 2000)];
    expect(seldom.guessed).toBeLessThan(often.guessed);
    expect(seldom.speedup).toBeGreaterThan(1);
  });

  test.each([
    ["never right", 0, cheap, 2],
    ["right and checked at the price of tokens", 0.9, dear, 1],
    ["right and as dear as the tokens", 0.9, cheap, 12],
  ] as const)("stop where they are %s", (_, chance, steps, draft) => {
    const { guessed, speedup } = simulate(chance, steps, draft, 2000);
    expect(guessed).toBeLessThan(60);
    expect(speedup).toBeGreaterThan(0.97);
  });

  test("are used where they pay, though the first rounds of all had to prepare programs", () => {
    // A round of 4 guesses takes 2 ms a token where a step takes 3; whatever is new takes 60 more in its first three runs.
    const [steps, drafts, runs] = [new Costs(), new Costs(), new Map<number, number>()];
    const fresh = (size: number): number => {
      const before = runs.get(size) ?? 0;
      runs.set(size, before + 1);
      return before < 3 ? 60 : 0;
    };
    const length = new GuessLength(4, new Acceptance(), new Rest());
    let [made, guessed] = [0, 0];
    while (made < 600) {
      const count = length.choose(1, steps, drafts.of(1, true));
      steps.note(1 + count, 3 + 0.25 * count + fresh(1 + count));
      if (count > 0) {
        drafts.note(1, 1 + fresh(100) / count);
        length.note(count, count);
      }
      made += 1 + count;
      if (made > 300) guessed += count;
    }
    expect(guessed).toBeGreaterThan(200);
  });

  test("are tried again twice in a row, and the dearer that is the later", () => {
    const trials = (lost: number): readonly number[] => {
      const rest = new Rest();
      return Array.from({ length: 2000 }, (_, at) => at).filter(() => rest.isOver(1, lost));
    };
    const [cheaply, dearly] = [trials(0), trials(8)];
    expect(cheaply.slice(0, 4)).toEqual([31, 32, 96, 97]);
    // Two trials that cost 8 tokens each are a fiftieth of 800.
    expect(dearly.slice(0, 2)).toEqual([799, 800]);
    expect(dearly.length).toBe(2);
  });

  test("come back where they get better", () => {
    const [acceptance, rest] = [new Acceptance(), new Rest()];
    const length = new GuessLength(4, acceptance, rest);
    for (let at = 0; at < 20; at++) length.note(4, 0);
    expect(length.choose(1, cheap, 1)).toBe(0);
    let tries = 0;
    let most = 0;
    for (let at = 0; at < 4000; at++) {
      const count = length.choose(1, cheap, 1);
      if (count === 0) continue;
      tries++;
      most = Math.max(most, count);
      length.note(count, count);
    }
    expect(tries).toBeGreaterThan(100);
    expect(most).toBe(4);
  });

  test("are left out for few tokens where they pay, however long they were left alone before", () => {
    const length = new GuessLength(4, new Acceptance(), new Rest());
    for (let at = 0; at < 20; at++) length.note(4, 0);
    expect(length.choose(1, cheap, 1)).toBe(0);
    expect(length.freeTokens(1, cheap)).toBeGreaterThan(20);
    const choose = (): number => length.choose(1, cheap, 1);
    while (choose() === 0);
    for (let at = 0; at < 40; at++) length.note(4, 4);
    expect(choose()).toBe(4);
    while (choose() > 0);
    expect(length.freeTokens(1, cheap)).toBe(3);
  });

  test("are none before a step was measured, and outliers count little", () => {
    expect(new GuessLength(4, new Acceptance(), new Rest()).choose(1, new Costs(), undefined)).toBe(0);
    const costs = costsOf(() => 10);
    costs.note(1, 10_000);
    expect(costs.of(1)).toBeLessThan(12);
    // One that was slow by chance at first is known by larger ones that were not.
    const slow = new Costs();
    for (const [size, cost] of [
      [1, 50],
      [4, 20],
    ])
      for (let at = 0; at < 3; at++) slow.note(size, cost);
    slow.note(4, 30);
    expect(slow.of(1)).toBeLessThan(21);
    expect(slow.isSure(1)).toBe(false);
    expect(costs.of(40)).toBe(10);
  });

  test("the first steps of a size, which prepare programs, say nothing of it, and none costs more a token than smaller ones", () => {
    const costs = new Costs();
    for (const cost of [500, 100, 2, 2]) costs.note(1, cost);
    expect(costs.of(1)).toBe(2);
    costs.note(4, 200);
    costs.note(4, 200);
    expect(costs.of(4)).toBe(2);
    costs.note(4, 200);
    expect(costs.of(4)).toBeCloseTo(8, 0);
  });
});
