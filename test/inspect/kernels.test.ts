// By what each step runs: what inspect foresees for given sizes is what a session tells after a run, and both say why the reference does one.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { readArguments } from "../../packages/cli/command.js";
import { inspect } from "../../packages/cli/inspect.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import type { ExplainJson } from "../../packages/explain/json.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { noWebgpu } from "../support/backends.js";
import { tokenFeeds } from "../support/decoding.js";

const folder = mkdtempSync(join(tmpdir(), "insitu-kernels-"));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
const fileOf = (model: Model): string => {
  const path = join(folder, `${files++}.onnx`);
  writeFileSync(path, writeModel(model));
  return path;
};

async function run(...argv: string[]): Promise<string> {
  const lines: string[] = [];
  const log = vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(line));
  try {
    expect(await inspect.run(readArguments(inspect, argv))).toBe(0);
  } finally {
    log.mockRestore();
  }
  return lines.join("\n");
}

const runsOf = ({ steps }: ExplainJson): string[] => steps.map(({ node: name, runs }) => `${name}: ${runs}`);

test.each([5, 1])("a decoder with %d tokens: foreseen is what ran", async (length) => {
  const model = generatedDecoder(smallSizes);
  const session = await InferenceSession.create(writeModel(model), { threads: 2 });
  expect(session.explain()).not.toMatch(/^kernels$/m);
  expect(session.explain({ json: true }).steps[0].runs).toBeUndefined();
  const state = session.createState({ dims: { batch: 1, capacity: 16 } });
  const tokens = Array.from({ length }, (_, at) => at + 1);
  await session.run(tokenFeeds([tokens], [0]), { state });
  const told = session.explain({ json: true });
  const path = fileOf(model);
  const open = JSON.parse(await run(path, "--json")) as ExplainJson;
  expect(open.steps[0].runs).toBeUndefined();
  const names = new Set(open.inputs.flatMap(({ shape }) => shape.filter((dim) => typeof dim === "string")));
  const sizeOf = (name: string): number => (name === "batch" ? 1 : name === "capacity" ? 16 : length);
  const dims = [...names].map((name) => `${name}=${sizeOf(name)}`).join(",");
  const foreseen = JSON.parse(await run(path, "--json", "--dims", dims)) as ExplainJson;
  expect(runsOf(foreseen)).toEqual(runsOf(told));
  expect(new Set(told.steps.map(({ runs }) => runs))).not.toContain("reference");
  const attention = told.steps.find(({ op }) => op === "Attention");
  expect(attention?.kernels).toContain(length === 1 ? "attentionDecode" : "attentionPrefill");
  expect(session.explain()).toMatch(/^kernels\n {2}\d+ of \d+ steps by kernels.*, none on the reference$/m);
  expect(await run(path, "--steps", "--dims", dims)).toMatch(/Attention .* by a kernel/);
  await session.release();
});

test.skipIf(noWebgpu !== undefined)("on WebGPU too: foreseen without a device is what ran on one", async () => {
  const model = generatedDecoder(smallSizes);
  const session = await InferenceSession.create(writeModel(model), { backend: "webgpu" });
  const state = session.createState({ dims: { batch: 1, capacity: 16 } });
  await session.run(tokenFeeds([[3]], [0]), { state });
  const dims = "batch=1,capacity=16,sequence=1";
  const foreseen = JSON.parse(await run(fileOf(model), "--json", "--backend", "webgpu", "--dims", dims)) as ExplainJson;
  expect(runsOf(foreseen)).toEqual(runsOf(session.explain({ json: true })));
  const kernels = foreseen.steps.find(({ op }) => op === "CachedAttention")?.kernels;
  expect(kernels).toEqual(["attentionStepAtOnce"]);
  await session.release();
  await expect(run(fileOf(model), "--backend", "gpu")).rejects.toThrow(
    /--backend must be "wasm", "webgpu" or "reference", got "gpu"/,
  );
});

test("why the reference does a step, and that shapes are data", async () => {
  const model = buildModel({
    opset: 21,
    inputs: [value("x", "float32", [4])],
    outputs: [value("y"), value("z")],
    nodes: [node("Tan", ["x"], ["t"]), node("Neg", ["t"], ["y"]), node("NonZero", ["x"], ["z"])],
  });
  const path = fileOf(model);
  const text = await run(path, "--steps");
  expect(text).toMatch(/1 of 3 steps by kernels, 2 on the reference/);
  expect(text).toMatch(/1 × Tan: it has no kernel/);
  expect(text).toMatch(/NonZero .*on the reference: data decide its shapes/);
  const session = await InferenceSession.create(writeModel(model), { threads: 1 });
  await session.run({ x: new Tensor("float32", [1, 0, 2, 3], [4]) });
  expect(session.explain()).toMatch(/1 of 3 steps by kernels, 2 on the reference\n {2}1 × Tan: it has no kernel\n/);
  expect(session.explain({ json: true }).steps.map(({ op, kernels }) => [op, kernels])).toContainEqual([
    "Neg",
    ["elementwise"],
  ]);
  await session.release();
});
