// GroupQueryAttention on WebGPU against the reference implementation: prompts and steps, growing pasts and buffers with anything in their spare rows, samples
// of different lengths, rotary embedding, windows, sinks and biases; caches of floats and quantized.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { float } from "../../../src/onnx/build.js";
import { numberWriter } from "../../../src/tensor/access.js";
import { View } from "../../../src/tensor/view.js";
import { noWebgpu } from "../../support/backends.js";
import { hasHalves, hasSubgroupMatrices, keepDevice } from "../../support/device.js";
import { differenceOf, integers, type OneNode, randomFrom, randomNumbers } from "./one-node.js";

const tolerances = { float32: 2e-5, float16: 6e-3, bfloat16: 5e-2 };

interface Form {
  readonly type: keyof typeof tolerances;
  readonly size: number;
  readonly heads: number;
  readonly shared: number;
  readonly attrs?: OneNode["attrs"];
  readonly rotary?: boolean;
  readonly packed?: boolean;
  readonly sink?: boolean;
  readonly bias?: boolean;
  readonly given?: boolean;
  /** Bits of quantized caches, and whether each channel has a scale. */
  readonly levels?: { readonly bits: 4 | 8; readonly perChannel: boolean };
}

interface Step {
  /** Rows of each sample before this step. */
  readonly before: readonly number[];
  readonly length: number;
  /** Rows of the past: a buffer where they are more than are there. Undefined: no past. */
  readonly past: number | undefined;
}

/** Spare rows hold what no sum may see. */
function pastOf(random: () => number, form: Form, { before, past }: Step): View | undefined {
  if (past === undefined) return undefined;
  const { type, shared, size, levels } = form;
  if (levels !== undefined) {
    const view = View.allocate(levels.bits === 8 ? "int8" : "uint8", [
      before.length,
      shared,
      past,
      levels.bits === 8 ? size : Math.ceil(size / 2),
    ]);
    const write = numberWriter(view);
    for (let at = 0; at < view.size; at++) write(at, Math.floor(random() * 256) - (levels.bits === 8 ? 128 : 0));
    return view;
  }
  const view = randomNumbers(random, type, [before.length, shared, past, size]);
  const write = numberWriter(view);
  for (let at = 0; at < view.size; at++)
    if (Math.floor(at / size) % past >= before[Math.floor(at / (size * past * shared))]) write(at, NaN);
  return view;
}

function scalesOf(random: () => number, { shared, size, levels }: Form): View {
  const scales = View.allocate("float32", [levels!.perChannel ? shared * size : 1]);
  const write = numberWriter(scales);
  for (let at = 0; at < scales.size; at++) write(at, (levels!.bits === 8 ? 0.01 : 0.2) * (1 + random()));
  return scales;
}

function call(random: () => number, form: Form, step: Step): OneNode {
  const { type, size, heads, shared, attrs = {}, rotary = false, packed = false, sink = false, bias = false } = form;
  const { before, length } = step;
  const batch = before.length;
  const total = Math.max(...before) + length;
  const make = (shape: readonly number[]): View => randomNumbers(random, type, shape);
  const rows = (count: number): View => make([batch, length, count * size]);
  const table = (): View | undefined => (rotary ? make([total + 4, size / 2 - (size > 8 ? 2 : 0)]) : undefined);
  const positions = integers(
    "int64",
    Array.from({ length: batch * length }, (_, at) => (at % length) + 2),
    [batch, length],
  );
  return {
    op: "GroupQueryAttention",
    domain: "com.microsoft",
    opset: 1,
    attrs: {
      num_heads: heads,
      kv_num_heads: shared,
      do_rotary: rotary ? 1 : 0,
      ...attrs,
      ...(form.levels && {
        kv_cache_bit_width: form.levels.bits,
        k_quant_type: form.levels.perChannel ? "PER_CHANNEL" : "PER_TENSOR",
        v_quant_type: form.levels.perChannel ? "PER_CHANNEL" : "PER_TENSOR",
      }),
    },
    inputs: [
      packed ? rows(heads + 2 * shared) : rows(heads),
      packed ? undefined : rows(shared),
      packed ? undefined : rows(shared),
      pastOf(random, form, step),
      pastOf(random, form, step),
      integers(
        "int32",
        before.map((count) => count + length - 1),
      ),
      integers("int32", [total]),
      table(),
      table(),
      rotary && form.given === true ? positions : undefined,
      bias ? make([1, heads, length, total]) : undefined,
      sink ? make([heads]) : undefined,
      ...(form.levels === undefined ? [] : [scalesOf(random, form), scalesOf(random, form)]),
    ],
    outputs: [true, true, true],
  };
}

