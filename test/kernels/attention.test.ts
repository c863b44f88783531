// Attention kernels against plain loops: random shapes, types, masks, windows and layouts, whole and in parts and splits.
import { expect, test } from "vitest";
import { type JobOf, partialBytes } from "../../src/wasm-kernels/exports.js";
import { elementCode } from "../../src/wasm-kernels/jobs.js";
import { decode, encode, type FloatType, floatTypes, toleranceOf } from "./float-types.js";
import { expectClose, Random, seeds, variants, Workbench } from "./workbench.js";
import { soak } from "../support/soak.js";

interface Case {
  readonly type: FloatType;
  readonly batch: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly queries: number;
  readonly headSize: number;
  readonly valueSize: number;
  readonly capacity: number;
  readonly lengths: readonly number[] | undefined;
  readonly past: number;
  readonly causal: boolean;
  readonly left: number;
  readonly right: number;
  readonly mask: "none" | "bool" | FloatType;
  readonly maskLength: number;
  readonly softcap: number;
  readonly packed: boolean; // [batch, length, heads · size]
  readonly splits: number;
  /** True if each head has a score that takes part and brings no value. */
  readonly sinks: boolean;
}

function randomCase(random: Random, queries: number): Case {
  const kvHeads = random.integer(1, queries > 8 ? 2 : 3);
  const batch = random.integer(1, 2);
  const capacity =
    queries +
    random.pick([random.integer(0, 40), random.integer(60, 300), random.integer(1000, queries > 8 ? 1040 : 1300)]);
  const ragged = random.unit() < 0.5;
  return {
    type: random.pick(floatTypes),
    batch,
    heads: kvHeads * random.pick(capacity > 500 || queries > 8 ? [1, 2, 3, 4] : [1, 2, 3, 4, 5, 7, 8]),
    kvHeads,
    queries,
    headSize: random.pick([1, 3, 4, 8, 16, 17, 30, 64, 128]),
    valueSize: random.pick([1, 4, 5, 16, 31, 64, 128]),
    capacity,
    lengths: ragged ? Array.from({ length: batch }, () => random.integer(queries, capacity)) : undefined,
    past: random.integer(0, capacity - queries),
    causal: random.unit() < 0.5,
    left: random.unit() < 0.3 ? random.integer(0, capacity) : -1,
    right: random.unit() < 0.2 ? random.integer(0, 20) : -1,
    mask: random.pick(["none", "none", "bool", ...floatTypes]),
    maskLength: random.unit() < 0.3 ? random.integer(1, capacity) : capacity,
    softcap: random.unit() < 0.3 ? 2.5 : 0,
    packed: random.unit() < 0.5,
    splits: random.pick([1, 1, 2, 3]),
    sinks: random.unit() < 0.3,
  };
}

/** Strides of [batch, heads, length, size], stored so or as [batch, length, heads · size]. */
const stridesOf = (packed: boolean, heads: number, length: number, size: number): [number, number, number] =>
  packed ? [length * heads * size, size, heads * size] : [heads * length * size, length * size, size];

/** The reference implementation: output by [batch, heads, queries, valueSize] through strides. */
function attend(
  c: Case,
  query: Float32Array,
  key: Float32Array,
  value: Float32Array,
  bias: ((sample: number, head: number, query: number, key: number) => number) | undefined,
  sinks: Float32Array | undefined,
): Float32Array {
  const output = new Float32Array(c.batch * c.heads * c.queries * c.valueSize);
  const [qs, qh, qr] = stridesOf(c.packed, c.heads, c.queries, c.headSize);
  const [os, oh, or] = stridesOf(c.packed, c.heads, c.queries, c.valueSize);
  const [ks, kh, kr] = stridesOf(c.packed, c.kvHeads, c.capacity, c.headSize);
  const [vs, vh, vr] = stridesOf(c.packed, c.kvHeads, c.capacity, c.valueSize);
  const scale = 1 / Math.sqrt(c.headSize);
  for (let b = 0; b < c.batch; b++) {
    for (let h = 0; h < c.heads; h++) {
      const g = Math.floor(h / (c.heads / c.kvHeads));
      for (let i = 0; i < c.queries; i++) {
        const length = c.lengths?.[b] ?? c.capacity;
        const position = i + (c.lengths === undefined ? c.past : length - c.queries);
        let to = length;
        if (c.causal) to = Math.min(to, position + 1);
        if (c.right >= 0) to = Math.min(to, position + c.right + 1);
        const from = c.left >= 0 ? Math.max(0, position - c.left) : 0;
        const scores: [number, number][] = [];
        for (let j = from; j < to; j++) {
          const added = bias === undefined ? 0 : j < c.maskLength ? bias(b, h, i, j) : -Infinity;
          if (added === -Infinity) continue;
          let dot = 0;
          for (let d = 0; d < c.headSize; d++)
            dot += query[b * qs + h * qh + i * qr + d] * key[b * ks + g * kh + j * kr + d];
          dot *= scale;
          if (c.softcap) dot = c.softcap * Math.tanh(dot / c.softcap);
          scores.push([j, dot + added]);
        }
        const sink = sinks === undefined ? [] : [sinks[h]];
        const top = Math.max(...sink, ...scores.map(([, score]) => score));
        const total = [...sink, ...scores.map(([, score]) => score)].reduce(
          (sum, score) => sum + Math.exp(score - top),
          0,
        );
        for (let d = 0; d < c.valueSize; d++) {
          let sum = 0;
          for (const [j, score] of scores) sum += (Math.exp(score - top) / total) * value[b * vs + g * vh + j * vr + d];
          output[b * os + h * oh + i * or + d] = sum;
        }
      }
    }
  }
  return output;
}

