// Products on WebGPU as a session runs them: one row against the weights' bytes, many against the arithmetic, float16 and 4 bits. Each figure is the time
// that one product more takes in a chain of them, whose weights together are larger than a GPU's cache. Usage: node tools/measure/webgpu/products.mjs [rows …]
import { InferenceSession, Tensor } from "../../../dist/index.node.js";
import { buildModel, initializer, node, value } from "../../../dist/onnx/build.js";
import { writeModel } from "../../../dist/onnx/write.js";

const shapes = [
  [1024, 4096],
  [2048, 1024],
  [1024, 6144],
  [3072, 1024],
  [1024, 151936],
];
const blockSize = 32;
const enoughBytes = 256 << 20;
const rows = process.argv.slice(2).map(Number);

/** Ways to hold weights: their bytes, their operands and the node that adds a product to what came before. */
const kinds = {
  float16: {
    bytes: (k, n) => k * n * 2,
    input: (m, k) => [m, k],
    first: (m, n) => [m, n],
    weights: (k, n, at) => {
      const data = new Uint16Array(k * n).fill(0x1555);
      data[0] = at;
      return [new Tensor("float16", data, [k, n])];
    },
    nodes: (m, k, n, names, before, result) => [node("Gemm", ["x", ...names, before], [result])],
  },
  "4 bits": {
    bytes: (k, n) => (k * n) / 2 + (k * n * 2) / blockSize,
    input: (m, k) => (m === 1 ? [k] : [m, k]),
    first: (m, n) => (m === 1 ? [n] : [m, n]),
    weights: (k, n, at) => {
      const data = new Uint8Array((k * n) / 2).fill(0x79);
      data[0] = at;
      const scales = new Uint16Array((k / blockSize) * n).fill(0x1555);
      return [
        new Tensor("uint8", data, [n, k / blockSize, blockSize / 2]),
        new Tensor("float16", scales, [n, k / blockSize]),
      ];
    },
    // A bias is one row: products of several are added up by a node of their own.
    nodes: (m, k, n, names, before, result) => {
      const attrs = { K: k, N: n, bits: 4, block_size: blockSize };
      const operands = ["x", ...names, "", "", ...(m === 1 ? [before] : [])];
      const sum = m === 1 ? result : `${result}_alone`;
      return [
        node("MatMulNBits", operands, [sum], attrs, { domain: "com.microsoft" }),
        ...(m === 1 ? [] : [node("Add", [sum, before], [result])]),
      ];
    },
  },
};

/** The median time of a run of so many products, in seconds. */
async function timeOf(kind, m, k, n, count) {
  const first = kind.first(m, n);
  const initializers = [];
  const nodes = [];
  for (let at = 0; at < count; at++) {
    const names = kind.weights(k, n, at).map((tensor, part) => {
      initializers.push(initializer(`w${at}_${part}`, tensor));
      return `w${at}_${part}`;
    });
    nodes.push(...kind.nodes(m, k, n, names, at === 0 ? "start" : `y${at - 1}`, `y${at}`));
  }
  const inputs = [value("x", "float16", kind.input(m, k)), value("start", "float16", first)];
  const outputs = [value(`y${count - 1}`)];
  const model = buildModel({ opset: { "": 21, "com.microsoft": 1 }, inputs, outputs, initializers, nodes });
  const session = await InferenceSession.create(writeModel(model), { backend: "webgpu" });
  const zeros = (dims) => new Tensor("float16", new Uint16Array(dims.reduce((a, b) => a * b, 1)), dims);
  const feeds = { x: zeros(kind.input(m, k)), start: zeros(first) };
  const times = [];
  for (let round = 0; round < 25; round++) {
    const start = performance.now();
    await session.run(feeds);
    if (round >= 5) times.push((performance.now() - start) / 1000);
  }
  const told = session.explain().match(/\b(product|blocks)[OIB]\w+/)?.[0] ?? "on the host";
  await session.release();
  return { time: times.sort((a, b) => a - b)[times.length >> 1], told };
}

for (const m of rows.length === 0 ? [1, 4, 512] : rows) {
  for (const [name, kind] of Object.entries(kinds)) {
    for (const [k, n] of shapes) {
      if (m > 4 && n > 65536) continue;
      const count = Math.min(64, Math.max(2, Math.ceil(enoughBytes / kind.bytes(k, n))));
      const one = await timeOf(kind, m, k, n, 1);
      const all = await timeOf(kind, m, k, n, 1 + count);
      const each = (all.time - one.time) / count;
      const rate =
        m <= 4
          ? `${(kind.bytes(k, n) / each / 1e9).toFixed(0)} GB/s`
          : `${((2 * m * k * n) / each / 1e12).toFixed(2)} TFLOP/s`;
      console.log(
        `${name.padEnd(8)} [${m},${k}] · [${k},${n}]: ${(each * 1e6).toFixed(1)} µs, ${rate} (${all.told}; a run of one: ${(one.time * 1e6).toFixed(0)} µs)`,
      );
    }
  }
}