const few: readonly Step[] = [
  { before: [0], length: 1, past: undefined },
  { before: [62], length: 1, past: 62 },
  { before: [63, 2, 40], length: 1, past: 100 },
  { before: [126], length: 1, past: 200 },
];
/** More rows than one workgroup goes over. */
const long: readonly Step[] = [
  { before: [270, 5], length: 1, past: 640 },
  { before: [600, 5], length: 1, past: 640 },
];
const many: readonly Step[] = [
  { before: [0, 0], length: 9, past: undefined },
  { before: [0], length: 12, past: 70 },
  { before: [64], length: 10, past: 64 },
  { before: [100], length: 30, past: 140 },
];

describe.skipIf(noWebgpu !== undefined)("GroupQueryAttention on WebGPU", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  test.each<Form>([
    { type: "float32", size: 16, heads: 4, shared: 2, rotary: true },
    { type: "float16", size: 64, heads: 7, shared: 1, rotary: true, packed: true, given: true },
    { type: "float32", size: 8, heads: 2, shared: 1, attrs: { local_window_size: 9, softcap: float(0.5) }, sink: true },
  ])("steps: $type, heads of $size, $heads to $shared", async (form) => {
    expect(await problemsOf(form, few, ["attentionAtOnce", "appendRows"])).toEqual([]);
    expect(await problemsOf(form, long, ["attentionTiles", "attentionCombine", "appendRows"])).toEqual([]);
  });

  test.each<Form>([
    { type: "float32", size: 16, heads: 4, shared: 2, rotary: true, levels: { bits: 8, perChannel: false } },
    { type: "float32", size: 8, heads: 4, shared: 2, packed: true, sink: true, levels: { bits: 8, perChannel: true } },
    { type: "float32", size: 16, heads: 2, shared: 1, bias: true, levels: { bits: 4, perChannel: false } },
    {
      type: "float32",
      size: 24,
      heads: 4,
      shared: 2,
      attrs: { local_window_size: 9 },
      levels: { bits: 4, perChannel: true },
    },
    {
      type: "float16",
      size: 32,
      heads: 4,
      shared: 2,
      rotary: true,
      packed: true,
      levels: { bits: 8, perChannel: true },
    },
  ])("quantized caches: $type, heads of $size, $levels", async (form) => {
    const kernels = [
      "quantizeRows",
      "scaleQueries",
      "scaleResults",
      ...(form.levels!.bits === 4 ? ["spreadLevels"] : []),
    ];
    expect(await problemsOf(form, [...few, ...long, ...many], kernels)).toEqual([]);
  });

  test.each<Form>([
    { type: "float32", size: 8, heads: 2, shared: 1, attrs: { local_window_size: 9, softcap: float(0.5) }, sink: true },
    {
      type: "bfloat16",
      size: 16,
      heads: 2,
      shared: 1,
      attrs: { smooth_softmax: 1, causal: 0, rotary_interleaved: 1 },
      rotary: true,
      bias: true,
      packed: true,
    },
    { type: "float16", size: 32, heads: 4, shared: 2, attrs: { local_window_size: 20 }, rotary: true, sink: true },
  ])("prompts: $type, heads of $size, $heads to $shared", async (form) => {
    const inHalves = hasSubgroupMatrices ? "attentionInMatrices" : hasHalves ? "attentionInHalves" : "attentionPrefill";
    const kernel = form.type === "float16" ? inHalves : "attentionPrefill";
    expect(await problemsOf(form, many, [kernel, "appendRows"])).toEqual([]);
  });
});

async function problemsOf(form: Form, steps: readonly Step[], kernels: readonly string[]): Promise<string[]> {
  const random = randomFrom(form.size);
  const problems: string[] = [];
  for (const step of steps) {
    const problem = await differenceOf(call(random, form, step), kernels, tolerances[form.type]);
    if (problem !== "") problems.push(`${JSON.stringify(step)}: ${problem}`);
  }
  return problems;
}
