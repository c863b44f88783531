// Keeps the GPU's device open while a suite runs: sessions share it, and with it the pipelines that were compiled.
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";

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
