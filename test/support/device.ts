// Keeps the GPU's device open while a suite runs: sessions share it, and with it the pipelines that were compiled.
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { nodePlatform } from "../../src/platform/node.js";
import { noWebgpu } from "./backends.js";

const found = await features();

/** True where subgroups of the device multiply matrices together. */
export const hasSubgroupMatrices: boolean = found.has("chromium-experimental-subgroup-matrix");

/** True where shaders compute in float16. */
export const hasHalves: boolean = found.has("shader-f16");

async function features(): Promise<ReadonlySet<string>> {
  const gpu = noWebgpu === undefined ? await nodePlatform.gpu?.() : undefined;
  const adapter = typeof gpu === "object" ? await (gpu as GPU).requestAdapter() : null;
  return adapter?.features ?? new Set();
}

/** Opens the device; the function lets go of it. */
export async function keepDevice(): Promise<() => Promise<void>> {
  const model = buildModel({
    opset: 24,
    inputs: [value("x", "float32", [1])],
    outputs: [value("y")],
    nodes: [node("Identity", ["x"], ["y"], {}, { name: "same" })],
  });
  const session = await InferenceSession.create(writeModel(model), { backend: "webgpu" });
  return () => session.release();
}
