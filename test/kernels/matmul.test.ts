// Products against plain loops: float weights in panels, block-quantized weights, integers; random shapes, whole and in parts.
import { expect, test } from "vitest";
import { packedRowBytes, quantizedBytes } from "../../src/wasm-kernels/exports.js";
import { levelCode } from "../../src/wasm-kernels/jobs.js";
import { encode, floatTypes } from "./float-types.js";
import { expectClose, Random, seeds, type Variant, variants, Workbench } from "./workbench.js";

/** Rows that meet every path: one, few, one block, several. */
const rowCounts = [1, 1, 2, 3, 4, 5, 7, 8, 17, 130] as const;

/** Matrices [k, n], or [n, k] where transposed, as [k, n] with a gap behind every element. */
function spreadOut(b: ReturnType<typeof encode>, columns: number, rows: number, transposed: boolean): typeof b.data {
  const spread = b.data.slice(0, 0).constructor as { new (length: number): typeof b.data };
  const result = new spread(2 * b.data.length);
  for (let at = 0; at < b.data.length; at++) {
    const [matrix, row, column] = [Math.floor(at / (rows * columns)), Math.floor(at / columns) % rows, at % columns];
    result[2 * (transposed ? matrix * rows * columns + column * rows + row : at)] = b.data[at];
  }
  return result;
}

/** More columns than have their sums at once, of one row and of several. */
const wide = [
  { m: 1, k: 5, n: 33_001 },
  { m: 8, k: 5, n: 4103 },
] as const;

function checkMatmul(
  random: Random,
  variant: Variant,
  { m, k, n }: { readonly m: number; readonly k: number; readonly n: number } = {
    m: random.pick(rowCounts),
    k: random.pick([1, 2, 3, 7, 8, 31, 64, 255, 256, 257, 600]),
    n: random.pick([1, 5, 8, 9, 16, 33, 77]),
  },
): void {
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
  const cRow = n + random.integer(0, 3);
  const cBytes = ((batch * m - 1) * cRow + n) * 4;
  const c = bench.reserve(cBytes, 4);
  const strided = random.unit() < 0.2; // weights with gaps, read element by element
  const [bK, bN] = strided ? [2 * n, 2] : transposed ? [1, k] : [n, 1];
  const spread = strided ? spreadOut(b, transposed ? k : n, transposed ? n : k, transposed) : b.data;
  const streamed = m <= 8 && !strided && random.unit() < 0.7;
  const splits = streamed && bN === 1 ? random.pick([1, 2, 5]) : 1;
  const partialBytes = batch * splits * m * n * 4;
  const rowBytes = packedRowBytes({ batch, m, k });
  const job = {
    a: bench.place(a.data, 4),
    b: bench.place(spread, 4),
    c,
    bias: bias ? bench.place(bias, 8) : 0,
    rows: streamed ? 0 : bench.reserve(rowBytes, 4),
    partials: splits === 1 ? 0 : bench.reserve(partialBytes, 4),
    aType: a.code,
    bType: b.code,
    m,
    n,
    k,
    aRow: turned ? 1 : k,
    aColumn: turned ? m : 1,
    bK,
    bN,
    cRow,
    batch,
    aBatch: m * k,
    bBatch: strided ? 2 * k * n : k * n,
    cBatch: m * cRow,
    splits,
    looks: random.pick([0, 1]),
    scale: 0,
    zero: 0,
    scaleK: 0,
    scaleN: 0,
    block: 1,
    panels: 3,
  };
  if (!streamed) bench.run("packRows", job, [{ at: job.rows, bytes: rowBytes }]);
  if (splits === 1) bench.run("matmul", job, [{ at: c, bytes: cBytes }]);
  else {
    bench.run("matmul", job, [{ at: job.partials, bytes: partialBytes }]);
    bench.run("matmulMerge", job, [{ at: c, bytes: cBytes }]);
  }
  const actual = bench.floats(c, cBytes / 4);
  const rows = Float32Array.from({ length: expected.length }, (_, i) => actual[Math.floor(i / n) * cRow + (i % n)]);
  expectClose(rows, expected, 3e-6, JSON.stringify({ m, k, n, batch, aType, bType, transposed, turned }));
}

