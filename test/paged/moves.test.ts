// Writes into pages, reads out of them and moves within caches: the reference implementation against a simple model, WASM against both.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { seededRandom } from "../../src/graph/call.js";
import { fragmentLength, pagedTypes } from "../../src/ops/shared/paged/layouts.js";
import { readNumbers, writeNumbers } from "../../src/tensor/access.js";
import { byteLengthOf, type ElementType, traitsOf } from "../../src/tensor/element-type.js";
import { View } from "../../src/tensor/view.js";
import { differenceOf, openVariant, seed, tryCall, type Variant } from "../wasm/fast-path.js";
import { call, elementAt } from "./attention-case.js";
import { inPlace, sameBytes, slowly } from "./in-place.js";

const variants: Variant[] = [];
beforeAll(async () => {
  variants.push(await openVariant(1, true), await openVariant(3, false));
});
afterAll(async () => {
  for (const { session } of variants) await session.release();
});

const rounds = Number(process.env["INSITU_PAGED_MOVES"] ?? 150);
type Layout = "Norm" | "NHSD" | "PA_NZ";
const layouts: readonly Layout[] = ["Norm", "NHSD", "PA_NZ"];

/** Choices from a seed. */
function chance(offset: number) {
  const random = seededRandom(seed + offset);
  const integer = (low: number, high: number): number => low + Math.floor(random() * (high - low + 1));
  const pick = <T>(choices: readonly T[]): T => choices[integer(0, choices.length - 1)];
  const shuffled = (count: number): number[] =>
    Array.from({ length: count }, (_, at) => ({ at, key: random() }))
      .sort((a, b) => a.key - b.key)
      .map(({ at }) => at);
  const bytes = (type: ElementType, shape: readonly number[]): View => {
    const view = View.allocate(type, shape);
    const storage = view.data as Uint8Array;
    const data = new Uint8Array(storage.buffer, storage.byteOffset, storage.byteLength);
    for (let at = 0; at < data.length; at++) data[at] = type === "bool" ? integer(0, 1) : integer(0, 255);
    return view;
  };
  const integers = (type: ElementType, shape: readonly number[], values: readonly number[]): View => {
    const view = View.allocate(type, shape);
    if (type === "int64") (view.data as BigInt64Array).set(values.map(BigInt));
    else (view.data as Int32Array).set(values);
    return view;
  };
  return { random, integer, pick, shuffled, bytes, integers, indexType: () => pick<ElementType>(["int32", "int64"]) };
}

/** Rows to become: a rotation, survivors together, anything at all. */
function newRows(
  { random, integer, pick, shuffled }: ReturnType<typeof chance>,
  count: number,
  room: number,
): number[] {
  const kind = pick(["any", "turned", "survivors", "permuted"]);
  const turn = integer(0, room);
  const survivors = Array.from({ length: room }, (_, row) => row).filter(() => random() < 0.6);
  const order = shuffled(room);
  return Array.from({ length: count }, (_, row) => {
    if (random() < 0.1) return -1;
    if (kind === "any") return integer(0, room - 1);
    if (kind === "turned") return (row + turn) % room;
    return kind === "survivors" ? (survivors[row] ?? -1) : order[row];
  });
}

