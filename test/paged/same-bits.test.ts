// The same sequences through TensorScatter on a linear cache and through ScatterPaKvCache on pages: attention gives the same bits.
import { expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { linearModel, pagedModel, pool, type Sizes } from "./step-models.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 20_261_115);

const float = (values: Float32Array, dims: readonly number[]): Tensor => new Tensor("float32", values, dims);
const int64 = (values: readonly number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), [values.length]);
const int32 = (values: readonly number[], dims: readonly number[]): Tensor =>
  new Tensor("int32", Int32Array.from(values), dims);

/** Runs both forms on prompts of different lengths, then token by token; the results must be the same bits at every step. */
async function compare(
  sizes: Sizes,
  prompts: readonly number[],
  steps: number,
  options: SessionOptions,
): Promise<void> {
  const { heads, kvHeads, size, valueSize, blockSize, columns } = sizes;
  const random = seededRandom(seed);
  const numbers = (count: number): Float32Array => Float32Array.from({ length: count }, () => random() * 4 - 2);
  const [linear, paged] = [
    await InferenceSession.create(linearModel(sizes), options),
    await InferenceSession.create(pagedModel(sizes), options),
  ];
  const batch = prompts.length;
  const blocks = batch * columns + 3;
  const capacity = columns * blockSize;
  const order = Array.from({ length: blocks }, (_, block) => ({ block, key: random() })).sort((a, b) => a.key - b.key);
  const tables = order.slice(0, batch * columns).map(({ block }) => block);
  const concrete = (shape: readonly (string | number)[]): number[] =>
    shape.map((dim) => (dim === "blocks" ? blocks : (dim as number)));
  const [states, pages] = [
    linear.createState({
      shapes: { "past.key": [batch, kvHeads, capacity, size], "past.value": [batch, kvHeads, capacity, valueSize] },
    }),
    paged.createState({
      shapes: { "past.key": concrete(pool(sizes, size)), "past.value": concrete(pool(sizes, valueSize)) },
    }),
  ];
  const lengths = prompts.map(() => 0);
  // Prompts of different lengths go in as passes of one row count each: as many rows as the shortest has left.
  const queue = [...prompts];
  for (let step = 0; step < steps || queue.some((left) => left > 0); step++) {
    const left = Math.min(...queue);
    const rows = left > 0 ? left : 1;
    queue.forEach((count, at) => (queue[at] = Math.max(0, count - rows)));
    const query = numbers(batch * heads * rows * size);
    const [key, fresh] = [numbers(batch * kvHeads * rows * size), numbers(batch * kvHeads * rows * valueSize)];
    const byToken = (values: Float32Array, of: number): Float32Array => {
      const turned = new Float32Array(values.length);
      for (let sample = 0; sample < batch; sample++)
        for (let head = 0; head < kvHeads; head++)
          for (let row = 0; row < rows; row++)
            turned.set(
              values.subarray(
                ((sample * kvHeads + head) * rows + row) * of,
                ((sample * kvHeads + head) * rows + row + 1) * of,
              ),
              ((sample * rows + row) * kvHeads + head) * of,
            );
      return turned;
    };
    const slots = lengths.flatMap((length, sample) =>
      Array.from({ length: rows }, (_, row) => {
        const at = length + row;
        return tables[sample * columns + Math.floor(at / blockSize)] * blockSize + (at % blockSize);
      }),
    );
    const ends = lengths.map((length) => length + rows);
    const feeds = { query: float(query, [batch, heads, rows, size]) };
    const { y } = await linear.run(
      {
        ...feeds,
        key: float(key, [batch, kvHeads, rows, size]),
        value: float(fresh, [batch, kvHeads, rows, valueSize]),
        starts: int64(lengths),
        ends: int64(ends),
      },
      { state: states },
    );
    const { y: other } = await paged.run(
      {
        ...feeds,
        key: float(byToken(key, size), [batch * rows, kvHeads, size]),
        value: float(byToken(fresh, valueSize), [batch * rows, kvHeads, valueSize]),
        slots: int64(slots),
        tables: int32(tables, [batch, columns]),
        lengths: int32(ends, [batch]),
      },
      { state: pages },
    );
    const [a, b] = [y, other].map(({ data }) => new Int32Array((data as Float32Array).slice().buffer));
    const differs = a.findIndex((bits, at) => bits !== b[at]);
    expect(differs, `step ${step} of ${JSON.stringify(sizes)}, seed ${seed}`).toBe(-1);
    lengths.forEach((_, sample) => (lengths[sample] = ends[sample]));
  }
  await linear.release();
  await paged.release();
}

const small: Sizes = {
  heads: 4,
  kvHeads: 2,
  size: 8,
  valueSize: 16,
  blockSize: 3,
  columns: 11,
  layout: "Norm",
  left: -1,
};
const layouts = ["Norm", "NHSD", "PA_NZ"] as const;

for (const layout of layouts)
  test(`the reference implementation, ${layout}`, async () => {
    await compare({ ...small, layout }, [5, 2], 8, { backend: "reference" });
    await compare({ ...small, layout, left: 4, heads: 6 }, [1, 9, 3], 4, { backend: "reference" });
  });

for (const layout of layouts)
  for (const threads of soak ? [1, 2, 3] : [1, 2])
    test(`WASM, ${layout}, ${threads} threads`, async () => {
      const options: SessionOptions = { backend: "wasm", threads };
      await compare({ ...small, layout }, [5, 2], 8, options);
      await compare({ ...small, layout, left: 7, heads: 14 }, [3, 9, 1], 6, options);
      // Longer than a block of the kernel's, and heads that are fewer than threads: the range is split.
      for (const blockSize of threads === 2 ? [1, 16, 128] : [16])
        await compare(
          {
            heads: 7,
            kvHeads: 1,
            size: 16,
            valueSize: 8,
            blockSize,
            columns: Math.ceil(2400 / blockSize),
            layout,
            left: -1,
          },
          [2300],
          4,
          options,
        );
      await compare(
        { heads: 32, kvHeads: 8, size: 32, valueSize: 32, blockSize: 16, columns: 80, layout, left: -1 },
        [1100],
        3,
        options,
      );
    });
