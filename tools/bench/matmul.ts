/**
 * The load `matmul`: products with weights, for one row as in decoding and for many as in prefill, with float32, 8-bit and 4-bit weights.
 * A run multiplies by several matrices in turn, more than a processor's cache holds.
 */
import { seededRandom } from "#insitu/graph/call.js";
import { buildModel, initializer, node, value } from "#insitu/onnx/build.js";
import type { Model, ModelNode, ModelTensor } from "#insitu/onnx/model.js";
import { writeModel } from "#insitu/onnx/write.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import type { Group, Load, Result, Setting } from "./load.js";
import { copiesOf, once, startInsitu, startPeer, type Work } from "./work.js";

/** What weights are kept in. */
type Weights = "float32" | "int8" | "int4";

const blockSize = 32;

interface Sizes {
  readonly rows: number; // M
  readonly inner: number; // K
  readonly outer: number; // N
  readonly weights: Weights;
  /** Matrices that one run multiplies by. */
  readonly matrices: number;
}

const bitsOf = { float32: 32, int8: 8, int4: 4 } as const;

/** What a result may be off by, as a part of the typical size: quantised products round the activations to 8 bits. */
const tolerance = { float32: 1e-4, int8: 3e-2, int4: 3e-2 } as const;

/** Random activations [M, K]. */
function activations({ rows, inner }: Sizes): Tensor {
  const random = seededRandom(1);
  return new Tensor(
    "float32",
    Float32Array.from({ length: rows * inner }, () => random() * 2 - 1),
    [rows, inner],
  );
}

/** One matrix as its initializers, and what its elements are: `at(k, n)`. */
interface Matrix {
  readonly initializers: readonly ModelTensor[];
  at(k: number, n: number): number;
}

function matrixOf({ inner, outer, weights }: Sizes, index: number): Matrix {
  const random = seededRandom(100 + index);
  const name = `weight.${index}`;
  if (weights === "float32") {
    const data = Float32Array.from({ length: inner * outer }, () => random() * 2 - 1);
    return {
      initializers: [initializer(name, "float32", data, [inner, outer])],
      at: (k, n) => data[k * outer + n],
    };
  }
  const bits = bitsOf[weights];
  const blocks = inner / blockSize;
  const data = new Uint8Array((inner * outer * bits) / 8);
  const words = new Uint32Array(data.buffer);
  for (let at = 0; at < words.length; at++) words[at] = random() * 2 ** 32;
  const scales = Float32Array.from({ length: outer * blocks }, () => (0.5 + random()) / 2 ** (bits - 1));
  return {
    initializers: [
      initializer(name, "uint8", data, [outer, blocks, (blockSize * bits) / 8]),
      initializer(`${name}.scales`, "float32", scales, [outer * blocks]),
    ],
    at(k, n) {
      const element = n * inner + k;
      const whole = bits === 8 ? data[element] : (data[element >> 1] >> (4 * (element & 1))) & 15;
      return (whole - 2 ** (bits - 1)) * scales[n * blocks + Math.floor(k / blockSize)];
    },
  };
}

function workOf(sizes: Sizes): Work {
  const { rows, inner, outer, weights, matrices } = sizes;
  const all = Array.from({ length: matrices }, (_, index) => index);
  const product = (index: number): ModelNode => {
    const weight = `weight.${index}`;
    if (weights === "float32") return node("MatMul", ["x", weight], [`y.${index}`]);
    const attributes = { K: inner, N: outer, bits: bitsOf[weights], block_size: blockSize, accuracy_level: 4 };
    return node("MatMulNBits", ["x", weight, `${weight}.scales`], [`y.${index}`], attributes, {
      domain: "com.microsoft",
    });
  };
  const model = (): Model =>
    buildModel({
      opset: { "": 21, "com.microsoft": 1 },
      inputs: [value("x", "float32", [rows, inner])],
      outputs: all.map((index) => value(`y.${index}`, "float32", [rows, outer])),
      nodes: all.map(product),
      initializers: all.flatMap((index) => matrixOf(sizes, index).initializers),
    });
  return {
    model: once(() => writeModel(model())),
    rounds: [{ x: activations(sizes) }],
    outputs: all.map((index) => `y.${index}`),
  };
}

/** Elements of each product that are compared with plain loops. */
const checked = 61;

function check(sizes: Sizes): Group["check"] {
  return (results: ReadonlyMap<string, Result>) => {
    const { rows, inner, outer, matrices, weights } = sizes;
    const x = activations(sizes).data as Float32Array;
    const expected = Array.from({ length: matrices }, (_, index) => index).flatMap((index) => {
      const matrix = matrixOf(sizes, index);
      return Array.from({ length: checked }, (_, which) => {
        const within = (which * 7919) % (rows * outer);
        const [row, column] = [Math.floor(within / outer), within % outer];
        let sum = 0;
        for (let k = 0; k < inner; k++) sum += x[row * inner + k] * matrix.at(k, column);
        return { at: index * rows * outer + within, sum };
      });
    });
    const typical = Math.sqrt(expected.reduce((total, { sum }) => total + sum * sum, 0) / expected.length);
    const problems = new Map<string, string>();
    for (const [name, result] of results) {
      const numbers = result as Float32Array;
      const wrong = expected.find(({ at, sum }) => !(Math.abs(numbers[at] - sum) <= tolerance[weights] * typical));
      if (wrong !== undefined)
        problems.set(name, `is ${numbers[wrong.at]} at element ${wrong.at} instead of ${wrong.sum}`);
    }
    return problems;
  };
}

function groupOf(weights: Weights, rows: number, setting: Setting): Group {
  const side = setting.quick ? 64 : 4096;
  const bytes = (side * side * bitsOf[weights]) / 8;
  // Many rows are bound by arithmetic, not by memory.
  const matrices = setting.quick || rows > 1 ? 1 : copiesOf(bytes);
  const sizes: Sizes = { rows, inner: side, outer: side, weights, matrices };
  const work = workOf(sizes);
  const operator = weights === "float32" ? "MatMul" : "MatMulNBits";
  const amount = matrices === 1 ? "" : `, ${matrices} matrices in turn`;
  return {
    name: `${rows === 1 ? "one row" : `${rows} rows`}, ${weights} weights of ${side} × ${side}${amount}`,
    contestants: [
      { name: `insitu, ${operator}`, runtime: "insitu", start: () => startInsitu(work, setting) },
      ...setting.peers.map((peer) => ({
        name: `${peer.name}, ${operator}`,
        runtime: peer.name,
        start: () => startPeer(work, peer),
      })),
    ],
    check: check(sizes),
  };
}

/** The load. */
export const matmul: Load = {
  name: "matmul",
  description: "products with weights, for one row and for many",
  groups(setting) {
    const many = setting.quick ? 8 : 128;
    return [1, many].flatMap((rows) =>
      (["float32", "int8", "int4"] as const).map((weights) => groupOf(weights, rows, setting)),
    );
  },
};