describe("RepackCache", () => {
  test(`${rounds} linear caches of any rank, axis and type, from seed ${seed} on`, async () => {
    for (let round = 0; round < rounds; round++) {
      const dice = chance(1000 + round);
      const { integer, pick, bytes, integers, indexType } = dice;
      const type = pick<ElementType>(["float32", "float16", "int8", "float64", "bool", "int4", "complex64", "uint16"]);
      const rank = integer(2, 5);
      const shape = Array.from({ length: rank }, () => integer(1, 5));
      const axis = integer(1, rank - 1);
      shape[axis] = integer(1, 40);
      const perHead = axis >= 2 && integer(0, 1) === 1;
      const count = integer(0, shape[axis]);
      const lists = shape[0] * (perHead ? shape[1] : 1);
      const rows = Array.from({ length: lists }, () => newRows(dice, count, shape[axis])).flat();
      const cache = bytes(type, shape);
      const request = {
        op: "RepackCache",
        attrs: { axis: pick([axis, axis - rank]) },
        inputs: [cache, integers(indexType(), perHead ? [shape[0], shape[1], count] : [shape[0], count], rows)],
        caches: [0],
      };
      // By element number: where each one's value comes from.
      const inner = shape.slice(axis + 1).reduce((a, b) => a * b, 1);
      const outer = shape.slice(1, axis).reduce((a, b) => a * b, 1);
      const sources = Array.from({ length: cache.size }, (_, at) => {
        const row = Math.floor(at / inner) % shape[axis];
        const sample = Math.floor(at / inner / shape[axis] / outer);
        const head = Math.floor(Math.floor(at / inner / shape[axis]) / (outer / (shape[1] ?? 1))) % (shape[1] ?? 1);
        const source = row < count ? rows[(perHead ? sample * shape[1] + head : sample) * count + row] : -1;
        return source < 0 ? at : at + (source - row) * inner;
      });
      const text = `seed ${seed + 1000 + round}: ${cache} along ${axis}${perHead ? ", rows a head" : ""}`;
      const [slow] = slowly(request);
      const elements = (view: View): string[] => {
        const bits = traitsOf(type).bits;
        if (bits < 8) return Array.from(readNumbers(view), String);
        const width = bits / 8;
        const storage = view.data as Uint8Array;
        const data = Buffer.from(storage.buffer, storage.byteOffset, storage.byteLength);
        return sources.map((_, at) => data.subarray(at * width, (at + 1) * width).toString("hex"));
      };
      const old = elements(cache);
      expect(elements(slow), text).toEqual(sources.map((source) => old[source]));
      const { caches, taken } = await inPlace(variants[round % variants.length], request);
      expect(sameBytes(caches[0], slow), `WASM, ${text}`).toBe(true);
      if (traitsOf(type).bits >= 8) expect(taken, `the fast path is taken, ${text}`).toBe(true);
    }
  });

  test(`${rounds} paged caches, from seed ${seed} on`, async () => {
    for (let round = 0; round < rounds; round++) {
      const dice = chance(5000 + round);
      const { integer, pick, bytes, integers, indexType, shuffled } = dice;
      const layout = pick(layouts);
      const type = pick(pagedTypes);
      const piece = fragmentLength(type);
      const [blockSize, heads, batch, columns] = [pick([1, 3, 16]), integer(1, 3), integer(1, 3), integer(1, 4)];
      const size = layout === "PA_NZ" ? piece * integer(1, 2) : integer(1, 9);
      const blocks = batch * columns + integer(0, 2);
      const places = { blockSize, heads, size };
      const scales = layout === "Norm" && size === 1;
      const shape =
        layout === "Norm"
          ? [blocks, blockSize, heads, ...(scales ? [] : [size])]
          : layout === "NHSD"
            ? [blocks, heads, blockSize, size]
            : [blocks, (heads * size) / piece, blockSize, piece];
      const cache = bytes(type, shape);
      const room = columns * blockSize;
      const count = integer(0, room);
      const perHead = integer(0, 1) === 1;
      const tables = shuffled(blocks).slice(0, batch * columns);
      const rows = Array.from({ length: batch * (perHead ? heads : 1) }, () => newRows(dice, count, room)).flat();
      const request = {
        op: "RepackCache",
        attrs: { cache_mode: layout },
        inputs: [
          cache,
          integers(indexType(), perHead ? [batch, heads, count] : [batch, count], rows),
          integers(indexType(), [batch, columns], tables),
        ],
        caches: [0],
      };
      const width = byteLengthOf(type, 1);
      const old = Buffer.from((cache.data as Uint8Array).buffer as ArrayBuffer);
      const expected = Buffer.from(old);
      const slotOf = (sample: number, row: number): number =>
        tables[sample * columns + Math.floor(row / blockSize)] * blockSize + (row % blockSize);
      for (let sample = 0; sample < batch; sample++)
        for (let head = 0; head < heads; head++)
          for (let row = 0; row < count; row++) {
            const source = rows[(perHead ? sample * heads + head : sample) * count + row];
            if (source < 0) continue;
            for (let i = 0; i < size; i++) {
              const [to, from] = [row, source].map(
                (at) => elementAt(layout, piece, places, slotOf(sample, at), head, i) * width,
              );
              old.copy(expected, to, from, from + width);
            }
          }
      const text = `seed ${seed + 5000 + round}: ${layout} ${cache}${perHead ? ", rows a head" : ""}`;
      const [slow] = slowly(request);
      expect(Buffer.compare(Buffer.from((slow.data as Uint8Array).buffer as ArrayBuffer), expected), text).toBe(0);
      const { caches, taken } = await inPlace(variants[round % variants.length], request);
      expect(sameBytes(caches[0], slow), `WASM, ${text}`).toBe(true);
      expect(taken, `the fast path is taken, ${text}`).toBe(true);
    }
  });
});

