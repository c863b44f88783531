// What the dispatches of one token take on a GPU: those of a session's run are caught, and run again and again by themselves, all of them and
// each kind alone. Usage: node bench/webgpu/dispatches.mjs [context …]; INT4=1 for weights of 4 bits, LAYERS=n for fewer layers.
import { create, globals } from "webgpu";
import { InferenceSession, Tensor } from "../../dist/index.node.js";
import { publishedDecoder } from "../../dist/demo/published-decoder.js";
import { qwen3 } from "../../dist/demo/published-shapes.js";
import { writeModel } from "../../dist/onnx/write.js";

void create;
const contexts = process.argv.slice(2).map(Number);
const layers = Number(process.env.LAYERS ?? 28);
const batch = Number(process.env.BATCH ?? 1);
const vocabulary = Number(process.env.VOCABULARY ?? qwen3.sizes.vocabulary);
const capacity = Number(process.env.CAPACITY ?? 4608);
let device;
let caught;
const { GPUAdapter, GPUComputePassEncoder, GPUCommandEncoder } = globals;
const { requestDevice } = GPUAdapter.prototype;
GPUAdapter.prototype.requestDevice = async function (...given) {
  console.log(
    "limits",
    this.limits.maxStorageBuffersPerShaderStage,
    this.limits.maxComputeWorkgroupStorageSize,
    this.info.subgroupMinSize,
  );
  device = await requestDevice.apply(this, given);
  return device;
};
const { setPipeline, setBindGroup, dispatchWorkgroups } = GPUComputePassEncoder.prototype;
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
  caught?.push({ pipeline, group, given });
  return dispatchWorkgroups.apply(this, given);
};
void GPUCommandEncoder;

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];

/** Milliseconds of one pass over dispatches, as the difference between many of them and few. */
async function timeOf(list) {
  const run = async (times) => {
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    for (let i = 0; i < times; i++)
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
  const times = [];
  for (let i = 0; i < 7; i++) times.push(((await run(2 * many)) - (await run(many))) / many);
  return median(times);
}

const int64 = (values, dims) => new Tensor("int64", BigInt64Array.from(values, BigInt), dims);
let start = performance.now();
const sizes = { ...qwen3.sizes, layers, vocabulary, positions: 8192 };
const model = publishedDecoder(sizes, {
  type: "float16",
  weights: process.env.INT4 ? { bits: 4, blockSize: 32 } : "plain",
});
const bytes = writeModel(model);
console.log(`model of ${(bytes.length / 1e6).toFixed(0)} MB made in ${(performance.now() - start).toFixed(0)} ms`);
start = performance.now();
const session = await InferenceSession.create(bytes, { backend: "webgpu", rewrite: "auto" });
console.log(`loaded in ${(performance.now() - start).toFixed(0)} ms`);
const state = session.createState({ dims: { batch, capacity } });
const one = (value) =>
  int64(
    Array.from({ length: batch }, () => value),
    [batch],
  );
const step = (at) => {
  const ids = int64(
    Array.from({ length: batch }, () => 5),
    [batch, 1],
  );
  const position = int64(
    Array.from({ length: batch }, () => at),
    [batch, 1],
  );
  return session.run(
    { input_ids: ids, position_ids: position, write_indices: one(at), nonpad_kv_seqlen: one(at + 1) },
    ["logits"],
    { state },
  );
};
for (const context of contexts) {
  start = performance.now();
  await step(context - 1);
  console.log(`context ${context}: first token ${(performance.now() - start).toFixed(0)} ms`);
  const runs = [];
  for (let i = 0; i < 20; i++) {
    start = performance.now();
    await step(context + i);
    runs.push(performance.now() - start);
  }
  caught = [];
  await step(context);
  const list = caught;
  caught = undefined;
  const whole = await timeOf(list);
  console.log(
    `  session.run ${median(runs).toFixed(3)} ms; ${list.length} dispatches, ${whole.toFixed(3)} ms on the GPU`,
  );
  const kinds = Map.groupBy(list, ({ pipeline: own }) => own);
  for (const [own, each] of kinds) {
    const alone = await timeOf(each);
    console.log(
      `  ${own.label.padEnd(20)} × ${String(each.length).padStart(3)} ${String(each[0].given).padEnd(12)} ${((1000 * alone) / each.length).toFixed(2)} µs each, ${alone.toFixed(3)} ms`,
    );
  }
}
await session.release();
process.exit(0);