function check(
  c: Case,
  random: Random,
  variant: (typeof variants)[number],
  kernel: "attentionDecode" | "attentionPrefill",
): void {
  const bench = new Workbench(variant, 256);
  const query = encode(c.type, random.floats(c.batch * c.heads * c.queries * c.headSize, 2));
  const key = encode(c.type, random.floats(c.batch * c.kvHeads * c.capacity * c.headSize, 2));
  const value = encode(c.type, random.floats(c.batch * c.kvHeads * c.capacity * c.valueSize, 2));
  const sinks = c.sinks ? encode(c.type, random.floats(c.heads, 2)) : undefined;
  // The mask: [1 or batch, 1 or heads, 1 or queries, maskLength].
  const [mb, mh, mq] = [random.pick([1, c.batch]), random.pick([1, c.heads]), random.pick([1, c.queries])];
  const hides = random.pick([0, 0.3, 0.95]);
  const entries = random
    .floats(mb * mh * mq * c.maskLength)
    .map((entry) => (random.unit() < hides ? -Infinity : entry));
  const maskStrides = [
    mb === 1 ? 0 : mh * mq * c.maskLength,
    mh === 1 ? 0 : mq * c.maskLength,
    mq === 1 ? 0 : c.maskLength,
  ];
  let mask = 0;
  let maskType = 0;
  let bias: Parameters<typeof attend>[4];
  if (c.mask === "bool") {
    mask = bench.place(
      Uint8Array.from(entries, (entry) => (entry === -Infinity ? 0 : 1)),
      1,
    );
    maskType = elementCode.bool;
    bias = (b, h, i, j) =>
      entries[b * maskStrides[0] + h * maskStrides[1] + i * maskStrides[2] + j] === -Infinity ? -Infinity : 0;
  } else if (c.mask !== "none") {
    const { data, rounded, code } = encode(c.mask, entries);
    mask = bench.place(data, 4);
    maskType = code;
    bias = (b, h, i, j) => rounded[b * maskStrides[0] + h * maskStrides[1] + i * maskStrides[2] + j];
  }
  const expected = attend(c, query.rounded, key.rounded, value.rounded, bias, sinks?.rounded);
  // What nobody may see is NaN.
  if (c.lengths !== undefined) {
    for (const [operand, size] of [
      [key, c.headSize],
      [value, c.valueSize],
    ] as const) {
      const [s, h, r] = stridesOf(c.packed, c.kvHeads, c.capacity, size);
      for (let b = 0; b < c.batch; b++)
        for (let g = 0; g < c.kvHeads; g++)
          for (let j = c.lengths[b]; j < c.capacity; j++)
            operand.data.fill(c.type === "float32" ? NaN : 0xffff, b * s + g * h + j * r, b * s + g * h + j * r + size);
    }
  }
  const width = query.width;
  const outputBytes = expected.length * width;
  const output = bench.reserve(outputBytes, 4);
  const [querySample, queryHead, queryRow] = stridesOf(c.packed, c.heads, c.queries, c.headSize);
  const [outputSample, outputHead, outputRow] = stridesOf(c.packed, c.heads, c.queries, c.valueSize);
  const [keySample, keyHead, keyRow] = stridesOf(c.packed, c.kvHeads, c.capacity, c.headSize);
  const [valueSample, valueHead, valueRow] = stridesOf(c.packed, c.kvHeads, c.capacity, c.valueSize);
  const splits = kernel === "attentionDecode" ? c.splits : 1;
  const bytes = partialBytes({ ...c, splits });
  const partials = bytes ? bench.reserve(bytes, 4) : 0;
  const job: JobOf<"attentionDecode"> = {
    query: bench.place(query.data, 4),
    key: bench.place(key.data, 4),
    value: bench.place(value.data, 12),
    output,
    queryType: query.code,
    cacheType: key.code,
    batch: c.batch,
    heads: c.heads,
    kvHeads: c.kvHeads,
    queries: c.queries,
    headSize: c.headSize,
    valueSize: c.valueSize,
    querySample,
    queryHead,
    queryRow,
    keySample,
    keyHead,
    keyRow,
    valueSample,
    valueHead,
    valueRow,
    outputSample,
    outputHead,
    outputRow,
    lengths: c.lengths ? bench.place(BigInt64Array.from(c.lengths, BigInt), 4) : 0,
    total: c.capacity,
    past: c.past,
    causal: Number(c.causal),
    left: c.left,
    right: c.right,
    mask,
    maskType,
    maskSample: maskStrides[0],
    maskHead: maskStrides[1],
    maskQuery: maskStrides[2],
    maskKey: 1,
    maskLength: c.maskLength,
    scale: 1 / Math.sqrt(c.headSize),
    softcap: c.softcap,
    splits,
    partials,
    sinks: sinks === undefined ? 0 : bench.place(sinks.data, 4),
  };
  if (splits === 1) bench.run(kernel, job, [{ at: output, bytes: outputBytes }]);
  else {
    bench.run("attentionDecode", job, [{ at: partials, bytes }]);
    bench.run("attentionMerge", job, [{ at: output, bytes: outputBytes }]);
  }
  const actual = decode(c.type, bench.copy(output, outputBytes));
  expectClose(actual, expected, toleranceOf(c.type), JSON.stringify(c));
}

