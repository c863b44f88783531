/** The bit patterns of the small floats: known values, and rounding against a slow definition that compares with midpoints. */
import { describe, expect, test } from "vitest";
import {
  decodeTable,
  encodeBfloat16,
  encodeFloat,
  encodeFloat16,
  type Encoding,
  floatEncoder,
  isSmallFloat,
  roundToEven,
  type SmallFloat,
} from "../../src/tensor/float.js";
import { elementTypes } from "../../src/tensor/element-type.js";
import { seed } from "./support.js";

type Scaled = Exclude<SmallFloat, "float8e8m0">;

/** Patterns and what they stand for: the least, the largest subnormal, the least normal, 1, the largest, and the edges. */
const known: Record<SmallFloat, readonly [number, number][]> = {
  float16: [
    [0x0000, 0],
    [0x8000, -0],
    [0x0001, 2 ** -24],
    [0x03ff, 1023 * 2 ** -24],
    [0x0400, 2 ** -14],
    [0x3c00, 1],
    [0x3555, 0.333251953125],
    [0xc000, -2],
    [0x7bff, 65504],
    [0x7c00, Infinity],
    [0xfc00, -Infinity],
    [0x7e00, NaN],
    [0xffff, NaN],
  ],
  bfloat16: [
    [0x0000, 0],
    [0x8000, -0],
    [0x0001, 2 ** -133],
    [0x0080, 2 ** -126],
    [0x3f80, 1],
    [0x4049, 3.140625],
    [0x7f7f, 255 * 2 ** 120],
    [0x7f80, Infinity],
    [0xff80, -Infinity],
    [0x7fc0, NaN],
  ],
  float8e4m3fn: [
    [0x00, 0],
    [0x80, -0],
    [0x01, 2 ** -9],
    [0x07, 7 * 2 ** -9],
    [0x08, 2 ** -6],
    [0x38, 1],
    [0x7e, 448],
    [0xfe, -448],
    [0x7f, NaN],
    [0xff, NaN],
  ],
  float8e4m3fnuz: [
    [0x00, 0],
    [0x80, NaN],
    [0x01, 2 ** -10],
    [0x08, 2 ** -7],
    [0x40, 1],
    [0x7f, 240],
    [0xff, -240],
  ],
  float8e5m2: [
    [0x00, 0],
    [0x80, -0],
    [0x01, 2 ** -16],
    [0x04, 2 ** -14],
    [0x3c, 1],
    [0x7b, 57344],
    [0x7c, Infinity],
    [0xfc, -Infinity],
    [0x7d, NaN],
    [0xff, NaN],
  ],
  float8e5m2fnuz: [
    [0x00, 0],
    [0x80, NaN],
    [0x01, 2 ** -17],
    [0x04, 2 ** -15],
    [0x40, 1],
    [0x7f, 57344],
    [0xff, -57344],
  ],
  float8e8m0: [
    [0, 2 ** -127],
    [1, 2 ** -126],
    [127, 1],
    [254, 2 ** 127],
    [255, NaN],
  ],
  float6e2m3: [
    [0x00, 0],
    [0x20, -0],
    [0x01, 0.125],
    [0x07, 0.875],
    [0x08, 1],
    [0x1f, 7.5],
    [0x3f, -7.5],
  ],
  float6e3m2: [
    [0x00, 0],
    [0x20, -0],
    [0x01, 0.0625],
    [0x03, 0.1875],
    [0x04, 0.25],
    [0x0c, 1],
    [0x1f, 28],
    [0x3f, -28],
  ],
  float4e2m1: [
    [0x0, 0],
    [0x8, -0],
    [0x1, 0.5],
    [0x2, 1],
    [0x3, 1.5],
    [0x7, 6],
    [0xf, -6],
  ],
};

const types = Object.keys(known) as SmallFloat[];
const scaled = types.filter((type): type is Scaled => type !== "float8e8m0");

