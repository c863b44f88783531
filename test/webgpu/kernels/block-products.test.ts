// Products with weights of few bits on WebGPU beside the reference implementation: block sizes, widths, zero points of both kinds, rows whose last block is cut.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { InferenceSession } from "../../../src/entry/node.js";
import { seededRandom } from "../../../src/graph/call.js";
import { buildModel, initializer, node, value } from "../../../src/onnx/build.js";
import { writeModel } from "../../../src/onnx/write.js";
import { readNumbers, writeNumbers } from "../../../src/tensor/access.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import { View } from "../../../src/tensor/view.js";
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

  /**
   * Rows whose rounding leaves no doubt: the largest of each block of 32 is 127 times a power of two, others lie a quarter of a step from a whole number
   * of them. Beside them what each becomes, in float64.
   */
  function steppedRows(type: "float32" | "float16", m: number, k: number): { rows: Tensor; rounded: Float64Array } {
    const random = seededRandom(m + k);
    const numbers = new Float64Array(m * k);
    const rounded = new Float64Array(m * k);
    for (let row = 0; row < m; row++)
      for (let first = 0; first < k; first += 32) {
        const step =
          row % 7 === 3 ? 0 : 2 ** (Math.floor(random() * 6) - (row % 5 === 0 && type === "float32" ? 90 : 9));
        const count = Math.min(32, k - first);
        const largest = Math.floor(random() * count);
        for (let at = 0; at < count; at++) {
          const whole = Math.floor(random() * 253) - 126;
          const near = at === largest ? 127 : whole + (random() < 0.5 ? 0.25 : -0.25);
          numbers[row * k + first + at] = near * step;
          rounded[row * k + first + at] = (at === largest ? 127 : whole) * step;
        }
      }
    const view = View.allocate(type, [1, m, k]);
    writeNumbers(view, numbers);
    return { rows: Tensor.fromView(view), rounded };
  }

  /** What accuracy_level 4 allows of rows, on WebGPU, and by which kernel; with "int8" the file leaves it open and the caller asks. */
  async function roundedProduct(
    rows: Tensor,
    { bits, n, blockSize, weights, scales, zeros }: ReturnType<typeof weightsOf>,
    activations: "file" | "int8" = "file",
  ): Promise<{ values: Float64Array; told: string }> {
    const k = rows.dims[2];
    const attrs = { K: k, N: n, bits, block_size: blockSize, ...(activations === "file" && { accuracy_level: 4 }) };
    const constants = { weights, scales, ...(zeros === undefined ? {} : { zeros }) };
    const session = await InferenceSession.create(
      writeModel(
        buildModel({
          opset: { "": 21, "com.microsoft": 1 },
          inputs: [value("x", rows.type, [...rows.dims])],
          outputs: [value("y")],
          initializers: Object.entries(constants).map(([name, tensor]) => initializer(name, tensor)),
          nodes: [node("MatMulNBits", ["x", ...Object.keys(constants)], ["y"], attrs, { domain: "com.microsoft" })],
        }),
      ),
      { backend: "webgpu", activations, webgpu: { subgroupMatrices: false } },
    );
    try {
      const { y } = await session.run({ x: rows });
      return { values: Float64Array.from(readNumbers(y.toView()), Number), told: String(session.explain()) };
    } finally {
      await session.release();
    }
  }

  function weightsOf(
    type: "float32" | "float16",
    bits: 4 | 8,
    blockSize: number,
    hasZeros: boolean,
    k: number,
    n: number,
  ) {
    const blocks = Math.ceil(k / blockSize);
    return {
      bits,
      n,
      blockSize,
      weights: randomIntegers("uint8", [n, blocks, (blockSize * bits) / 8], 2),
      scales: randomTensor(type, [n, blocks], 3, 2 ** (1 - bits)),
      zeros: hasZeros ? randomIntegers("uint8", [n, Math.ceil((blocks * bits) / 8)], 4) : undefined,
    };
  }

  /** Weights as they are multiplied, in float64. */
  function dequantized({ bits, n, blockSize, weights, scales, zeros }: ReturnType<typeof weightsOf>, k: number) {
    const [blocks, perByte] = [Math.ceil(k / blockSize), 8 / bits];
    const levels = weights.data as Uint8Array;
    const factors = readNumbers(scales.toView());
    const packed = zeros?.data as Uint8Array | undefined;
    const levelOf = (bytes: Uint8Array, row: number, rowBytes: number, at: number): number =>
      (bytes[row * rowBytes + Math.floor(at / perByte)] >> ((at % perByte) * bits)) & (2 ** bits - 1);
    return Float64Array.from({ length: n * k }, (_, index) => {
      const [row, at] = [Math.floor(index / k), index % k];
      const block = Math.floor(at / blockSize);
      const zero = packed === undefined ? 2 ** (bits - 1) : levelOf(packed, row, Math.ceil((blocks * bits) / 8), block);
      return (levelOf(levels, row, (blocks * blockSize) / perByte, at) - zero) * Number(factors[row * blocks + block]);
    });
  }

  /** [bits, block size, zero points, type, k, n, rows]; the last ones make enough of the larger tiles. */
  const roundedForms = [
    [4, 32, false, "float32", 75, 33, [65, 127, 128, 129, 200]],
    [4, 64, true, "float32", 129, 67, [129]],
    [4, 32, true, "float16", 96, 70, [65, 200]],
    [8, 32, false, "float32", 97, 41, [127]],
    [8, 128, false, "float16", 130, 34, [129]],
    [4, 32, false, "float32", 43, 1985, [129]],
    [4, 32, false, "float32", 43, 6081, [129]],
  ] as const;

  for (const [bits, blockSize, hasZeros, type, k, n, counts] of roundedForms)
    test(`rows rounded to bytes: ${bits} bits, blocks of ${blockSize}, ${type}, ${n} columns`, async () => {
      const weights = weightsOf(type, bits, blockSize, hasZeros, k, n);
      const right = dequantized(weights, k);
      for (const m of counts) {
        const { rows, rounded } = steppedRows(type, m, k);
        const { values, told } = await roundedProduct(rows, weights, m % 2 === 0 ? "file" : "int8");
        expect(told).toContain("by roundRows, blocksInBytes");
        let worst = 0;
        for (let row = 0; row < m; row++)
          for (let column = 0; column < n; column++) {
            let [sum, size] = [0, 0];
            for (let at = 0; at < k; at++) {
              const term = rounded[row * k + at] * right[column * k + at];
              sum += term;
              size += Math.abs(term);
            }
            const apart = Math.abs(values[row * n + column] - sum);
            // Subnormal float16 results are as far apart as they are.
            worst = Math.max(worst, apart === 0 ? 0 : apart / (size + (type === "float16" ? 2 ** -14 : 0)));
          }
        expect(worst, `${m} rows`).toBeLessThan(type === "float16" ? 1e-3 : 1e-6);
      }
    });

  test("rows rounded to bytes: what is not finite reaches the results of its row, and of no other", async () => {
    const [m, k, n] = [70, 64, 34];
    const weights = weightsOf("float32", 4, 32, false, k, n);
    const { rows } = steppedRows("float32", m, k);
    const data = rows.data as Float32Array;
    const broken = new Map([
      [0, NaN],
      [33, Infinity],
      [69, -Infinity],
    ]);
    for (const [row, number] of broken) data[row * k + 40] = number;
    data.fill(3.4e38, 5 * k, 5 * k + 32);
    const { values, told } = await roundedProduct(rows, weights);
    expect(told).toContain("by roundRows, blocksInBytes");
    const right = dequantized(weights, k);
    for (let row = 0; row < m; row++)
      for (let column = 0; column < n; column++) {
        const found = values[row * n + column];
        if (broken.has(row)) expect(Number.isFinite(found), `row ${row}`).toBe(false);
        else if (row !== 5) expect(Number.isFinite(found), `row ${row}`).toBe(true);
        else {
          // Sums beyond float32 are infinite, with their sign.
          let sum = 0;
          for (let at = 0; at < 32; at++) sum += 3.4e38 * right[column * k + at];
          if (Math.abs(sum) < 3e38) expect(Math.abs(found / sum - 1)).toBeLessThan(1e-3);
        }
      }
  });
});
