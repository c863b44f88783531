// Kernels that work on rows, against plain loops: normalization, softmax, rotary embedding, gathering, conversions.
import { expect, test } from "vitest";
import { elementCode, tableLayout } from "../../src/wasm-kernels/jobs.js";
import {
  bitsOf,
  decode,
  decodeFloat16,
  encode,
  encodeBfloat16,
  encodeFloat16,
  type FloatType,
  floatTypes,
  fromBits,
  toleranceOf,
} from "./float-types.js";
import { expectClose, Random, seeds, type Variant, variants, Workbench } from "./workbench.js";

function checkNormalize(random: Random, variant: Variant): void {
  const kernel = random.pick(["rmsNormalize", "layerNormalize"] as const);
  const type = random.pick(floatTypes);
  const rows = random.integer(1, 6);
  const size = random.pick([1, 3, 4, 7, 8, 30, 64, 257, 768]);
  const [hasSkip, hasAddend, hasScale, hasBias, inPlace] = [0, 0, 0, 0, 0].map(() => random.unit() < 0.5);
  const pitch = size + random.integer(0, 5);
  // As large and as small as the type allows: squares of them are no float32.
  const magnitude =
    type === "float16" ? random.pick([3, 3, 1e4]) : random.pick([3, 3, 3, 1e15, 1e19, 4e25, 2e38, 1e-25]);
  const epsilon = magnitude < 1 ? 0 : random.pick([1e-5, 1e-5, 0]);
  const offset = random.unit() < 0.3 ? 20 : 0; // a mean that is large beside what differs
  const bench = new Workbench(variant);
  const shifted = (values: Float32Array): Float32Array => values.map((value) => (value + offset) * (magnitude / 60));
  const source = encode(type, shifted(random.floats(rows * pitch, 25)));
  const skip = encode(type, shifted(random.floats(rows * size)));
  const scale = encode(type, random.floats(size));
  const bias = encode(type, random.floats(size));
  const addend = encode(type, shifted(random.floats(size)));
  const inverses = new Float32Array(rows);
  const expected = new Float32Array(rows * size);
  const sums = new Float32Array(rows * size);
  for (let r = 0; r < rows; r++) {
    const x = Array.from(
      { length: size },
      (_, i) =>
        source.rounded[r * pitch + i] +
        (hasSkip ? skip.rounded[r * size + i] : 0) +
        (hasAddend ? addend.rounded[i] : 0),
    );
    const mean = kernel === "rmsNormalize" ? 0 : x.reduce((a, b) => a + b) / size;
    const inverse = 1 / Math.sqrt(x.reduce((a, b) => a + (b - mean) ** 2, 0) / size + epsilon);
    inverses[r] = inverse;
    x.forEach((value, i) => {
      sums[r * size + i] = value;
      expected[r * size + i] =
        (value - mean) * inverse * (hasScale ? scale.rounded[i] : 1) + (hasBias ? bias.rounded[i] : 0);
    });
  }
  const from = bench.place(source.data, 4);
  const output = inPlace ? from : bench.reserve(rows * size * source.width, 4);
  const sum = hasSkip ? bench.reserve(rows * size * source.width, 4) : 0;
  const inverse = bench.reserve(rows * 4, 4);
  const outputRow = inPlace ? pitch : size;
  const bytes = ((rows - 1) * outputRow + size) * source.width;
  bench.run(
    kernel,
    {
      source: from,
      skip: hasSkip ? bench.place(skip.data, 4) : 0,
      sum,
      scale: hasScale ? bench.place(scale.data, 4) : 0,
      bias: hasBias ? bench.place(bias.data, 4) : 0,
      output,
      type: source.code,
      rows,
      size,
      sourceRow: pitch,
      skipRow: size,
      sumRow: size,
      outputRow,
      epsilon,
      addend: hasAddend ? bench.place(addend.data, 4) : 0,
      mean: 0,
      inverse,
    },
    [{ at: output, bytes }],
  );
  const raw = decode(type, bench.copy(output, bytes));
  const actual = Float32Array.from(
    { length: rows * size },
    (_, i) => raw[Math.floor(i / size) * outputRow + (i % size)],
  );
  const what = JSON.stringify({ kernel, type, rows, size, magnitude, epsilon, offset, hasSkip, inPlace });
  expectClose(actual, expected, toleranceOf(type), what);
  expectClose(bench.floats(inverse, rows), inverses, 4e-6, "inverse");
  if (sum) expectClose(decode(type, bench.copy(sum, rows * size * source.width)), sums, toleranceOf(type), "sum");
}

