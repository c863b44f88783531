// Texts on pages on WASM: packed batches, by the kernels, and the logits of the same texts read one by one; with batchInvariant none is packed.
import { expect, test } from "vitest";
import { CausalLM } from "../../src/index.node.js";
import { embedded } from "../generate/support.js";
import { Random } from "../kernels/workbench.js";

const most = (a: Float32Array, b: Float32Array): number => Math.max(...a.map((x, at) => Math.abs(x - b[at])));

test("prompts and single tokens of several texts in one run", async () => {
  const random = new Random(77);
  const model = await CausalLM.load(embedded, { cache: "paged", context: 100, keep: 0, blocks: 60 });
  const alone = await CausalLM.load(embedded, {
    cache: "paged",
    context: 100,
    keep: 0,
    blocks: 60,
    batchInvariant: true,
  });
  expect([model.pages!.isPacked, alone.pages!.isPacked]).toEqual([true, false]);
  const texts = Array.from({ length: 6 }, () => Array.from({ length: 60 }, () => random.integer(1, 4000)));
  const read = texts.map(() => 0);
  const sequences = texts.map(() => model.pages!.pool.add());
  // Any number of tokens of any of the texts in each run, in any order.
  for (let run = 0; run < 8; run++) {
    const parts = texts
      .map((_, text) => ({
        text,
        count: [0, 1, 1, random.integer(2, 9), 20][random.integer(0, 4)],
        key: random.integer(0, 99),
      }))
      .filter(({ text, count }) => count > 0 && read[text] + count <= 60)
      .sort((a, b) => a.key - b.key);
    if (parts.length === 0) continue;
    const logits = await model.pagedDecoder!.step(
      parts.map(({ text, count }) => ({
        sequence: sequences[text],
        tokens: texts[text].slice(read[text], read[text] + count),
      })),
    );
    for (const [at, { text, count }] of parts.entries()) {
      read[text] += count;
      const own = logits[at].slice();
      const sequence = alone.pages!.pool.add();
      const expected = await alone.pagedDecoder!.step([{ sequence, tokens: texts[text].slice(0, read[text]) }]);
      expect(most(own, expected[0]), `run ${run}, text ${text} up to ${read[text]}`).toBeLessThan(1e-2);
      sequence.release();
      alone.pages!.pool.forgetPrefixes();
    }
  }
  const text = model.session.explain();
  expect(text).toContain("by pagedPacked");
  expect(text).toContain("none on the reference");
  await model.release();
  await alone.release();
});