/** A paged cache and vectors for it. */
function pagesFor(
  { integer, pick, shuffled, integers, indexType }: ReturnType<typeof chance>,
  layout: Layout,
  piece: number,
) {
  const [blockSize, heads, blocks] = [pick([1, 3, 16]), integer(1, 4), integer(1, 5)];
  const sizes = [0, 1].map(() => (layout === "PA_NZ" ? piece * integer(1, 2) : pick([1, 4, 7, 16, 65])));
  const shapes = sizes.map((size) =>
    layout === "Norm"
      ? [blocks, blockSize, heads, size]
      : layout === "NHSD"
        ? [blocks, heads, blockSize, size]
        : [blocks, (heads * size) / piece, blockSize, piece],
  );
  const tokens = integer(0, blocks * blockSize);
  const apart = shuffled(blocks * blockSize).slice(0, tokens);
  // In a row, anywhere, or twice in one slot; some are skipped.
  const kind = pick(["row", "apart", "any"]);
  const slots = apart.map((slot, token) => {
    if (integer(0, 9) === 0) return -integer(1, 3);
    return kind === "row" ? token : kind === "apart" ? slot : integer(0, blocks * blockSize - 1);
  });
  return { blockSize, heads, blocks, sizes, shapes, tokens, slots: integers(indexType(), [tokens], slots) };
}

test(`ScatterPaKvCache: ${rounds} writes of every layout and type are the reference implementation's, from seed ${seed} on`, async () => {
  for (let round = 0; round < rounds; round++) {
    const dice = chance(9000 + round);
    const layout = dice.pick(layouts);
    const type = pagedTypes[round % pagedTypes.length];
    const { heads, sizes, shapes, tokens, slots } = pagesFor(dice, layout, fragmentLength(type));
    const request = {
      op: "ScatterPaKvCache",
      attrs: { cache_mode: layout === "PA_NZ" ? layout : "Norm", scatter_mode: layout === "NHSD" ? layout : "None" },
      inputs: [
        dice.bytes(type, [tokens, heads, sizes[0]]),
        dice.bytes(type, shapes[0]),
        slots,
        dice.bytes(type, [tokens, heads, sizes[1]]),
        dice.bytes(type, shapes[1]),
      ],
      caches: [1, 4],
    };
    const text = `seed ${seed + 9000 + round}: ${layout} ${request.inputs.join(", ")}`;
    const slow = slowly(request);
    const { caches, taken } = await inPlace(variants[round % variants.length], request);
    caches.forEach((cache, at) => expect(sameBytes(cache, slow[at]), text).toBe(true));
    expect(taken, `the fast path is taken, ${text}`).toBe(true);
  }
});

