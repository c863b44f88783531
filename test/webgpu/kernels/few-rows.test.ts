// Products of few rows on WebGPU: every kind of weights, 1 to 9, 16 and 17 rows, sizes that end in the middle of words, chunks and teams, with norm, gate, bias and addend. Beside
// the reference implementation, and, where all is one dispatch, beside sums in float64 that are rounded once. In little memory some rows are held and others not.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type AttributeInput, float } from "../../../src/onnx/build.js";
import { readNumbers } from "../../../src/tensor/access.js";
import type { Tensor } from "../../../src/tensor/tensor.js";
import { noWebgpu } from "../../support/backends.js";
import { limitedGpu, PlacedSession } from "../../support/gpu.js";
import { compareOneNode, keepDevice, type OneNode, randomIntegers, randomTensor } from "./product-models.js";

type FloatType = "float32" | "float16" | "bfloat16";

/** Weights: floats of the rows' type, or blocks of some bits. */
interface Kind {
  readonly type: FloatType;
  readonly bits?: 2 | 4 | 8;
  readonly zeros?: boolean;
}

/** What stands around the product. */
interface Around {
  readonly norm?: boolean;
  readonly gated?: boolean;
  readonly bias?: boolean;
  readonly addend?: boolean;
}

interface Sizes {
  readonly rows: number;
  readonly k: number;
  readonly n: number;
}

const blockSize = 32;
const epsilon = 1e-5;

/** Operands of a Projection, by their places. */
function operandsOf(
  { type, bits, zeros }: Kind,
  { norm, gated, bias, addend }: Around,
  { rows, k, n }: Sizes,
): readonly (Tensor | undefined)[] {
  const blocks = Math.ceil(k / blockSize);
  const numbers = (dims: readonly number[], seed: number, size = 1): Tensor => randomTensor(type, dims, seed, size);
  return [
    numbers([1, rows, k], rows),
    bits === undefined ? numbers([k, n], 2) : randomIntegers("uint8", [n, blocks, (blockSize * bits) / 8], 2),
    bits === undefined ? undefined : numbers([n, blocks], 3, 2 ** (1 - bits)),
    bits === undefined || zeros !== true ? undefined : randomIntegers("uint8", [n, Math.ceil((blocks * bits) / 8)], 4),
    bias === true ? numbers([n], 5) : undefined,
    norm === true ? numbers([k], 6) : undefined,
    addend === true ? numbers([1, rows, gated === true ? n / 2 : n], 7) : undefined,
  ];
}

const asNumbers = (tensor: Tensor | undefined): ArrayLike<number> | undefined => tensor && readNumbers(tensor.toView());

/** The result in float64, and what the absolute values of its terms come to. */
function exactly(
  kind: Kind,
  { gated = false }: Around,
  { rows, k, n }: Sizes,
  operands: readonly (Tensor | undefined)[],
): { readonly values: number[]; readonly sizes: number[] } {
  const [a, b, scales, zeros, bias, factors, addend] = operands.map(asNumbers);
  const bits: number = kind.bits ?? 0;
  const blocks = Math.ceil(k / blockSize);
  const level = (bytes: ArrayLike<number>, at: number): number =>
    (bytes[Math.floor((at * bits) / 8)] >> ((at * bits) % 8)) & (2 ** bits - 1);
  const weight = (column: number, at: number): number => {
    if (scales === undefined) return b![at * n + column];
    const block = Math.floor(at / blockSize);
    const zeroRow = 8 * Math.ceil((blocks * bits) / 8);
    const zero = zeros === undefined ? 2 ** (bits - 1) : level(zeros, (column * zeroRow) / bits + block);
    return scales[column * blocks + block] * (level(b!, column * blocks * blockSize + at) - zero);
  };
  const weights = Float64Array.from({ length: n * k }, (_, at) => weight(Math.floor(at / k), at % k)); // [n, k]
  const [values, sizes]: [number[], number[]] = [[], []];
  for (let row = 0; row < rows; row++) {
    const own = Array.from({ length: k }, (_, at) => a![row * k + at]);
    const square = own.reduce((sum, x) => sum + x * x, 0) / k;
    const scaled =
      factors === undefined ? own : own.map((x, at) => (x * factors[at]) / Math.sqrt(square + Math.fround(epsilon)));
    const products = Array.from({ length: n }, (_, column) => {
      let sum = bias?.[column] ?? 0;
      let size = Math.abs(sum);
      for (let at = 0; at < k; at++) {
        const term = scaled[at] * weights[column * k + at];
        sum += term;
        size += Math.abs(term);
      }
      return { sum, size };
    });
    for (let column = 0; column < (gated ? n / 2 : n); column++) {
      const added = addend?.[row * (gated ? n / 2 : n) + column] ?? 0;
      if (!gated) {
        values.push(products[column].sum + added);
        sizes.push(products[column].size + Math.abs(added));
        continue;
      }
      const [gate, up] = [products[2 * column], products[2 * column + 1]];
      values.push((gate.sum / (1 + Math.exp(-gate.sum))) * up.sum + added);
      sizes.push((gate.size + 1) * (up.size + 1) + Math.abs(added));
    }
  }
  return { values, sizes };
}

/** Half of the last place of a type, and what the reference implementation, which rounds every stage, may be off. */
const rounding = { float32: 2 ** -24, float16: 2 ** -11, bfloat16: 2 ** -8 } as const;
const stages = { float32: 1e-4, float16: 3e-2, bfloat16: 0.25 } as const;

const variantOf = (rows: number): string => (rows === 1 ? "" : String([2, 4, 8].find((count) => rows <= count)));