/** A job over [batch, heads, length, size] in float32, with everything else left out. */
function plainJob(
  shape: { batch: number; heads: number; kvHeads: number; queries: number; size: number; capacity: number },
  addresses: { query: number; key: number; value: number; output: number },
): JobOf<"attentionDecode"> {
  const { batch, heads, kvHeads, queries, size, capacity } = shape;
  return {
    ...addresses,
    queryType: 0,
    cacheType: 0,
    batch,
    heads,
    kvHeads,
    queries,
    headSize: size,
    valueSize: size,
    querySample: heads * queries * size,
    queryHead: queries * size,
    queryRow: size,
    keySample: kvHeads * capacity * size,
    keyHead: capacity * size,
    keyRow: size,
    valueSample: kvHeads * capacity * size,
    valueHead: capacity * size,
    valueRow: size,
    outputSample: heads * queries * size,
    outputHead: queries * size,
    outputRow: size,
    lengths: 0,
    total: capacity,
    past: capacity - queries,
    causal: 0,
    left: -1,
    right: -1,
    mask: 0,
    maskType: 0,
    maskSample: 0,
    maskHead: 0,
    maskQuery: 0,
    maskKey: 1,
    maskLength: capacity,
    scale: 0.25,
    softcap: 0,
    splits: 1,
    partials: 0,
    sinks: 0,
  };
}