function checkLevels(random: Random, variant: Variant): void {
  const m = random.pick(rowCounts);
  const k = random.pick([1, 3, 8, 31, 64, 257, 300]);
  const n = random.pick([2, 6, 8, 10, 33, 78]);
  const type = random.pick(n % 2 === 0 ? (["int8", "uint8", "int4", "uint4"] as const) : (["int8", "uint8"] as const));
  const [bits, signed] = [type.endsWith("4") ? 4 : 8, type.startsWith("int")];
  const grain = random.pick(["one", "column", "block"] as const);
  const block = grain === "block" ? random.pick([1, 16, 32, 100]) : k;
  const counts = grain === "one" ? 1 : Math.ceil(k / block) * n;
  const [scaleK, scaleN] = grain === "one" ? [0, 0] : [n, 1];
  const levels = (count: number): Uint8Array =>
    Uint8Array.from({ length: count }, () => random.integer(0, 2 ** bits - 1));
  const meaning = (level: number): number => (signed && level >= 2 ** (bits - 1) ? level - 2 ** bits : level);
  const [a, b, scales] = [random.floats(m * k), levels(k * n), random.floats(counts)];
  const zeros = random.unit() < 0.5 ? levels(counts) : undefined;
  const bias = random.unit() < 0.5 ? random.floats(n) : undefined;
  const expected = new Float32Array(m * n);
  let magnitude = 0;
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++) {
      let [sum, size] = [bias?.[j] ?? 0, 0];
      for (let l = 0; l < k; l++) {
        const at = Math.floor(l / block) * scaleK + j * scaleN;
        const factor = a[i * k + l] * scales[at];
        sum += factor * (meaning(b[l * n + j]) - (zeros ? meaning(zeros[at]) : 0));
        size += Math.abs(factor) * 2 ** bits;
      }
      magnitude = Math.max(magnitude, size);
      expected[i * n + j] = sum;
    }
  const bench = new Workbench(variant);
  const packed = (values: Uint8Array): Uint8Array => pack(values, bits, values.length);
  const c = bench.reserve(m * n * 4, 4);
  const streamed = m <= 8 && random.unit() < 0.7;
  const splits = streamed ? random.pick([1, 2, 5]) : 1;
  const [rowBytes, partialBytes] = [packedRowBytes({ batch: 1, m, k }), splits * m * n * 4];
  const job = {
    a: bench.place(a, 4),
    b: bench.place(packed(b), 1),
    c,
    bias: bias ? bench.place(bias, 8) : 0,
    rows: streamed ? 0 : bench.reserve(rowBytes, 4),
    partials: splits === 1 ? 0 : bench.reserve(partialBytes, 4),
    aType: 0,
    bType: levelCode[type],
    m,
    n,
    k,
    aRow: k,
    aColumn: 1,
    bK: n,
    bN: 1,
    cRow: n,
    batch: 1,
    aBatch: 0,
    bBatch: 0,
    cBatch: 0,
    splits,
    looks: 0,
    scale: bench.place(scales, 4),
    zero: zeros ? bench.place(packed(zeros), 1) : 0,
    scaleK,
    scaleN,
    block,
    panels: 5,
  };
  if (!streamed) bench.run("packRows", job, [{ at: job.rows, bytes: rowBytes }]);
  bench.run("matmul", job, [splits === 1 ? { at: c, bytes: m * n * 4 } : { at: job.partials, bytes: partialBytes }]);
  if (splits > 1) bench.run("matmulMerge", job, [{ at: c, bytes: m * n * 4 }]);
  const what = JSON.stringify({ m, k, n, type, grain, block, streamed, splits, zeros: zeros !== undefined });
  expectClose(bench.floats(c, m * n), expected, 1e-6, what, magnitude);
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
  const k = random.pick([1, 20, 32, 64, 100, 256, 320, 512, 1000, 4640]);
  const n = random.pick([1, 2, 5, 8, 19, 33]);
  const precision = random.pick([16, 32, variant === "relaxed" && bits === 4 && blockSize >= 32 ? 8 : 32]);
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
  const shape = { m, k, blockSize, bits, precision, alike: random.pick([0, 1]) };
  const source = bench.place(a.data, 4);
  // Few rows take whole zero points and blocks of 32 or more; all others are packed.
  const packs = m >= 12 || bits === 2 || blockSize < 32 || zeros !== undefined || random.unit() < 0.3;
  const activations =
    precision === 32
      ? {
          values: 0,
          aScales: 0,
          aSums: 0,
          a: source,
          aType: a.code,
          rows: packs ? packed(bench, source, a.code, m, k) : 0,
        }
      : { ...quantized(bench, source, a.code, shape), a: 0, aType: 0, rows: 0 };
  const c = bench.reserve(m * n * 4, 4);
  bench.run(
    "matmulBlocks",
    {
      ...activations,
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
      bRow: 0,
      zerosRow: 0,
      ...shape,
    },
    [{ at: c, bytes: m * n * 4 }],
  );
  const what = JSON.stringify({ ...shape, n, scaleType, aType, zeroKind });
  const tolerance = precision === 32 ? 1e-6 : precision === 16 ? 4e-5 : 1e-2;
  expectClose(bench.floats(c, m * n), expected, tolerance, what, magnitude);
}

