// Caches as short as the window (sliding_window_cache) in a state: of a published file, for many times as many tokens as they hold. The oracle is the same
// file with all rows kept: rewritten, and read whole in one run.
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { publishedFiles, writeFolder } from "../support/published-folders.js";

const folder = writeFolder(publishedFiles("mistral-int4-cpu"));
const window = 8;
const random = seededRandom(11);
const text = Array.from({ length: 200 }, () => 3 + Math.floor(random() * 150));
const int64 = (values: readonly number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);

let session: InferenceSession;
let logitsBehind: Float32Array[];
beforeAll(async () => {
  const path = join(folder.path, "model.onnx");
  session = await InferenceSession.create(path, { rewrite: "never", threads: 1 });
  const whole = await InferenceSession.create(path, { rewrite: "require", threads: 1 });
  const state = whole.createState({ dims: { batch: 1, capacity: text.length } });
  const positions = int64(text.map((_, at) => at));
  const { logits } = await whole.run({ input_ids: int64(text), position_ids: positions }, { logits: null }, { state });
  logitsBehind = text.map((_, at) => (logits.data as Float32Array).slice(160 * at, 160 * (at + 1)));
  await whole.release();
});
afterAll(async () => {
  await session.release();
  folder.remove();
});

/** Activations are rounded to bytes in the file's products: a sum in another order may round the other way. */
const tolerance = 5e-2;

/** Reads the text from `from` to `to` in one run; fails unless the last logits are those of the text read whole. */
async function read(state: ReturnType<InferenceSession["createState"]>, from: number, to: number): Promise<void> {
  const feeds = { input_ids: int64(text.slice(from, to)), attention_mask: int64(text.slice(0, to).map(() => 1)) };
  const { logits } = await session.run(feeds, { logits: null }, { state });
  const last = (logits.data as Float32Array).slice(-160);
  const worst = Math.max(...last.map((logit, at) => Math.abs(logit - logitsBehind[to - 1][at])));
  expect(worst, `behind ${to} tokens`).toBeLessThan(tolerance);
}

test.each([
  ["as short as the window", window],
  ["with some rows to spare", 21],
])("a cache %s, for 200 tokens, in place", async (_, rows) => {
  const state = session.createState({ dims: { batch: 1, past_sequence_length: rows } });
  expect(state.get("past_key_values.0.key").dims).toEqual([1, 2, rows, 16]);
  await read(state, 0, 5);
  await read(state, 5, 40);
  for (let at = 40; at < 60; at++) await read(state, at, at + 1);
  await read(state, 60, 130);
  for (let at = 130; at < text.length; at++) await read(state, at, at + 1);
  expect(state.statistics.movedBytes).toBe(0);
  state.release();
});

test("without a size it has what the window needs and some to spare; forks and saved states go on from where they are", async () => {
  const state = session.createState({ dims: { batch: 1, capacity: 4096 } });
  const rows = state.get("past_key_values.0.key").dims[2];
  expect([rows >= window, rows < 100]).toEqual([true, true]);
  await read(state, 0, 90);
  const fork = state.fork();
  const saved = await state.save();
  for (let at = 90; at < 95; at++) await read(state, at, at + 1);
  for (let at = 90; at < 95; at++) await read(fork, at, at + 1);
  await state.restore(saved);
  for (let at = 90; at < 95; at++) await read(state, at, at + 1);
  state.release();
  fork.release();
});

test("a cache that is shorter than the window is refused", async () => {
  const state = session.createState({ dims: { batch: 1, past_sequence_length: 5 } });
  const feeds = { input_ids: int64([3]), attention_mask: int64([1]) };
  await expect(session.run(feeds, { state })).rejects.toThrow(
    /sliding_window_cache needs a past of at least local_window_size 8 rows, got 5/,
  );
  state.release();
});

test("without a state presents have as many rows as pasts, whoever keeps them", async () => {
  const rows = 12;
  const path = join(folder.path, "model.onnx");
  const sessions = [session, await InferenceSession.create(path, { presents: "keep", threads: 1 })];
  const pasts = session.inputNames.filter((name) => name.startsWith("past"));
  const results: { dims: readonly number[]; logits: number[] }[][] = [[], []];
  for (const [at, own] of sessions.entries()) {
    let carried: Record<string, Tensor> = {};
    for (const name of pasts) carried[name] = new Tensor("float32", new Float32Array(2 * rows * 16), [1, 2, rows, 16]);
    for (const [from, to] of [[0, rows], ...Array.from({ length: 8 }, (_, step) => [rows + step, rows + step + 1])]) {
      const feeds = { input_ids: int64(text.slice(from, to)), attention_mask: int64(text.slice(0, to).map(() => 1)) };
      const outputs = await own.run({ ...feeds, ...carried });
      carried = Object.fromEntries(pasts.map((name) => [name, outputs[name.replace("past_key_values", "present")]]));
      const { dims } = carried["past_key_values.0.key"];
      results[at].push({ dims, logits: Array.from((outputs["logits"].data as Float32Array).slice(-160)) });
    }
  }
  expect(results[1]).toEqual(results[0]);
  expect(new Set(results[1].map(({ dims }) => dims.join()))).toEqual(new Set([`1,2,${rows},16`]));
  await sessions[1].release();
});