/** Compares one Projection. */
async function check(
  kind: Kind,
  around: Around,
  sizes: Sizes,
  more: Pick<OneNode, "subgroups" | "place"> = {},
): Promise<void> {
  const { rows, k, n } = sizes;
  const isOne = rows <= 8;
  const operands = operandsOf(kind, around, sizes);
  const attrs: Record<string, AttributeInput> = {
    K: k,
    N: n,
    epsilon: float(epsilon),
    gated: around.gated === true ? 1 : 0,
    ...(kind.bits === undefined ? {} : { bits: kind.bits, block_size: blockSize }),
  };
  const { values, sizes: terms } = exactly(kind, around, sizes, operands);
  const name = `${around.gated === true ? "gatedProjection" : "projection"}${variantOf(rows)}`;
  const what = JSON.stringify([kind, around, sizes]);
  const { results, told } = await compareOneNode(what, {
    op: "Projection",
    domain: "insitu",
    attrs,
    operands,
    weights: [1, 2, 3, 4, 5],
    kernel: isOne ? name : "",
    // Beside results as large as these.
    tolerance: stages[kind.type] * Math.max(1, Math.sqrt(terms.reduce((most, size) => Math.max(most, size), 0))),
    ...more,
  });
  if (!isOne) return;
  expect(told, what).toMatch(new RegExp(`by ${name}(?![\\d,])`));
  const actual = readNumbers(results.get("r0")!);
  const wrong = values.findIndex(
    (value, at) => !(Math.abs(actual[at] - value) <= rounding[kind.type] * Math.abs(value) * 1.01 + 4e-6 * terms[at]),
  );
  expect(wrong === -1 ? "" : `${what}, ${wrong}: ${actual[wrong]} is not ${values[wrong]}`).toBe("");
}

const kinds: readonly Kind[] = [
  { type: "float32" },
  { type: "float16" },
  { type: "bfloat16" },
  { type: "float32", bits: 2 },
  { type: "float32", bits: 4, zeros: true },
  { type: "float32", bits: 8 },
  { type: "float16", bits: 2, zeros: true },
  { type: "float16", bits: 4 },
  { type: "float16", bits: 8, zeros: true },
];

const arounds: readonly Around[] = [
  {},
  { norm: true },
  { addend: true, bias: true },
  { norm: true, gated: true },
  { norm: true, gated: true, addend: true, bias: true },
];

/** Rows of a word's halves must be even: columns of the result end a team in its middle, and for float32 they are odd. */
const columnsFor = ({ type }: Kind, { gated }: Around): number => (type === "float32" ? 37 : 38) * (gated ? 2 : 1);

/** Sizes of k: cut in the middle of a word, of a load, of a block; several chunks a lane. */
const depthsFor = ({ type, bits }: Kind): readonly number[] =>
  bits !== undefined ? [70, 200, 2080] : type === "float32" ? [61, 96, 516] : [61, 72, 1048];

describe.skipIf(noWebgpu !== undefined)("few rows on WebGPU", () => {
  let devices: readonly Awaited<ReturnType<typeof keepDevice>>[];
  const little = PlacedSession.place(limitedGpu({ maxComputeWorkgroupStorageSize: 16_384 }));
  beforeAll(async () => {
    devices = [await keepDevice(), await keepDevice(false)];
  });
  afterAll(() => Promise.all(devices.map((device) => device.release())));

  // A test for each, so that a sample is of all of them.
  for (const kind of kinds)
    for (const around of arounds)
      for (const [at, rows] of [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17].entries())
        test(`${rows} rows: ${JSON.stringify(kind)} ${JSON.stringify(around)}`, async () => {
          const depths = depthsFor(kind);
          await check(kind, around, { rows, k: depths[at % depths.length], n: columnsFor(kind, around) });
        });

  for (const kind of kinds)
    for (const around of [arounds[2], arounds[4]])
      for (const [at, rows] of [2, 3, 8].entries())
        test(`without subgroups, ${rows} rows: ${JSON.stringify(kind)} ${JSON.stringify(around)}`, async () => {
          const sizes = { rows, k: depthsFor(kind)[at], n: columnsFor(kind, around) };
          await check(kind, around, sizes, { subgroups: false });
        });

  for (const kind of [kinds[0], kinds[1], kinds[7]])
    test.each([
      { rows: 8, k: 1100, n: 38 },
      { rows: 5, k: 2056, n: 10 },
      { rows: 2, k: 2600, n: 6 },
    ])(`16 KiB hold some of the rows: ${JSON.stringify(kind)} %o`, async (sizes) => {
      await check(kind, { norm: true, bias: true }, sizes, { place: little });
    });

  test("columns enough for several teams and turns", async () => {
    await check({ type: "float32" }, { norm: true }, { rows: 2, k: 8, n: 70_001 });
    await check({ type: "float16", bits: 4 }, {}, { rows: 8, k: 64, n: 3_330 });
    await check({ type: "float32" }, { bias: true }, { rows: 3, k: 16, n: 140_003 }, { subgroups: false });
  });

  test.each(["MatMul", "MatMulNBits"])("%s of few rows is one dispatch", async (op) => {
    for (const rows of [2, 3, 4, 8]) {
      const kind: Kind = op === "MatMul" ? { type: "float16" } : { type: "float16", bits: 4 };
      const operands = operandsOf(kind, {}, { rows, k: 72, n: 38 }).slice(0, 4);
      await compareOneNode(`${op} of ${rows} rows`, {
        op,
        domain: op === "MatMul" ? "" : "com.microsoft",
        attrs: op === "MatMul" ? {} : { K: 72, N: 38, bits: 4, block_size: blockSize },
        operands: op === "MatMul" ? operands.slice(0, 2) : operands,
        weights: [1, 2, 3],
        kernel: `${op === "MatMul" ? "product" : "blocks"}OfRows${variantOf(rows)}`,
        tolerance: 2e-2,
      });
    }
  });
});
