// Float weights are read as they lie: after runs of one token and of many a decoder holds what it held when it was loaded. In a process of
// its own, whose resident memory is measured.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, expect, test } from "vitest";
import { smallSizes } from "../../tools/demo/decoder.js";
import { writeRepeatedDecoder } from "../support/repeated-decoder.js";

const entry = pathToFileURL(fileURLToPath(new URL("../../dist/index.node.js", import.meta.url))).href;
const folder = mkdtempSync(join(tmpdir(), "insitu-float-"));
const sizes = { ...smallSizes, layers: 4, hidden: 1024, heads: 8, headSize: 128, intermediate: 2048, vocabulary: 512 };
afterAll(() => rmSync(folder, { recursive: true }));

test("a float decoder holds no second form of its weights", () => {
  const { weightBytes } = writeRepeatedDecoder(folder, sizes, {});
  const script = join(folder, "script.mjs");
  writeFileSync(
    script,
    `import { InferenceSession, Tensor } from ${JSON.stringify(entry)};
     const ids = (from, count) =>
       new Tensor("int64", BigInt64Array.from({ length: count }, (_, at) => BigInt(from + at)), [1, count]);
     const step = (from, count) =>
       session.run({ input_ids: ids(from, count), position_ids: ids(from, count) }, { state });
     const start = process.memoryUsage().rss;
     const session = await InferenceSession.create(${JSON.stringify(join(folder, "model.onnx"))}, { threads: 2 });
     const state = session.createState({ dims: { batch: 1, capacity: 64 } });
     const loaded = process.memoryUsage().rss - start;
     await step(0, 16);
     for (let at = 16; at < 19; at++) await step(at, 1);
     globalThis.gc();
     console.log(JSON.stringify({ loaded, after: process.memoryUsage().rss - start }));`,
  );
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--expose-gc", script], { encoding: "utf8" });
  expect([status, stderr]).toEqual([0, ""]);
  const { loaded, after } = JSON.parse(stdout) as { readonly loaded: number; readonly after: number };
  console.log(`weights ${weightBytes}, after loading ${loaded}, after running ${after} bytes`);
  expect(weightBytes).toBeGreaterThan(100e6);
  expect(loaded).toBeGreaterThan(weightBytes);
  expect(after).toBeLessThan(1.1 * loaded);
});
