// Products of many rows without subgroup matrices, tile by tile: what each candidate of `manyRows` in src/webgpu-kernels/tuning.ts computes a second, in the shapes
// of Qwen3-0.6B in 4 bits, and how far it is from a loop in float64. Each figure is the time that one product more takes in a run.
// Usage: node tools/measure/webgpu/tiles.mjs [--f32] [--f16] [--bytes] [--rows 512,4096] [--memory 16384] [--small]
// --small: sizes that a program in place of a GPU gets through, to see that it works.
import { InferenceSession, Tensor } from "../../../dist/index.node.js";
import { buildModel, initializer, node, value } from "../../../dist/onnx/build.js";
import { writeModel } from "../../../dist/onnx/write.js";
import { usualTuning } from "../../../dist/webgpu-kernels/tuning.js";

const option = (name, otherwise) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? otherwise : process.argv[at + 1];
};
const has = (name) => process.argv.includes(name);
const small = has("--small");
const most = Number(option("--memory", 16_384));
const rows = option("--rows", small ? "96" : "512,4096")
  .split(",")
  .map(Number);
const shapes = small
  ? [[128, 192]]
  : [
      [1024, 4096],
      [2048, 1024],
      [1024, 6144],
      [3072, 1024],
    ];
const tile = (rows, columns, depth, down, across) => ({ rows, columns, depth, down, across });
const candidates = {
  f32: [
    tile(128, 128, 16, 16, 16),
    tile(128, 128, 8, 16, 16),
    tile(128, 64, 16, 16, 8),
    tile(64, 128, 16, 8, 16),
    tile(64, 64, 16, 8, 8),
    tile(64, 64, 32, 8, 8),
    tile(64, 64, 32, 16, 16),
    tile(64, 64, 32, 16, 8),
    tile(32, 32, 32, 8, 8),
  ],
  f16: [
    tile(128, 128, 32, 16, 16),
    tile(128, 128, 16, 16, 16),
    tile(128, 64, 32, 16, 8),
    tile(64, 128, 32, 8, 16),
    tile(64, 64, 32, 8, 8),
    tile(64, 64, 64, 8, 8),
    tile(64, 64, 32, 16, 8),
    tile(64, 64, 64, 16, 16),
    tile(32, 32, 32, 8, 8),
  ],
  bytes: [
    tile(128, 128, 32, 16, 16),
    tile(128, 64, 32, 16, 8),
    tile(64, 128, 32, 8, 16),
    tile(64, 128, 32, 16, 16),
    tile(64, 64, 32, 8, 8),
    tile(64, 64, 32, 16, 8),
    tile(64, 64, 32, 16, 16),
    tile(32, 32, 32, 8, 8),
  ],
};
const all = Object.keys(candidates);
const ways = all.filter((way) => has(`--${way}`) || !all.some((other) => has(`--${other}`)));

let seed = 7;
const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32;
const half = (x) => {
  const word = new Uint32Array(new Float32Array([x]).buffer)[0];
  const exponent = ((word >> 23) & 255) - 112;
  return exponent <= 0 ? 0 : ((word >> 16) & 0x8000) | (exponent << 10) | ((word >> 13) & 1023);
};
const float = (bits) => {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  return (
    (bits & 0x8000 ? -1 : 1) * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15))
  );
};
const halves = (count, make) => Uint16Array.from({ length: count }, () => half(make()));
const blockSize = 32;

/** Weights of one product, and what they are in float64. */
function weightsOf(k, n) {
  const data = Uint8Array.from({ length: (k * n) / 2 }, () => random() * 256);
  const scales = halves((k / blockSize) * n, () => 0.01 + 0.02 * random());
  const at = (column, index) =>
    (((data[(column * k + index) >> 1] >> (4 * (index & 1))) & 15) - 8) *
    float(scales[column * (k / blockSize) + Math.floor(index / blockSize)]);
  return {
    at,
    tensors: [
      new Tensor("uint8", data, [n, k / blockSize, blockSize / 2]),
      new Tensor("float16", scales, [n, k / blockSize]),
    ],
  };
}

