// What a step of several texts takes on a GPU: the dispatches of one step of `generate` or `generateBatch`, counted by kernel, in the shape of Qwen3-0.6B,
// or of another published decoder (--shape gpt-oss-20b), on linear caches and on pages. With --times they are run again and again by themselves, and timed.
// Usage: node tools/measure/webgpu/steps.mjs [--shape Qwen3-0.6B] [--layers 28] [--vocabulary 151936] [--bits 4|16] [--context 64] [--cache linear|paged] [--times] [--imagine [--memory 49152]] <texts> …
// --imagine: a device with an H200's limits, or less workgroup memory, that computes nothing (Dawn's null backend), where there is no GPU.
import { globals } from "webgpu";
import { ShapeFolders } from "../../../dist/tools/bench/models/shape-files.js";
import { promptOf } from "../../../dist/tools/bench/device/sizes.js";
import { publishedShapes } from "../../../dist/tools/demo/published-shapes.js";
import { CausalLM } from "../../../dist/index.node.js";
import { imagineDevice } from "./imagined-device.mjs";

const flag = (name) => {
  const at = process.argv.indexOf(name);
  return at >= 0 && process.argv.splice(at, 1).length > 0;
};
const option = (name, otherwise) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? otherwise : process.argv.splice(at, 2)[1];
};
const [times, imagine] = [flag("--times"), flag("--imagine")];
const shapeName = option("--shape", "Qwen3-0.6B");
const shape = publishedShapes.find(({ name }) => name === shapeName);
const layers = Number(option("--layers", shape.sizes.layers));
const vocabulary = Number(option("--vocabulary", shape.sizes.vocabulary));
const weights = option("--bits", "4") === "4" ? { bits: 4, blockSize: 32 } : "plain";
const context = Number(option("--context", 64));
const cache = option("--cache", "linear");
const memory = Number(option("--memory", 49_152));
const counts = process.argv.slice(2).map(Number);

if (imagine) await imagineDevice(memory);

const { GPUAdapter, GPUComputePassEncoder } = globals;
const { requestDevice } = GPUAdapter.prototype;
let device;
GPUAdapter.prototype.requestDevice = async function (...given) {
  return (device = await requestDevice.apply(this, given));
};
const { setPipeline, setBindGroup, dispatchWorkgroups } = GPUComputePassEncoder.prototype;
let caught = [];
let [pipeline, group] = [];
GPUComputePassEncoder.prototype.setPipeline = function (given) {
  pipeline = given;
  return setPipeline.call(this, given);
};
GPUComputePassEncoder.prototype.setBindGroup = function (at, given) {
  group = given;
  return setBindGroup.call(this, at, given);
};
GPUComputePassEncoder.prototype.dispatchWorkgroups = function (...given) {
  caught.push({ pipeline, group, given });
  return dispatchWorkgroups.apply(this, given);
};

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];

/** Milliseconds of one pass over dispatches, as the difference between many of them and few. */
async function timeOf(list) {
  const run = async (rounds) => {
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    for (let i = 0; i < rounds; i++)
      for (const each of list) {
        setPipeline.call(pass, each.pipeline);
        setBindGroup.call(pass, 0, each.group);
        dispatchWorkgroups.apply(pass, each.given);
      }
    pass.end();
    const commands = encoder.finish();
    const start = performance.now();
    device.queue.submit([commands]);
    await device.queue.onSubmittedWorkDone();
    return performance.now() - start;
  };
  const many = Math.max(3, Math.ceil(1500 / list.length));
  await run(many);
  const taken = [];
  for (let i = 0; i < 7; i++) taken.push(((await run(2 * many)) - (await run(many))) / many);
  return median(taken);
}

/** The dispatches of the last step that is like the one before it: texts that began later end later, in steps of fewer. */
function lastStep() {
  const keys = caught.map(({ pipeline: own, given }) => `${own.label} ${given}`);
  const [first] = keys.slice(-1);
  for (let end = keys.length; end > 2 * layers; end--) {
    // A step ends with the choice of its tokens.
    if (keys[end - 1].split(" ")[0] !== first.split(" ")[0]) continue;
    const before = keys.lastIndexOf(keys[end - 1], end - 2);
    const length = end - 1 - before;
    if (length < layers || end < 2 * length) continue;
    if (keys.slice(end - length, end).join() === keys.slice(end - 2 * length, end - length).join())
      return caught.slice(end - length, end);
  }
  throw new Error("no two steps are alike");
}

const sizes = { ...shape.sizes, layers, vocabulary, positions: 8192 };
const files = new ShapeFolders();
const form = { ...shape.form, weights, embeddings: "separate" };
const { folder } = files.of({ ...shape, sizes, form }, { gguf: false, gpu: "float16", tell() {} });
const lm = await CausalLM.load(folder, {
  backend: "webgpu",
  inPlace: "require",
  context: context + 32,
  keep: 3,
  ...(cache === "paged" ? { cache, blockSize: 16, blocks: Math.max(...counts) * (Math.ceil(context / 16) + 3) } : {}),
});
for (const count of counts) {
  const prompts = Array.from({ length: count }, (_, text) => promptOf(text, context, sizes));
  const options = { temperature: 0, ignoreEnd: true, maxTokens: 8 };
  caught = [];
  const texts = count === 1 ? lm.generate(prompts[0], options) : lm.generateBatch(prompts, options);
  // Caches are there until the last token was taken.
  let left = count * options.maxTokens;
  for await (const _ of texts) if (--left === 0) await tell(count, lastStep());
}

async function tell(count, list) {
  console.log(
    `${count} texts, ${cache}: ${list.length} dispatches${times ? `, ${(await timeOf(list)).toFixed(3)} ms on the GPU` : ""}`,
  );
  for (const own of new Set(list.map(({ pipeline: of }) => of))) {
    const each = list.filter(({ pipeline: of }) => of === own);
    const alone = times ? await timeOf(each) : undefined;
    const told = alone === undefined ? "" : `${((1000 * alone) / each.length).toFixed(2)} µs each`;
    console.log(
      `  ${own.label.padEnd(24)} × ${String(each.length).padStart(3)}  ${String(each[0].given).padEnd(12)} ${told}`,
    );
  }
}
await lm.release();
files.remove();
process.exit(0);