function checkSoftmax(random: Random, variant: Variant): void {
  const type = random.pick(floatTypes);
  const rows = random.integer(1, 6);
  const size = random.pick([1, 2, 3, 4, 5, 31, 64, 1000]);
  const bench = new Workbench(variant);
  const source = encode(type, random.floats(rows * size, 20));
  if (random.unit() < 0.5) source.data[0] = type === "float32" ? -Infinity : type === "float16" ? 0xfc00 : 0xff80;
  const values = decode(type, new Uint8Array(source.data.buffer).slice().buffer);
  const expected = new Float32Array(rows * size);
  for (let r = 0; r < rows; r++) {
    const x = values.subarray(r * size, (r + 1) * size);
    const top = Math.max(...x);
    const total = x.reduce((a, b) => a + Math.exp(b - top), 0);
    x.forEach((value, i) => (expected[r * size + i] = Math.exp(value - top) / total));
  }
  const bytes = rows * size * source.width;
  const output = bench.reserve(bytes, 4);
  bench.run(
    "softmaxRows",
    { source: bench.place(source.data, 4), output, type: source.code, rows, size, sourceRow: size, outputRow: size },
    [{ at: output, bytes }],
  );
  expectClose(
    decode(type, bench.copy(output, bytes)),
    expected,
    toleranceOf(type),
    JSON.stringify({ type, rows, size }),
  );
}

function checkRotate(random: Random, variant: Variant): void {
  const type = random.pick(floatTypes);
  const [batch, heads, length] = [random.integer(1, 2), random.integer(1, 3), random.integer(1, 4)];
  const size = random.pick([2, 4, 6, 8, 14, 32, 64]);
  const pairs = random.unit() < 0.7 ? size / 2 : random.integer(1, size / 2);
  const interleaved = random.unit() < 0.5;
  const packed = random.unit() < 0.5;
  const mode = random.pick(["each", "first", "none"] as const);
  const inPlace = random.unit() < 0.5;
  const bench = new Workbench(variant);
  const source = encode(type, random.floats(batch * heads * length * size));
  const positions = Array.from({ length: batch * (mode === "each" ? length : 1) }, () => random.integer(0, 9));
  const angleRows = mode === "none" ? batch * length : 20;
  const cos = encode(type, random.floats(angleRows * pairs));
  const sin = encode(type, random.floats(angleRows * pairs));
  const [sample, head, row] = packed
    ? [length * heads * size, size, heads * size]
    : [heads * length * size, length * size, size];
  const expected = source.rounded.slice();
  for (let b = 0; b < batch; b++)
    for (let h = 0; h < heads; h++)
      for (let t = 0; t < length; t++) {
        const angle = mode === "none" ? b * length + t : mode === "each" ? positions[b * length + t] : positions[b] + t;
        for (let p = 0; p < pairs; p++) {
          const start = b * sample + h * head + t * row;
          const [i, j] = interleaved ? [start + 2 * p, start + 2 * p + 1] : [start + p, start + pairs + p];
          const [x, y] = [source.rounded[i], source.rounded[j]];
          const [c, s] = [cos.rounded[angle * pairs + p], sin.rounded[angle * pairs + p]];
          expected[i] = c * x - s * y;
          expected[j] = s * x + c * y;
        }
      }
  const from = bench.place(source.data, 4);
  const bytes = expected.length * source.width;
  const output = inPlace ? from : bench.reserve(bytes, 4);
  bench.run(
    "rotate",
    {
      source: from,
      output,
      cos: bench.place(cos.data, 4),
      sin: bench.place(sin.data, 4),
      positions: mode === "none" ? 0 : bench.place(BigInt64Array.from(positions, BigInt), 4),
      type: source.code,
      batch,
      heads,
      length,
      size,
      pairs,
      interleaved: Number(interleaved),
      sourceSample: sample,
      sourceHead: head,
      sourceRow: row,
      outputSample: sample,
      outputHead: head,
      outputRow: row,
      positionSample: mode === "each" ? length : 1,
      positionStep: mode === "each" ? 1 : 0,
      angleRow: pairs,
    },
    [{ at: output, bytes }],
  );
  const what = JSON.stringify({ type, batch, heads, length, size, pairs, interleaved, packed, mode });
  expectClose(decode(type, bench.copy(output, bytes)), expected, toleranceOf(type), what);
}

