// Layers of a decoder in Qwen3-0.6B's shape through a session on WebGPU, their caches held by a state: the time of a run, and the GPU's time by kernel, each
// dispatch in a pass of its own, which adds some microseconds to each. Random weights; no embedding and no head.
// Usage: node tools/measure/webgpu/layers.mjs [--layers 4] [--bits 16|4] [--accuracy 0|4] [--attention lines,sides,rows[,chunk]] [--without-matrices] [--without-f16] <batch>x<tokens>@<context> …
// For instance 1x4096@0 for a prompt, 32x1@1024 for a step of a batch. On NVIDIA timestamps are exact to 100 microseconds unless Dawn is told otherwise.
import { globals } from "webgpu";
import { InferenceSession, Tensor } from "../../../dist/index.node.js";
import { buildModel, float, initializer, node, value } from "../../../dist/onnx/build.js";
import { writeModel } from "../../../dist/onnx/write.js";
import { usualTuning } from "../../../dist/webgpu-kernels/tuning.js";

const [hidden, heads, keyHeads, size, intermediate, positions] = [1024, 16, 8, 128, 3072, 16384];
const option = (name, otherwise) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? otherwise : process.argv.splice(at, 2)[1];
};
const layers = Number(option("--layers", 4));
const bits = Number(option("--bits", 16));
const accuracy = Number(option("--accuracy", 0));
const attention = option("--attention", "");
const without = process.argv.includes("--without-matrices");
const withoutHalves = process.argv.includes("--without-f16");
const runs = process.argv.slice(2).flatMap((text) => {
  const found = /^(\d+)x(\d+)@(\d+)$/.exec(text);
  return found === null ? [] : [found.slice(1).map(Number)];
});

const half = (x) => {
  const word = new Uint32Array(new Float32Array([x]).buffer)[0];
  const exponent = ((word >> 23) & 255) - 112;
  return exponent <= 0 ? 0 : ((word >> 16) & 0x8000) | (exponent << 10) | ((word >> 13) & 1023);
};
let seed = 7;
const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) >>> 16;
const halves = (dims, scale) => {
  const values = Uint16Array.from({ length: 4096 }, (_, at) => half((at / 2048 - 1) * scale));
  const data = new Uint16Array(dims.reduce((product, dim) => product * dim, 1)).map(() => values[random() & 4095]);
  return new Tensor("float16", data, dims);
};

/** The layers as a model. */
function modelOf() {
  const [initializers, nodes] = [[], []];
  const constant = (name, tensor) => (initializers.push(initializer(name, tensor)), name);
  const add = (op, inputs, output, attrs = {}, domain = "") => {
    nodes.push(node(op, inputs, [output], attrs, { name: output, domain }));
    return output;
  };
  const linear = (input, name, k, n) => {
    if (bits === 16) return add("MatMul", [input, constant(`${name}.weight`, halves([k, n], Math.sqrt(3 / k)))], name);
    const blocks = new Uint8Array((n * k * bits) / 8).map(random);
    const weight = constant(`${name}.weight`, new Tensor("uint8", blocks, [n, k / 32, 4 * bits]));
    const scales = constant(`${name}.scales`, halves([n, k / 32], 0.02));
    const attrs = { K: k, N: n, bits, block_size: 32, accuracy_level: accuracy };
    return add("MatMulNBits", [input, weight, scales], name, attrs, "com.microsoft");
  };
  const angle = (at) => Math.floor(at / (size / 2)) / 1e6 ** ((at % (size / 2)) / (size / 2));
  for (const of of ["cos", "sin"]) {
    const data = Uint16Array.from({ length: (positions * size) / 2 }, (_, at) => half(Math[of](angle(at))));
    constant(of, new Tensor("float16", data, [positions, size / 2]));
  }
  const shape = (name, dims) => constant(name, new Tensor("int64", BigInt64Array.from(dims, BigInt), [dims.length]));
  const [apart, together] = [shape("apart", [0, 0, -1, size]), shape("together", [0, 0, heads * size])];
  let x = "x";
  for (let layer = 0; layer < layers; layer++) {
    const at = (name) => `layer.${layer}.${name}`;
    const norm = (input, name, n) =>
      add("RMSNormalization", [input, constant(at(`${name}.weight`), halves([n], 1))], at(name));
    const first = norm(x, "first", hidden);
    const rows = (name, count) =>
      add("Reshape", [linear(first, at(name), hidden, count * size), apart], at(`${name}.apart`));
    const turn = (input) => add("Transpose", [input], `${input}.turned`, { perm: [0, 2, 1, 3] });
    const rotate = (input) => add("RotaryEmbedding", [input, "cos", "sin", "position_ids"], `${input}.rotated`);
    const q = rotate(turn(norm(rows("q", heads), "q.norm", size)));
    const k = rotate(turn(norm(rows("k", keyHeads), "k.norm", size)));
    const v = turn(rows("v", keyHeads));
    const write = (which, fresh) =>
      add("TensorScatter", [`past.${layer}.${which}`, fresh, "write_indices"], `present.${layer}.${which}`, {
        axis: 2,
      });
    const operands = [q, write("key", k), write("value", v), "", "", "", "nonpad_kv_seqlen"];
    const attended = add("Attention", operands, at("attention"), { is_causal: 1, scale: float(size ** -0.5) });
    const flat = add("Reshape", [turn(attended), together], at("attended"));
    x = add("Add", [x, linear(flat, at("o"), heads * size, hidden)], at("between"));
    const second = norm(x, "second", hidden);
    const gate = linear(second, at("gate"), hidden, intermediate);
    const silu = add("Mul", [gate, add("Sigmoid", [gate], at("sigmoid"))], at("silu"));
    const product = add("Mul", [silu, linear(second, at("up"), hidden, intermediate)], at("product"));
    x = add("Add", [x, linear(product, at("down"), intermediate, hidden)], at("out"));
  }
  const last = constant("last", new Tensor("int64", BigInt64Array.from([-1n]), [1]));
  const caches = (name) =>
    Array.from({ length: 2 * layers }, (_, at) =>
      value(`${name}.${at >> 1}.${at % 2 ? "value" : "key"}`, "float16", ["batch", keyHeads, "capacity", size]),
    );
  const inputs = [
    value("x", "float16", ["batch", "sequence", hidden]),
    value("position_ids", "int64", ["batch", "sequence"]),
    value("write_indices", "int64", ["batch"]),
    value("nonpad_kv_seqlen", "int64", ["batch"]),
    ...caches("past"),
  ];
  const outputs = [value(add("Gather", [x, last], "y", { axis: 1 })), ...caches("present")];
  return writeModel(buildModel({ opset: { "": 24, "com.microsoft": 1 }, inputs, outputs, nodes, initializers }));
}

