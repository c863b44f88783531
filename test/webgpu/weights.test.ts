// Weights on a GPU: they come from their file in pieces, and the host keeps none of them, whatever the file is read by. Each case runs in a process of
// its own, which tells the bytes of its ArrayBuffers, at most and in the end. SwiftShader's buffers are no ArrayBuffers.
import { spawn } from "node:child_process";
import { createReadStream, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { noWebgpu } from "../support/backends.js";
import { repeatedDecoder, writeRepeatedDecoder } from "../support/repeated-decoder.js";
import { soak } from "../support/soak.js";

const dist = new URL("../../dist/", import.meta.url).href;
const folder = mkdtempSync(join(tmpdir(), "insitu-weights-"));
const base = { ...smallSizes, heads: 8, keyValueHeads: 4, headSize: 64 };
/** Floats, in the model's own file. */
const floats = {
  ...base,
  ...(soak ? { layers: 3, vocabulary: 16384 } : { layers: 2, vocabulary: 8192 }),
  hidden: 1024,
  intermediate: 3072,
};
/** Four bits, beside the model. */
const blocks = {
  ...base,
  ...(soak ? { layers: 6, vocabulary: 32768 } : { layers: 4, vocabulary: 20480 }),
  hidden: 1024,
  intermediate: 4096,
};
/** Bytes that a file has at least, so that what the host holds for a moment is little of it. */
const leastBytes = soak ? 200e6 : 120e6;

const whole = join(folder, "whole.onnx");
let server: Server;
let url = "";

interface Told {
  /** Bytes of ArrayBuffers beyond those before the model was loaded. */
  readonly most: number;
  readonly held: number;
  readonly logits: readonly number[];
  readonly reports: readonly (readonly [number, number])[];
  readonly weights: string;
}

/** What is read one run after the other: a token alone and rows behind it; and what is enough where only the way of the weights is another. */
const runs = [[3], [1, 4, 1]];
const fewRuns = soak ? runs : runs.slice(0, 1);

/** The last logits of each run, as the script has them. */
async function logitsOnWasm(path: string): Promise<number[]> {
  const session = await InferenceSession.create(path, { backend: "wasm", threads: 1 });
  const state = session.createState({ dims: { batch: 1, capacity: 8 } });
  const logits: number[] = [];
  for (const ids of runs) {
    const feed = (values: readonly number[]): Tensor =>
      new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
    const from = state.lengths[0];
    const fed = { input_ids: feed(ids), position_ids: feed(ids.map((_, at) => from + at)) };
    const { logits: made } = await session.run(fed, { state });
    logits.push(...(made.data as Float32Array).subarray(-64));
  }
  await session.release();
  return logits;
}

/** Loads a model in a process of its own and reads `ids` in it; `open` are lines that make a `platform` and a `source`. */
async function load(open: string, ids: readonly (readonly number[])[], options = "{}"): Promise<Told> {
  const script = join(folder, "script.mjs");
  writeFileSync(
    script,
    `import { openAsBlob, readFileSync } from "node:fs";
     const load = (path) => import(${JSON.stringify(dist)} + path);
     const { nodePlatform } = await load("platform/node.js");
     const { webPlatform } = await load("platform/web.js");
     const { backends } = await load("entry/backends.js");
     const { Session } = await load("session/session.js");
     const { Tensor } = await load("tensor/tensor.js");
     const { droppedTree, treePlatform } = await load("platform/file-tree.js");
     const onGpu = (platform) => ({ ...platform, threads: { count: 1 }, gpu: nodePlatform.gpu });
     const folder = ${JSON.stringify(folder)};
     ${open}
     class Placed extends Session {}
     const bytes = () => process.memoryUsage().arrayBuffers;
     const before = bytes();
     let most = 0;
     const look = () => (most = Math.max(most, bytes() - before));
     const timer = setInterval(look, 1);
     const reports = [];
     const onProgress = (...told) => { look(); reports.push(told); };
     const settings = { backend: "webgpu", onProgress, ...${options} };
     const session = new Placed(await Session.prepare(source, platform, backends, settings));
     const state = session.createState({ dims: { batch: 1, capacity: 8 } });
     const logits = [];
     for (const ids of ${JSON.stringify(ids)}) {
       const feed = (values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
       const from = state.lengths[0];
       const fed = { input_ids: feed(ids), position_ids: feed(ids.map((_, at) => from + at)) };
       const { logits: made } = await session.run(fed, { state });
       logits.push(...made.data.subarray(-64));
       look();
     }
     clearInterval(timer);
     for (let round = 0; round < 3; round++) {
       globalThis.gc();
       await new Promise((resolve) => setTimeout(resolve, 20));
     }
     const weights = session.explain().split("\\n").find((line) => line.includes("came from their files")) ?? "";
     console.log(JSON.stringify({ most, held: bytes() - before, logits, reports, weights }));
     await session.release();`,
  );
  const child = spawn(process.execPath, ["--expose-gc", "--no-warnings", script], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [out, errors] = ["", ""];
  child.stdout.on("data", (piece) => (out += String(piece)));
  child.stderr.on("data", (piece) => (errors += String(piece)));
  const status = await new Promise((resolve) => child.on("close", resolve));
  expect([status, errors]).toEqual([0, ""]);
  return JSON.parse(out) as Told;
}

/** What a process may hold at most while weights come, of those of the model: pieces, and what the collector has not returned. */
const mostShare = 0.4;

function expectNoneHeld({ most, held, reports, weights }: Told, fileBytes: number): void {
  console.log(`${fileBytes} bytes: at most ${most} on the host, ${held} in the end; ${weights.trim()}`);
  expect(most).toBeLessThan(mostShare * fileBytes);
  expect(held).toBeLessThan(8e6);
  const [, fromFiles, onHost] = /(\d+) bytes came from their files in pieces; (\d+) bytes/.exec(weights)!;
  expect(Number(fromFiles)).toBeGreaterThan(0.9 * fileBytes);
  expect(Number(onHost)).toBeLessThan(4e6);
  expect(reports.length).toBeGreaterThan(20);
  const done = reports.map(([loaded]) => loaded);
  expect(done).toEqual(done.toSorted((a, b) => a - b));
  const [loaded, total] = reports.at(-1)!;
  expect([loaded, total]).toEqual([total, total]);
  expect(total).toBeGreaterThanOrEqual(0.99 * fileBytes);
}

function expectClose(logits: readonly number[], expected: readonly number[], within: number): void {
  expect(logits).toHaveLength(expected.length);
  const farthest = Math.max(...logits.map((logit, at) => Math.abs(logit - expected[at])));
  expect(farthest).toBeLessThan(within);
}

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  let [fileBytes, besideBytes] = [0, 0];
  let [ofFloats, ofBlocks]: number[][] = [[], []];

  beforeAll(async () => {
    writeFileSync(whole, writeModel(repeatedDecoder(floats, {})));
    fileBytes = statSync(whole).size;
    const beside = writeRepeatedDecoder(folder, blocks, { weights: { bits: 4, blockSize: 32 } });
    besideBytes = beside.weightBytes;
    ofFloats = await logitsOnWasm(whole);
    ofBlocks = await logitsOnWasm(beside.path);
    server = createServer(({ headers }, response) => {
      const isRanged = headers.range !== undefined;
      const [, from, to] = /bytes=(\d+)-(\d*)/.exec(headers.range ?? "") ?? [];
      const start = isRanged ? Number(from) : 0;
      const end = isRanged && to ? Number(to) : fileBytes - 1;
      response.writeHead(isRanged ? 206 : 200, {
        "content-length": end + 1 - start,
        ...(isRanged ? { "content-range": `bytes ${start}-${end}/${fileBytes}` } : {}),
      });
      const file = createReadStream(whole, { start, end });
      response.on("close", () => file.destroy());
      file.pipe(response);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/whole.onnx`;
  });
  afterAll(() => {
    server?.close();
    server?.closeAllConnections();
    rmSync(folder, { recursive: true });
  });

  test("from one file", async () => {
    const told = await load("const [platform, source] = [nodePlatform, folder + '/whole.onnx'];", runs);
    expect(fileBytes).toBeGreaterThan(leastBytes);
    expectNoneHeld(told, fileBytes);
    expectClose(told.logits, ofFloats, 1e-3);
  });

  test("from a file beside the model, in blocks of four bits", async () => {
    const told = await load("const [platform, source] = [nodePlatform, folder + '/model.onnx'];", runs);
    expect(besideBytes).toBeGreaterThan(leastBytes);
    expectNoneHeld(told, besideBytes);
    expectClose(told.logits, ofBlocks, 0.05);
  });

  test("over HTTP, in ranges", async () => {
    const told = await load(`const [platform, source] = [onGpu(webPlatform), ${JSON.stringify(url)}];`, fewRuns);
    expectNoneHeld(told, fileBytes);
    expectClose(told.logits, ofFloats.slice(0, 64 * fewRuns.length), 1e-3);
  });

  test("from a file that was dropped on a page", async () => {
    const told = await load(
      `const file = new File([await openAsBlob(folder + "/whole.onnx")], "whole.onnx");
       file.webkitRelativePath = "";
       const { name, tree } = await droppedTree([file]);
       const [platform, source] = [treePlatform(onGpu(webPlatform), name, tree), name + "/whole.onnx"];`,
      fewRuns,
    );
    expectNoneHeld(told, fileBytes);
    expectClose(told.logits, ofFloats.slice(0, 64 * fewRuns.length), 1e-3);
  });

  test("with presents kept inside, they are there once", async () => {
    const told = await load(
      "const [platform, source] = [nodePlatform, folder + '/whole.onnx'];",
      fewRuns,
      '{ presents: "keep" }',
    );
    expectNoneHeld(told, fileBytes);
    expectClose(told.logits, ofFloats.slice(0, 64 * fewRuns.length), 1e-3);
  });

  test("bytes that no file has stay on the host once, and explain says so", async () => {
    const told = await load(
      "const [platform, source] = [nodePlatform, readFileSync(folder + '/whole.onnx')];",
      fewRuns,
    );
    const [, fromFiles, onHost] = /(\d+) bytes came from their files in pieces; (\d+) bytes/.exec(told.weights)!;
    expect(Number(fromFiles)).toBe(0);
    expect(Number(onHost)).toBeGreaterThan(0.9 * fileBytes);
    expect(told.held).toBeLessThan(1.05 * fileBytes);
    expectClose(told.logits, ofFloats.slice(0, 64 * fewRuns.length), 1e-3);
  });
});