interface BlocksShape {
  readonly m: number;
  readonly k: number;
  readonly blockSize: number;
  readonly bits: number;
  readonly precision: number;
  readonly alike: number;
}

/** Activations as integers. */
function quantized(
  bench: Workbench,
  source: number,
  type: number,
  shape: BlocksShape,
): { values: number; aScales: number; aSums: number } {
  const sizes = quantizedBytes(shape);
  const values = bench.reserve(sizes.values, 4);
  const aScales = bench.reserve(sizes.scales, 4);
  const aSums = bench.reserve(sizes.sums, 4);
  bench.run("quantizeRows", { source, values, scales: aScales, sums: aSums, type, sourceRow: shape.k, ...shape }, [
    { at: values, bytes: sizes.values },
    { at: aScales, bytes: sizes.scales },
    { at: aSums, bytes: sizes.sums },
  ]);
  return { values, aScales, aSums };
}

/** Activations packed for panels. */
function packed(bench: Workbench, a: number, aType: number, m: number, k: number): number {
  const bytes = packedRowBytes({ batch: 1, m, k });
  const rows = bench.reserve(bytes, 4);
  const unused = { b: 0, c: 0, bias: 0, partials: 0, bType: 0, bK: 0, bN: 0, cRow: 0, aBatch: 0, bBatch: 0, cBatch: 0 };
  const levels = { scale: 0, zero: 0, scaleK: 0, scaleN: 0, block: 1, panels: 1, splits: 1, looks: 0, n: 1 };
  bench.run("packRows", { ...unused, ...levels, a, rows, aType, m, k, aRow: k, aColumn: 1, batch: 1 }, [
    { at: rows, bytes },
  ]);
  return rows;
}

function checkInteger(random: Random, variant: Variant): void {
  const m = random.pick(rowCounts);
  const k = random.pick([1, 3, 8, 15, 16, 33, 255, 256, 300, 700]);
  const n = random.pick([1, 5, 8, 9, 31, 150]);
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
        expected[i * n + j] += left * (read(b, bSigned, l * n + j) - zeroOf(bZero, bSigned, j));
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
      for (const sizes of wide) checkMatmul(random, variant, sizes);
    });

    test(`products with weights that have a scale, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (let round = 0; round < 16; round++) checkLevels(random, variant);
    });

    test(`products with block-quantized weights, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (let round = 0; round < 20; round++) checkBlocks(random, variant);
    });
  }
}
