// Tokens by counts: those that were drawn one way beside as many that were drawn another way.
import { expect } from "vitest";

/** How often each token came. */
export type Counts = Map<number, number>;

/** Counts the tokens of a text. */
export async function countTokens(into: Counts, text: AsyncIterable<{ readonly token: number }>): Promise<void> {
  for await (const { token } of text) into.set(token, (into.get(token) ?? 0) + 1);
}

/** Fails where two samples of the same size hardly come from one distribution: one pair in a thousand that do fails. */
export function expectSameDistribution(counts: Counts, wanted: Counts): void {
  const sum = (map: Counts): number => [...map.values()].reduce((all, times) => all + times, 0);
  expect(sum(counts)).toBe(sum(wanted));
  // Tokens that came seldom are one class.
  const classes = [...wanted].flatMap(([token, times]) => (times + (counts.get(token) ?? 0) >= 20 ? [token] : []));
  const of = (map: Counts): number[] => {
    const known = classes.map((token) => map.get(token) ?? 0);
    return [...known, sum(map) - known.reduce((a, b) => a + b, 0)];
  };
  const [a, b] = [of(counts), of(wanted)];
  const squares = a.reduce((all, x, at) => all + (x + b[at] === 0 ? 0 : (x - b[at]) ** 2 / (x + b[at])), 0);
  const freedom = classes.length;
  console.log(`χ² ${squares.toFixed(1)} with ${freedom} degrees of freedom`);
  // The normal approximation at 0.1 percent.
  expect(squares).toBeLessThan(freedom + 3.1 * Math.sqrt(2 * freedom));
}
