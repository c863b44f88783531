// What the host does for a round of guesses on a GPU: milliseconds, submissions, waits for the device, and what is made anew (bind groups, buffers), on a device
// that computes nothing. All its tokens are 0, so that all guesses are right. Target and draft have the layers and heads of Qwen3-4B and Qwen3-0.6B, and are small in all else.
// Usage: node tools/measure/webgpu/guess-host.mjs [--layers 36] [--draft-layers 28] [--tokens 4] [--rounds 40] [--caches linear,paged] <texts> …
import { globals } from "webgpu";
import { ModelFiles } from "../../../dist/tools/bench/device/model-files.js";
import { promptOf } from "../../../dist/tools/bench/device/sizes.js";
import { qwen3, qwen3Large } from "../../../dist/tools/demo/published-shapes.js";
import { CausalLM } from "../../../dist/index.node.js";
import { imagineDevice } from "./imagined-device.mjs";

const option = (name, otherwise) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? otherwise : process.argv.splice(at, 2)[1];
};
const layers = [
  Number(option("--layers", qwen3Large.sizes.layers)),
  Number(option("--draft-layers", qwen3.sizes.layers)),
];
const [tokens, rounds] = [Number(option("--tokens", 4)), Number(option("--rounds", 40))];
const caches = option("--caches", "linear,paged").split(",");
const counts = process.argv.slice(2).map(Number);
await imagineDevice();

/** How often the platform was asked for something. */
const asked = { submit: 0, mapAsync: 0, createBindGroup: 0, createBuffer: 0, writeBuffer: 0 };
for (const [type, name] of [
  ["GPUQueue", "submit"],
  ["GPUBuffer", "mapAsync"],
  ["GPUDevice", "createBindGroup"],
  ["GPUDevice", "createBuffer"],
  ["GPUQueue", "writeBuffer"],
]) {
  const { prototype } = globals[type];
  const own = prototype[name];
  prototype[name] = function (...given) {
    asked[name]++;
    return own.apply(this, given);
  };
}

const prompt = 32;
const small = { hidden: 256, headSize: 32, intermediate: 512, vocabulary: 4096, positions: 8192 };
const [large, little] = [qwen3Large, qwen3].map(({ sizes }, at) => ({ ...sizes, layers: layers[at], ...small }));
const context = 2 * prompt + (rounds + 40) * (tokens + 1);
const folders = [large, little].map((model) => new ModelFiles({ model, type: "float16" }));
const open = (files, cache) =>
  CausalLM.load(files.of("int4").folder, {
    backend: "webgpu",
    inPlace: "require",
    context,
    ...(cache === "paged" ? { cache, blocks: (Math.max(...counts) + 1) * Math.ceil(context / 16) } : {}),
  });

/** What a number of texts of some tokens takes, but for the milliseconds. */
async function counted(lm, many, length, speculate) {
  const options = { temperature: 0, ignoreEnd: true, maxTokens: length, speculate };
  const prompts = Array.from({ length: many }, (_, text) => promptOf(text, prompt, large));
  const [began, before, processor] = [performance.now(), { ...asked }, process.cpuUsage()];
  if (many === 1) for await (const _ of lm.generate(prompts[0], options));
  else for await (const _ of lm.generateBatch(prompts, options));
  const { user, system } = process.cpuUsage(processor);
  const counts = Object.fromEntries(Object.entries(asked).map(([name, count]) => [name, count - before[name]]));
  return { milliseconds: performance.now() - began, processor: (user + system) / 1000, ...counts };
}

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
for (const cache of caches) {
  const lm = await open(folders[0], cache);
  for (const many of counts) {
    const draft = await open(folders[1], many > 1 ? "paged" : cache);
    for (const [name, speculate, each] of [
      ["without guesses", undefined, 1],
      [`${tokens} guesses a round`, { draft, tokens, adaptive: false }, tokens + 1],
    ]) {
      const few = 1 + 20 * each;
      for (let warm = 0; warm < 2; warm++) await counted(lm, many, few + rounds * each, speculate);
      // As differences: beginnings and ends are the same.
      const list = [];
      for (let turn = 0; turn < 5; turn++) {
        const short = await counted(lm, many, few, speculate);
        const long = await counted(lm, many, few + rounds * each, speculate);
        list.push(Object.fromEntries(Object.entries(long).map(([key, count]) => [key, (count - short[key]) / rounds])));
      }
      const of = (key) => median(list.map((own) => own[key])).toFixed(2);
      console.log(
        `${cache}, ${many} texts, ${name.padEnd(18)} ${of("milliseconds")} ms a round (${of("processor")} of processors), ${of("submit")} submissions, ${of("mapAsync")} waits, ${of("createBindGroup")} bind groups, ${of("createBuffer")} buffers, ${of("writeBuffer")} writes`,
      );
    }
    await draft.release();
  }
  await lm.release();
}
for (const files of folders) files.remove();
process.exit(0);
