// onnxruntime-node as one who runs a model of real size, for `insitu bench models`: each run's presents are the next one's pasts. On a GPU
// they stay in its buffers.
import { createRequire } from "node:module";
import { serve } from "../device/serve.mjs";
import { processMemory } from "../memory.mjs";

const ort = createRequire(import.meta.url)("onnxruntime-node");

let session;
let shape;
let names;
const read = new Map();

/** From so many tokens on a context is made of numbers instead of being read: its values do not change what a token costs. */
const tooLongToRead = 1024;

const integers = (values, dims) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), dims);

/** Caches of so many rows: numbers that look random. */
function madeCaches(rows) {
  const { keyValueHeads, headSize } = shape;
  let seed = 1;
  return Object.fromEntries(
    names.map((name) => {
      const data = new Float32Array(keyValueHeads * rows * headSize);
      for (let at = 0; at < data.length; at++) {
        seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
        data[at] = seed / 2 ** 33;
      }
      return [name, new ort.Tensor("float32", data, [1, keyValueHeads, rows, headSize])];
    }),
  );
}

/** Tokens behind `before` others: the likeliest next one, and the caches then. */
async function step(tokens, before, caches) {
  const total = before + tokens.length;
  const results = await session.run({
    input_ids: integers(tokens, [1, tokens.length]),
    attention_mask: new ort.Tensor("int64", new BigInt64Array(total).fill(1n), [1, total]),
    ...Object.fromEntries(Object.entries(caches).map(([name, tensor]) => [`past_key_values.${name}`, tensor])),
  });
  const { logits } = results;
  const vocabulary = logits.dims.at(-1);
  const last = logits.data.subarray(logits.data.length - vocabulary);
  let next = 0;
  for (let token = 1; token < vocabulary; token++) if (last[token] > last[next]) next = token;
  return { next, caches: Object.fromEntries(names.map((name) => [name, results[`present.${name}`]])) };
}

const dispose = (caches) => Object.values(caches).forEach((tensor) => tensor.dispose());

serve({
  async open({ model, threads, gpu, ...rest }) {
    const start = performance.now();
    shape = rest;
    names = Array.from({ length: rest.layers }, (_, layer) => [`${layer}.key`, `${layer}.value`]).flat();
    session = await ort.InferenceSession.create(model, {
      executionProviders: [gpu ? "webgpu" : "cpu"],
      intraOpNumThreads: threads,
      logSeverityLevel: 3,
      ...(gpu
        ? { preferredOutputLocation: Object.fromEntries(names.map((name) => [`present.${name}`, "gpu-buffer"])) }
        : // Threads that spin would take a core from whoever has the next turn.
          { extra: { session: { intra_op: { allow_spinning: "0" } } } }),
    });
    return performance.now() - start;
  },
  async prefill(prompt) {
    const start = performance.now();
    const { caches } = await step(prompt, 0, madeCaches(0));
    const took = performance.now() - start;
    dispose(caches);
    return took;
  },
  async decode(prompt, steps) {
    const { length } = prompt;
    if (!read.has(length)) {
      read.clear();
      const isRead = length < tooLongToRead;
      read.set(length, isRead ? await step(prompt, 0, madeCaches(0)) : { next: 1, caches: madeCaches(length) });
    }
    const from = read.get(length);
    let { next, caches } = from;
    let start = 0;
    for (let at = 0; at <= steps; at++) {
      const after = await step([next], length + at, caches);
      if (caches !== from.caches) dispose(caches);
      ({ next, caches } = after);
      if (at === 0) start = performance.now();
    }
    const took = performance.now() - start;
    dispose(caches);
    return took / steps;
  },
  async next(prompts) {
    const tokens = [];
    for (const prompt of prompts) {
      const { next, caches } = await step(prompt, 0, madeCaches(0));
      tokens.push(next);
      dispose(caches);
    }
    return tokens;
  },
  memory: async () => processMemory(),
  stop: () => session?.release(),
});
