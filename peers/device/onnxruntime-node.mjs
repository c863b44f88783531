// onnxruntime-node's WebGPU provider as a decoder, for `insitu bench --backend webgpu`.
import { createRequire } from "node:module";
import { OnnxruntimeDecoder } from "./onnxruntime-decoder.mjs";
import { serve } from "./serve.mjs";

// onnxruntime-node 1.30 hands float16 over as Uint16Array, and fails where the engine has a Float16Array.
delete globalThis.Float16Array;

let decoder;
serve({
  async open({ next, sizes, type }) {
    const ort = createRequire(import.meta.url)("onnxruntime-node");
    decoder = await OnnxruntimeDecoder.create(ort, sizes, type, (options) => ort.InferenceSession.create(next, options));
  },
  decode: (...args) => decoder.decode(...args),
  prefill: (...args) => decoder.prefill(...args),
  next: (...args) => decoder.next(...args),
  stop: () => decoder?.stop(),
});
