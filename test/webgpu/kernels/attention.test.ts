// Attention on WebGPU against the reference implementation: caches longer than their valid rows, with anything in the spare ones; lengths around the tiles,
// different ones in a batch; groups of heads, windows, masks that hide, add and are too short.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Platform } from "../../../src/base/platform.js";
import { float } from "../../../src/onnx/build.js";
import { numberWriter } from "../../../src/tensor/access.js";
import { cloneView } from "../../../src/tensor/copy.js";
import type { View } from "../../../src/tensor/view.js";
import { noWebgpu } from "../../support/backends.js";
import { hasHalves, hasSubgroupMatrices, keepDevice } from "../../support/device.js";
import { limitedGpu, PlacedSession } from "../../support/gpu.js";
import {
  type AttentionForm,
  differenceOf,
  integers,
  numbersOf,
  type OneNode,
  randomFrom,
  randomNumbers,
} from "./one-node.js";

const tolerances = { float32: 2e-5, float16: 6e-3, bfloat16: 5e-2 };

interface Form extends AttentionForm {
  readonly type: keyof typeof tolerances;
  readonly opset?: number;
  readonly packed?: boolean;
}

/** Rows from a sample's length on hold what no sum may see. */
function poison(view: View, lengths: readonly number[], rowAxis: 1 | 2): View {
  const write = numberWriter(view);
  lengths.forEach((length, sample) => {
    const spare = view.slice(0, sample, sample + 1).slice(rowAxis, length, view.shape[rowAxis]);
    const { shape, strides, offset } = spare;
    for (let i = 0; i < spare.size; i++) {
      let rest = i;
      let at = offset;
      for (let axis = shape.length - 1; axis >= 0; axis--) {
        at += (rest % shape[axis]) * strides[axis];
        rest = Math.floor(rest / shape[axis]);
      }
      write(at, NaN);
    }
  });
  return view;
}

function call(random: () => number, form: Form, lengths: readonly number[], mask?: View): OneNode {
  const {
    type,
    size,
    valueSize = size,
    heads,
    shared,
    queries,
    capacity,
    attrs = {},
    opset = 24,
    packed = false,
  } = form;
  const batch = lengths.length;
  const make = (count: number, rows: number, width: number): View =>
    randomNumbers(random, type, packed ? [batch, rows, count * width] : [batch, count, rows, width]);
  const axis = packed ? 1 : 2;
  return {
    op: "Attention",
    opset,
    attrs: { ...attrs, ...(packed ? { q_num_heads: heads, kv_num_heads: shared } : {}) },
    inputs: [
      make(heads, queries, size),
      poison(make(shared, capacity, size), lengths, axis),
      poison(make(shared, capacity, valueSize), lengths, axis),
      mask,
      undefined,
      undefined,
      integers("int64", lengths),
    ],
  };
}

const lists = [[1], [2, 63], [64, 65, 1], [127], [200, 0, 128]];

