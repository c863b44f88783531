import * as ort from "onnxruntime-web";

async function main(): Promise<ort.Tensor> {
  ort.env.wasm.numThreads = 1;
  const session: ort.InferenceSession = await ort.InferenceSession.create("./model.onnx", {
    executionProviders: ["webgpu", "wasm"],
    preferredOutputLocation: { present: "gpu-buffer" },
    enableGraphCapture: true,
  });
  const input: ort.TypedTensor<"float32"> = new ort.Tensor("float32", Float32Array.from([1, 2, 3]), [3]);
  const feeds: ort.InferenceSession.FeedsType = { [session.inputNames[0]]: input };
  const results = await session.run(feeds);
  return results[session.outputNames[0]];
}
export const done = main();
