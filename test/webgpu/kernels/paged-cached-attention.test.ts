// CachedAttention over pages on WebGPU against the reference implementation of what it stands for: one token and prompts, pages in both layouts with anything in the rows that
// nobody wrote, tokens that are not written or written twice, norms of heads, rotary embedding, with few bindings and without subgroups.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Platform } from "../../../src/base/platform.js";
import { float } from "../../../src/onnx/build.js";
import { numberWriter } from "../../../src/tensor/access.js";
import type { View } from "../../../src/tensor/view.js";
import { noWebgpu } from "../../support/backends.js";
import { keepDevice } from "../../support/device.js";
import { offeringGpu, PlacedSession } from "../../support/gpu.js";
import { differenceOf, integers, type OneNode, randomFrom, randomNumbers } from "./one-node.js";

interface Form {
  readonly type: "float32" | "float16";
  readonly layout: "Norm" | "NHSD";
  readonly size: number;
  readonly heads: number;
  readonly shared: number;
  /** Pairs that are turned; none where left out. */
  readonly pairs?: number;
  readonly norm?: boolean;
  readonly packed?: boolean;
  /** True if tables and weights of norms are the model's; else they are fed. */
  readonly constant?: boolean;
  readonly attrs?: OneNode["attrs"];
  readonly options?: object;
  /** Where there is a GPU that is not the machine's own. */
  readonly place?: Platform;
}

interface Step {
  /** Rows of each sample before this step, and how many it adds. */
  readonly before: readonly number[];
  readonly length: number;
  /** In a packed batch: how many each sample adds, and where they stand. */
  readonly added?: { readonly each: readonly number[]; readonly as: "rows" | "samples" };
  /** Tokens that are not written, by position among all. */
  readonly skipped?: readonly number[];
}

const blockSize = 16;

function call(random: () => number, form: Form, { before, length, added, skipped = [] }: Step): OneNode {
  const { type, layout, size, heads, shared, pairs, norm = false, packed = false, attrs = {} } = form;
  const batch = before.length;
  const each = added?.each ?? before.map(() => length);
  const starts = each.reduce((all, count) => [...all, all.at(-1)! + count], [0]);
  const tokens = starts.at(-1)!;
  const shape = added === undefined ? [batch, length] : added.as === "rows" ? [1, tokens] : [tokens, 1];
  const columns = Math.ceil((Math.max(...before) + Math.max(...each)) / blockSize) + 1;
  const blocks = batch * columns + 2;
  // Blocks of samples lie in turn, from the last one down.
  const tables = Array.from({ length: batch * columns }, (_, at) => {
    const [sample, column] = [Math.floor(at / columns), at % columns];
    return blocks - 1 - (column * batch + sample);
  });
  const slotOf = (sample: number, row: number): number =>
    tables[sample * columns + Math.floor(row / blockSize)] * blockSize + (row % blockSize);
  const held = new Set(
    before.flatMap((count, sample) => Array.from({ length: count }, (_, row) => slotOf(sample, row))),
  );
  const pages = (): View => {
    const shape = layout === "Norm" ? [blocks, blockSize, shared, size] : [blocks, shared, blockSize, size];
    const view = randomNumbers(random, type, shape);
    const write = numberWriter(view);
    for (let at = 0; at < view.size; at++) {
      const block = Math.floor(at / (blockSize * shared * size));
      const row = layout === "Norm" ? Math.floor(at / (shared * size)) % blockSize : Math.floor(at / size) % blockSize;
      if (!held.has(block * blockSize + row)) write(at, NaN);
    }
    return view;
  };
  const make = (shape: readonly number[]): View => randomNumbers(random, type, shape);
  const rows = (count: number): View => make([...shape, count * size]);
  const table = (): View | undefined => (pairs === undefined ? undefined : make([40, pairs]));
  const slots = before.flatMap((count, sample) =>
    Array.from({ length: each[sample] }, (_, at) =>
      skipped.includes(starts[sample] + at) ? -1 : slotOf(sample, count + at),
    ),
  );
  // A token that is not written is no row of its sample.
  const lengths = before.map((count, sample) => count + (skipped.includes(starts[sample]) ? 0 : each[sample]));
  const positions = Array.from({ length: tokens }, (_, at) => (5 * at + 3) % 40);
  return {
    op: "CachedAttention",
    domain: "insitu",
    opset: 1,
    attrs: {
      q_num_heads: heads,
      kv_num_heads: shared,
      head_size: size,
      cache_mode: layout,
      is_causal: 1,
      scale: float(0.3),
      ...(pairs === undefined ? {} : { rotary_embedding_dim: 2 * pairs }),
      ...attrs,
    },
    inputs: [
      rows(packed ? heads + 2 * shared : heads),
      packed ? undefined : rows(shared),
      packed ? undefined : rows(shared),
      pages(),
      pages(),
      undefined,
      undefined,
      table(),
      table(),
      pairs === undefined ? undefined : integers("int64", positions, shape),
      norm ? make([size]) : undefined,
      norm ? make([size]) : undefined,
      integers("int64", slots),
      integers("int64", tables, [batch, columns]),
      integers("int64", lengths),
      added && integers("int64", starts),
    ],
    outputs: [true, true, true],
    held: { 3: 1, 4: 2 },
    ...(form.constant === true ? { constants: [7, 8, 10, 11] } : {}),
  };
}

async function problemsOf(form: Form, steps: readonly Step[], kernels: readonly string[] = []): Promise<string[]> {
  const random = randomFrom(form.size + form.heads);
  const problems: string[] = [];
  for (const step of steps) {
    const tolerance = form.type === "float16" ? 1e-2 : 2e-5;
    const problem = await differenceOf(call(random, form, step), kernels, tolerance, form.options, form.place);
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
      const example = call(randomFrom(length), form, { before: [7], length });
      const slots = Array.from({ length }, (_, at) => 32 + (at < 2 ? 0 : at % 16));
      const inputs = example.inputs.with(12, integers("int64", slots)).with(14, integers("int64", [7]));
      expect(await differenceOf({ ...example, inputs }, ["turnIntoPages"], 2e-5)).toBe("");
    }
  });
});
