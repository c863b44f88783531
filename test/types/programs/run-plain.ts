import { InferenceSession, Tensor } from "onnxruntime-node";

const session = await InferenceSession.create("model.onnx");
const feeds = {
  a: new Tensor("float32", new Float32Array(12), [3, 4]),
  b: new Tensor("float32", new Float32Array(12), [4, 3]),
};
const results = await session.run(feeds);
export const c = results["c"].data;
export const first: Tensor = results.c;
await session.release();
