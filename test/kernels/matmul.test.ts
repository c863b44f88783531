// Products against plain loops: float weights in panels, block-quantized weights, integers; random shapes, whole and in parts.
import { expect, test } from "vitest";
import { panelBytes, quantizedBytes } from "../../src/kernels/exports.js";
import { encode, floatTypes } from "./float-types.js";
import { expectClose, Random, seeds, type Variant, variants, Workbench } from "./workbench.js";

/** Rows that meet every path: one, few, one block, several. */
const rowCounts = [1, 1, 2, 3, 4, 5, 7, 8, 17, 130] as const;

function checkMatmul(random: Random, variant: Variant): void {
  const m = random.pick(rowCounts);
  const k = random.pick([1, 2, 3, 7, 8, 31, 64, 255, 256, 257, 600]);
  const n = random.pick([1, 5, 8, 9, 16, 33, 77]);
  const batch = random.pick([1, 1, 3]);
  const [aType, bType] = [random.pick(floatTypes), random.pick(floatTypes)];
  const transposed = random.unit() < 0.5; // weights as [n, k]
  const turned = random.unit() < 0.2; // a as [k, m]
  const bench = new Workbench(variant);
  const a = encode(aType, random.floats(batch * m * k));
  const b = encode(bType, random.floats(batch * k * n));
  const bias = random.unit() < 0.5 ? random.floats(n) : undefined;
  const expected = new Float32Array(batch * m * n);
  for (let g = 0; g < batch; g++)
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        let sum = bias?.[j] ?? 0;
        for (let l = 0; l < k; l++) {
          const left = a.rounded[g * m * k + (turned ? l * m + i : i * k + l)];
          sum += left * b.rounded[g * k * n + (transposed ? j * k + l : l * n + j)];
        }
        expected[(g * m + i) * n + j] = sum;
      }
  // Packed in two pieces where there is something to cut.
  const wholeBytes = panelBytes(k, n, b.width);
  const panels = bench.reserve(batch * wholeBytes, 4);
  const source = bench.place(b.data, 4);
  const [sourceK, sourceN] = transposed ? [1, k] : [n, 1];
  const cut = transposed ? Math.min(n, Math.floor(n / 16) * 8) : Math.floor(k / 2);
  for (const [from, to] of [
    [0, cut],
    [cut, transposed ? n : k],
  ]) {
    if (from === to) continue;
    bench.run(
      "packPanels",
      {
        source: source + from * (transposed ? sourceN : sourceK) * b.width,
        target: panels,
        type: b.code,
        k,
        n,
        kFrom: transposed ? 0 : from,
        kTo: transposed ? k : to,
        nFrom: transposed ? from : 0,
        nTo: transposed ? to : n,
        sourceK,
        sourceN,
        batch,
        sourceBatch: k * n,
        targetBatch: wholeBytes / b.width,
      },
      [{ at: panels, bytes: batch * wholeBytes }],
    );
  }
  const cRow = n + random.integer(0, 3);
  const cBytes = ((batch * m - 1) * cRow + n) * 4;
  const c = bench.reserve(cBytes, 4);
  bench.run(
    "matmul",
    {
      a: bench.place(a.data, 4),
      b: panels,
      c,
      bias: bias ? bench.place(bias, 8) : 0,
      aType: a.code,
      bType: b.code,
      m,
      n,
      k,
      aRow: turned ? 1 : k,
      aColumn: turned ? m : 1,
      cRow,
      batch,
      aBatch: m * k,
      bBatch: wholeBytes / b.width,
      cBatch: m * cRow,
    },
    [{ at: c, bytes: cBytes }],
  );
  const actual = bench.floats(c, cBytes / 4);
  const rows = Float32Array.from({ length: expected.length }, (_, i) => actual[Math.floor(i / n) * cRow + (i % n)]);
  expectClose(rows, expected, 3e-6, JSON.stringify({ m, k, n, batch, aType, bType, transposed, turned }));
}

/** Values of `bits` bits, packed as MatMulNBits packs them, from the lowest bits up. */
function pack(values: Uint8Array, bits: number, rowLength: number): Uint8Array {
  const rowBytes = Math.ceil((rowLength * bits) / 8);
  const packed = new Uint8Array((values.length / rowLength) * rowBytes);
  values.forEach((value, i) => {
    const bit = (i % rowLength) * bits;
    packed[Math.floor(i / rowLength) * rowBytes + (bit >> 3)] |= value << (bit & 7);
  });
  return packed;
}

