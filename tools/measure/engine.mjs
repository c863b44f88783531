// Texts beside each other against one at a time, on the embedded model, interleaved; and the time to the first token of a long prompt that was
// read before. `node tools/measure/engine.mjs [rounds] [texts] [tokens]` after a build.
import { fileURLToPath } from "node:url";
import { readSampling } from "../../dist/choice/sampling.js";
import { CausalLM } from "../../dist/index.node.js";
import { createEngine } from "../../dist/serve/running/create-engine.js";

const [rounds = 5, texts = 16, tokens = 64] = process.argv.slice(2).map(Number);
const folder = fileURLToPath(new URL("../../models/embedded", import.meta.url));
const paged = { cache: "paged", keep: 0, context: 1200, blocks: 600 };
const model = await CausalLM.load(folder, { ...paged, batchInvariant: true });
const linear = await CausalLM.load(folder, { context: 512, keep: 0 });
const engine = createEngine(model, { mostRunning: texts, tokenBudget: 256 });
const sampling = readSampling({ temperature: 0.8, topK: 40, topP: 0.95, seed: 1 });
let count = 0;

/** A text in the engine; milliseconds to its first token. */
const submit = (prompt, maxTokens) =>
  new Promise((resolve, reject) => {
    const began = performance.now();
    let first;
    engine.submit(
      { id: String(count++), tenant: "bench", prompt, maxTokens, endTokens: new Set(), sampling },
      {
        token: () => void (first ??= performance.now() - began),
        ended: () => resolve(first),
        failed: reject,
      },
    );
  });

const prompts = Array.from({ length: texts }, (_, at) =>
  model.tokenizer.encode(`Once upon a time there were ${at} princes`),
);
const ways = {
  "linear caches, one at a time": async () => {
    for (const prompt of prompts)
      for await (const _ of linear.generate(prompt, { ...sampling, maxTokens: tokens, ignoreEnd: true }));
  },
  "engine, one at a time": async () => {
    for (const prompt of prompts) await submit(prompt, tokens);
  },
  [`engine, ${texts} at once`]: () => Promise.all(prompts.map((prompt) => submit(prompt, tokens))),
};
/** Blocks of texts that ended are given back after the step that ended them. */
const idle = () => new Promise((resolve) => setTimeout(resolve, 20));
const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const rates = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
for (const way of Object.values(ways)) await way();
for (let round = 0; round < rounds; round++)
  for (const [name, way] of Object.entries(ways)) {
    await idle();
    model.pages.pool.forgetPrefixes();
    const began = performance.now();
    await way();
    rates[name].push((texts * tokens * 1000) / (performance.now() - began));
  }
const medians = Object.entries(rates).map(([name, list]) => [name, median(list), Math.max(...list)]);
for (const [name, rate, best] of medians)
  console.log(
    `${rate.toFixed(0).padStart(6)} tokens/s (best ${best.toFixed(0)})  ${name}: at once ${(medians[2][1] / rate).toFixed(2)} × (best ${(medians[2][2] / best).toFixed(2)} ×)`,
  );

const words = model.tokenizer.encode("Once upon a time there was a king who had three sons and a garden. ".repeat(90));
const [firsts, seconds] = [[], []];
for (let round = 0; round <= rounds; round++) {
  await idle();
  model.pages.pool.forgetPrefixes();
  const prompt = words.slice(0, 1000);
  const [first, second] = [await submit(prompt, 2), await submit([...prompt, 5, 6, 7], 2)];
  if (round > 0) {
    firsts.push(first);
    seconds.push(second);
  }
}
console.log(
  `first token of 1,000: ${median(firsts).toFixed(1)} ms; once more, with 3 further tokens: ${median(seconds).toFixed(1)} ms (${(median(seconds) / median(firsts)).toFixed(3)} ×)`,
);
await engine.close();
await model.release();
await linear.release();
