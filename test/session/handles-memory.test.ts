// A long text by a program that feeds presents back and disposes of nothing: what is held are the caches, and nothing is left behind for
// the tokens that went through them.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { publishedDecoder, smallPublishedSizes } from "../../tools/demo/published-decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { Client, difference, type Past, pastDifference } from "./handle-client.js";
import { soak } from "../support/soak.js";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const tokens = soak ? 2000 : 240;
/** From here on caches have room for all of them. */
const settled = tokens === 2000 ? 1100 : 40;

/** What is alive, once what can be collected was. */
async function aliveBytes(): Promise<number> {
  for (let round = 0; round < 3; round++) {
    collect();
    // Finalizers run between tasks.
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

test(`memory is flat over ${tokens} tokens`, async () => {
  const { layers, keyValueHeads, headSize } = smallPublishedSizes;
  const bytes = writeModel(publishedDecoder({ ...smallPublishedSizes, positions: 4096 }, { type: "float32" }));
  const client = new Client(await InferenceSession.create(bytes, { presents: "keep", threads: 1 }));
  const decode = async (from: Past, count: number): Promise<Past> => {
    let past = from;
    for (let at = 0; at < count; at++) past = await client.run([[(7 * past.rows) % 90]], past);
    return past;
  };
  let past = await decode(client.empty(), settled);
  const before = await aliveBytes();
  const { allocations } = client.session.memory;
  past = await decode(past, tokens - settled);
  // No token allocates while there is room for its row.
  expect(client.session.memory.allocations).toBe(allocations);
  const capacity = 256 * 2 ** Math.ceil(Math.log2(Math.max(1, tokens / 256)));
  const rowBytes = 2 * layers * keyValueHeads * headSize * 4;
  expect(client.runs).toMatchObject({ started: 1, continued: tokens - 1, copied: 0, forked: 0, imported: 0 });
  expect(client.runs!.heldBytes).toBe(capacity * rowBytes);
  // Caches that grew moved each row less than once on average.
  expect(client.runs!.movedBytes).toBeLessThanOrEqual(tokens * rowBytes);
  expect((await aliveBytes()) - before).toBeLessThan(2 ** 19);
  expect(past.rows).toBe(tokens);
  past = client.empty();
  await aliveBytes();
  await expect.poll(async () => (await aliveBytes(), client.runs!.heldBytes)).toBe(0);
});

test("texts that are left alone give their caches back, and can be gone on from", async () => {
  const bytes = writeModel(publishedDecoder({ ...smallPublishedSizes, positions: 512 }, { type: "float32" }));
  const [ours, theirs] = [
    new Client(await InferenceSession.create(bytes, { presents: "keep", threads: 1 })),
    new Client(await InferenceSession.create(bytes, { presents: "copy", threads: 1 })),
  ];
  const texts: (readonly [Past, Past])[] = [];
  const tokensOf = (text: number): number[][] => [[text % 90, (3 * text) % 90, (text + 41) % 90]];
  for (let text = 0; text < 24; text++)
    texts.push([await ours.run(tokensOf(text), ours.empty()), await theirs.run(tokensOf(text), theirs.empty())]);
  const { layers, keyValueHeads, headSize } = smallPublishedSizes;
  expect(ours.runs).toMatchObject({ started: 24, spilled: 8 });
  expect(ours.runs!.heldBytes).toBe(16 * 256 * 2 * layers * keyValueHeads * headSize * 4);
  // The first is gone on from twice, once its elements were read; the last never left.
  expect(await pastDifference(texts[1][0], texts[1][1], 2e-4)).toBe("");
  for (const text of [0, 1, 0, 23]) {
    const [own, other] = texts[text];
    const steps = [await ours.run([[7]], own), await theirs.run([[7]], other)] as const;
    expect(await difference({ ...steps[0], tensors: {} }, { ...steps[1], tensors: {} }, 2e-4), `${text}`).toBe("");
  }
  expect(ours.runs).toMatchObject({ imported: 3, continued: 1, copied: 0 });
});