function checkBlocks(random: Random, variant: Variant): void {
  const m = random.pick(rowCounts);
  const bits = random.pick([2, 4, 4, 4, 8, 8]);
  const blockSize = random.pick([16, 32, 32, 64, 128, 256, 1024]);
  const k = random.pick([1, 20, 32, 64, 100, 256, 320, 512, 1000]);
  const n = random.pick([1, 2, 5, 8, 19, 33]);
  const precision = variant === "relaxed" && bits === 4 && blockSize >= 32 && random.unit() < 0.5 ? 8 : 16;
  const scaleType = random.pick(floatTypes);
  const aType = random.pick(floatTypes);
  const zeroKind = random.pick(["none", "packed", ...floatTypes] as const);
  const blocks = Math.ceil(k / blockSize);
  const a = encode(aType, random.floats(m * k));
  const weights = Uint8Array.from({ length: n * blocks * blockSize }, () => random.integer(0, 2 ** bits - 1));
  const scales = encode(scaleType, random.floats(n * blocks, 0.1));
  const integers = Uint8Array.from({ length: n * blocks }, () => random.integer(0, 2 ** bits - 1));
  const zeros =
    zeroKind === "none" || zeroKind === "packed"
      ? undefined
      : encode(
          zeroKind,
          Float32Array.from(integers, (z) => z + 0.25),
        );
  const bias = random.unit() < 0.5 ? random.floats(n) : undefined;
  const zeroOf = (at: number): number =>
    zeroKind === "none" ? 2 ** (bits - 1) : zeroKind === "packed" ? integers[at] : zeros!.rounded[at];
  const expected = new Float32Array(m * n);
  let magnitude = 0; // of the terms, not of their sum: rounding follows those
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++) {
      let sum = bias?.[j] ?? 0;
      let size = 0;
      for (let l = 0; l < k; l++) {
        const at = j * blocks + Math.floor(l / blockSize);
        const term = a.rounded[i * k + l] * scales.rounded[at] * (weights[j * blocks * blockSize + l] - zeroOf(at));
        sum += term;
        size += Math.abs(term);
      }
      magnitude = Math.max(magnitude, size);
      expected[i * n + j] = sum;
    }
  const bench = new Workbench(variant);
  const shape = { m, k, blockSize, bits, precision };
  const sizes = quantizedBytes(shape);
  const values = bench.reserve(sizes.values, 4);
  const aScales = bench.reserve(sizes.scales, 4);
  const aSums = bench.reserve(sizes.sums, 4);
  bench.run(
    "quantizeRows",
    { source: bench.place(a.data, 4), values, scales: aScales, sums: aSums, type: a.code, sourceRow: k, ...shape },
    [
      { at: values, bytes: sizes.values },
      { at: aScales, bytes: sizes.scales },
      { at: aSums, bytes: sizes.sums },
    ],
  );
  const c = bench.reserve(m * n * 4, 4);
  bench.run(
    "matmulBlocks",
    {
      values,
      aScales,
      aSums,
      b: bench.place(pack(weights, bits, blocks * blockSize), 1),
      scales: bench.place(scales.data, 4),
      zeros:
        zeroKind === "none"
          ? 0
          : zeroKind === "packed"
            ? bench.place(pack(integers, bits, blocks), 1)
            : bench.place(zeros!.data, 4),
      bias: bias ? bench.place(bias, 4) : 0,
      c,
      scaleType: scales.code,
      zerosType: zeros?.code ?? -1,
      n,
      cRow: n,
      ...shape,
    },
    [{ at: c, bytes: m * n * 4 }],
  );
  const what = JSON.stringify({ ...shape, n, scaleType, aType, zeroKind });
  expectClose(bench.floats(c, m * n), expected, precision === 16 ? 4e-5 : 1e-2, what, magnitude);
}

function checkInteger(random: Random, variant: Variant): void {
  const m = random.pick(rowCounts);
  const k = random.pick([1, 3, 8, 15, 16, 33, 255, 256, 300, 700]);
  const n = random.pick([1, 5, 8, 9, 31]);
  const [aSigned, bSigned] = [random.integer(0, 1), random.integer(0, 1)];
  const bytes = (count: number): Uint8Array => Uint8Array.from({ length: count }, () => random.integer(0, 255));
  const [a, b] = [bytes(m * k), bytes(n * k)];
  const zeros = random.pick(["none", "one", "each"] as const);
  const [aZero, bZero] = [bytes(m), bytes(n)];
  const step = zeros === "each" ? 1 : 0;
  const read = (data: Uint8Array, signed: number, at: number): number => (signed ? (data[at] << 24) >> 24 : data[at]);
  const zeroOf = (data: Uint8Array, signed: number, at: number): number =>
    zeros === "none" ? 0 : read(data, signed, at * step);
  const expected = new Int32Array(m * n);
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++)
      for (let l = 0; l < k; l++) {
        const left = read(a, aSigned, i * k + l) - zeroOf(aZero, aSigned, i);
        expected[i * n + j] += left * (read(b, bSigned, j * k + l) - zeroOf(bZero, bSigned, j));
      }
  const bench = new Workbench(variant);
  const c = bench.reserve(m * n * 4, 4);
  bench.run(
    "matmulInteger",
    {
      a: bench.place(a, 1),
      b: bench.place(b, 3),
      c,
      aZero: zeros === "none" ? 0 : bench.place(aZero, 1),
      bZero: zeros === "none" ? 0 : bench.place(bZero, 1),
      aSigned,
      bSigned,
      aZeroStep: step,
      bZeroStep: step,
      m,
      n,
      k,
      cRow: n,
    },
    [{ at: c, bytes: m * n * 4 }],
  );
  expect(new Int32Array(bench.copy(c, m * n * 4)), JSON.stringify({ m, k, n, aSigned, bSigned, zeros })).toEqual(
    expected,
  );
}

for (const variant of variants) {
  for (const seed of seeds) {
    test(`products of integers, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (let round = 0; round < 12; round++) checkInteger(random, variant);
    });

    test(`products with float weights, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (let round = 0; round < 12; round++) checkMatmul(random, variant);
    });

    test(`products with block-quantized weights, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (let round = 0; round < 20; round++) checkBlocks(random, variant);
    });
  }
}
