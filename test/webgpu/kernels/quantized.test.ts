// Quantized tensors back to floats on WebGPU beside the reference implementation: widths, signs, scales for all, by index and by block, and gathered.
import { afterAll, beforeAll, describe, test } from "vitest";
import type { InferenceSession } from "../../../src/entry/node.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import { noWebgpu } from "../../support/backends.js";
import { compareOneNode, keepDevice, randomIntegers, randomTensor } from "./product-models.js";

describe.skipIf(noWebgpu !== undefined)(`levels on WebGPU${noWebgpu === undefined ? "" : ` (${noWebgpu})`}`, () => {
  const kept: InferenceSession[] = [];
  beforeAll(async () => void kept.push(await keepDevice()));
  afterAll(() => Promise.all(kept.map((session) => session.release())));

  test("DequantizeLinear", async () => {
    for (const [type, scales, attrs, float] of [
      ["int8", [], {}, "float32"],
      ["uint8", [5], { axis: 1 }, "float16"],
      ["int4", [3], { axis: -3 }, "float32"],
      ["uint4", [3, 2, 7], { axis: 1, block_size: 3 }, "bfloat16"],
      ["int32", [7], { axis: 2 }, "float32"],
    ] as const) {
      const bits = Number(type.replace(/\D/g, ""));
      const half = 2 ** (Math.min(bits, 16) - 1);
      const range = type.startsWith("u") ? ([0, 2 * half - 1] as const) : ([-half, half - 1] as const);
      await compareOneNode(`${type} to ${float}, scales [${scales}]`, {
        op: "DequantizeLinear",
        attrs,
        operands: [
          randomIntegers(type, [3, 5, 7], 1, range),
          randomTensor(float, scales, 2),
          type === "int32" ? undefined : randomIntegers(type, scales, 3, range),
        ],
        kernel: "dequantize",
        tolerance: float === "float32" ? 1e-5 : 1e-2,
      });
    }
  });

  // Results so large that they are not computed on the host, where their operands are.
  test("MatMulInteger, to the last bit", async () => {
    for (const [a, b, m, aZeros, bZeros] of [
      ["uint8", "int8", [300, 13], [], []],
      ["int8", "uint8", [2, 150, 13], undefined, [230]],
      ["uint8", "uint8", [300, 13], [300], undefined],
    ] as const) {
      const range = (type: string): readonly [number, number] => (type === "int8" ? [-128, 127] : [0, 255]);
      await compareOneNode(`${a} · ${b}`, {
        op: "MatMulInteger",
        operands: [
          randomIntegers(a, m, 1, range(a)),
          randomIntegers(b, [13, 230], 2, range(b)),
          aZeros && randomIntegers(a, aZeros, 3, range(a)),
          bZeros && randomIntegers(b, bZeros, 4, range(b)),
        ],
        weights: [1, 3],
        kernel: "matmulInteger",
        tolerance: 0,
      });
    }
  });

  test("GatherBlockQuantized", async () => {
    const indices = new Tensor("int64", BigInt64Array.of(0n, 3n, -1n, 2n), [2, 2]);
    for (const [type, bits, shape, scales, zeros, attrs] of [
      ["uint8", 4, [5, 20], [5, 3], [5, 2], {}],
      ["uint8", 8, [5, 37], [5, 3], [5, 3], {}],
      ["uint8", 2, [5, 10], [5, 3], undefined, {}],
      ["int4", 4, [5, 34], [5, 3], [5, 3], {}],
      ["int4", 4, [5, 34], [5, 1], [5, 1], { block_size: 2 ** 32 }],
      ["uint4", 4, [2, 5, 34], [2, 1, 34], undefined, { gather_axis: 2, quantize_axis: 1 }],
    ] as const)
      await compareOneNode(`${type} of ${bits} bits, [${shape}]`, {
        op: "GatherBlockQuantized",
        domain: "com.microsoft",
        attrs: { bits, block_size: 16, ...attrs },
        operands: [
          randomIntegers(type, shape, 1, type === "int4" ? [-8, 7] : type === "uint4" ? [0, 15] : [0, 255]),
          indices,
          randomTensor("float32", scales, 2),
          zeros && randomIntegers(type, zeros, 3, type === "int4" ? [-8, 7] : [0, 255]),
        ],
        weights: [0, 2, 3],
        kernel: "gatherBlocks",
        tolerance: 1e-5,
      });
  });
});
