// Experts beside a dense feed-forward layer that reads as many bytes a token: 32 experts of which a token has 4, weights of 4 bits in blocks of 32.
//   node tools/measure/experts.mjs [layers] [threads] [hidden] [inner] [--backend webgpu] [--type float16]
// On a GPU runs are begun one behind the other, and what is timed is many of them: a single one is told by its round trip.
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
const type = option("--type", onGpu ? "float16" : "float32");
const [layers = 4, threads = 2, hidden = 2048, inner = 1024] = process.argv.slice(2).map(Number);
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

function model(layerOf) {
  const [initializers, nodes] = [[], []];
  const hold = (name, tensor) => (initializers.push(initializer(name, tensor)), name);
  let x = "x";
  for (let layer = 0; layer < layers; layer++) {
    const made = layerOf(layer, x, hold);
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

const sparse = model((layer, x, hold) => [
  node(
    "QMoE",
    [
      x,
      "scores",
      hold(`u${layer}`, bytes([experts, 2 * inner, hidden / 2])),
      hold(`us${layer}`, scales([experts, 2 * inner, hidden / block])),
      "",
      hold(`d${layer}`, bytes([experts, hidden, inner / 2])),
      hold(`ds${layer}`, scales([experts, hidden, inner / block])),
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
]);
const dense = (level) =>
  model((layer, x, hold) => {
    const product = (name, from, K, N) =>
      node(
        "MatMulNBits",
        [
          from,
          hold(`${name}${layer}`, bytes([N, K / block, block / 2])),
          hold(`${name}s${layer}`, scales([N * (K / block)])),
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
  });

const sessions = {};
for (const [name, bytesOf] of Object.entries({
  experts: sparse,
  "dense, level 0": dense(0),
  "dense, level 2": dense(2),
  "dense, level 4": dense(4),
}))
  if (!onGpu || name === "experts" || name === "dense, level 0")
    sessions[name] = await InferenceSession.create(bytesOf, { backend, ...(onGpu ? {} : { threads }) });
const atOnce = onGpu ? 16 : 1;
for (const tokens of onGpu ? [1, 8, 128] : [1, 128]) {
  const times = Object.fromEntries(Object.keys(sessions).map((name) => [name, []]));
  for (let round = 0; round < (tokens === 1 ? 40 : 6); round++) {
    const x = floats([tokens, hidden], Math.random);
    const scores = floats([tokens, experts], Math.random);
    for (const [name, session] of Object.entries(sessions)) {
      const start = performance.now();
      await Promise.all(Array.from({ length: atOnce }, () => session.run({ x, scores })));
      times[name].push((performance.now() - start) / atOnce);
    }
  }
  const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
  const least = (list) => Math.min(...list);
  for (const [name, list] of Object.entries(times))
    console.log(
      `${tokens} tokens, ${name}: ${median(list).toFixed(2)} ms, least ${least(list).toFixed(2)} ms, experts ${(least(times.experts) / least(list)).toFixed(2)} ×`,
    );
}
for (const session of Object.values(sessions)) await session.release();