/** A session of so many products of the same rows. All of the first product is given back, or eight elements of each. */
async function sessionOf({ m, k, n, count, whole }, { tensors }, settings) {
  const whole64 = (name, values) =>
    initializer(name, new Tensor("int64", BigInt64Array.from(values, BigInt), [values.length]));
  const initializers = [
    ...tensors.flatMap((tensor, part) => [0, 1].map((which) => initializer(`w${which}_${part}`, tensor))),
    whole64("begin", [0]),
    whole64("end", [8]),
    whole64("axis", [1]),
    whole64("one", [1]),
    whole64("rowAxis", [0]),
  ];
  const attrs = { K: k, N: n, bits: 4, block_size: blockSize, accuracy_level: 4 };
  const nodes = Array.from({ length: count }, (_, at) => [
    node("MatMulNBits", ["x", `w${at % 2}_0`, `w${at % 2}_1`], [`y${at}`], attrs, { domain: "com.microsoft" }),
    node("Slice", [`y${at}`, "begin", "end", "axis"], [`columns${at}`]),
    node("Slice", [`columns${at}`, "begin", "one", "rowAxis"], [`part${at}`]),
  ]).flat();
  const outputs = whole ? [value("y0")] : Array.from({ length: count }, (_, at) => value(`part${at}`));
  const inputs = [value("x", "float16", [m, k])];
  const kept = whole ? nodes.slice(0, 1) : nodes;
  const model = buildModel({
    opset: { "": 21, "com.microsoft": 1 },
    inputs,
    outputs,
    initializers: whole ? initializers.filter(({ name }) => name.startsWith("w0")) : initializers,
    nodes: kept,
  });
  return InferenceSession.create(writeModel(model), {
    backend: "webgpu",
    graphOptimizationLevel: "disabled",
    fallback: "never",
    webgpu: { subgroupMatrices: false, ...settings },
  });
}

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];

async function timeOf(sizes, weights, x, settings) {
  const session = await sessionOf(sizes, weights, settings);
  const taken = [];
  for (let round = small ? 0 : -2; round < (small ? 1 : 7); round++) {
    const start = performance.now();
    await session.run({ x });
    if (round >= 0) taken.push(performance.now() - start);
  }
  await session.release();
  return median(taken);
}

/** How far sampled elements lie from their sums in float64, as a part of what elements are on average. */
async function errorOf({ k, n }, weights, settings) {
  const m = small ? 70 : 300;
  const data = halves(m * k, () => 2 * random() - 1);
  const session = await sessionOf({ m, k, n, count: 1, whole: true }, weights, settings);
  const { y0 } = await session.run({ x: new Tensor("float16", data, [m, k]) });
  const told = session.explain().match(/\bblocks[OIB]\w+/)?.[0] ?? "no kernel of blocks";
  const results = new Uint16Array(y0.data.buffer, y0.data.byteOffset, m * n);
  await session.release();
  let [largest, squares] = [0, 0];
  const samples = 500;
  for (let sample = 0; sample < samples; sample++) {
    const row = sample % 7 === 0 ? m - 1 : Math.floor(random() * m);
    const column = sample % 5 === 0 ? n - 1 : Math.floor(random() * n);
    let sum = 0;
    for (let at = 0; at < k; at++) sum += float(data[row * k + at]) * weights.at(column, at);
    largest = Math.max(largest, Math.abs(sum - float(results[row * n + column])));
    squares += sum * sum;
  }
  return { error: largest / Math.sqrt(squares / samples), told };
}

const usual = usualTuning.manyRows;
for (const way of ways) {
  const settings = way === "f16" ? {} : { f16: false };
  const element = { f32: 4, f16: 2, bytes: 1.125 }[way];
  for (const candidate of candidates[way]) {
    const { rows: down, columns, depth } = candidate;
    if ((down + columns) * depth * element > most) continue;
    usualTuning.manyRows = {
      ...usual,
      floatTiles: [candidate],
      halfTiles: [candidate],
      byteTiles: way === "bytes" ? [candidate] : [],
    };
    const text = `${way} ${down}×${columns}×${depth} by ${candidate.down}×${candidate.across}`;
    const line = [];
    let [worst, named] = [0, ""];
    for (const [k, n] of shapes) {
      const weights = weightsOf(k, n);
      const { error, told } = await errorOf({ k, n }, weights, settings);
      [worst, named] = [Math.max(worst, error), told];
      for (const m of rows) {
        const x = new Tensor(
          "float16",
          halves(4096, () => 2 * random() - 1),
          [1, 4096],
        );
        const all = new Uint16Array(m * k);
        for (let at = 0; at < all.length; at += 4096)
          all.set(new Uint16Array(x.data.buffer, x.data.byteOffset, Math.min(4096, all.length - at)), at);
        const fed = new Tensor("float16", all, [m, k]);
        const count = small ? 1 : Math.ceil(4e11 / (2 * m * n * k));
        const one = await timeOf({ m, k, n, count: 1 }, weights, fed, settings);
        const many = await timeOf({ m, k, n, count: 1 + count }, weights, fed, settings);
        const each = (many - one) / count / 1000;
        line.push(`${m}·${k}·${n} ${((2 * m * n * k) / each / 1e12).toFixed(1)}`);
      }
    }
    console.log(`${text.padEnd(28)} ${line.join("  ")}  TFLOP/s; off by ${worst.toExponential(1)} (${named})`);
  }
}
process.exit(0);