function checkGather(random: Random, variant: Variant): void {
  const layout = random.pick(["rows", "blocks"] as const);
  const type = random.pick(floatTypes);
  const outputType: FloatType = random.pick([type, "float32"]);
  const [entries, count] = [random.integer(1, 20), random.integer(1, 9)];
  const width = random.pick([1, 3, 8, 33, 64, 100]);
  const indexBytes = random.pick([4, 8]);
  const indices = Array.from({ length: count }, () => random.integer(-entries, entries - 1));
  const bits = random.pick([2, 4, 8]);
  const blockSize = random.pick([16, 32]);
  const blocks = Math.ceil(width / blockSize);
  const bench = new Workbench(variant);
  const floats = encode(type, random.floats(entries * width));
  const bytes = Uint8Array.from({ length: (entries * blocks * blockSize * bits) / 8 }, () => random.integer(0, 255));
  const scales = encode(type, random.floats(entries * blocks));
  const zeroRow = Math.ceil((blocks * bits) / 8);
  const zeros =
    random.unit() < 0.5 ? Uint8Array.from({ length: entries * zeroRow }, () => random.integer(0, 255)) : undefined;
  const at = (packed: Uint8Array, start: number, i: number): number =>
    (packed[start + ((i * bits) >> 3)] >> ((i * bits) & 7)) & (2 ** bits - 1);
  const valueOf = (row: number, i: number): number => {
    if (layout !== "blocks") return floats.rounded[row * width + i];
    const block = Math.floor(i / blockSize);
    const zero = zeros ? at(zeros, row * zeroRow, block) : 2 ** (bits - 1);
    return (at(bytes, (row * blocks * blockSize * bits) / 8, i) - zero) * scales.rounded[row * blocks + block];
  };
  const table = layout === "blocks" ? bench.place(bytes, 1) : bench.place(floats.data, 4);
  const outputBytes = count * width * (outputType === "float32" ? 4 : 2);
  const output = bench.reserve(outputBytes, 4);
  bench.run(
    "gatherRows",
    {
      table,
      indices: bench.place(indexBytes === 8 ? BigInt64Array.from(indices, BigInt) : Int32Array.from(indices), 4),
      output,
      layout: tableLayout[layout],
      type: elementCode[type],
      outputType: elementCode[outputType],
      indexBytes,
      entries,
      width,
      count,
      outputRow: width,
      scales: bench.place(scales.data, 4),
      zeros: zeros ? bench.place(zeros, 1) : 0,
      blockSize,
      bits,
    },
    [{ at: output, bytes: outputBytes }],
  );
  const expected = indices.flatMap((index) =>
    Array.from({ length: width }, (_, i) => valueOf(index < 0 ? index + entries : index, i)),
  );
  const what = JSON.stringify({ layout, type, outputType, entries, width, bits, blockSize });
  expectClose(decode(outputType, bench.copy(output, outputBytes)), expected, toleranceOf(outputType), what);
}

for (const variant of variants) {
  for (const seed of seeds) {
    test(`rows, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (let round = 0; round < 8; round++) {
        checkNormalize(random, variant);
        checkSoftmax(random, variant);
        checkRotate(random, variant);
        checkGather(random, variant);
      }
    });
  }

  test(`conversions are exact, ${variant}`, () => {
    const bench = new Workbench(variant, 64);
    const convert = (bytes: Uint8Array, sourceType: number, targetType: number, count: number): ArrayBuffer => {
      const size = count * (targetType === elementCode.float32 ? 4 : 2);
      const target = bench.reserve(size, 2);
      bench.run("convert", { source: bench.place(bytes, 2), target, sourceType, targetType, count }, [
        { at: target, bytes: size },
      ]);
      return bench.copy(target, size);
    };
    const halves = Uint16Array.from({ length: 65536 }, (_, i) => i);
    const widened = new Float32Array(
      convert(new Uint8Array(halves.buffer), elementCode.float16, elementCode.float32, 65536),
    );
    const brains = new Float32Array(
      convert(new Uint8Array(halves.buffer), elementCode.bfloat16, elementCode.float32, 65536),
    );
    halves.forEach((bits) => {
      if (!Object.is(widened[bits], decodeFloat16(bits)) && !Number.isNaN(decodeFloat16(bits)))
        expect.fail(`float16 ${bits}`);
      if (!Object.is(brains[bits], fromBits(bits << 16)) && !Number.isNaN(fromBits(bits << 16)))
        expect.fail(`bfloat16 ${bits}`);
    });
    // What these tests call float16 is the nearest one.
    for (let bits = 1; bits < 0x7bff; bits += 7) {
      const [below, here, above] = [bits - 1, bits, bits + 1].map(decodeFloat16);
      expect(encodeFloat16(here)).toBe(bits);
      expect(encodeFloat16((here * 3 + below) / 4)).toBe(bits);
      expect(encodeFloat16(-(here * 3 + above) / 4)).toBe(0x8000 | bits);
      expect(encodeFloat16((here + above) / 2)).toBe(bits % 2 === 0 ? bits : bits + 1);
    }
    // Down: all kinds of numbers, the ones between two neighbours, and those next to them.
    const random = new Random(7);
    const floats = Float32Array.from({ length: 40_001 }, (_, i) => {
      if (i % 2 === 0) return fromBits(Math.floor(random.unit() * 2 ** 32));
      const middle = (decodeFloat16(i) + decodeFloat16(i + 1)) / 2;
      return fromBits(bitsOf(middle) + random.integer(-1, 1));
    });
    for (const [type, encoder] of [
      ["float16", encodeFloat16],
      ["bfloat16", encodeBfloat16],
    ] as const) {
      const narrowed = new Uint16Array(
        convert(new Uint8Array(floats.buffer), elementCode.float32, elementCode[type], floats.length),
      );
      floats.forEach((value, i) => {
        const isNaNs = Number.isNaN(value) && (narrowed[i] & 0x7fff) > (type === "float16" ? 0x7c00 : 0x7f80);
        if (narrowed[i] !== encoder(value) && !isNaNs)
          expect.fail(`${value} to ${type}: ${narrowed[i]}, not ${encoder(value)}`);
      });
    }
    const crossed = new Uint16Array(
      convert(new Uint8Array(halves.buffer), elementCode.float16, elementCode.bfloat16, 3001),
    );
    for (let i = 0; i < 3001; i++) expect(crossed[i]).toBe(encodeBfloat16(decodeFloat16(i)));
  });
}
