// A bound on tokens of thought: counted from the mark that opens them, ended by force, and no part of what else a text must obey.
import { expect, test } from "vitest";
import { ThinkingBudget } from "../../packages/dialogue/thinking-budget.js";
import type { HeldConstraint } from "../../packages/choice/constraint.js";

const spelled = ["", "a", "b", "<", "/x>", " "];
const decoder = { decode: (tokens: readonly number[]) => tokens.map((token) => spelled[token] ?? "").join("") };
/** Control tokens: 6 opens thoughts and 7 ends them. */
const markers = new Map([
  [6, "<x>"],
  [7, "</x>"],
]);

const budget = (
  most: number,
  isThinking: boolean,
  endTokens: readonly number[] = [7],
  inner?: HeldConstraint,
): ThinkingBudget =>
  new ThinkingBudget({ marks: { begin: "<x>", end: "</x>" }, most, isThinking, decoder, markers, endTokens }, inner);

/** The one token that may come; undefined where all may. */
function only(of: ThinkingBudget): number | undefined {
  const mask = new Uint32Array(1);
  if (!of.fillMask(mask)) return undefined;
  return 31 - Math.clz32(mask[0]);
}

test("the end is forced after the most tokens, and the text is free behind it", () => {
  const held = budget(2, false);
  const seen = [6, 1, 2].map((token) => {
    const may = only(held);
    held.accept(token);
    return may;
  });
  expect([seen, only(held), held.mayEnd]).toEqual([[undefined, undefined, undefined], 7, false]);
  held.accept(7);
  for (const token of [1, 2, 1, 6, 1, 1, 1]) {
    expect([only(held), held.mayEnd, held.allows("any")]).toEqual([undefined, true, true]);
    held.accept(token);
  }
});

test("thoughts that the prompt opened, that end by themselves, and that are none", () => {
  expect(only(budget(0, true))).toBe(7);
  // The mark in letters, across two tokens, ends them.
  const early = budget(3, true);
  for (const token of [1, 3, 4, 1, 1]) early.accept(token);
  expect(only(early)).toBeUndefined();
  const none = budget(0, false);
  for (const token of [5, 1, 6, 1]) none.accept(token);
  expect(only(none)).toBeUndefined();
});

test("an end of several tokens is forced in order; tokens are taken back; what else holds, holds", () => {
  const taken: number[] = [];
  const inner: HeldConstraint = {
    fillMask: (mask) => (mask.fill(0b10), true),
    accept: (token) => taken.push(token) > 0,
    rollback: (count) => void taken.splice(-count),
    terminated: false,
    mayEnd: false,
    release: () => taken.push(-1),
  };
  const held = budget(1, true, [3, 4], inner);
  expect(only(held)).toBe(1);
  held.accept(1);
  expect(only(held)).toBe(3);
  held.accept(3);
  expect(only(held)).toBe(4);
  held.accept(4);
  expect([only(held), held.mayEnd]).toEqual([1, false]);
  held.rollback(2);
  expect([only(held), taken]).toEqual([3, [1]]);
  held.release();
  expect(taken).toEqual([1, -1]);
});
