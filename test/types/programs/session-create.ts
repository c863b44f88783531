import { InferenceSession } from "onnxruntime-node";

const bytes = new Uint8Array(8);
export const byPath: InferenceSession = await InferenceSession.create("model.onnx");
export const byBytes: InferenceSession = await InferenceSession.create(bytes, { executionProviders: ["cpu"] });
export const byBuffer = await InferenceSession.create(bytes.buffer);
export const byPart = await InferenceSession.create(bytes.buffer, bytes.byteOffset, bytes.byteLength, {
  graphOptimizationLevel: "all",
});
export const shared = await InferenceSession.create(new SharedArrayBuffer(8), 0, 8);
