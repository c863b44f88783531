// Copies against plain loops: rows into caches, linear and circular, and strided copies of all widths.
import { expect, test } from "vitest";
import { Random, seeds, variants, Workbench } from "./workbench.js";

for (const variant of variants) {
  for (const seed of seeds) {
    test(`rows into a cache, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (let round = 0; round < 20; round++) {
        const [batch, outer] = [random.integer(1, 3), random.integer(1, 4)];
        const capacity = random.integer(1, 12);
        const length = random.integer(0, capacity);
        const rowBytes = random.pick([1, 2, 3, 4, 8, 20, 64, 512]);
        const packed = random.unit() < 0.3; // source as [batch, length, outer, row]
        const circular = random.unit() < 0.5;
        const indices = Array.from({ length: batch }, () =>
          random.integer(0, circular ? 3 * capacity : capacity - length),
        );
        const without = random.unit() < 0.2;
        const bench = new Workbench(variant, 16);
        const source = Uint8Array.from({ length: batch * outer * length * rowBytes }, () => random.integer(0, 255));
        const cache = Uint8Array.from({ length: batch * outer * capacity * rowBytes }, () => random.integer(0, 255));
        const expected = cache.slice();
        const strides = packed
          ? { sourceSample: length * outer * rowBytes, sourceOuter: rowBytes, sourceRow: outer * rowBytes }
          : { sourceSample: outer * length * rowBytes, sourceOuter: length * rowBytes, sourceRow: rowBytes };
        for (let b = 0; b < batch; b++)
          for (let h = 0; h < outer; h++)
            for (let t = 0; t < length; t++) {
              const row = ((without ? 0 : indices[b]) + t) % capacity;
              const from = b * strides.sourceSample + h * strides.sourceOuter + t * strides.sourceRow;
              expected.set(source.subarray(from, from + rowBytes), ((b * outer + h) * capacity + row) * rowBytes);
            }
        const target = bench.place(cache, 3);
        bench.run(
          "scatterRows",
          {
            source: bench.place(source, 5),
            target,
            indices: without ? 0 : bench.place(BigInt64Array.from(indices, BigInt), 4),
            batch,
            outer,
            length,
            capacity,
            rowBytes,
            ...strides,
            targetSample: outer * capacity * rowBytes,
            targetOuter: capacity * rowBytes,
            targetRow: rowBytes,
          },
          [{ at: target, bytes: cache.length }],
        );
        expect(Buffer.compare(Buffer.from(bench.copy(target, cache.length)), Buffer.from(expected))).toBe(0);
      }
    });

    test(`strided copies, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (let round = 0; round < 20; round++) {
        const width = random.pick([1, 2, 4, 8, 3, 16]);
        const sizes = Array.from({ length: 5 }, () => random.pick([1, 1, 2, 3, 5]));
        const total = sizes.reduce((a, b) => a * b);
        const order = random.pick([
          [0, 1, 2, 3, 4],
          [4, 3, 2, 1, 0],
          [0, 2, 1, 3, 4],
          [1, 0, 2, 4, 3],
        ]);
        const target: number[] = new Array<number>(5).fill(0);
        let step = width;
        for (const axis of order.toReversed()) {
          target[axis] = step;
          step *= sizes[axis];
        }
        const source: number[] = new Array<number>(5).fill(0);
        step = width;
        for (let axis = 4; axis >= 0; axis--) {
          source[axis] = random.unit() < 0.2 ? 0 : step; // 0 repeats
          step *= sizes[axis];
        }
        const bytes = Uint8Array.from({ length: total * width }, () => random.integer(0, 255));
        const expected = new Uint8Array(total * width);
        for (let i = 0; i < total; i++) {
          let [rest, from, to] = [i, 0, 0];
          for (let axis = 4; axis >= 0; axis--) {
            const at = rest % sizes[axis];
            rest = Math.floor(rest / sizes[axis]);
            from += at * source[axis];
            to += at * target[axis];
          }
          expected.set(bytes.subarray(from, from + width), to);
        }
        const bench = new Workbench(variant, 16);
        const output = bench.reserve(expected.length, 1);
        bench.run(
          "copyStrided",
          {
            source: bench.place(bytes, 3),
            target: output,
            width,
            size0: sizes[0],
            size1: sizes[1],
            size2: sizes[2],
            size3: sizes[3],
            size4: sizes[4],
            source0: source[0],
            source1: source[1],
            source2: source[2],
            source3: source[3],
            source4: source[4],
            target0: target[0],
            target1: target[1],
            target2: target[2],
            target3: target[3],
            target4: target[4],
          },
          [{ at: output, bytes: expected.length }],
        );
        expect(Buffer.compare(Buffer.from(bench.copy(output, expected.length)), Buffer.from(expected))).toBe(0);
      }
    });
  }
}
