// Prompts in parts: nothing is left out or read twice; on a device parts of all prompts together are of few lengths, and few for each prompt.
import { expect, test } from "vitest";
import { nextPart, tokensFrom } from "../../src/generate/prompt-parts.js";

function partsOf(length: number, chunk: number, recurs: boolean): number[] {
  const parts: number[] = [];
  for (let left = length; left > 0; left -= parts.at(-1)!) parts.push(nextPart(left, { chunk, recurs }));
  return parts;
}
const sum = (parts: readonly number[]): number => parts.reduce((total, part) => total + part, 0);

test.each([1, 4, 5, 64, 100, 128, 512, 4096])("parts of at most %i tokens", (chunk) => {
  const lengths = new Set<number>();
  for (let length = 1; length <= 2000; length++) {
    const [plain, few] = [partsOf(length, chunk, false), partsOf(length, chunk, true)];
    expect([sum(plain), sum(few)]).toEqual([length, length]);
    expect(Math.max(...plain, ...few)).toBeLessThanOrEqual(chunk);
    expect(plain.length).toBe(Math.ceil(length / chunk));
    expect(few.length).toBeLessThanOrEqual(Math.floor(length / chunk) + 4);
    for (const part of few) lengths.add(part);
  }
  // 1, 2, 3, 4, 6, … 48, the multiples of 64, and the chunk itself: programs for all of them are kept.
  if (chunk <= 512) expect(lengths.size).toBeLessThanOrEqual(20);
});

test("tokens of a prompt, and none around it", () => {
  expect(tokensFrom([5, 6, 7], -1, 3)).toEqual([0, 5, 6]);
  expect(tokensFrom([5, 6, 7], 2, 3)).toEqual([7, 0, 0]);
});
