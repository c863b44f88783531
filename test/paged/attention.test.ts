// PagedAttention, the reference implementation and WASM, against ONNX's Attention over the same rows without pages: random calls with printed seeds.
import { afterAll, beforeAll, expect, test } from "vitest";
import { differenceOf, openVariant, planOf, seed, type Variant } from "../wasm/fast-path.js";
import { call, modelAttributes, pagedCase } from "./attention-case.js";
import { packedCase } from "./packed-case.js";
import { runOn } from "../support/executable.js";
import { soak } from "../support/soak.js";

const count = Number(process.env["INSITU_PAGED_CASES"] ?? (soak ? 2_000 : 150));
const variants: Variant[] = [];

beforeAll(async () => {
  variants.push(await openVariant(1, true), await openVariant(2, false), await openVariant(3, true));
});

afterAll(async () => {
  for (const { session } of variants) await session.release();
});

test(`${count} random calls, from seed ${seed} on`, async () => {
  for (let at = 0; at < count; at++) {
    const { text, attrs, inputs, y, sums, tolerance } = pagedCase(seed + at);
    const withSums = at % 3 === 0;
    const wanted = withSums ? [true, true] : [true];
    const [slow, slowSums] = call("insitu", "PagedAttention", 1, attrs, inputs, wanted);
    // Each stage of both is float32, so that the reference implementations agree to the last bit.
    expect(differenceOf(slow!, y, 0), `reference, ${text}`).toBe("");
    if (withSums) expect(differenceOf(slowSums!, sums, 1e-6, 1e-6), `sums of the reference, ${text}`).toBe("");
    const variant = variants[at % variants.length];
    const feeds = inputs.map((view) => (view === undefined ? undefined : { view }));
    const plan = planOf({
      op: "PagedAttention",
      domain: "insitu",
      attrs: modelAttributes(attrs),
      inputs: feeds,
      outputs: wanted,
    });
    const executable = variant.session.prepare(plan);
    const views = inputs.filter((view) => view !== undefined);
    const before = variant.taken.get("PagedAttention") ?? 0;
    const results = [...(await runOn(executable, views)).values()];
    expect((variant.taken.get("PagedAttention") ?? 0) - before, `the fast path is taken, ${text}`).toBeGreaterThan(0);
    expect(differenceOf(results[0], y, tolerance, tolerance), `${variant.name}, ${text}`).toBe("");
    if (withSums) expect(differenceOf(results[1], sums, 2e-5, 2e-5), `sums on ${variant.name}, ${text}`).toBe("");
  }
});

test(`${count} packed batches are their samples one by one, from seed ${seed} on`, () => {
  for (let at = 0; at < count; at++) {
    const { text, attrs, inputs, y, sums } = packedCase(seed + at);
    const [slow, slowSums] = call("insitu", "PagedAttention", 1, attrs, inputs, [true, true]);
    expect(differenceOf(slow!, y, 0), text).toBe("");
    expect(differenceOf(slowSums!, sums, 0), `sums, ${text}`).toBe("");
  }
});
