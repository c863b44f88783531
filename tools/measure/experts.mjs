// Experts beside a dense feed-forward layer that reads as many bytes a token: 32 experts of which a token has 4, weights of 4 bits in blocks of 32.
//   node tools/measure/experts.mjs [layers] [threads] [hidden] [inner] [--backend webgpu [--small]] [--type float16]
// On a GPU a layer's time is the difference between models of many layers and of few, since a run's round trip takes longer than a layer: all read one of three
// sets of weights, which are more than caches hold.
import { InferenceSession, Tensor } from "../../dist/index.node.js";
import { buildModel, float, initializer, node, value } from "../../dist/onnx/build.js";
import { writeModel } from "../../dist/onnx/write.js";
import { writeNumbers } from "../../dist/tensor/access.js";
import { Tensor as OwnTensor } from "../../dist/tensor/tensor.js";
import { View } from "../../dist/tensor/view.js";

const option = (name, otherwise) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? otherwise : process.argv.splice(at, 2)[1];
};
const backend = option("--backend", "wasm");
const onGpu = backend === "webgpu";
const isSmall = process.argv.includes("--small");
const type = option("--type", onGpu ? "float16" : "float32");
const [
  layers = onGpu ? (isSmall ? 4 : 48) : 4,
  threads = 2,
  hidden = onGpu ? (isSmall ? 128 : 2880) : 2048,
  inner = onGpu ? (isSmall ? 64 : 2880) : 1024,
] = process.argv
  .slice(2)
  .filter((text) => !text.startsWith("--"))
  .map(Number);
/** Layers of the smaller model, and sets of weights. */
const [few, sets] = onGpu ? [layers / 4, 3] : [layers, layers];
const [experts, k, block] = [32, 4, 32];
const domain = "com.microsoft";
const bytes = (dims) => {
  const count = dims.reduce((product, dim) => product * dim, 1);
  const words = new Uint32Array(Math.ceil(count / 4));
  let state = 1;
  for (let i = 0; i < words.length; i++) words[i] = state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return new Tensor("uint8", new Uint8Array(words.buffer, 0, count), dims);
};
/** A tensor of a type that holds floats; `Float16Array` is not in every Node. */
const floats = (dims, of) => {
  const count = dims.reduce((product, dim) => product * dim, 1);
  if (type === "float32") return new Tensor(type, Float32Array.from({ length: count }, of), dims);
  const view = View.allocate(type, dims);
  writeNumbers(view, Float32Array.from({ length: count }, of));
  return OwnTensor.fromView(view);
};
const scales = (dims) => floats(dims, () => 0.002);

function model(layerOf, count = layers) {
  const [initializers, nodes] = [[], []];
  const held = new Set();
  const hold = (name, make) => {
    if (!held.has(name)) initializers.push(initializer(name, make()));
    held.add(name);
    return name;
  };
  let x = "x";
  for (let layer = 0; layer < count; layer++) {
    const made = layerOf(layer, x, hold, layer % sets);
    nodes.push(...made, node("Add", [x, `y${layer}`], [`x${layer}`]));
    x = `x${layer}`;
  }
  return writeModel(
    buildModel({
      opset: { "": 21, [domain]: 1 },
      inputs: [value("x", type, ["tokens", hidden]), value("scores", type, ["tokens", experts])],
      outputs: [value(x, type, ["tokens", hidden])],
      initializers,
      nodes,
    }),
  );
}

const sparse = (count) =>
  model(
    (layer, x, hold, set) => [
      node(
        "QMoE",
        [
          x,
          "scores",
          hold(`u${set}`, () => bytes([experts, 2 * inner, hidden / 2])),
          hold(`us${set}`, () => scales([experts, 2 * inner, hidden / block])),
          "",
          hold(`d${set}`, () => bytes([experts, hidden, inner / 2])),
          hold(`ds${set}`, () => scales([experts, hidden, inner / block])),
        ],
        [`y${layer}`],
        {
          k,
          activation_type: "swiglu",
          swiglu_fusion: 1,
          block_size: block,
          expert_weight_bits: 4,
          normalize_routing_weights: 1,
          swiglu_limit: float(7),
        },
        { domain },
      ),
    ],
    count,
  );
const dense = (level, count) =>
  model((layer, x, hold, set) => {
    const product = (name, from, K, N) =>
      node(
        "MatMulNBits",
        [
          from,
          hold(`${name}${set}`, () => bytes([N, K / block, block / 2])),
          hold(`${name}s${set}`, () => scales([N * (K / block)])),
        ],
        [`${name}o${layer}`],
        { K, N, bits: 4, block_size: block, accuracy_level: level },
        { domain },
      );
    return [
      product("g", x, hidden, k * inner),
      product("u", x, hidden, k * inner),
      node("Sigmoid", [`go${layer}`], [`a${layer}`]),
      node("Mul", [`a${layer}`, `go${layer}`], [`b${layer}`]),
      node("Mul", [`b${layer}`, `uo${layer}`], [`c${layer}`]),
      product("d", `c${layer}`, k * inner, hidden),
      node("Identity", [`do${layer}`], [`y${layer}`]),
    ];
  }, count);

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const forms = onGpu
  ? { experts: sparse, dense: (count) => dense(0, count) }
  : {
      experts: sparse,
      ...Object.fromEntries([0, 2, 4].map((level) => [`dense, level ${level}`, (count) => dense(level, count)])),
    };
const sessions = {};
for (const [name, of] of Object.entries(forms)) {
  const open = (count) => InferenceSession.create(of(count), { backend, ...(onGpu ? {} : { threads }) });
  sessions[name] = onGpu ? [await open(layers), await open(few)] : [await open(layers)];
}
const time = async (session, feeds) => {
  const start = performance.now();
  await session.run(feeds);
  return performance.now() - start;
};
for (const tokens of onGpu ? (isSmall ? [1] : [1, 8, 128]) : [1, 128]) {
  const times = Object.fromEntries(Object.keys(sessions).map((name) => [name, []]));
  for (let round = 0; round < (isSmall ? 4 : tokens === 1 ? 40 : onGpu ? 20 : 6); round++) {
    const x = floats([tokens, hidden], Math.random);
    const scores = floats([tokens, experts], Math.random);
    for (const [name, [all, less]] of Object.entries(sessions)) {
      const whole = await time(all, { x, scores });
      times[name].push(less === undefined ? whole : whole - (await time(less, { x, scores })));
    }
  }
  const least = (list) => Math.min(...list);
  for (const [name, list] of Object.entries(times))
    console.log(
      onGpu
        ? `${tokens} tokens, ${name}: ${((1000 * median(list)) / (layers - few)).toFixed(2)} µs a layer, experts ${(median(times.experts) / median(list)).toFixed(2)} ×`
        : `${tokens} tokens, ${name}: ${median(list).toFixed(2)} ms, least ${least(list).toFixed(2)} ms, experts ${(least(times.experts) / least(list)).toFixed(2)} ×`,
    );
}
for (const list of Object.values(sessions)) for (const session of list) await session.release();
process.exit(0);
