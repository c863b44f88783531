// Packed batches of PagedAttention on WASM: against their samples one by one, against the reference implementation, and, where rows come out alike, bit for bit
// against the same queries as samples of their own. Samples of no, one and many queries in any order; any number of threads.
import { afterAll, beforeAll, expect, test } from "vitest";
import { View } from "../../src/tensor/view.js";
import { runOn } from "../support/executable.js";
import { differenceOf, openVariant, planOf, seed, type Variant } from "../wasm/fast-path.js";
import { call, modelAttributes, type PagedCase } from "./attention-case.js";
import { manySamples } from "./many-samples.js";
import { packedCase } from "./packed-case.js";
import { soak } from "../support/soak.js";

const variants: Variant[] = [];
const alike: Variant[] = [];

beforeAll(async () => {
  variants.push(await openVariant(1, true), await openVariant(2, false), await openVariant(3, true));
  alike.push(await openVariant(1, false, true), await openVariant(3, true, true));
});

afterAll(async () => {
  for (const { session } of [...variants, ...alike]) await session.release();
});

/** Runs a call, which must take its fast path. */
async function run(
  variant: Variant,
  { attrs, inputs, text }: Pick<PagedCase, "attrs" | "inputs" | "text">,
  outputs: readonly boolean[],
): Promise<View[]> {
  const feeds = inputs.map((view) => (view === undefined ? undefined : { view }));
  const asked = { op: "PagedAttention", domain: "insitu", attrs: modelAttributes(attrs), inputs: feeds, outputs };
  const executable = variant.session.prepare(planOf(asked));
  const before = variant.taken.get("PagedAttention") ?? 0;
  const views = inputs.filter((view): view is View => view !== undefined);
  const results = [...(await runOn(executable, views)).values()];
  expect((variant.taken.get("PagedAttention") ?? 0) - before, `the fast path is taken, ${text}`).toBe(1);
  return results;
}

const count = soak ? 2_000 : 200;

test(`${count} batches in every layout and type, from seed ${seed} on`, async () => {
  for (let at = 0; at < count; at++) {
    const packed = packedCase(seed + at, at % 8 === 0 ? 90 : 9);
    const { y, sums, tolerance, text } = packed;
    const withSums = at % 3 === 0;
    const variant = [...variants, ...alike][at % 5];
    const results = await run(variant, packed, withSums ? [true, true] : [true]);
    expect(differenceOf(results[0], y, tolerance, tolerance), `${variant.name}, ${text}`).toBe("");
    if (withSums) expect(differenceOf(results[1], sums, 2e-5, 2e-5), `sums on ${variant.name}, ${text}`).toBe("");
  }
});

const many = soak ? 300 : 24;

test(`${many} batches of up to 40 samples or of few on long tables, from seed ${seed} on`, async () => {
  for (let at = 0; at < many; at++) {
    const batch = manySamples(seed + at, at % 2 === 0 ? 40 : 2, at % 4 < 2 ? 6 : 150);
    const withSums = at % 5 === 0;
    const [y, sums] = call("insitu", "PagedAttention", 1, batch.attrs, batch.inputs, [true, true]);
    const variant = [...variants, ...alike][at % 5];
    const results = await run(variant, batch, withSums ? [true, true] : [true]);
    const tolerance = y!.type === "float16" ? 2 ** -9 : 2e-5;
    expect(differenceOf(results[0], y!, tolerance, tolerance), `${variant.name}, ${batch.text}`).toBe("");
    if (withSums) expect(differenceOf(results[1], sums!, 2e-5, 2e-5), `sums, ${batch.text}`).toBe("");
  }
});

test(`with rows alike, ${many} batches are their queries as samples of their own, bit for bit`, async () => {
  for (let at = 0; at < many; at++) {
    const batch = manySamples(seed + 5_000 + at, at % 2 === 0 ? 12 : 2, at % 4 < 2 ? 4 : 30);
    const variant = alike[at % alike.length];
    const [packed] = await run(variant, batch, [true]);
    const [apart] = await run(variant, { ...batch, inputs: batch.apart }, [true]);
    expect(differenceOf(packed, apart, 0), `${variant.name}, ${batch.text}`).toBe("");
  }
});

test("a result does not depend on the number of threads where no range is split", async () => {
  for (let at = 0; at < (soak ? 60 : 6); at++) {
    const batch = manySamples(seed + 9_000 + at, 20, 40);
    if (batch.inputs[3]!.shape[0] < 3) continue;
    const [one] = await run(variants[0], batch, [true]);
    const [three] = await run(variants[2], batch, [true]);
    expect(differenceOf(three, one, 0), batch.text).toBe("");
  }
});
