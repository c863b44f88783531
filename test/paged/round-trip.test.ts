// What is written is what is read back: every layout, every type; layouts change into each other and back without a bit lost.
import { expect, test } from "vitest";
import {
  convertPagedLayout,
  gatherPaKvCache,
  type PagedLayout,
  scatterPaKvCache,
  slotMapping,
} from "../../packages/functions/paged.js";
import { seededRandom } from "../../src/graph/call.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import type { Tensor } from "../../src/tensor/tensor.js";
import { bitsOf, indices, tensorOf } from "./bits.js";
import { at, types, widths } from "./oracle.js";

const layouts: readonly PagedLayout[] = ["Norm", "PA_NZ", "NHSD"];
const seed = Number(process.env["INSITU_SEED"] ?? 20_260_411);

function cacheShape(layout: PagedLayout, type: ElementType, [NB, BS, H, D]: readonly number[]): number[] {
  const c = 32 / widths[type]!;
  return { Norm: [NB, BS, H, D], NHSD: [NB, H, BS, D], PA_NZ: [NB, (H * D) / c, BS, c] }[layout];
}

function randomTensor(type: ElementType, shape: readonly number[], random: () => number): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  return tensorOf(
    type,
    shape,
    Array.from({ length: size }, () => Math.floor(random() * 2 ** (8 * widths[type]!))),
  );
}

const modes = (layout: PagedLayout): { cacheMode: "Norm" | "PA_NZ"; scatterMode: "None" | "NHSD" } => ({
  cacheMode: layout === "PA_NZ" ? "PA_NZ" : "Norm",
  scatterMode: layout === "NHSD" ? "NHSD" : "None",
});

for (const layout of layouts) {
  for (const index of ["int32", "int64"] as const) {
    test(`${layout}, ${index}: scatter, then gather, is the identity for every type, from seed ${seed}`, () => {
      for (const [number, type] of types.entries()) {
        const random = seededRandom(seed + number);
        const below = (count: number): number => Math.floor(random() * count);
        for (let round = 0; round < 5; round++) {
          const c = 32 / widths[type]!;
          const [BS, H] = [1 + below(4), 1 + below(3)];
          const [Dk, Dv] = [0, 0].map(() => (layout === "PA_NZ" ? c * (1 + below(2)) : 1 + below(40)));
          const lengths = Array.from({ length: 1 + below(3) }, () => below(9));
          const columns = Math.max(1, ...lengths.map((length) => Math.ceil(length / BS)));
          const NB = lengths.length * columns + below(2);
          const free = Array.from({ length: NB }, (_, block) => block);
          const tables = Array.from({ length: lengths.length * columns }, () => free.splice(below(free.length), 1)[0]);
          const blockTables = indices(index, [lengths.length, columns], tables);
          const positions = lengths.flatMap((length) => Array.from({ length }, (_, position) => position));
          const seqLens = indices(index, [lengths.length], lengths);
          const slots = slotMapping(
            { blockTables, positions: indices(index, [positions.length], positions), seqLens },
            { blockSize: BS },
          );
          const key = randomTensor(type, [positions.length, H, Dk], random);
          const value = randomTensor(type, [positions.length, H, Dv], random);
          const written = scatterPaKvCache(
            {
              key,
              value,
              keyCache: randomTensor(type, cacheShape(layout, type, [NB, BS, H, Dk]), random),
              valueCache: randomTensor(type, cacheShape(layout, type, [NB, BS, H, Dv]), random),
              slotMapping: slots,
            },
            { ...modes(layout), check: true },
          );
          const cumulative = round % 2 === 1;
          let sum = 0;
          const sums = [0, ...lengths.map((length) => (sum += length))];
          const read = gatherPaKvCache(
            {
              keyCache: written.keyCache,
              valueCache: written.valueCache,
              blockTables,
              seqLens: cumulative ? indices(index, [sums.length], sums) : seqLens,
            },
            { cacheMode: layout, isSeqLensCumsum: cumulative },
          );
          expect(read.key.dims).toEqual(layout === "PA_NZ" ? [positions.length, H * Dk] : key.dims);
          expect(bitsOf(read.key), `${type}, round ${round}`).toEqual(bitsOf(key));
          expect(bitsOf(read.value!), `${type}, round ${round}`).toEqual(bitsOf(value));
        }
      }
    });
  }
}

test("layouts change into each other and back, and mean the same", () => {
  const random = seededRandom(seed);
  for (const type of types) {
    const c = 32 / widths[type]!;
    const [NB, BS, H, D] = [3, 2, 3, 2 * c];
    const sizes = [NB, BS, H, D];
    const norm = randomTensor(type, sizes, random);
    const bits = bitsOf(norm);
    const element: Record<PagedLayout, (b: number, o: number, h: number, d: number) => number> = {
      Norm: (b, o, h, d) => at([NB, BS, H, D], b, o, h, d),
      NHSD: (b, o, h, d) => at([NB, H, BS, D], b, h, o, d),
      PA_NZ: (b, o, h, d) => at([NB, (H * D) / c, BS, c], b, Math.floor((h * D + d) / c), o, (h * D + d) % c),
    };
    for (const from of layouts) {
      const source = convertPagedLayout(norm, { from: "Norm", to: from });
      expect(source.dims).toEqual(cacheShape(from, type, sizes));
      const found = bitsOf(source);
      for (let i = 0; i < bits.length; i++) {
        const [b, o, h, d] = [Math.floor(i / (BS * H * D)), Math.floor(i / (H * D)) % BS, Math.floor(i / D) % H, i % D];
        if (found[element[from](b, o, h, d)] !== bits[i])
          throw new Error(`${type}, ${from}: element ${i} is elsewhere`);
      }
      for (const to of layouts) {
        const there = convertPagedLayout(source, { from, to, heads: H });
        const back = convertPagedLayout(there, { from: to, to: from, heads: H });
        expect(back.dims).toEqual(source.dims);
        expect(bitsOf(back), `${type}: ${from} to ${to} and back`).toEqual(found);
        expect(back.data).not.toBe(source.data);
      }
    }
    const five = convertPagedLayout(norm, { from: "Norm", to: "PA_NZ" }).reshape([NB, H, D / c, BS, c]);
    expect(bitsOf(convertPagedLayout(five, { from: "PA_NZ", to: "Norm" }))).toEqual(bits);
  }
});

