// How packed batches are filled up: steps of one token a text stay such, whatever number of texts there is, and the queries of all samples are all tokens.
import { expect, test } from "vitest";
import { filledBatch } from "../../src/cache/paged-batch.js";

/** Where the queries of samples begin, of sequences that read so many tokens. */
function startsOf(counts: readonly number[]): {
  readonly starts: number[];
  readonly tokens: number;
  readonly samples: number;
} {
  const sequences = counts.map((count, at) => ({
    table: [at],
    tokens: Array<number>(count).fill(1),
    position: 0,
    slots: Array.from({ length: count }, (_, token) => 16 * at + token),
    length: count,
  }));
  const { tokens, feeds } = filledBatch(sequences, 2);
  return {
    starts: Array.from(feeds.query_starts.data as BigInt64Array, Number),
    tokens: tokens.length,
    samples: feeds.seq_lens.dims[0],
  };
}

test("a step of one token a text has samples of one token alone", () => {
  for (const texts of [1, 3, 5, 6, 17, 33, 64]) {
    const { starts, tokens, samples } = startsOf(Array<number>(texts).fill(1));
    expect(samples).toBe(tokens);
    expect(starts).toEqual(Array.from({ length: samples + 1 }, (_, at) => at));
  }
});

test.each([[[5]], [[1, 1, 9, 1]], [[2, 0]], [[1, 0, 1, 1, 0, 1, 1]], [[3, 0, 0, 0, 0, 2]], [[1, 0, 0]]])(
  "texts of %j tokens: all tokens are some sample's",
  (counts) => {
    const { starts, tokens, samples } = startsOf(counts);
    expect(starts).toHaveLength(samples + 1);
    expect(starts.at(-1)).toBe(tokens);
    for (const [at, count] of counts.entries()) expect(starts[at + 1] - starts[at]).toBe(count);
    for (let at = counts.length; at < samples; at++) expect(starts[at + 1]).toBeGreaterThanOrEqual(starts[at]);
  },
);
