// What the host does for a token on a GPU, through each door: `generate` on linear caches and on pages, and the engine behind the server with several texts
// at once, on a device that computes nothing. A step on hardware takes the longer of this and of what its GPU takes. The decoder has the layers and heads of
// Qwen3-0.6B, and is small in all else: the device that computes nothing has little memory, and the host does the same for each of its dispatches.
// Usage: node tools/measure/webgpu/host.mjs [--layers 28] [--tokens 96] <texts> …
import { ModelFiles } from "../../../dist/tools/bench/device/model-files.js";
import { promptOf } from "../../../dist/tools/bench/device/sizes.js";
import { qwen3 } from "../../../dist/tools/demo/published-shapes.js";
import { readSampling } from "../../../dist/choice/sampling.js";
import { CausalLM } from "../../../dist/index.node.js";
import { createEngine } from "../../../dist/serve/running/create-engine.js";
import { imagineDevice } from "./imagined-device.mjs";

const option = (name, otherwise) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? otherwise : Number(process.argv.splice(at, 2)[1]);
};
const [layers, tokens, prompt] = [option("--layers", qwen3.sizes.layers), option("--tokens", 96), 32];
const counts = process.argv.slice(2).map(Number);
await imagineDevice();

const small = { hidden: 256, headSize: 32, intermediate: 512, vocabulary: 4096, positions: 1024 };
const sizes = { model: { ...qwen3.sizes, layers, ...small }, type: "float16" };
const files = new ModelFiles(sizes);
const { folder } = files.of("int4");
const common = { backend: "webgpu", inPlace: "require", context: prompt + tokens, keep: 1 };
const blocks = Math.max(4, ...counts) * Math.ceil((prompt + tokens) / 16);
const linear = await CausalLM.load(folder, common);
const paged = await CausalLM.load(folder, { ...common, cache: "paged", blocks });
const engine = createEngine(paged, { mostRunning: Math.max(1, ...counts) });
const sampling = readSampling({ temperature: 0 });
let named = 0;
const submit = (given) =>
  new Promise((resolve, reject) => {
    const request = {
      id: String(named++),
      tenant: "",
      prompt: given,
      maxTokens: tokens,
      endTokens: new Set(),
      sampling,
    };
    engine.submit(request, { token: () => undefined, ended: () => resolve(), failed: reject });
  });
const prompts = (count) => Array.from({ length: count }, (_, text) => promptOf(text, prompt, sizes.model));
const made = async (lm) => {
  for await (const _ of lm.generate(prompts(1)[0], { temperature: 0, ignoreEnd: true, maxTokens: tokens }));
};
const ways = {
  "generate, linear caches": { texts: 1, run: () => made(linear) },
  "generate, pages": { texts: 1, run: () => made(paged) },
  ...Object.fromEntries(
    counts.map((count) => [
      `engine, ${count} texts at once`,
      { texts: count, run: () => Promise.all(prompts(count).map(submit)) },
    ]),
  ),
};
const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const taken = new Map(Object.keys(ways).map((name) => [name, []]));
for (let round = 0; round < 5; round++)
  for (const [name, { run }] of Object.entries(ways)) {
    const [began, before] = [performance.now(), process.cpuUsage()];
    await run();
    const { user, system } = process.cpuUsage(before);
    if (round > 0) taken.get(name).push([(performance.now() - began) / tokens, (user + system) / 1000 / tokens]);
  }
for (const [name, { texts }] of Object.entries(ways)) {
  const [step, processor] = [0, 1].map((at) => median(taken.get(name).map((each) => each[at])));
  console.log(
    `${name.padEnd(28)} ${step.toFixed(3)} ms a step (${processor.toFixed(3)} of processors), at most ${((1000 * texts) / step).toFixed(0)} tokens/s`,
  );
}
await engine.close();
await Promise.all([linear.release(), paged.release()]);
files.remove();
process.exit(0);
