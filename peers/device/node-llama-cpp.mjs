// llama.cpp's Vulkan backend through node-llama-cpp as a decoder, for `insitu bench --backend webgpu`. Several texts are sequences of one context.
import { serve } from "./serve.mjs";

let llama;
let model;
let single;
const read = new Map();

const greedy = { temperature: 0, yieldEogToken: true };

/** Reads a prompt but for its last token, from the beginning or from where the sequence is. */
async function readAllButLast(sequence, prompt) {
  const last = prompt.length - 1;
  if (sequence.nextTokenIndex > last)
    await sequence.eraseContextTokenRanges([{ start: last, end: sequence.nextTokenIndex }]);
  if (sequence.nextTokenIndex < last)
    await sequence.evaluateWithoutGeneratingNewTokens(prompt.slice(sequence.nextTokenIndex, last));
}

/** So many tokens behind the last one of a prompt; told when the first one is there. */
async function generate(sequence, prompt, count, onFirst = () => {}) {
  const tokens = [];
  for await (const token of sequence.evaluate([prompt.at(-1)], greedy)) {
    tokens.push(Number(token));
    if (tokens.length === 1) await onFirst();
    if (tokens.length === count) break;
  }
  return tokens;
}

/** Sequences that have read these prompts. */
async function sequencesFor(prompts, steps) {
  const key = `${prompts.length} of ${prompts[0].length} from ${prompts[0][0]}`;
  if (!read.has(key)) {
    const context = await model.createContext({
      contextSize: prompts[0].length + steps + 8,
      sequences: prompts.length,
      batchSize: Math.max(512, prompts.length),
    });
    read.set(key, { context, sequences: prompts.map(() => context.getSequence()) });
  }
  const { sequences } = read.get(key);
  await Promise.all(sequences.map((sequence, text) => readAllButLast(sequence, prompts[text])));
  return sequences;
}

serve({
  async open({ gguf, sizes, software, longest }) {
    const { getLlama } = await import("node-llama-cpp");
    llama = await getLlama({ gpu: "vulkan", build: "never", logLevel: "error", usePrebuiltBinaries: true });
    const [device = "none"] = await llama.getGpuDeviceNames();
    // A program that plays a GPU is not good enough for llama.cpp: it computes on the processor then.
    if (!software && /none|llvmpipe|swiftshader/i.test(device))
      throw new Error(`no Vulkan device of its own: it found ${device}`);
    model = await llama.loadModel({ modelPath: gguf, gpuLayers: sizes.layers + 1 });
    const context = await model.createContext({ contextSize: longest, batchSize: longest });
    single = context.getSequence();
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
        generate(sequence, prompts[text], steps + 1, () => {
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
    for await (const _ of single.evaluate(prompt, greedy)) break;
    return performance.now() - start;
  },
  async next(prompts) {
    const tokens = [];
    for (const prompt of prompts) {
      await single.clearHistory();
      await readAllButLast(single, prompt);
      tokens.push(...(await generate(single, prompt, 1)));
    }
    return tokens;
  },
  async stop() {
    for (const { context } of read.values()) await context.dispose();
    await model?.dispose();
    await llama?.dispose();
  },
});
