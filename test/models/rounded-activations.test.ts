// Products that a file lets round activations to 8 bits: what onnxruntime rounds is a loop's here, what WASM does beside it, and what is exact. Needs the peers.
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { handOver, installed, openPeer } from "../rewrite/peer.js";

const [rows, depth, columns] = [3, 128, 24];

let seed = 7;
const random = (): number => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 31 - 1;

/** One product with weights of so many bits, and its operands as numbers. */
function product(bits: number, blockSize: number) {
  const blocks = depth / blockSize;
  const levels = Array.from({ length: columns * depth }, () => Math.floor(((random() + 1) / 2) * 2 ** bits));
  const scales = Float32Array.from({ length: columns * blocks }, () => 0.01 + 0.005 * random());
  const packed = Uint8Array.from({ length: (levels.length * bits) / 8 }, (_, at) =>
    bits === 8 ? levels[at] : levels[2 * at] | (levels[2 * at + 1] << 4),
  );
  const a = Float32Array.from({ length: rows * depth }, random);
  const bytes = writeModel(
    buildModel({
      opset: { "": 21, "com.microsoft": 1 },
      inputs: [value("a", "float32", [rows, depth])],
      outputs: [value("y", "float32", [rows, columns])],
      initializers: [
        initializer("b", "uint8", packed, [columns, blocks, (blockSize * bits) / 8]),
        initializer("scales", "float32", scales, [columns, blocks]),
      ],
      nodes: [
        node(
          "MatMulNBits",
          ["a", "b", "scales"],
          ["y"],
          { K: depth, N: columns, bits, block_size: blockSize, accuracy_level: 4 },
          { domain: "com.microsoft" },
        ),
      ],
    }),
  );
  const multiply = (values: readonly number[]): number[] =>
    Array.from({ length: rows * columns }, (_, at) => {
      const [row, column] = [Math.floor(at / columns), at % columns];
      let sum = 0;
      for (let k = 0; k < depth; k++) {
        const scale = scales[column * blocks + Math.floor(k / blockSize)];
        sum += values[row * depth + k] * (levels[column * depth + k] - 2 ** (bits - 1)) * scale;
      }
      return sum;
    });
  /** Each block has 127 levels a side. */
  const rounded = (): number[] => {
    const values = [...a];
    for (let start = 0; start < values.length; start += blockSize) {
      const block = values.slice(start, start + blockSize);
      const scale = Math.max(...block.map(Math.abs)) / 127;
      block.forEach((each, at) => (values[start + at] = Math.round(each / scale) * scale));
    }
    return values;
  };
  return { bytes, a: new Tensor("float32", a, [rows, depth]), exact: multiply([...a]), rounded: multiply(rounded()) };
}

const farthest = (some: ArrayLike<number>, others: readonly number[]): number =>
  others.reduce((most, each, at) => Math.max(most, Math.abs(some[at] - each)), 0);

describe.skipIf(!installed)("activations of 8 bits", () => {
  test.each([
    [8, 32],
    [8, 128],
    [4, 32],
  ])("weights of %i bits in blocks of %i", async (bits, blockSize) => {
    const { bytes, a, exact, rounded } = product(bits, blockSize);
    const peer = await openPeer(bytes);
    const theirs = (await peer.run({ a: handOver(a) }))["y"].data as Float32Array;
    await peer.release();
    const session = await InferenceSession.create(bytes, { backend: "wasm", threads: 1 });
    const ours = (await session.run({ a }))["y"].data as Float32Array;
    await session.release();
    const loss = farthest(rounded, exact);
    expect(farthest(theirs, rounded)).toBeLessThan(loss / 100);
    // 8-bit weights cost the same with activations of 16 bits.
    expect(farthest(ours, bits === 8 ? exact : rounded)).toBeLessThan(loss / 20);
  });
});
