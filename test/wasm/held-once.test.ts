// Weights are held once: read from a file or taken from the caller straight into the memory that kernels compute on. Each case runs in a
// process of its own, which tells the most memory it ever had.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { smallSizes } from "../../tools/demo/decoder.js";
import { writeModel } from "../../src/onnx/write.js";
import { repeatedDecoder, writeRepeatedDecoder } from "../support/repeated-decoder.js";

const entry = pathToFileURL(fileURLToPath(new URL("../../dist/index.node.js", import.meta.url))).href;
const folder = mkdtempSync(join(tmpdir(), "insitu-held-"));
const sizes = { ...smallSizes, layers: 6, hidden: 1024, heads: 8, headSize: 128, intermediate: 4096, vocabulary: 256 };
// Kernels take these weights as they are: nothing is packed beside them.
const form = { weights: { bits: 8, blockSize: 32 } } as const;
let weightBytes = 0;

beforeAll(() => {
  ({ weightBytes } = writeRepeatedDecoder(folder, sizes, form));
  writeFileSync(join(folder, "whole.onnx"), writeModel(repeatedDecoder(sizes, form)));
});
afterAll(() => rmSync(folder, { recursive: true }));

interface Memory {
  /** Bytes beyond those of the process before it loads: resident at the end and at most, and in ArrayBuffers at the end. */
  readonly resident: number;
  readonly most: number;
  readonly arrayBuffers: number;
  readonly reports: readonly (readonly [number, number])[];
}

const tokens = `const state = session.createState({ dims: { batch: 1, capacity: 64 } });
     for (let at = 0; at < 3; at++) await session.run({ input_ids: ids(at), position_ids: ids(at) }, { state });`;

/** Loads the model that `source` gives, runs it, and tells what it took. */
function load(source: string, options = "{}", run = tokens): Memory {
  const script = join(folder, "script.mjs");
  writeFileSync(
    script,
    `import { readFileSync } from "node:fs";
     import { InferenceSession, Tensor } from ${JSON.stringify(entry)};
     const ids = (...values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
     const folder = ${JSON.stringify(folder)};
     // Linux counts the process that started this one into maxRSS.
     const mostResident = () => {
       if (process.platform !== "linux") return process.resourceUsage().maxRSS * 1024;
       return Number(/VmHWM:\\s+(\\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]) * 1024;
     };
     const before = process.memoryUsage();
     const reports = [];
     const onProgress = (done, total) => reports.push([done, total]);
     const session = await InferenceSession.create(${source}, { threads: 2, onProgress, ...${options} });
     ${run}
     globalThis.gc();
     await new Promise((resolve) => setTimeout(resolve, 50));
     globalThis.gc();
     const after = process.memoryUsage();
     console.log(JSON.stringify({
       resident: after.rss - before.rss,
       most: mostResident() - before.rss,
       arrayBuffers: after.arrayBuffers - before.arrayBuffers,
       reports,
     }));`,
  );
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--expose-gc", script], {
    encoding: "utf8",
    timeout: 240_000,
  });
  expect([status, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as Memory;
}

/** What a process may take beside the weights: code, caches, scratch and what the collector has not returned. */
const aside = 70e6;

const tell = (what: string, { resident, most }: Memory): void =>
  console.log(
    `${what}: weights ${(weightBytes / 1e6).toFixed(0)} MB, resident ${(resident / 1e6).toFixed(0)} MB, at most ${(most / 1e6).toFixed(0)} MB`,
  );

test("weights beside the model are read straight into memory, with progress", () => {
  const memory = load("`${folder}/model.onnx`");
  tell("beside the model", memory);
  expect(weightBytes).toBeGreaterThan(90e6);
  expect(memory.most).toBeLessThan(weightBytes + aside);
  expect(memory.arrayBuffers).toBeLessThan(5e6);
  const weights = memory.reports.filter(([, total]) => total > 50e6);
  expect(weights.length).toBeGreaterThan(20);
  expect(weights.at(-1)).toEqual([weights[0][1], weights[0][1]]);
});

test("weights inside the model's file are read straight into memory, with progress", () => {
  const memory = load("`${folder}/whole.onnx`");
  tell("inside the file", memory);
  expect(memory.most).toBeLessThan(weightBytes + aside);
  expect(memory.arrayBuffers).toBeLessThan(5e6);
  expect(memory.reports.length).toBeGreaterThan(1);
  expect(memory.reports.at(-1)).toEqual([memory.reports[0][1], memory.reports[0][1]]);
});

test("bytes that the caller gives are not kept", () => {
  const memory = load("readFileSync(`${folder}/whole.onnx`)");
  tell("given as bytes", memory);
  expect(memory.resident).toBeLessThan(weightBytes + aside);
  expect(memory.arrayBuffers).toBeLessThan(5e6);
  const beside = load(
    "`${folder}/model.onnx`",
    "{ externalData: [{ path: 'weights.bin', data: readFileSync(`${folder}/weights.bin`) }] }",
  );
  tell("given as bytes beside the model", beside);
  expect(beside.resident).toBeLessThan(weightBytes + aside);
});

test("a matrix that is embedding and head at once is read as it lies by both", () => {
  const [words, width] = [40_000, 512];
  const numbers = Float32Array.from({ length: words * width }, (_, at) => (at % 251) - 125);
  for (const [shape, looksUp, multiplies] of [
    [[words, width], "matrix", "turned"],
    [[width, words], "turned", "matrix"],
  ] as const) {
    const tied = buildModel({
      opset: { "": 21 },
      inputs: [value("ids", "int64", ["batch", "sequence"])],
      outputs: [value("logits")],
      initializers: [initializer("matrix", "float32", numbers, shape)],
      nodes: [
        node("Transpose", ["matrix"], ["turned"], { perm: [1, 0] }),
        node("Gather", [looksUp, "ids"], ["rows"]),
        node("MatMul", ["rows", multiplies], ["logits"]),
      ],
    });
    writeFileSync(join(folder, "tied.onnx"), writeModel(tied));
    const memory = load("`${folder}/tied.onnx`", "{}", "await session.run({ ids: ids(1, 2, 3) });");
    tell(`${looksUp} looked up`, memory);
    expect(memory.most).toBeLessThan(numbers.byteLength + aside);
  }
});
