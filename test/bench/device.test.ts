// The load of WebGPU: all ways to decode agree, on the compiled kernels, where that is quick; single operators run on the device itself. Nothing here
// depends on how long anything takes.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { device } from "../../tools/bench/device/device.js";
import { writeGguf } from "../../tools/bench/device/gguf.js";
import { findDevicePeers } from "../../tools/bench/device/peer-processes.js";
import { fullSizes } from "../../tools/bench/device/sizes.js";
import { findLoads, loadNames, loads } from "../../tools/bench/loads.js";
import { runBench } from "../../tools/bench/run.js";
import { reportText } from "../../tools/bench/table.js";
import { publishedDecoder, smallPublishedSizes } from "../../tools/demo/published-decoder.js";
import { keepDevice } from "../support/device.js";
import { soak } from "../support/soak.js";

const hasDevice = await keepDevice().then(
  async (leave) => {
    await leave();
    return true;
  },
  () => false,
);

test("tokens by generate, by session.run and on pages are the same", async () => {
  const report = await runBench([device], { quick: true, repeats: 1, alone: true, backend: "wasm", only: "weights" });
  const { groups } = report.loads[0];
  expect(groups).toHaveLength(14);
  for (const { name, contestants, failed } of groups) {
    expect(failed).toEqual([]);
    for (const { name: who, problem } of contestants) expect(problem, `${name}: ${who}`).toBeNull();
  }
  const batch = groups.find(({ name }) => name.startsWith("a step of 3 texts"))!;
  expect(batch.contestants.map(({ name }) => name)).toEqual([
    "insitu, generate",
    "insitu, generateBatch, default options",
    "insitu, generate, on pages",
    "insitu, session.run, ArgMax in the graph",
    "insitu, session.run, on pages, ArgMax in the graph",
  ]);
  const namesOf = (group: string): string[] =>
    groups.find(({ name }) => name.startsWith(group))!.contestants.map(({ name }) => name);
  expect(namesOf("a prompt of 24 tokens")).toEqual([
    "insitu, generate, the prompt in one run",
    "insitu, generate, default chunk",
    "insitu, session.run, ArgMax in the graph, the prompt in one run",
  ]);
  expect(namesOf("a prompt of 96 tokens")).toEqual(["insitu, generate, default chunk"]);
  const whole = groups.find(({ name }) => name.startsWith("3 texts of 4 tokens behind 8, prompts counted"))!;
  expect(whole.contestants.map(({ name }) => name)).toEqual([
    "insitu, generateBatch, default options",
    "insitu, generate, on pages",
  ]);
  for (const { medianMs, figures } of whole.contestants)
    expect(figures).toMatchObject({
      "tokens a second": expect.closeTo(12_000 / medianMs, 6),
      "ms to the first token": expect.any(Number),
    });
  for (const { medianMs, figures } of batch.contestants)
    expect(figures["tokens a second"]).toBeCloseTo(3000 / medianMs, 6);
  expect(reportText(report)).toContain("tokens a second");
});

test.skipIf(!hasDevice)(
  "cache writes and attention on the device, and a token that allocates nothing there",
  async () => {
    const options = { quick: true, repeats: 1, alone: true } as const;
    const report = await runBench([device], { ...options, only: soak ? "" : "float16" });
    expect(report.backend).toBe("webgpu");
    const [write, attention] = report.loads[0].groups.filter(({ name }) => name.endsWith("float16"));
    expect(write.contestants).toHaveLength(1);
    expect(Object.keys(attention.contestants[1].figures)).toEqual(["GB/s", "of copy speed"]);
    if (!soak) return;
    for (const { contestants } of report.loads[0].groups)
      for (const { figures } of contestants) expect(figures["GPU bytes allocated a token"] ?? 0).toBe(0);
  },
);

const peers = findDevicePeers();

test.runIf(soak && hasDevice && peers.peers.length > 0)("peers choose the same tokens", async () => {
  const report = await runBench([device], { quick: true, repeats: 1, only: "one token at context 8" });
  for (const { contestants, failed } of report.loads[0].groups) {
    expect(failed).toEqual([]);
    expect(contestants.length).toBe(2 + peers.peers.length);
    for (const { name, problem } of contestants) expect(problem, name).toBeNull();
  }
});

test("the load runs where its backend is asked for, or by its name", () => {
  expect(findLoads(undefined, "webgpu")).toEqual([device]);
  expect(findLoads(undefined, "wasm")).toBe(loads);
  expect(findLoads("device")).toEqual([device]);
  expect(loadNames).toContain("device");
});

test("the full sizes are those that are spoken of", () => {
  const names = device
    .groups({ quick: false, peers: [], alone: true, backend: "webgpu", threads: 1 })
    .map(({ name }) => name);
  for (const part of [
    "one token at context 128, float16 weights, 28 layers of 1024, vocabulary 151,936",
    "one token at context 4096, int4 weights",
    "a prompt of 4096 tokens, float16 weights",
    "a prompt of 32768 tokens, int4 weights",
    "32 texts of 128 tokens behind 1024, prompts counted, int4 weights",
    "a step of 32 texts at context 1024, int4 weights",
    "32 samples of 8192 rows, 16/8 heads of 128, float16",
  ])
    expect(
      names.some((name) => name.includes(part)),
      part,
    ).toBe(true);
  expect(fullSizes.type).toBe("float16");
});

test("where no peer is installed, the way to install it is told", () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-peers-"));
  try {
    const { missing } = findDevicePeers(folder);
    expect(missing.map(({ name }) => name)).toEqual(["onnxruntime-node", "onnxruntime-web", "node-llama-cpp"]);
    for (const { install } of missing) expect(install).toContain("npm --prefix peers");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a GGUF file has the decoder's weights: blocks with their halves apart, matrices turned", () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-gguf-"));
  try {
    const path = join(folder, "model.gguf");
    const model = publishedDecoder(smallPublishedSizes, { weights: { bits: 4, blockSize: 32 } });
    writeGguf(path, model, smallPublishedSizes);
    const bytes = readFileSync(path);
    expect(bytes.subarray(0, 4).toString()).toBe("GGUF");
    expect(bytes.readUInt32LE(4)).toBe(3);
    // The head comes last: its last block ends the file but for the padding.
    const find = (name: string): Uint8Array =>
      model.graph.initializers.find((each) => each.name === name)!.data as Uint8Array;
    const [blocks, scales] = [find("lm_head.MatMul.weight_Q4"), find("lm_head.MatMul.weight_scales")];
    const size = (blocks.length / 16) * 18;
    const start = bytes.length - Math.ceil(size / 32) * 32;
    const nibble = (block: number, at: number): number => (blocks[block * 16 + (at >> 1)] >> (4 * (at & 1))) & 15;
    for (const block of [0, 7, blocks.length / 16 - 1]) {
      const from = start + block * 18;
      expect(bytes.readUInt16LE(from)).toBe(scales[block]);
      for (let at = 0; at < 32; at++)
        expect((bytes[from + 2 + (at % 16)] >> (at < 16 ? 0 : 4)) & 15).toBe(nibble(block, at));
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
