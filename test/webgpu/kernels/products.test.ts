// Matrix products on WebGPU beside the reference implementation: sizes around those of words, chunks, lanes and tiles, operands fed and constant, transposed,
// broadcast, with and without subgroups.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { InferenceSession } from "../../../src/entry/node.js";
import { buildModel, float, initializer, node, value } from "../../../src/onnx/build.js";
import { writeModel } from "../../../src/onnx/write.js";
import { writeNumbers } from "../../../src/tensor/access.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import { View } from "../../../src/tensor/view.js";
import { noWebgpu } from "../../support/backends.js";
import { compareViews } from "../../support/compare.js";
import { hasSubgroupMatrices } from "../../support/device.js";
import { compareOneNode, keepDevice, manyRows, randomTensor } from "./product-models.js";
import { soak } from "../../support/soak.js";

const tolerances = { float32: 3e-5, float16: 4e-3, bfloat16: 3e-2 } as const;
const types = ["float32", "float16", "bfloat16"] as const;
const [rows, tiles, elements] = ["productOfRows", "productInTiles", "productByElements"];

describe.skipIf(noWebgpu !== undefined)(`products on WebGPU${noWebgpu === undefined ? "" : ` (${noWebgpu})`}`, () => {
  const kept: InferenceSession[] = [];
  beforeAll(async () => void kept.push(await keepDevice(true), await keepDevice(false)));
  afterAll(() => Promise.all(kept.map((session) => session.release())));

  /** [m, k, n], and the kernel for float32 and for halves of a word. */
  const sizes = [
    [1, 1, 1, rows, rows],
    [1, 7, 5, rows, rows],
    [3, 66, 10, rows, rows],
    [2, 40, 9, rows, elements],
    [4, 1025, 6, rows, rows],
    [8, 40, 12, rows, rows],
    [9, 16, 8, tiles, tiles],
    [33, 35, 38, tiles, tiles],
    [70, 64, 65, tiles, elements],
  ] as const;

  const inTiles = [
    [9, 8, 4],
    [16, 40, 18],
    [31, 264, 34],
    [50, 129, 48],
    [65, 33, 130],
    [130, 72, 66],
    ...(soak
      ? ([
          [64, 1000, 3300],
          [17, 520, 200],
          [300, 96, 5000],
          [1500, 100, 1300],
        ] as const)
      : []),
  ] as const;

  /** The kernel by the name it has without matrices of subgroups. */
  const kernelFor = (type: (typeof types)[number], name: string, m: number, without = false): string =>
    name === tiles ? manyRows("product", type, m, without) : name;

  const taken = { float32: [0], float16: [1, 8], bfloat16: [3, 6] } as const;

  for (const subgroups of [true, false])
    for (const type of subgroups ? types : types.slice(0, 2))
      test(`weights of ${type} ${subgroups ? "with" : "without"} subgroups`, async () => {
        for (const [m, k, n, whole, half] of sizes.slice(...(subgroups ? taken[type] : [2, 4])))
          await compareOneNode(`[${m},${k}] · [${k},${n}]`, {
            op: "MatMul",
            operands: [randomTensor(type, [m, k], m + k), randomTensor(type, [k, n], n + k)],
            weights: [1],
            kernel: kernelFor(type, type === "float32" ? whole : half, m, !subgroups),
            tolerance: tolerances[type],
            subgroups,
          });
      });

  test("float16 in tiles of every size, and with matrices of subgroups where the device has them", async () => {
    /** [m, k, n]: around the sizes of tiles, of matrices and of loads. */
    for (const [m, k, n] of hasSubgroupMatrices ? inTiles : inTiles.slice(1, 4))
      for (const subgroupMatrices of hasSubgroupMatrices ? [true, false] : [true])
        await compareOneNode(`[${m},${k}] · [${k},${n}]`, {
          op: "MatMul",
          operands: [randomTensor("float16", [m, k], m + k), randomTensor("float16", [k, n], n + k)],
          weights: [1],
          kernel: manyRows("product", "float16", m, !subgroupMatrices),
          // In tiles 32 products at a time are added up in float16: some hundred roundings of sums of up to 4, and a million results.
          tolerance: m > 64 && !subgroupMatrices ? 2.5e-2 : tolerances.float16,
          subgroupMatrices,
        });
  });

  test("operands fed, vectors, batches that agree and that are broadcast", async () => {
    for (const [at, [a, b, kernel]] of (
      [
        [[3, 16], [16, 4], elements],
        [[7], [7, 3], elements],
        [[2, 3, 7], [7], elements],
        [[0, 4], [4, 3], ""],
        [[2, 0], [0, 3], elements],
        [[2, 3, 20, 12], [2, 3, 12, 8], tiles],
        [[2, 1, 20, 12], [3, 12, 7], tiles],
        [[3, 20, 12], [2, 1, 12, 16], tiles],
      ] as const
    ).entries())
      for (const type of at < 5 ? (["float32", "float16"] as const) : (["float32"] as const))
        await compareOneNode(`${type} [${a}] · [${b}]`, {
          op: "MatMul",
          operands: [randomTensor(type, a, at), randomTensor(type, b, at + 50)],
          kernel: kernelFor(type, kernel, a.at(-2) ?? 1),
          tolerance: tolerances[type],
        });
  });

  test("sums in between that float16 cannot hold", async () => {
    const [m, k, n] = [70, 64, 66];
    // Sixteen large values of one sign, then sixteen of the other: results are ordinary, sums on the way are not.
    const rows = randomTensor("float32", [m, k], 1, 1000).data as Float32Array;
    const large = rows.map((number, at) => (at % 32 < 16 ? 1e4 : -9e3) + number);
    const weights = (randomTensor("float32", [k, n], 2, 0.05).data as Float32Array).map((number) => number + 0.75);
    const halves = (numbers: Float32Array, shape: readonly number[]): Tensor => {
      const view = View.allocate("float16", shape);
      writeNumbers(view, Float64Array.from(numbers));
      return Tensor.fromView(view);
    };
    await compareOneNode(`[${m},${k}] · [${k},${n}]`, {
      op: "MatMul",
      operands: [halves(large, [m, k]), halves(weights, [k, n])],
      weights: [1],
      kernel: manyRows("product", "float16", m, true),
      tolerance: tolerances.float16,
      subgroupMatrices: false,
    });
  });

  test("many columns, of short and of long rows", async () => {
    for (const [m, k, n] of [
      [1, 24, 9000],
      [2, 300, 4200],
    ])
      await compareOneNode(`[${m},${k}] · [${k},${n}]`, {
        op: "MatMul",
        operands: [randomTensor("float16", [m, k], 1), randomTensor("float16", [k, n], 2)],
        weights: [1],
        kernel: rows,
        tolerance: tolerances.float16,
        subgroups: k !== 300,
      });
  });

  test("large tiles", async () => {
    for (const [type, a, b] of [
      ["float32", [13, 100, 12], [13, 12, 230]],
      ["float16", [25, 200, 20], [25, 20, 150]],
    ] as const)
      await compareOneNode(`${type} [${a}] · [${b}]`, {
        op: "MatMul",
        operands: [randomTensor(type, a, 1), randomTensor(type, b, 2)],
        kernel: kernelFor(type, tiles, a[1]),
        tolerance: tolerances[type],
      });
  });

  test("Gemm: transposed, factors, addends of every shape", async () => {
    let seed = 0;
    for (const [m, shape] of [
      [1, [6]],
      [3, [3, 1]],
      [9, [9, 6]],
      [9, []],
      [2, undefined],
    ] as const)
      for (const [transA, transB] of [
        [0, 0],
        [1, 1],
      ])
        await compareOneNode(`Gemm of ${m} rows, C [${shape}], ${transA} ${transB}`, {
          op: "Gemm",
          attrs: { alpha: float(0.5), beta: float(-2), transA, transB },
          operands: [
            randomTensor("float32", transA ? [16, m] : [m, 16], ++seed),
            randomTensor("float32", transB ? [6, 16] : [16, 6], ++seed),
            shape && randomTensor("float32", shape, ++seed),
          ],
          weights: [1, 2],
          // One row is streamed with a bias alone: factors are for slices.
          kernel: m > 4 ? manyRows("product", "float32", m) : m === 1 ? "productInSlices" : rows,
          tolerance: tolerances.float32,
        });
  });

  test("FusedMatMul: axes in another order, a factor", async () => {
    for (const [a, b, attrs, kernel] of [
      [[1, 8], [12, 8], { transB: 1, alpha: float(0.25) }, "productInSlices"],
      [[2, 16, 20], [2, 9, 16], { transA: 1, transB: 1 }, tiles],
      [[20, 2, 16], [2, 16, 9], { transBatchA: 1 }, tiles],
    ] as const)
      await compareOneNode(`[${a}] · [${b}]`, {
        op: "FusedMatMul",
        domain: "com.microsoft",
        attrs,
        operands: [randomTensor("float32", a, 3), randomTensor("float32", b, 4)],
        weights: [1],
        kernel: kernelFor("float32", kernel, 20),
        tolerance: tolerances.float32,
      });
  });

  test("a weight in two forms serves rows few and many, and whoever reads it as it lies", async () => {
    const weight = randomTensor("float32", [12, 6], 1);
    const model = writeModel(
      buildModel({
        opset: 24,
        inputs: [value("x", "float32", ["rows", 12])],
        outputs: [value("y"), value("z")],
        initializers: [initializer("w", weight), initializer("one", new Tensor("float32", [1], []))],
        nodes: [
          node("MatMul", ["x", "w"], ["y"]),
          node("Mul", ["y", "one"], ["y_"]),
          node("Gemm", ["y_", "w"], ["z"], { transB: 1 }),
        ],
      }),
    );
    const [session, truth] = await Promise.all(
      (["webgpu", "reference"] as const).map((backend) => InferenceSession.create(model, { backend })),
    );
    for (const m of [1, 20, 2]) {
      const x = randomTensor("float32", [m, 12], m);
      const [actual, expected] = [await session.run({ x }), await truth.run({ x })];
      for (const name of ["y", "z"])
        expect(
          compareViews(actual[name].toView(), expected[name].toView(), { tolerance: tolerances.float32 }),
          `${name} of ${m} rows`,
        ).toBe("");
    }
    await Promise.all([session.release(), truth.release()]);
  });
});
