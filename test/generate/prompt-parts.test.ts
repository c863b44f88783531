// Prompts in parts: every token is read, in its order; on a device parts of all prompts together are of few lengths, and few for each prompt.
import { expect, test, vi } from "vitest";
import { Decoder } from "../../src/decoder/decoder.js";
import { chunkFor, nextPart, nextRows } from "../../src/engine/prompt-parts.js";
import { largestDifference } from "../support/compare.js";
import { ReadContext } from "../support/contexts.js";
import { decoderSession, tokenAt } from "../support/decoding.js";

/** The lengths of the parts of a prompt behind `before` tokens; throws where one reads what it must not. */
function partsOf(length: number, before: number, chunk: number, recurs: boolean): number[] {
  const parts: number[] = [];
  for (let left = length; left > 0;) {
    const { count, again } = nextPart(left, before + length - left, { chunk, recurs });
    const isRight = again >= 0 && again <= before + length - left && count > again && count - again <= left;
    if (!isRight || count > chunk)
      throw new Error(`${left} of ${length} left behind ${before}: ${count}, ${again} again`);
    parts.push(count);
    left -= count - again;
  }
  return parts;
}

test.each([1, 4, 5, 64, 100, 128, 512, 4096])("parts of at most %i tokens", (chunk) => {
  const lengths = new Set<number>();
  const problems: string[] = [];
  for (let length = 1; length <= 1200; length++) {
    const plain = partsOf(length, 0, chunk, false);
    if (plain.length !== Math.ceil(length / chunk)) problems.push(`${length}: ${plain.join()}`);
    for (const before of [0, 3, 15, 500]) {
      const few = partsOf(length, before, chunk, true);
      const most = Math.floor(length / chunk) + (length >= 64 && chunk >= 64 ? 4 : 20);
      if (few.length > most && chunk >= 16) problems.push(`${length} behind ${before}: ${few.join()}`);
      for (const part of few) lengths.add(part);
    }
  }
  expect(problems).toEqual([]);
  // 1, 2, 8, 16, the multiples of 64, and the chunk itself: programs for all of them are kept.
  if (chunk <= 512) expect(lengths.size).toBeLessThanOrEqual(12);
});

test("long prompts are read in larger parts while much of them is left", () => {
  const reading = { chunk: 64, longChunk: 128, recurs: true };
  const parts: number[] = [];
  for (let left = 600; left > 0; left -= parts.at(-1)!) parts.push(nextPart(left, 0, reading).count);
  expect(parts.slice(0, 5)).toEqual([128, 128, 128, 64, 64]);
  expect([255, 256].map((left) => chunkFor(left, reading))).toEqual([64, 128]);
  expect(chunkFor(1000, { chunk: 64 })).toBe(64);
});

test("few tokens behind others are read in runs of few lengths, one and two by themselves", () => {
  const reading = { chunk: 512, recurs: true };
  expect(nextPart(1, 100, reading)).toEqual({ count: 1, again: 0 });
  expect(partsOf(2, 100, 512, true)).toEqual([2]);
  expect(nextPart(3, 100, reading)).toEqual({ count: 8, again: 5 });
  expect(nextPart(9, 100, reading)).toEqual({ count: 16, again: 7 });
});

test("prompts beside each other are padded where there is room", () => {
  const reading = { chunk: 64, recurs: true };
  expect([1, 5, 16, 17, 64, 65].map((left) => nextRows(left, 100, reading))).toEqual([2, 8, 16, 64, 64, 64]);
  expect(nextRows(17, 20, reading)).toBe(17);
  expect(nextRows(17, 100, { chunk: 64 })).toBe(17);
  expect(nextRows(3, 100, { chunk: 5, recurs: true })).toBe(5);
});

const capacity = 200;

/** The logits behind a prompt and behind what follows it, and what the context has read then. */
async function readBy(
  decoder: Decoder,
  options: { readonly chunk: number; readonly recurs?: boolean },
  parts: readonly (readonly number[])[],
): Promise<{ readonly logits: readonly Float32Array[]; readonly tokens: readonly number[]; readonly runs: number }> {
  const run = vi.spyOn(decoder, "run");
  const reader = new ReadContext(decoder, { capacity, sinks: 4, ...options });
  const logits: Float32Array[] = [];
  for (const part of parts) logits.push(await reader.extend(part));
  const tokens = [...reader.context.tokens];
  reader.context.release();
  const runs = run.mock.calls.length;
  run.mockRestore();
  return { logits, tokens, runs };
}

test("what is read once more changes nothing: logits behind prompts of many lengths, and behind what follows them", async () => {
  const session = await decoderSession({ inPlace: "require" });
  const decoder = new Decoder(session);
  for (const length of [1, 3, 15, 16, 17, 40, 63, 64, 65, 70, 129, 150]) {
    const prompt = Array.from({ length }, (_, at) => tokenAt(at));
    const more = [5, 9, 17, 33].map((count, at) =>
      Array.from({ length: at === 2 ? 1 : count }, (_, of) => tokenAt(7 * of + at)),
    );
    const whole = await readBy(decoder, { chunk: capacity }, [prompt, ...more]);
    const few = await readBy(decoder, { chunk: 64, recurs: true }, [prompt, ...more]);
    expect(few.tokens).toEqual(whole.tokens);
    few.logits.forEach((logits, at) => {
      const apart = largestDifference(logits, whole.logits[at]);
      expect(apart, `${length} tokens, part ${at}`).toBeLessThan(1e-4);
    });
    // Five, nine and 33 tokens behind others are one run each, a single one too.
    if (length >= 64) expect(few.runs).toBeLessThanOrEqual(Math.ceil(length / 64) + 1 + more.length);
  }
  await session.release();
});
