// More weights than one memory can hold, on a real file: load, decode, and what it costs. Only with INSITU_SOAK, for it takes 10 GiB of
// memory and disk. The rest of the time the same is tested on small memories.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { type DecoderSizes, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { writeRepeatedDecoder } from "../support/repeated-decoder.js";
import { soak } from "../support/soak.js";

const layer: DecoderSizes = {
  ...smallSizes,
  hidden: 2048,
  heads: 16,
  keyValueHeads: 4,
  headSize: 128,
  intermediate: 8192,
  vocabulary: 1024,
};

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

function resident(): number {
  for (let pass = 0; pass < 3; pass++) collectGarbage();
  return process.memoryUsage().rss;
}

const integers = (values: readonly number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);

interface Measured {
  readonly loadSeconds: number;
  readonly tokenSeconds: number;
  /** Resident bytes that the session brought, at its end. */
  readonly residentBytes: number;
  readonly logits: readonly Float32Array[];
  readonly memories: number;
  readonly reports: number;
}

async function measure(path: string, memoryBytes?: number): Promise<Measured> {
  const before = resident();
  const start = performance.now();
  let reports = 0;
  const session = await InferenceSession.create(path, {
    threads: 2,
    inPlace: "require",
    onProgress: () => void reports++,
    ...(memoryBytes === undefined ? {} : { wasm: { memoryBytes } }),
  });
  const loadSeconds = (performance.now() - start) / 1000;
  const state = session.createState({ dims: { batch: 1, capacity: 256 } });
  const logits: Float32Array[] = [];
  const times: number[] = [];
  const run = async (ids: readonly number[], at: number): Promise<void> => {
    const from = performance.now();
    const feeds = { input_ids: integers(ids), position_ids: integers(ids.map((_, index) => at + index)) };
    logits.push((await session.run(feeds, { state }))["logits"].data as Float32Array);
    times.push((performance.now() - from) / 1000);
  };
  await run([3, 14, 15, 92], 0);
  for (let token = 0; token < 12; token++) await run([token * 7], 4 + token);
  const memories = session.explain().match(/memory \d+: \d+ bytes of weights/g)?.length ?? 1;
  const residentBytes = resident() - before;
  await session.release();
  // The fastest of the later steps: the machine may have other things to do.
  return { loadSeconds, tokenSeconds: Math.min(...times.slice(4)), residentBytes, logits, memories, reports };
}

test.skipIf(!soak)(
  "a decoder with more weights than 4 GiB loads, decodes as fast as its size lets it, and is held once",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "insitu-large-"));
    try {
      const form = { weights: { bits: 8, blockSize: 32 } } as const;
      const small = writeRepeatedDecoder(folder, { ...layer, layers: 12 }, form);
      const one = await measure(small.path);
      const large = writeRepeatedDecoder(folder, { ...layer, layers: 76 }, form);
      const many = await measure(large.path);
      const others = await measure(large.path, 2 ** 31);
      const expected = (one.tokenSeconds * large.weightBytes) / small.weightBytes;
      const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(2)} GB`;
      console.log(
        [
          `weights ${gigabytes(large.weightBytes)} in ${many.memories} memories (${others.memories} of 2 GiB)`,
          `loaded in ${many.loadSeconds.toFixed(1)} s (${gigabytes(large.weightBytes / many.loadSeconds)}/s)`,
          `a token ${many.tokenSeconds.toFixed(3)} s, ${expected.toFixed(3)} s by the small model's rate (ratio ${(expected / many.tokenSeconds).toFixed(2)})`,
          `resident ${gigabytes(many.residentBytes)}`,
        ].join("; "),
      );
      expect(large.weightBytes).toBeGreaterThan(2 ** 32);
      expect(one.memories).toBe(1);
      expect(many.memories).toBeGreaterThanOrEqual(2);
      expect(many.reports).toBeGreaterThan(50);
      expect(others.logits).toEqual(many.logits);
      expect(many.logits.every((row) => row.every((value) => Number.isFinite(value)))).toBe(true);
      expect(many.residentBytes).toBeLessThan(large.weightBytes * 1.1 + 2e8);
      expect(expected / many.tokenSeconds).toBeGreaterThan(0.5);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);
