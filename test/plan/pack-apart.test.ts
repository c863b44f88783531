// Buffers for devices whose steps cannot read and write one: whatever lives at the same time lies apart, and each buffer is large enough.
import { expect, test } from "vitest";
import { seededRandom } from "../../src/graph/call.js";
import { packApart } from "../../src/plan/arena.js";

test("random lifetimes never share a buffer while both are needed", () => {
  const random = seededRandom(20261115);
  const below = (most: number): number => Math.floor(random() * most);
  for (let round = 0; round < 300; round++) {
    const lifetimes = Array.from({ length: 1 + below(60) }, () => {
      const first = below(40);
      return { bytes: below(4) === 0 ? 0 : 1 + below(5000), first, last: first + below(12) };
    });
    const { numbers, offsets, sizes } = packApart(lifetimes);
    lifetimes.forEach((one, at) => {
      expect(offsets[at]).toBe(0);
      expect(sizes[numbers[at]]).toBeGreaterThanOrEqual(one.bytes);
      lifetimes.forEach((other, against) => {
        const together = at !== against && one.first <= other.last && other.first <= one.last;
        if (together) expect(numbers[at], `round ${round}`).not.toBe(numbers[against]);
      });
    });
  }
});
