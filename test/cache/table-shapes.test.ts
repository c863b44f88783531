// Tables of pages keep one shape while a text grows beyond 64 blocks, so that no program is made in its middle; whole numbers that runs are fed
// are those that were asked for, also where they do not fit half of 64 bits.
import { expect, test, vi } from "vitest";
import { int64 } from "../../src/decoder/decoder-inputs.js";
import { CausalLM } from "../../src/entry/node.js";
import { pageInputs } from "../../packages/rewrite/page-names.js";
import { tokensOf } from "../generate/support.js";

test("a text that grows past 64 blocks", async () => {
  const lm = await CausalLM.load(undefined, { cache: "paged", blockSize: 1, context: 90, threads: 1 });
  const run = vi.spyOn(lm.session, "run");
  const made = await tokensOf(lm.generate("The wolf", { maxTokens: 80, temperature: 0, ignoreEnd: true }));
  await lm.release();
  expect(made.length).toBe(80);
  const shapes = run.mock.calls.map(([feeds]) => String(feeds[pageInputs.tables].dims));
  expect(shapes.length).toBe(80);
  // The prompt is read as one of few numbers of sequences.
  expect([...new Set(shapes)]).toEqual(["5,90", "1,90"]);
});

test("whole numbers of every size", () => {
  const values = [0, -0, 1, -1, 2 ** 31 - 1, -(2 ** 31), 2 ** 31, -(2 ** 31) - 1, 2 ** 52, -Number.MAX_SAFE_INTEGER];
  expect([...(int64(values, [values.length]).data as BigInt64Array)]).toEqual(values.map(BigInt));
  expect(() => int64([0.5], [1])).toThrow(RangeError);
});
