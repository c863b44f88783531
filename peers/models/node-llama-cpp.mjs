// llama.cpp through node-llama-cpp as one who runs a model of real size, for `insitu bench models`: on the processor, or on Vulkan.
import { serve } from "../device/serve.mjs";
import { generateTokens, openLlama, readAllButLast } from "../llama.mjs";
import { processMemory } from "../memory.mjs";

let opened;
let sequence;

serve({
  async open({ gguf, threads, context, gpu, software, layers }) {
    const start = performance.now();
    opened = await openLlama({ gguf, threads, gpu: gpu ? "vulkan" : false, layers, software });
    sequence = (await opened.createSequences(context)).sequences[0];
    return performance.now() - start;
  },
  async prefill(prompt) {
    await sequence.clearHistory();
    const start = performance.now();
    await generateTokens(sequence, prompt, 1);
    return performance.now() - start;
  },
  async decode(prompt, steps) {
    await readAllButLast(sequence, prompt);
    let start = 0;
    await generateTokens(sequence, prompt.slice(-1), steps + 1, (count) => {
      if (count === 1) start = performance.now();
    });
    return (performance.now() - start) / steps;
  },
  async next(prompts) {
    const tokens = [];
    for (const prompt of prompts) {
      await sequence.clearHistory();
      tokens.push(...(await generateTokens(sequence, prompt, 1)));
    }
    return tokens;
  },
  memory: async () => processMemory(),
  stop: () => opened?.close(),
});
