// llama.cpp's Vulkan backend through node-llama-cpp as a decoder, for `insitu bench --backend webgpu`. Several texts are sequences of one context.
import { generateTokens, openLlama, readAllButLast } from "../llama.mjs";
import { serve } from "./serve.mjs";

let opened;
let single;
const read = new Map();

/** Sequences that have read these prompts. */
async function sequencesFor(prompts, steps) {
  const key = `${prompts.length} of ${prompts[0].length} from ${prompts[0][0]}`;
  if (!read.has(key)) read.set(key, await opened.createSequences(prompts[0].length + steps + 8, prompts.length));
  const { sequences } = read.get(key);
  await Promise.all(sequences.map((sequence, text) => readAllButLast(sequence, prompts[text])));
  return sequences;
}

serve({
  async open({ gguf, sizes, software, longest }) {
    opened = await openLlama({ gguf, gpu: "vulkan", layers: sizes.layers, software });
    single = (await opened.createSequences(longest, 1, longest)).sequences[0];
  },
  async decode(prompts, steps) {
    const sequences = await sequencesFor(prompts, steps);
    // All texts have their first token before the clock starts.
    let waiting = sequences.length;
    let start = 0;
    let begin;
    const begun = new Promise((resolve) => (begin = resolve));
    await Promise.all(
      sequences.map((sequence, text) =>
        generateTokens(sequence, prompts[text].slice(-1), steps + 1, (count) => {
          if (count > 1) return undefined;
          if (--waiting === 0) {
            start = performance.now();
            begin();
          }
          return begun;
        }),
      ),
    );
    return (performance.now() - start) / steps;
  },
  async prefill(prompt) {
    await single.clearHistory();
    const start = performance.now();
    await generateTokens(single, prompt, 1);
    return performance.now() - start;
  },
  async next(prompts) {
    const tokens = [];
    for (const prompt of prompts) {
      await single.clearHistory();
      tokens.push(...(await generateTokens(single, prompt, 1)));
    }
    return tokens;
  },
  async stop() {
    for (const { context } of read.values()) await context.dispose();
    await opened?.close();
  },
});