/** What a type does at its edges: its sign bit, its pattern for NaN, and for what is past the largest. */
const edges: Record<Scaled, { sign: number; nan: number; overflow: (sign: number) => number }> = {
  float16: { sign: 0x8000, nan: 0x7e00, overflow: (sign) => sign | 0x7c00 },
  bfloat16: { sign: 0x8000, nan: 0x7fc0, overflow: (sign) => sign | 0x7f80 },
  float8e4m3fn: { sign: 0x80, nan: 0x7f, overflow: (sign) => sign | 0x7f },
  float8e4m3fnuz: { sign: 0x80, nan: 0x80, overflow: () => 0x80 },
  float8e5m2: { sign: 0x80, nan: 0x7e, overflow: (sign) => sign | 0x7c },
  float8e5m2fnuz: { sign: 0x80, nan: 0x80, overflow: () => 0x80 },
  float6e2m3: { sign: 0x20, nan: 0x20, overflow: (sign) => sign | 0x1f },
  float6e3m2: { sign: 0x20, nan: 0x20, overflow: (sign) => sign | 0x1f },
  float4e2m1: { sign: 0x8, nan: 0x8, overflow: (sign) => sign | 0x7 },
};

/** The finite values from 0 upward, indexed by their patterns. */
const magnitudes = new Map(
  scaled.map((type) => {
    const values: number[] = [];
    for (const value of decodeTable(type).subarray(0, edges[type].sign)) {
      if (!Number.isFinite(value)) break;
      values.push(value);
    }
    return [type, values] as const;
  }),
);

/** The slow definition: the value on x's side of the midpoint between its neighbours, the even pattern on the midpoint itself. */
function encodeSlowly(type: Scaled, x: number, saturate: boolean): number {
  const { sign, nan, overflow } = edges[type];
  if (Number.isNaN(x)) return nan;
  const values = magnitudes.get(type)!;
  const signBit = x < 0 || Object.is(x, -0) ? sign : 0;
  const size = Math.abs(x);
  const last = values.length - 1;
  let below = 0;
  for (let step = 1 << 16; step >= 1; step >>= 1)
    if (below + step <= last && values[below + step] <= size) below += step;
  // Past the largest the next value would be as far away again as the one before it.
  const next = below === last ? 2 * values[last] - values[last - 1] : values[below + 1];
  const middle = (values[below] + next) / 2;
  const bits = size < middle || (size === middle && below % 2 === 0) ? below : below + 1;
  if (bits > last) return saturate ? signBit | last : overflow(signBit);
  return type.endsWith("fnuz") && bits === 0 ? 0 : signBit | bits;
}

const scratch = new DataView(new ArrayBuffer(8));

/** The double `steps` patterns away from x, which is not 0. */
function neighbour(x: number, steps: number): number {
  scratch.setFloat64(0, x);
  scratch.setBigInt64(0, scratch.getBigInt64(0) + BigInt(steps));
  return scratch.getFloat64(0);
}

/** Where the code and the definition first differ, for both signs and with and without saturation. */
function firstDifference(type: Scaled, inputs: Iterable<number>): string {
  const saturating = floatEncoder(type, { saturate: true });
  const plain = floatEncoder(type);
  for (const input of inputs) {
    for (const x of [input, -input]) {
      const expected = encodeSlowly(type, x, false);
      const clamped = encodeSlowly(type, x, true);
      if (encodeFloat(type, x) !== expected || plain(x) !== expected)
        return `${x}: ${encodeFloat(type, x)} and ${plain(x)}, expected ${expected}`;
      if (encodeFloat(type, x, { saturate: true }) !== clamped || saturating(x) !== clamped)
        return `${x} saturated: ${saturating(x)}, expected ${clamped}`;
      if (type === "float16" && encodeFloat16(x) !== expected) return `encodeFloat16(${x})`;
      if (type === "bfloat16" && encodeBfloat16(x) !== expected) return `encodeBfloat16(${x})`;
    }
  }
  return "";
}

const specials = [0, NaN, Infinity, Number.MAX_VALUE, Number.MIN_VALUE, 2 ** -1022, Math.fround(3.4e38), 3.5e38, 1e300];

function* midpoints(type: Scaled): Generator<number> {
  const values = magnitudes.get(type)!;
  for (let i = 0; i < values.length; i++) {
    const next = values[i + 1] ?? 2 * values[i] - values[i - 1];
    const middle = (values[i] + next) / 2;
    yield* [values[i], middle, neighbour(middle, 1), neighbour(middle, -1), next];
  }
}