/** Timestamps around every dispatch of the encoders that are made meanwhile: microseconds and counts by the pipelines' names. */
async function timed(run) {
  const { createCommandEncoder } = globals.GPUDevice.prototype;
  const [names, buffers] = [[], []];
  globals.GPUDevice.prototype.createCommandEncoder = function () {
    const encoder = createCommandEncoder.call(this);
    const querySet = this.createQuerySet({ type: "timestamp", count: 4096 });
    let next = 0;
    const pass = {
      setPipeline: (pipeline) => (pass.pipeline = pipeline),
      setBindGroup: (_, group) => (pass.group = group),
      dispatchWorkgroups: (...counts) => {
        const timestampWrites = { querySet, beginningOfPassWriteIndex: next, endOfPassWriteIndex: next + 1 };
        const own = encoder.beginComputePass({ timestampWrites });
        own.setPipeline(pass.pipeline);
        own.setBindGroup(0, pass.group);
        own.dispatchWorkgroups(...counts);
        own.end();
        names.push(pass.pipeline.label);
        next += 2;
      },
      end: () => {},
    };
    const finish = () => {
      if (next > 0) {
        const resolved = this.createBuffer({ size: 8 * next, usage: 0x200 | 4 });
        const landing = this.createBuffer({ size: 8 * next, usage: 1 | 8 });
        encoder.resolveQuerySet(querySet, 0, next, resolved, 0);
        encoder.copyBufferToBuffer(resolved, 0, landing, 0, 8 * next);
        buffers.push(landing);
      }
      return encoder.finish();
    };
    const own = { beginComputePass: () => pass, finish };
    return new Proxy(own, { get: (_, name) => own[name] ?? encoder[name].bind(encoder) });
  };
  try {
    await run();
  } finally {
    globals.GPUDevice.prototype.createCommandEncoder = createCommandEncoder;
  }
  const table = new Map();
  let at = 0;
  for (const buffer of buffers) {
    await buffer.mapAsync(1);
    const times = new BigUint64Array(buffer.getMappedRange().slice(0));
    for (let i = 0; i < times.length; i += 2, at++) {
      const entry = table.get(names[at]) ?? { count: 0, time: 0 };
      table.set(names[at], { count: entry.count + 1, time: entry.time + Number(times[i + 1] - times[i]) / 1000 });
    }
  }
  return table;
}

// The tile of attention in float32, in place of those that the table has.
if (attention !== "") {
  const [lines, sides, rowsEach, chunk = 8] = attention.split(",").map(Number);
  usualTuning.manyRows.attentionTiles.splice(0, Infinity, { lines, sides, rowsEach, chunk });
}
const settings = {
  webgpu: { ...(without ? { subgroupMatrices: false } : {}), ...(withoutHalves ? { f16: false } : {}) },
};
const session = await InferenceSession.create(modelOf(), { backend: "webgpu", inPlace: "require", ...settings });
for (const [batch, tokens, context] of runs) {
  const state = session.createState({ dims: { batch, capacity: context + tokens } });
  const whole = (values, dims) => new Tensor("int64", BigInt64Array.from(values, BigInt), dims);
  const feeds = {
    x: halves([batch, tokens, hidden], 1),
    position_ids: whole(
      Array.from({ length: batch * tokens }, (_, at) => context + (at % tokens)),
      [batch, tokens],
    ),
    write_indices: whole(Array.from({ length: batch }).fill(context), [batch]),
    nonpad_kv_seqlen: whole(Array.from({ length: batch }).fill(context + tokens), [batch]),
  };
  const run = () => session.run(feeds, { state });
  const times = [];
  for (let round = 0; round < 25; round++) {
    const start = performance.now();
    await run();
    if (round >= 5) times.push(performance.now() - start);
  }
  const table = await timed(run);
  const total = [...table.values()].reduce((sum, { time }) => sum + time, 0) / 1000;
  const median = times.toSorted((a, b) => a - b)[times.length >> 1];
  console.log(
    `${batch} x ${tokens} tokens after ${context}, ${layers} layers: ${median.toFixed(1)} ms; ${total.toFixed(2)} ms of kernels`,
  );
  for (const [name, { count, time }] of [...table].toSorted(([, a], [, b]) => b.time - a.time))
    console.log(`  ${name.padEnd(24)} ${String(count).padStart(4)} x ${(time / count).toFixed(1).padStart(8)} µs`);
}
await session.release();
process.exit(0);