test("signalling NaNs of float32 keep their bits", () => {
  const signalling = 0x7f80_0001;
  const type = "float32";
  const key = tensorOf(type, [1, 2, 8], new Array<number>(16).fill(signalling));
  for (const layout of layouts) {
    const shape = cacheShape(layout, type, [1, 2, 2, 8]);
    const empty = (): Tensor => tensorOf(type, shape, new Array<number>(32).fill(0));
    const inputs = { key, value: key, keyCache: empty(), valueCache: empty(), slotMapping: indices("int32", [1], [1]) };
    const { keyCache } = scatterPaKvCache(inputs, modes(layout));
    expect(bitsOf(keyCache).filter((bits) => bits === signalling).length, layout).toBe(16);
    const norm = convertPagedLayout(keyCache, { from: layout, to: "Norm", heads: 2 });
    expect(bitsOf(norm).slice(16), layout).toEqual(bitsOf(key));
  }
});

test("a layout that does not fit is refused", () => {
  const norm = tensorOf("float16", [1, 1, 1, 8], new Array<number>(8).fill(0));
  const nz = tensorOf("float16", [1, 3, 1, 16], new Array<number>(48).fill(0));
  expect(() => convertPagedLayout(norm, { from: "Norm", to: "PA_NZ" })).toThrow(
    /multiple of 32 bytes, got 8 of float16/,
  );
  expect(() => convertPagedLayout(nz, { from: "PA_NZ", to: "Norm" })).toThrow(/heads must be given/);
  expect(() => convertPagedLayout(nz, { from: "PA_NZ", to: "Norm", heads: 2 })).toThrow(/must divide the 3 pieces/);
  expect(() => convertPagedLayout(norm, { from: "PA_NZ", to: "Norm", heads: 1 })).toThrow(/32 bytes, 16 of float16/);
  expect(() => convertPagedLayout(norm, { from: "Norm", to: "Ring" as "Norm" })).toThrow(
    /one of "Norm", "PA_NZ", "NHSD", got "Ring"/,
  );
  const wide = indices("int64", [1, 1, 1, 1], [0]);
  expect(() => convertPagedLayout(wide, { from: "Norm", to: "NHSD" })).toThrow(/a paged cache holds .*, got int64/);
});

test("slots from block tables and positions", () => {
  const blockTables = indices("int32", [2, 3], [3, 1, 0, 2, 5, 4]);
  const at = (shape: readonly number[], values: readonly number[]): Tensor => indices("int32", shape, values);
  const slots = (positions: Tensor, seqLens?: Tensor): number[] =>
    Array.from(slotMapping({ blockTables, positions, seqLens }, { blockSize: 2 }).data as Int32Array);
  expect(slots(at([2], [2, 5]))).toEqual([2, 9]); // one token a sequence
  expect(slots(at([2, 2], [0, 1, 3, 4]))).toEqual([6, 7, 11, 8]); // a row of tokens a sequence
  expect(slots(at([4], [4, -1, 5, 0]), at([2], [3, 1]))).toEqual([0, -1, 1, 4]); // packed, one padded
  const wide = slotMapping({ blockTables: indices("int64", [1, 1], [7]), positions: at([1], [1]) }, { blockSize: 4 });
  expect(wide.type).toBe("int64");
  expect(wide.data).toEqual(BigInt64Array.of(29n));
  expect(() => slots(at([2], [6, 0]))).toThrow(
    /positions\[0\] must be below the 6 positions of sequence 0's table, got 6/,
  );
  expect(() => slots(at([3], [0, 0, 0]))).toThrow(/positions must be \[2\] or \[2, length\].*give seqLens/);
  expect(() => slots(at([3], [0, 0, 0]), at([2], [1, 1]))).toThrow(/sum to the tokens/);
  expect(() => slotMapping({ blockTables, positions: at([2], [0, 0]) }, { blockSize: 0 })).toThrow(/blockSize/);
  const holes = indices("int32", [1, 1], [-1]);
  expect(() => slotMapping({ blockTables: holes, positions: at([1], [0]) }, { blockSize: 2 })).toThrow(
    /must not be negative/,
  );
  const far = indices("int32", [1, 1], [2_000_000_000]);
  expect(() => slotMapping({ blockTables: far, positions: at([1], [0]) }, { blockSize: 2 })).toThrow(
    /does not fit int32/,
  );
});