function* randomDoubles(count: number): Generator<number> {
  let state = BigInt(seed);
  for (let i = 0; i < count; i++) {
    state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n);
    scratch.setBigUint64(0, state ^ (state >> 29n));
    const any = scratch.getFloat64(0);
    yield any;
    // The same mantissa with an exponent that the small types have.
    scratch.setUint16(0, (scratch.getUint16(0) & 0x800f) | ((1023 - 30 + Number((state >> 20n) % 50n)) << 4));
    yield scratch.getFloat64(0);
  }
}

test("the small floats are the float types without an array", () => {
  expect(elementTypes.filter(isSmallFloat).sort()).toEqual([...types].sort());
});

describe.each(types)("%s", (type) => {
  test("decodes known patterns", () => {
    for (const [bits, value] of known[type]) expect(decodeTable(type)[bits], bits.toString(16)).toBe(value);
  });

  test("encodes what it decodes", () => {
    const table = decodeTable(type);
    const encode = floatEncoder(type);
    let wrong = "";
    table.forEach((value, bits) => {
      const again = encode(value);
      if (Number.isNaN(value) ? !Number.isNaN(table[again]) : again !== bits) wrong ||= `${bits} gives ${again}`;
    });
    expect(wrong).toBe("");
  });
});

describe.each(scaled)("%s", (type) => {
  test("rounds at every midpoint and beside it", () => {
    expect(firstDifference(type, midpoints(type))).toBe("");
  });

  test(`rounds random doubles from seed ${seed}, and special ones`, () => {
    expect(firstDifference(type, specials)).toBe("");
    expect(firstDifference(type, randomDoubles(20_000))).toBe("");
  });
});

test("a double is rounded once, not by way of float32", () => {
  // On the way over float32 both would become ties, and the lower neighbour even.
  expect(encodeBfloat16(1 + 2 ** -8 + 2 ** -40)).toBe(0x3f81);
  expect(encodeBfloat16(1 + 3 * 2 ** -8 - 2 ** -40)).toBe(0x3f81);
  expect(encodeFloat16(1 + 2 ** -11 + 2 ** -40)).toBe(0x3c01);
  expect(encodeFloat16(1 + 3 * 2 ** -11 - 2 ** -40)).toBe(0x3c01);
});

describe("float8e8m0", () => {
  const cases: readonly [Encoding, number, number][] = [
    [{}, 1, 127],
    [{}, 1 + 2 ** -52, 128],
    [{}, 0, 0],
    [{}, 2 ** -140, 0],
    [{}, 2 ** 127, 254],
    [{}, 2 ** 127 * 1.5, 254],
    [{}, Infinity, 254],
    [{}, NaN, 255],
    [{ roundMode: "down" }, 2 - 2 ** -52, 127],
    [{ roundMode: "down" }, 2, 128],
    [{ roundMode: "nearest" }, 1.5 - 2 ** -52, 127],
    [{ roundMode: "nearest" }, 1.5, 128],
    [{ roundMode: "nearest", saturate: false }, 2 ** 127 * 1.5, 255],
    [{ roundMode: "down", saturate: false }, 2 ** 127 * 1.5, 254],
    [{ saturate: false }, Infinity, 255],
  ];
  test.each(cases)("%o: %d is pattern %d", (encoding, x, bits) => {
    expect(encodeFloat("float8e8m0", x, encoding)).toBe(bits);
    expect(floatEncoder("float8e8m0", encoding)(x)).toBe(bits);
  });

  test("agrees with its definition at every power of two and between", () => {
    for (let exponent = -127; exponent <= 126; exponent++) {
      const power = 2 ** exponent;
      for (const fraction of [1, 1.25, 1.5, 1.75]) {
        const up = exponent + 127 + (fraction > 1 ? 1 : 0);
        expect(encodeFloat("float8e8m0", power * fraction, { roundMode: "up" })).toBe(up);
        expect(encodeFloat("float8e8m0", power * fraction, { roundMode: "down" })).toBe(exponent + 127);
        const nearest = exponent + 127 + (fraction >= 1.5 ? 1 : 0);
        expect(encodeFloat("float8e8m0", power * fraction, { roundMode: "nearest" })).toBe(nearest);
      }
    }
  });
});

test("roundToEven", () => {
  const rounded = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4, 2.6, 2 ** 51 + 1.5].map(roundToEven);
  expect(rounded.map((x) => x + 0)).toEqual([-2, -2, 0, 0, 2, 2, 2, 3, 2 ** 51 + 2]);
});