describe.skipIf(noWebgpu !== undefined)("Attention on WebGPU", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  async function problems(
    form: Form,
    kernels: readonly string[],
    all: readonly (readonly number[])[] = lists,
    options: object = {},
    place?: Platform,
  ): Promise<string[]> {
    const random = randomFrom(form.size + form.queries);
    const found: string[] = [];
    for (const lengths of all) {
      const problem = await differenceOf(call(random, form, lengths), kernels, tolerances[form.type], options, place);
      if (problem !== "") found.push(`${lengths.join()}: ${problem}`);
    }
    return found;
  }

  const split = ["attentionTiles", "attentionCombine"];
  const causal = { is_causal: 1 };
  const turned = { ...causal, left_window_size: 50, softcap: float(2), scale: float(-0.4) };
  const steep = { ...causal, scale: float(60) };

  test.each<Form>([
    { type: "float32", size: 32, heads: 2, shared: 2, queries: 1, capacity: 230, attrs: causal },
    { type: "float32", size: 80, heads: 7, shared: 1, queries: 2, capacity: 200, attrs: causal, packed: true },
    { type: "float16", size: 128, heads: 4, shared: 2, queries: 1, capacity: 210, attrs: causal },
    { type: "bfloat16", size: 256, valueSize: 64, heads: 4, shared: 1, queries: 1, capacity: 200 },
    { type: "float32", size: 5, valueSize: 3, heads: 2, shared: 1, queries: 3, capacity: 201, attrs: causal },
  ])("few queries: $type, heads of $size, $heads to $shared", async (form) => {
    expect(await problems(form, ["attentionAtOnce"])).toEqual([]);
    expect(await problems({ ...form, capacity: 520 }, split, [[300, 0, 129]])).toEqual([]);
  });

  test.each<Form>([
    { type: "float32", size: 64, heads: 2, shared: 2, queries: 33, capacity: 230, attrs: causal },
    { type: "float16", size: 84, heads: 7, shared: 1, queries: 9, capacity: 200, attrs: causal, packed: true },
    { type: "float32", size: 6, valueSize: 34, heads: 2, shared: 1, queries: 70, capacity: 201 },
  ])("many queries: $type, heads of $size, $heads to $shared", async (form) => {
    expect(await problems(form, ["attentionPrefill"])).toEqual([]);
  });

  test.each<Form>([
    { type: "float16", size: 128, heads: 4, shared: 2, queries: 70, capacity: 208, attrs: causal },
    { type: "float16", size: 64, heads: 2, shared: 2, queries: 33, capacity: 230, attrs: causal, packed: true },
    { type: "float16", size: 32, valueSize: 16, heads: 6, shared: 2, queries: 9, capacity: 201 },
    {
      type: "float16",
      size: 80,
      valueSize: 112,
      heads: 3,
      shared: 1,
      queries: 40,
      capacity: 200,
      attrs: turned,
      opset: 25,
    },
  ])("many queries on matrices of subgroups, where there are any: heads of $size, $heads to $shared", async (form) => {
    const other = hasHalves && form.attrs !== turned ? "attentionInHalves" : "attentionPrefill";
    expect(await problems(form, [hasSubgroupMatrices ? "attentionInMatrices" : other])).toEqual([]);
    const without = { webgpu: { subgroupMatrices: false } };
    if (hasSubgroupMatrices) expect(await problems(form, [other], lists.slice(3), without)).toEqual([]);
    if (other === "attentionInHalves")
      expect(await problems(form, ["attentionPrefill"], lists.slice(3), { webgpu: { f16: false } })).toEqual([]);
  });

  test("many queries where workgroups have little memory", async () => {
    const least = { maxComputeWorkgroupStorageSize: 16_384 };
    const place = PlacedSession.place(limitedGpu(least));
    const form = {
      type: "float32",
      size: 128,
      heads: 2,
      shared: 1,
      queries: 70,
      capacity: 200,
      attrs: causal,
    } as const;
    expect(await problems(form, ["attentionPrefill"], lists.slice(2), {}, place)).toEqual([]);
  });

  test("scores that grow from tile to tile, far beyond what float16 holds as an exponential", async () => {
    const form = { type: "float16", size: 16, heads: 1, shared: 1, queries: 40, capacity: 330, attrs: steep } as const;
    const grown = call(randomFrom(5), form, [330]);
    const write = numberWriter(grown.inputs[1]!);
    for (let row = 0; row < 330; row++) for (let at = 0; at < 16; at++) write(row * 16 + at, (row / 330) * (at % 2));
    for (const input of [grown, { ...grown, attrs: { ...steep, scale: float(-60) } }])
      // The reference implementation rounds scores to float16, where steps are a quarter.
      expect(await differenceOf(input, [], 0.1)).toBe("");
  });

  const windows = { ...causal, left_window_size: 20, softcap: float(0.7) };
  const ahead = { left_window_size: 70, right_window_size: 3, scale: float(-0.3) };
  test.each<Form>([
    { type: "float32", size: 8, heads: 2, shared: 1, queries: 3, capacity: 200, attrs: windows, opset: 25 },
    { type: "float32", size: 8, heads: 2, shared: 1, queries: 40, capacity: 200, attrs: ahead, opset: 25 },
  ])("windows of $queries queries", async (form) => {
    expect(await problems(form, [])).toEqual([]);
  });

  test.each([2, 12])("masks of %i queries hide, add and end", async (queries) => {
    const form = { type: "float32", size: 16, heads: 2, shared: 2, queries, capacity: 130 } as const;
    const random = randomFrom(queries);
    const bools = randomNumbers(random, "bool", [2, 1, queries, 100]);
    const added = randomNumbers(random, "float32", [1, 2, queries, 130]);
    const write = numberWriter(added);
    for (let at = 0; at < added.size; at += 3) write(at, -Infinity);
    // One query sees nothing at all.
    for (let key = 0; key < 130; key++) write(key, -Infinity);
    for (const mask of [bools, added])
      expect(await differenceOf(call(random, form, [130, 64], mask), [], tolerances.float32)).toBe("");
  });

  // Types, modes of the scores and masks take turns: opset 23 has a cache inside, which is handed out with the scores.
  const modes = [0, 1, 2, 3].flatMap((mode) =>
    (["float32", "float16", "bfloat16"] as const).map((type) => ({ mode, type })),
  );
  test.each(modes)("scores of mode $mode in $type", async ({ mode, type }) => {
    const random = randomFrom(mode);
    const make = (...shape: readonly number[]): View => randomNumbers(random, type, shape);
    const added = make(2, 1, 5, 16);
    const write = numberWriter(added);
    for (let at = 0; at < added.size; at += 3) write(at, -Infinity);
    for (let key = 0; key < 16; key++) write(key, -Infinity);
    const masks = [undefined, randomNumbers(random, "bool", [4, 5, 16]), added];
    for (const mask of masks.slice(mode % 2)) {
      const node: OneNode = {
        op: "Attention",
        opset: 23,
        attrs: { qk_matmul_output_mode: mode, softcap: float(0.8), is_causal: mode % 2 },
        inputs: [make(2, 4, 5, 8), make(2, 2, 5, 8), make(2, 2, 5, 6), mask, make(2, 2, 11, 8), make(2, 2, 11, 6)],
        outputs: [true, true, true, true],
      };
      const kernels = ["attentionScores", "attentionWeights", "attentionValues"];
      expect(await differenceOf(node, mode === 3 ? [...kernels, "attentionShown"] : kernels, tolerances[type])).toBe(
        "",
      );
    }
    const lengths = [9, 16];
    const outside = call(random, { type, size: 6, heads: 2, shared: 1, queries: 3, capacity: 16 }, lengths);
    // Every product is shown, also with rows that nobody sees: those are told only from the mask on.
    if (mode >= 2)
      expect(
        await differenceOf(
          { ...outside, attrs: { qk_matmul_output_mode: mode }, outputs: [mode === 2, false, false, true] },
          ["attentionScores"],
          tolerances[type],
        ),
      ).toBe("");
  });

  test("a bfloat16 prefill is rounded stage by stage", async () => {
    const form = { type: "bfloat16", size: 32, heads: 4, shared: 2, queries: 12, capacity: 40, attrs: causal } as const;
    expect(await problems(form, ["attentionScores", "attentionValues"], [[40, 13]])).toEqual([]);
  });

  test("many samples, where a workgroup goes over several tiles", async () => {
    const many = Array.from({ length: 70 }, (_, sample) => [1, 63, 64, 128, 512, 0, 600][sample % 7]);
    const form = { type: "float32", size: 4, heads: 8, shared: 8, queries: 1, capacity: 640, attrs: causal } as const;
    expect(await problems(form, split, [many])).toEqual([]);
    expect(await problems(form, split, [many], { webgpu: { subgroups: false } })).toEqual([]);
  });

  test("the same bits whatever the capacity", async () => {
    const form = { type: "float32", size: 32, heads: 2, shared: 2, queries: 1, attrs: causal, packed: true } as const;
    const wide = call(randomFrom(3), { ...form, capacity: 1000 }, [150]);
    const narrow = wide.inputs.map((view, at) => (at === 1 || at === 2 ? cloneView(view!.slice(1, 0, 150)) : view));
    expect(Array.from(await numbersOf({ ...wide, inputs: narrow }))).toEqual(Array.from(await numbersOf(wide)));
  });
});