test(`QuantizedScatterPaKvCache: ${rounds} writes give the reference implementation's bytes and scales, from seed ${seed} on`, async () => {
  for (let round = 0; round < rounds; round++) {
    const dice = chance(13_000 + round);
    const { random, pick } = dice;
    const layout = pick(layouts);
    const rowType = pick<ElementType>(["float32", "float16", "bfloat16"]);
    const types = [
      pick<ElementType>(["int8", "float8e4m3fn", "float8e5m2"]),
      pick<ElementType>(["int8", "float8e4m3fn", "float8e5m2"]),
    ];
    const { heads, sizes, shapes, tokens, slots, blocks, blockSize } = pagesFor(dice, layout, 32);
    const vectors = (size: number): View => {
      const view = View.allocate(rowType, [tokens, heads, size]);
      const values: number[] = [];
      for (let vector = 0; vector < tokens * heads; vector++) {
        const spread = pick([0, 1e-41, 1e-6, 1, 1, 40, 60_000]);
        const special = random() < 0.05 ? pick([NaN, Infinity, -Infinity]) : undefined;
        for (let i = 0; i < size; i++)
          values.push(
            i === 0 && special !== undefined ? special : pick([random() - 0.5, random() * 0.01, 0.5]) * spread,
          );
      }
      writeNumbers(view, values);
      return view;
    };
    const request = {
      op: "QuantizedScatterPaKvCache",
      attrs: { cache_mode: layout },
      inputs: [
        vectors(sizes[0]),
        dice.bytes(types[0], shapes[0]),
        View.allocate("float32", [blocks, blockSize, heads]),
        slots,
        vectors(sizes[1]),
        dice.bytes(types[1], shapes[1]),
        View.allocate("float32", [blocks, blockSize, heads]),
      ],
      caches: [1, 2, 5, 6],
    };
    const text = `seed ${seed + 13_000 + round}: ${layout} ${request.inputs.join(", ")}`;
    const slow = slowly(request);
    const { caches, taken } = await inPlace(variants[round % variants.length], request);
    caches.forEach((cache, at) => expect(differenceOf(cache, slow[at], 0), text).toBe(""));
    expect(taken, `the fast path is taken, ${text}`).toBe(true);
  }
});

test("quantised vectors read back within half a step of their scale", () => {
  const { random } = chance(1);
  const [tokens, heads, size] = [7, 2, 33];
  for (const [type, relative] of [
    ["int8", 0],
    ["float8e4m3fn", 2 ** -4],
    ["float8e5m2", 2 ** -3],
  ] as const) {
    const rows = View.allocate("float32", [tokens, heads, size]);
    writeNumbers(
      rows,
      Array.from({ length: rows.size }, () => random() * 6 - 3),
    );
    const pages = (): View => View.allocate(type, [1, tokens, heads, size]);
    const scale = (): View => View.allocate("float32", [1, tokens, heads]);
    const slots = View.allocate("int32", [tokens]);
    (slots.data as Int32Array).set(Array.from({ length: tokens }, (_, at) => at));
    const [cache, scales] = call(
      "insitu",
      "QuantizedScatterPaKvCache",
      1,
      {},
      [rows, pages(), scale(), slots, rows, pages(), scale()],
      [true, true, true, true],
    ) as View[];
    const [codes, factors, values] = [readNumbers(cache), readNumbers(scales), readNumbers(rows)];
    codes.forEach((code, at) => {
      const factor = factors[Math.floor(at / size)];
      const step = type === "int8" ? factor / 2 : Math.max(Math.abs(values[at]) * relative, factor * 2 ** -9);
      expect(Math.abs(code * factor - values[at])).toBeLessThanOrEqual(step * 1.0001);
    });
  }
});

test(`GatherPaKvCache: rows out of every layout, from seed ${seed} on`, async () => {
  let taken = 0;
  for (let round = 0; round < rounds / 3; round++) {
    const dice = chance(17_000 + round);
    const { integer, pick, bytes, integers, shuffled, indexType } = dice;
    const layout = pick(layouts);
    const type = pick(pagedTypes);
    const piece = fragmentLength(type);
    const [blockSize, heads, columns, batch] = [pick([1, 3, 16]), integer(1, 3), integer(1, 4), integer(1, 3)];
    const size = layout === "PA_NZ" ? piece : integer(1, 9);
    const blocks = columns * batch;
    const shape =
      layout === "Norm"
        ? [blocks, blockSize, heads, size]
        : layout === "NHSD"
          ? [blocks, heads, blockSize, size]
          : [blocks, (heads * size) / piece, blockSize, piece];
    const index = indexType();
    const lengths = Array.from({ length: batch }, () => integer(0, columns * blockSize + 2));
    const result = await tryCall(variants[round % variants.length], {
      op: "GatherPaKvCache",
      domain: "insitu",
      attrs: { cache_mode: layout },
      inputs: [
        { view: bytes(type, shape) },
        { view: bytes(type, shape) },
        { view: integers(index, [batch, columns], shuffled(blocks)) },
        { view: integers(index, [batch], lengths) },
      ],
      outputs: [true, true],
      relative: 0,
    });
    expect(result.difference, `seed ${seed + 17_000 + round}`).toBe("");
    taken += result.taken;
  }
  expect(taken).toBeGreaterThan(0);
});
