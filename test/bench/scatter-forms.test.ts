// Every form of a cache write gives the bits that plain loops give: copied and in place, for one token and for many.
import { describe, expect, test } from "vitest";
import { forms, pastFeed, type ScatterSizes, updateFeed, writtenCache } from "../../tools/bench/scatter-forms.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";

const sizes: readonly ScatterSizes[] = [
  { batch: 1, heads: 1, capacity: 4, head: 1, tokens: 1 },
  { batch: 2, heads: 3, capacity: 7, head: 5, tokens: 1 },
  { batch: 3, heads: 2, capacity: 9, head: 4, tokens: 4 },
  { batch: 2, heads: 2, capacity: 6, head: 3, tokens: 6 },
];

const tensor = ({ type, data, dims }: ReturnType<typeof updateFeed>): Tensor => new Tensor(type, data, dims);
const bits = (data: unknown): Int32Array => {
  const { buffer, byteOffset, byteLength } = data as Float32Array;
  return new Int32Array(buffer, byteOffset, byteLength / 4);
};
const text = (of: ScatterSizes): string => `[${of.batch},${of.heads},${of.capacity},${of.head}], ${of.tokens} tokens`;

/** Positions to write at: Concat can only append. */
const starts = (form: (typeof forms)[number], of: ScatterSizes): number[] =>
  form.appends ? [of.capacity - of.tokens] : [...new Set([0, of.capacity - of.tokens])];

describe.each(forms)("$name", (form) => {
  test.each(sizes)("copied, sizes %#", async (of) => {
    const session = await InferenceSession.create(writeModel(form.model(of)), {
      inPlace: "never",
      backend: "reference",
    });
    for (const start of starts(form, of)) {
      const past = tensor(pastFeed(form, of));
      const indices = Object.entries(form.indices(of, start)).map(([name, { type, data, dims }]) => [
        name,
        new Tensor(type, data, dims),
      ]);
      const { present } = await session.run({ past, update: tensor(updateFeed(of)), ...Object.fromEntries(indices) });
      expect(bits(present.data), `${text(of)} at ${start}`).toEqual(bits(writtenCache(of, start)));
      expect(bits(past.data), "the feed stays as it was").toEqual(bits(pastFeed(form, of).data));
    }
    await session.release();
  });
});

describe.each(forms.filter((form) => !form.appends))("$name", (form) => {
  test.each(sizes)("in place, sizes %#", async (of) => {
    const session = await InferenceSession.create(writeModel(form.model(of)), {
      inPlace: "require",
      backend: "reference",
    });
    for (const start of starts(form, of)) {
      const state = session.createState();
      state.set("past", tensor(pastFeed(form, of)));
      const address = state.get("past").data;
      const indices = Object.entries(form.indices(of, start)).map(([name, { type, data, dims }]) => [
        name,
        new Tensor(type, data, dims),
      ]);
      await session.run({ update: tensor(updateFeed(of)), ...Object.fromEntries(indices) }, { state });
      expect(bits(state.get("past").data), `${text(of)} at ${start}`).toEqual(bits(writtenCache(of, start)));
      expect(state.get("past").data, "the cache lies where it lay").toBe(address);
      expect(state.statistics.movedBytes).toBe(0);
    }
    await session.release();
  });
});

test("TensorScatter's indices are the smallest by the factor that the form says", () => {
  const of = { batch: 4, heads: 8, capacity: 4096, head: 128, tokens: 512 };
  const [tensorScatter, scatterND, rows] = forms;
  expect(scatterND.indexBytes(of) / tensorScatter.indexBytes(of)).toBe(3 * of.heads * of.tokens);
  expect(rows.indexBytes(of) / tensorScatter.indexBytes(of)).toBe(of.heads * of.tokens);
  const fed = scatterND.indices({ ...of, tokens: 2 }, 0)["indices"];
  expect(fed.data.byteLength).toBe(scatterND.indexBytes({ ...of, tokens: 2 }));
});
