// The kernels that know every type, at odd addresses, between guards and in any number of parts, against plain loops.
import { expect, test } from "vitest";
import { elementCode, elementsOperation, foldOperation, registerKind } from "../../src/wasm-kernels/jobs.js";
import { Random, seeds, variants, Workbench } from "./workbench.js";

/** Sizes of rows: around vectors and the ends of tiles. */
const widths = [1, 3, 4, 5, 16, 17, 255, 256, 257, 513, 2047, 2049];

for (const variant of variants) {
  for (const seed of seeds) {
    test(`elements, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (const columns of widths) {
        const rows = random.integer(1, 5);
        const count = rows * columns;
        const bench = new Workbench(variant, 16);
        const bools = Uint8Array.from({ length: count }, () => (random.unit() < 0.5 ? 0 : random.integer(1, 255)));
        const row = Float32Array.from({ length: columns }, () => random.unit());
        const large = BigInt64Array.from({ length: count }, () => BigInt(random.integer(-5, 5)) * 2n ** 40n);
        const place = { bools: bench.place(bools, 1), row: bench.place(row, 3), large: bench.place(large, 5) };
        const common = { third: 0, thirdType: 0, rank: 2 };
        const layoutOf = (...strides: readonly number[]): number =>
          bench.place(Int32Array.from([rows, columns, ...strides]));

        const logic = bench.reserve(count, 7);
        bench.run(
          "elements",
          {
            ...common,
            operation: elementsOperation.and,
            kind: registerKind.bytes,
            output: logic,
            outputType: elementCode.bool,
            first: place.bools,
            firstType: elementCode.bool,
            second: place.bools,
            secondType: elementCode.bool,
            layout: layoutOf(columns, 1, columns, 1, columns, 0),
          },
          [{ at: logic, bytes: count }],
        );
        const truth = Uint8Array.from(bools, (x, at) => (x && bools[at - (at % columns)] ? 1 : 0));
        expect(new Uint8Array(bench.copy(logic, count))).toEqual(truth);

        const chosen = bench.reserve(4 * count, 2);
        bench.run(
          "elements",
          {
            ...common,
            operation: elementsOperation.select,
            kind: registerKind.words,
            output: chosen,
            outputType: elementCode.uint32,
            first: place.bools,
            firstType: elementCode.bool,
            second: place.row,
            secondType: elementCode.uint32,
            third: bench.place(Float32Array.of(-7)),
            thirdType: elementCode.uint32,
            layout: layoutOf(4 * columns, 4, columns, 1, 0, 4, 0, 0),
          },
          [{ at: chosen, bytes: 4 * count }],
        );
        expect(bench.floats(chosen, count)).toEqual(Float32Array.from(bools, (x, at) => (x ? row[at % columns] : -7)));

        const less = bench.reserve(count, 3);
        bench.run(
          "elements",
          {
            ...common,
            operation: elementsOperation.less,
            kind: registerKind.integer,
            output: less,
            outputType: elementCode.bool,
            first: place.large,
            firstType: elementCode.int64,
            second: bench.place(BigInt64Array.of(1n)),
            secondType: elementCode.int64,
            layout: layoutOf(columns, 1, 8 * columns, 8, 0, 0),
          },
          [{ at: less, bytes: count }],
        );
        expect(new Uint8Array(bench.copy(less, count))).toEqual(Uint8Array.from(large, (x) => (x < 1n ? 1 : 0)));

        const levels = bench.reserve(columns, 1);
        const [scale, zero] = [bench.reserve(4), bench.reserve(1, 3)];
        bench.run("findLevels", { source: place.row, count: columns, scale, zero }, [
          { at: scale, bytes: 4 },
          { at: zero, bytes: 1 },
        ]);
        expect(bench.floats(scale, 1)[0]).toBe(Math.fround(Math.max(...row) / 255));
        const job = { source: place.row, output: levels, scale, zero, isSigned: 0, count: columns };
        bench.run("writeLevels", job, [{ at: levels, bytes: columns }]);
        const steps = Math.fround(Math.max(...row) / 255);
        for (const [at, level] of new Uint8Array(bench.copy(levels, columns)).entries())
          expect(Math.abs(level * steps - row[at])).toBeLessThanOrEqual(steps * 0.501);
      }
    });

    test(`folds, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (const length of [1, 2, 255, 257, 700]) {
        const lines = random.integer(1, 6);
        const bench = new Workbench(variant, 16);
        const data = Int16Array.from({ length: lines * length }, () => random.integer(-32768, 32767));
        const source = bench.place(data, 1);
        const sums = bench.reserve(2 * lines, 3);
        bench.run(
          "reduce",
          {
            operation: foldOperation.maximum,
            kind: registerKind.integer,
            source,
            output: sums,
            type: elementCode.int16,
            count: lines,
            keptRank: 1,
            kept: bench.place(Int32Array.of(lines, 2, 2 * length)),
            outerRank: 0,
            outer: bench.reserve(4),
            rows: 1,
            length,
            step: 2,
          },
          [{ at: sums, bytes: 2 * lines }],
        );
        const rowOf = (line: number): Int16Array => data.subarray(line * length, (line + 1) * length);
        expect(new Int16Array(bench.copy(sums, 2 * lines))).toEqual(
          Int16Array.from({ length: lines }, (_, line) => Math.max(...rowOf(line))),
        );
        const running = bench.reserve(2 * data.length, 5);
        bench.run(
          "scan",
          {
            operation: foldOperation.sum,
            kind: registerKind.integer,
            source,
            output: running,
            type: elementCode.int16,
            lines,
            rank: 1,
            layout: bench.place(Int32Array.of(lines, 2 * length, 2 * length)),
            length,
            sourceStep: 2,
            outputStep: 2,
            exclusive: 0,
          },
          [{ at: running, bytes: 2 * data.length }],
        );
        const expected = new Int16Array(data.length);
        data.forEach((x, at) => (expected[at] = at % length === 0 ? x : expected[at - 1] + x));
        expect(new Int16Array(bench.copy(running, 2 * data.length))).toEqual(expected);
      }
    });

    test(`gathering and triangles, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (const width of [1, 2, 3, 4, 8, 20]) {
        const [entries, rows] = [random.integer(1, 9), random.integer(1, 30)];
        const bench = new Workbench(variant, 16);
        const table = Uint8Array.from({ length: entries * width }, () => random.integer(0, 255));
        const indices = Int32Array.from({ length: rows }, () => random.integer(-entries, entries - 1));
        const output = bench.reserve(rows * width, 3);
        const job = {
          data: bench.place(table, 5),
          indices: bench.place(indices, 1),
          output,
          indexBytes: 4,
          width,
          batch: 1,
          rows,
          depth: 1,
          layout: bench.place(Int32Array.of(entries, width)),
          dataSample: 0,
          indexSample: 0,
        };
        bench.run("gatherRuns", job, [{ at: output, bytes: rows * width }]);
        const expected = Array.from(indices, (index) => {
          const entry = (index + entries) % entries;
          return [...table.subarray(entry * width, (entry + 1) * width)];
        }).flat();
        expect([...new Uint8Array(bench.copy(output, rows * width))]).toEqual(expected);

        const target = bench.reserve(entries * rows * width, 1);
        const matrix = Uint8Array.from({ length: entries * rows * width }, () => random.integer(1, 255));
        const k = random.integer(-3, 3);
        bench.run(
          "triangle",
          {
            source: bench.place(matrix, 7),
            target,
            diagonal: bench.place(BigInt64Array.of(BigInt(k)), 4),
            width,
            lines: entries,
            rows: entries,
            columns: rows,
            upper: 1,
          },
          [{ at: target, bytes: matrix.length }],
        );
        const kept = matrix.map((byte, at) => {
          const place = Math.floor(at / width);
          return (place % rows) - Math.floor(place / rows) >= k ? byte : 0;
        });
        expect([...new Uint8Array(bench.copy(target, matrix.length))]).toEqual([...kept]);
      }
    });
  }
}