for (const variant of variants) {
  test(`a query does not feel the values it may not see, ${variant}`, () => {
    // Key 2 is not a number, key 3 is infinite: hidden by the mask from every query, then by causality from the first ones.
    for (const kernel of ["attentionDecode", "attentionPrefill"] as const) {
      for (const hidden of ["mask", "future"] as const) {
        if (kernel === "attentionDecode" && hidden === "future") continue;
        const bench = new Workbench(variant);
        const queries = kernel === "attentionDecode" ? 1 : 4;
        const shape = { batch: 1, heads: 2, kvHeads: 1, queries, size: 8, capacity: 4 };
        const values = Float32Array.from({ length: 32 }, (_, i) => (i < 16 ? 1 + (i >> 3) : i < 24 ? NaN : Infinity));
        const output = bench.reserve(2 * queries * 32, 4);
        const place = (data: Float32Array): number => bench.place(data, 4);
        const query = place(new Float32Array(2 * queries * 8));
        const job = plainJob(shape, { query, key: place(values), value: place(values), output });
        if (hidden === "mask")
          bench.run(kernel, { ...job, mask: bench.place(Uint8Array.of(1, 1, 0, 0), 1), maskType: elementCode.bool }, [
            { at: output, bytes: 2 * queries * 32 },
          ]);
        else bench.run(kernel, { ...job, causal: 1, key: query }, [{ at: output, bytes: 2 * queries * 32 }]);
        const rows = bench.floats(output, 2 * queries * 8);
        const seen = hidden === "mask" ? queries : 2; // queries whose keys are all numbers
        for (let head = 0; head < 2; head++)
          for (let i = 0; i < seen; i++) {
            const mean = hidden === "mask" || i > 0 ? 1.5 : 1;
            const row = rows.subarray((head * queries + i) * 8, (head * queries + i + 1) * 8);
            expectClose(row, new Float32Array(8).fill(mean), 1e-6, `${kernel} ${hidden} ${i}`);
          }
      }
    }
  });

  test(`decode shows an infinity or NaN of a float16 cache wherever it lies, ${variant}`, () => {
    const ones = (count: number): Uint16Array => new Uint16Array(count).fill(0x3c00);
    for (const heads of [1, 2, 3, 4, 5, 8])
      for (const size of [6, 8, 12]) {
        const capacity = 23;
        const shape = { batch: 1, heads, kvHeads: 1, queries: 1, size, capacity };
        for (let row = 0; row < capacity; row += heads === 4 ? 1 : 3) {
          const element = row % size;
          const [key, value] = [ones(capacity * size), ones(capacity * size)];
          const inKey = row % 2 === 0;
          const special = inKey ? 0x7e00 : [0x7c00, 0xfc00, 0xfe01][row % 3]; // NaN, or also an infinity
          (inKey ? key : value)[row * size + element] = special;
          const bench = new Workbench(variant, 4);
          const output = bench.reserve(heads * size * 4, 4);
          const query = bench.place(new Float32Array(heads * size).fill(1), 4);
          const job = plainJob(shape, { query, key: bench.place(key, 4), value: bench.place(value, 4), output });
          const cacheType = elementCode.float16;
          bench.run("attentionDecode", { ...job, cacheType }, [{ at: output, bytes: heads * size * 4 }]);
          const seen = special === 0x7c00 ? Infinity : special === 0xfc00 ? -Infinity : NaN;
          bench.floats(output, heads * size).forEach((made, i) => {
            const expected = inKey || i % size === element ? seen : 1;
            const isRight = Number.isFinite(expected) ? Math.abs(made - 1) < 1e-5 : Object.is(made, expected);
            expect(isRight, `${heads} heads of ${size}, row ${row}, element ${i}: ${made}`).toBe(true);
          });
        }
      }
  });

  test(`decode takes the largest numbers of a float16 cache for what they are, ${variant}`, () => {
    for (const heads of [1, 2, 3, 4, 5, 8])
      for (const size of [6, 8, 64])
        for (const large of [0x6000, 0xe000, 0x7bff, 0xfbff]) {
          const capacity = 23;
          const [key, value] = [
            new Uint16Array(capacity * size).fill(large),
            new Uint16Array(capacity * size).fill(0x3c00),
          ];
          for (let row = 0; row < capacity; row++) value[row * size + 5] = large;
          const bench = new Workbench(variant, 4);
          const output = bench.reserve(heads * size * 4, 4);
          const query = bench.place(new Float32Array(heads * size).fill(1e-3), 4);
          const shape = { batch: 1, heads, kvHeads: 1, queries: 1, size, capacity };
          const job = plainJob(shape, { query, key: bench.place(key, 4), value: bench.place(value, 4), output });
          bench.run("attentionDecode", { ...job, cacheType: elementCode.float16 }, [
            { at: output, bytes: heads * size * 4 },
          ]);
          const number = (large & 0x8000 ? -1 : 1) * ((large & 0x7fff) === 0x6000 ? 512 : 65504);
          // As shares of what they should be.
          const made = bench.floats(output, heads * size).map((sum, i) => (i % size === 5 ? sum / number : sum));
          expectClose(made, new Float32Array(made.length).fill(1), 1e-5, `${heads} heads of ${size}, ${number}`);
        }
  });

  for (const seed of seeds) {
    test(`decode attention, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (let round = 0; round < 8; round++) check(randomCase(random, 1), random, variant, "attentionDecode");
    });

    test(`prefill attention, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (let round = 0; round < 8; round++) {
        const c = randomCase(random, random.pick([1, 2, 5, 16, 70]));
        check(
          { ...c, headSize: Math.min(c.headSize, 64), valueSize: Math.min(c.valueSize, 64) },
          random,
          variant,
          "attentionPrefill",
        );
      }
    });
  }

  // In the tests with one of both builds.
  test.skipIf(variant === "simd" && !soak)(`decode attention of whole models' shapes, ${variant}`, () => {
    const random = new Random(99);
    const shapes = [
      { heads: 32, kvHeads: 8, headSize: 128, valueSize: 128 },
      { heads: 12, kvHeads: 4, headSize: 64, valueSize: 64 },
    ];
    for (const [type, shape] of floatTypes.flatMap((each) => shapes.map((shape) => [each, shape] as const))) {
      const c = { ...randomCase(random, 1), type, batch: 1, ...shape };
      check(
        { ...c, capacity: 700, maskLength: 700, lengths: [611], left: -1, right: -1, mask: "none" },
        random,
        variant,
        "attentionDecode",
      );
    }
  });
}

test("the tests can fail", () => {
  expect(() => expectClose([1], [2], 1e-3, "one")).toThrow(/element 0 is 1, not 2/);
});
