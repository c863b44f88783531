// onnxruntime-node as one who runs a model of real size, for `insitu bench models`: each run's presents are the next one's pasts. On a GPU
// they stay in its buffers, and the likeliest token is found there.
import { createRequire } from "node:module";
import { OnnxruntimeDecoder } from "../device/onnxruntime-decoder.mjs";
import { serve } from "../device/serve.mjs";
import { processMemory } from "../memory.mjs";
import { ProcessorDecoder } from "./onnxruntime-processor.mjs";

// onnxruntime-node 1.30 hands float16 over as Uint16Array, and fails where the engine has a Float16Array.
delete globalThis.Float16Array;

let decoder;
serve({
  async open({ model, next, threads, gpu, type, ...sizes }) {
    const start = performance.now();
    const ort = createRequire(import.meta.url)("onnxruntime-node");
    decoder = gpu
      ? await OnnxruntimeDecoder.create(ort, sizes, type, (options) => ort.InferenceSession.create(next, options))
      : await ProcessorDecoder.create(ort, sizes, model, threads);
    return performance.now() - start;
  },
  prefill: (prompt) => decoder.prefill(prompt),
  decode: (prompt, steps) => decoder.decode([prompt], steps),
  next: (prompts) => decoder.next(prompts),
  memory: async () => processMemory(),
  stop: () => decoder?.stop(),
});
