// Products with weights of few bits on WebGPU beside the reference implementation: block sizes, widths, zero points of both kinds, rows whose last block is cut.
import { afterAll, beforeAll, describe, test } from "vitest";
import type { InferenceSession } from "../../../src/entry/node.js";
import { noWebgpu } from "../../support/backends.js";
import { compareOneNode, keepDevice, manyRows, randomIntegers, randomTensor } from "./product-models.js";

const tolerances = { float32: 3e-5, float16: 8e-3, bfloat16: 6e-2 } as const;

describe.skipIf(noWebgpu !== undefined)(`blocks on WebGPU${noWebgpu === undefined ? "" : ` (${noWebgpu})`}`, () => {
  const kept: InferenceSession[] = [];
  beforeAll(async () => void kept.push(await keepDevice(true), await keepDevice(false)));
  afterAll(() => Promise.all(kept.map((session) => session.release())));

  /** [bits, block size, k, n, type, zero points, bias, rows] */
  const forms = [
    [4, 32, 96, 10, "float32", "none", false, [1, 37]],
    [4, 16, 48, 6, "float32", "packed", true, [3]],
    [4, 32, 70, 8, "float16", "packed", false, [37, 70]],
    [4, 128, 1100, 4, "float16", "none", true, [1]],
    [4, 64, 65, 3, "float32", "floats", false, [1]],
    [8, 16, 40, 6, "float32", "packed", false, [2, 9]],
    [8, 64, 192, 10, "bfloat16", "none", true, [1]],
    [8, 256, 300, 4, "float16", "floats", false, [10]],
    [2, 16, 48, 6, "float32", "packed", false, [1]],
    // In matrices where the device has them.
    [2, 16, 56, 6, "float16", "packed", false, [37]],
    [4, 32, 100, 10, "float16", "none", true, [37, 70]],
    [4, 16, 72, 6, "float16", "floats", false, [37]],
    [8, 32, 100, 6, "float16", "none", false, [37]],
    [8, 16, 40, 10, "float16", "packed", true, [37, 70]],
    [8, 64, 130, 6, "float16", "floats", false, [37]],
  ] as const;

  for (const [bits, blockSize, k, n, type, zeros, bias, rows] of forms)
    test(`${bits} bits, blocks of ${blockSize}, ${type}, zero points: ${zeros}`, async () => {
      const blocks = Math.ceil(k / blockSize);
      for (const m of rows) {
        const subgroups = bits !== 8 || m > 16;
        await compareOneNode(`[${m},${k}] · ${n}`, {
          op: "MatMulNBits",
          domain: "com.microsoft",
          attrs: { K: k, N: n, bits, block_size: blockSize },
          operands: [
            randomTensor(type, [1, m, k], m),
            randomIntegers("uint8", [n, blocks, (blockSize * bits) / 8], 2),
            randomTensor(type, [n, blocks], 3, 2 ** (1 - bits)),
            zeros === "none"
              ? undefined
              : zeros === "packed"
                ? randomIntegers("uint8", [n, Math.ceil((blocks * bits) / 8)], 4)
                : randomTensor(type, [n, blocks], 5, 2 ** (bits - 1)),
            undefined,
            bias ? randomTensor(type, [n], 6) : undefined,
          ],
          weights: [1, 2, 3, 5],
          kernel:
            type !== "float32" && n % 2 !== 0
              ? undefined
              : m > 8
                ? manyRows("blocks", type, m, !subgroups)
                : "blocksOfRows",
          tolerance: tolerances[type],
          subgroups,
        });
      }
    });

  /** [type, scales, zero points, m] of what a pass makes of DequantizeLinear and MatMul. */
  const levels = [
    ["int8", [], true, 1],
    ["uint8", [10], true, 3],
    ["int4", [10], false, 1],
    ["uint4", [3, 10], true, 1],
    ["int4", [3, 10], true, 9],
  ] as const;

  test("weights that stay quantized in front of MatMul", async () => {
    for (const [type, shape, hasZero, m] of levels) {
      const [k, n] = [90, 10];
      const signed = !type.startsWith("u");
      const half = 2 ** (Number(type.replace(/\D/g, "")) - 1);
      const range = signed ? ([-half, half - 1] as const) : ([0, 2 * half - 1] as const);
      const attrs: Record<string, number> = shape.length === 2 ? { axis: 0, block_size: 32 } : { axis: 1 };
      const operands = [
        randomTensor("float32", [m, k], m),
        randomIntegers(type, [k, n], 2, range),
        randomTensor("float32", shape, 3, 1 / half),
        hasZero ? randomIntegers(type, shape, 4, range) : undefined,
      ];
      await compareOneNode(`${type}, scales [${shape}], ${m} rows`, {
        op: "DequantizeMatMul",
        domain: "insitu",
        attrs,
        operands: [...operands, m === 1 ? randomTensor("float32", [n], 5) : undefined],
        weights: [1, 2, 3, 4],
        kernel: m > 8 ? manyRows("blocks", "float32", m) : "blocksOfRows",
        tolerance: tolerances.float32,
      });
    }
  });
});
