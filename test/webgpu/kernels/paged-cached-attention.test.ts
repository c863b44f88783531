// CachedAttention over pages on WebGPU against the reference implementation of what it stands for: one token and prompts, pages in both layouts with anything in the rows that
// nobody wrote, tokens that are not written or written twice, norms of heads, rotary embedding, with few bindings and without subgroups.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { float } from "../../../src/onnx/build.js";
import { noWebgpu } from "../../support/backends.js";
import { keepDevice } from "../../support/device.js";
import { offeringGpu, PlacedSession } from "../../support/gpu.js";
import { differenceOf, integers, randomFrom } from "./one-node.js";
import { type Form, pagedCall, type Step } from "./paged-call.js";

async function problemsOf(form: Form, steps: readonly Step[], kernels: readonly string[] = []): Promise<string[]> {
  const random = randomFrom(form.size + form.heads);
  const problems: string[] = [];
  for (const step of steps) {
    const tolerance = form.type === "float16" ? 1e-2 : 2e-5;
    const problem = await differenceOf(pagedCall(random, form, step), kernels, tolerance, form.options, form.place);
    if (problem !== "") problems.push(`${JSON.stringify(step)}: ${problem}`);
  }
  return problems;
}

const tokens: readonly Step[] = [
  { before: [0], length: 1 },
  { before: [31, 2, 40], length: 1, skipped: [1] },
  { before: [270, 64], length: 1 },
];
const prompts: readonly Step[] = [
  { before: [0, 5], length: 3 },
  { before: [20], length: 70 },
];
// Samples of one token, of several and of none.
const batches: readonly Step[] = (["rows", "samples"] as const).flatMap((as) => [
  { before: [0, 31, 7, 64, 12], length: 0, added: { each: [5, 1, 0, 1, 75], as } },
  { before: [270, 2], length: 0, added: { each: [1, 1], as } },
  { before: [40], length: 0, added: { each: [130], as } },
]);

describe.skipIf(noWebgpu !== undefined)("CachedAttention over pages on WebGPU", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  test.each<Form>([
    { type: "float16", layout: "NHSD", size: 32, heads: 4, shared: 2, pairs: 16, norm: true, packed: true },
    { type: "float32", layout: "Norm", size: 8, heads: 3, shared: 1, pairs: 3 },
    {
      type: "float32",
      layout: "NHSD",
      size: 8,
      heads: 2,
      shared: 2,
      attrs: { softcap: float(2), left_window_size: 9 },
    },
  ])("tokens and prompts: %o", async (form) => {
    const { norm, pairs } = form;
    const isTurned = norm === true || pairs !== undefined;
    expect(await problemsOf(form, [...tokens, ...prompts], [isTurned ? "turnIntoPages" : "writePages"])).toEqual([]);
  });

  test.each<Form>([
    { type: "float16", layout: "NHSD", size: 128, heads: 4, shared: 2, pairs: 64, norm: true, packed: true },
    { type: "float16", layout: "NHSD", size: 64, heads: 3, shared: 1, attrs: { left_window_size: 20 } },
    { type: "float32", layout: "Norm", size: 8, heads: 3, shared: 1, pairs: 3 },
  ])("packed batches: %o", async (form) => {
    expect(await problemsOf(form, batches)).toEqual([]);
  });

  test("packed batches with 8 bindings, without subgroups", async () => {
    const place = PlacedSession.place(offeringGpu({ maxStorageBuffersPerShaderStage: 8 }));
    const form = { type: "float16", layout: "NHSD", size: 32, heads: 4, shared: 2, pairs: 16, norm: true } as const;
    const options = { webgpu: { subgroups: false } };
    expect(await problemsOf({ ...form, packed: true, place, options }, batches)).toEqual([]);
  });

  test("where there are no subgroups", async () => {
    const form = { type: "float32", layout: "NHSD", size: 16, heads: 4, shared: 2, pairs: 8, norm: true } as const;
    const options = { webgpu: { subgroups: false } };
    expect(await problemsOf({ ...form, packed: true, options }, tokens.slice(1))).toEqual([]);
  });

  test.each<Form>([
    { type: "float16", layout: "NHSD", size: 32, heads: 4, shared: 2, pairs: 16, norm: true },
    { type: "float32", layout: "Norm", size: 6, heads: 3, shared: 1, pairs: 3, norm: true },
    { type: "float32", layout: "NHSD", size: 8, heads: 2, shared: 2, norm: true },
    { type: "float16", layout: "Norm", size: 8, heads: 7, shared: 1, pairs: 2 },
  ])("tokens and prompts with 8 bindings: %o", async (form) => {
    const place = PlacedSession.place(offeringGpu({ maxStorageBuffersPerShaderStage: 8 }));
    const whole = { ...form, packed: true, constant: true, place };
    expect(await problemsOf(whole, [...tokens, ...prompts], ["turnIntoPages"])).toEqual([]);
    // Weights that are fed are bound one by one.
    expect(await problemsOf({ ...whole, constant: false }, [...tokens, ...prompts])).toEqual([]);
  });

  test("two tokens in one slot: the last one stays", async () => {
    const form: Form = { type: "float32", layout: "NHSD", size: 8, heads: 2, shared: 1, pairs: 4, packed: true };
    for (const length of [3, 66]) {
      const example = pagedCall(randomFrom(length), form, { before: [7], length });
      const slots = Array.from({ length }, (_, at) => 32 + (at < 2 ? 0 : at % 16));
      const inputs = example.inputs.with(12, integers("int64", slots)).with(14, integers("int64", [7]));
      expect(await differenceOf({ ...example, inputs }, ["turnIntoPages"], 2e-5)).toBe("");
    }
  });
});
