// CachedAttention on WebGPU against the reference implementation of what it stands for: one token and several, caches by rows and by heads, samples of different lengths
// with anything in their spare rows, norms of heads, rotary embedding of all kinds, windows, circular caches, with few bindings and without subgroups.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Platform } from "../../../src/base/platform.js";
import { float } from "../../../src/onnx/build.js";
import { numberWriter } from "../../../src/tensor/access.js";
import type { View } from "../../../src/tensor/view.js";
import { noWebgpu } from "../../support/backends.js";
import { keepDevice } from "../../support/device.js";
import { offeringGpu, PlacedSession } from "../../support/gpu.js";
import { gpuWithSubgroups } from "../../support/imagined-subgroups.js";
import { soak } from "../../support/soak.js";
import { differenceOf, integers, type OneNode, randomFrom, randomNumbers } from "./one-node.js";

interface Form {
  readonly type: "float32" | "float16";
  readonly size: number;
  readonly heads: number;
  readonly shared: number;
  /** Pairs that are turned; none where left out. */
  readonly pairs?: number;
  readonly interleaved?: boolean;
  readonly norm?: boolean;
  readonly packed?: boolean;
  /** True if tables and weights of norms are the model's; else they are fed. */
  readonly constant?: boolean;
  readonly byHead?: boolean;
  readonly sinks?: boolean;
  readonly attrs?: OneNode["attrs"];
  readonly kernels: readonly string[];
  readonly options?: object;
  /** Where there is a GPU that is not the machine's own. */
  readonly place?: Platform;
}

interface Step {
  /** Rows of each sample before this step. */
  readonly before: readonly number[];
  readonly length: number;
  readonly capacity: number;
}

/** Spare rows hold what no sum may see; a circular cache that went round has none. */
function pastOf(random: () => number, { type, shared, size, byHead = true }: Form, { before, capacity }: Step): View {
  const shape = byHead ? [before.length, shared, capacity, size] : [before.length, capacity, shared * size];
  const view = randomNumbers(random, type, shape);
  const write = numberWriter(view);
  for (let at = 0; at < view.size; at++) {
    const sample = Math.floor(at / (shared * size * capacity));
    const row = byHead ? Math.floor(at / size) % capacity : Math.floor(at / (shared * size)) % capacity;
    if (row >= before[sample]) write(at, NaN);
  }
  return view;
}

function call(random: () => number, form: Form, step: Step): OneNode {
  const { type, size, heads, shared, pairs, norm = false, packed = false, byHead = true, attrs = {} } = form;
  const { before, length, capacity } = step;
  const batch = before.length;
  const make = (shape: readonly number[]): View => randomNumbers(random, type, shape);
  const rows = (count: number): View => make([batch, length, count * size]);
  const table = (): View | undefined => (pairs === undefined ? undefined : make([40, pairs]));
  const positions = Array.from(
    { length: batch * length },
    (_, at) => ((at % length) + 3 * Math.floor(at / length)) % 40,
  );
  return {
    op: "CachedAttention",
    domain: "insitu",
    opset: 1,
    attrs: {
      q_num_heads: heads,
      kv_num_heads: shared,
      head_size: size,
      is_causal: 1,
      scale: float(0.3),
      axis: byHead ? 2 : 1,
      interleaved: form.interleaved === true ? 1 : 0,
      ...(pairs === undefined ? {} : { rotary_embedding_dim: 2 * pairs }),
      ...attrs,
    },
    inputs: [
      rows(packed ? heads + 2 * shared : heads),
      packed ? undefined : rows(shared),
      packed ? undefined : rows(shared),
      pastOf(random, form, step),
      pastOf(random, form, step),
      integers("int64", before),
      integers(
        "int64",
        before.map((count) => Math.min(count + length, capacity)),
      ),
      table(),
      table(),
      pairs === undefined ? undefined : integers("int64", positions, [batch, length]),
      norm ? make([size]) : undefined,
      norm ? make([size]) : undefined,
      ...(form.sinks === true ? [undefined, undefined, undefined, undefined, make([heads])] : []),
    ],
    outputs: [true, true, true],
    held: { 3: 1, 4: 2 },
    ...(form.constant === true ? { constants: [7, 8, 10, 11] } : {}),
  };
}

async function problemsOf(form: Form, steps: readonly Step[]): Promise<string[]> {
  const random = randomFrom(form.size + form.heads);
  const problems: string[] = [];
  for (const step of steps) {
    const tolerance = form.type === "float16" ? 1e-2 : 2e-5;
    const problem = await differenceOf(call(random, form, step), form.kernels, tolerance, form.options, form.place);
    if (problem !== "") problems.push(`${JSON.stringify(step)}: ${problem}`);
  }
  return problems;
}

const tokens: readonly Step[] = [
  { before: [0], length: 1, capacity: 8 },
  { before: [63, 2, 40], length: 1, capacity: 100 },
  { before: [127, 64], length: 1, capacity: 128 },
];
/** Up to as many rows as one workgroup goes over, and more. */
const longer: readonly Step[] = [
  { before: [255, 3], length: 1, capacity: 640 },
  { before: [256], length: 1, capacity: 640 },
  { before: [191, 192, 128], length: 1, capacity: 640 },
  { before: [511, 512], length: 1, capacity: 640 },
  { before: [2, 600, 64], length: 1, capacity: 640 },
];
const prompts: readonly Step[] = [
  { before: [0, 5], length: 3, capacity: 20 },
  { before: [60], length: 12, capacity: 72 },
];

describe.skipIf(noWebgpu !== undefined)("CachedAttention on WebGPU", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  const step = ["attentionStepAtOnce"];
  const split = [...step, "attentionStep", "attentionCombine"];
  const apart = ["writeKeys", "writeValues", "turnQueries"];

  test.each<Form>([
    { type: "float32", size: 16, heads: 4, shared: 2, pairs: 8, norm: true, packed: true, kernels: step },
    { type: "float16", size: 64, heads: 2, shared: 2, pairs: 16, packed: true, byHead: false, kernels: step },
    {
      type: "float32",
      size: 8,
      heads: 4,
      shared: 1,
      pairs: 4,
      interleaved: true,
      norm: true,
      packed: true,
      kernels: step,
    },
    {
      type: "float32",
      size: 16,
      heads: 3,
      shared: 1,
      kernels: step,
      attrs: { softcap: float(2), left_window_size: 9 },
    },
    // More queries share a key than a workgroup has.
    { type: "float32", size: 16, heads: 16, shared: 2, pairs: 8, packed: true, sinks: true, kernels: step },
    { type: "float16", size: 64, heads: 8, shared: 1, pairs: 32, sinks: true, kernels: step, constant: true },
    { type: "float16", size: 16, heads: 7, shared: 1, pairs: 8, norm: true, kernels: step },
    {
      type: "float32",
      size: 8,
      heads: 5,
      shared: 1,
      sinks: true,
      kernels: step,
      attrs: { left_window_size: 9 },
    },
  ])("a token in the attention's own dispatches: %o", async (form) => {
    expect(await problemsOf(form, tokens)).toEqual([]);
    expect(await problemsOf({ ...form, kernels: split }, longer)).toEqual([]);
  });

  test.each<Form>([
    { type: "float32", size: 6, heads: 4, shared: 2, pairs: 3, norm: true, packed: true, kernels: apart },
    { type: "float32", size: 6, heads: 7, shared: 1, pairs: 3, norm: true, sinks: true, kernels: apart },
    { type: "float32", size: 16, heads: 2, shared: 1, pairs: 6, interleaved: true, byHead: false, kernels: apart },
  ])("heads of any size and number: %o", async (form) => {
    expect(await problemsOf(form, tokens)).toEqual([]);
  });

  test.each<Form>([
    { type: "float32", size: 16, heads: 4, shared: 2, pairs: 8, norm: true, packed: true, kernels: apart },
    { type: "float16", size: 32, heads: 2, shared: 1, pairs: 12, norm: true, byHead: false, kernels: apart },
    { type: "float32", size: 8, heads: 2, shared: 2, kernels: ["writeKeys", "writeValues"] },
    { type: "float32", size: 8, heads: 8, shared: 1, sinks: true, kernels: ["writeKeys", "writeValues"] },
  ])("several tokens: %o", async (form) => {
    expect(await problemsOf(form, prompts)).toEqual([]);
  });

  test("many samples, where a workgroup goes over several tiles", async () => {
    const before = Array.from({ length: 70 }, (_, sample) => [0, 63, 64, 127, 300, 511, 600][sample % 7]);
    const form = { type: "float32", size: 8, heads: 16, shared: 8, pairs: 4, norm: true, packed: true } as const;
    expect(await problemsOf({ ...form, kernels: split }, [{ before, length: 1, capacity: 640 }])).toEqual([]);
  });

  test.each([{}, { attrs: { left_window_size: 4300 } }])(
    "more tiles than those who put them together have on their way at a time: %o",
    async (more) => {
      const form = { type: "float32", size: 128, heads: 2, shared: 1, pairs: 64, norm: true, packed: true } as const;
      const steps = [4095, 4096, 4600].map((rows) => ({ before: [rows], length: 1, capacity: 4700 }));
      expect(await problemsOf({ ...form, ...more, kernels: split }, steps)).toEqual([]);
    },
  );

  test("without subgroups", async () => {
    const form: Form = {
      type: "float32",
      size: 16,
      heads: 4,
      shared: 2,
      pairs: 8,
      norm: true,
      packed: true,
      kernels: step,
    };
    const steps = [...tokens, ...longer];
    expect(await problemsOf({ ...form, options: { webgpu: { subgroups: false } } }, steps)).toEqual([]);
  });

  test.each([8, 32, 64])("in subgroups of %i", async (size) => {
    const place = PlacedSession.place(gpuWithSubgroups(size));
    const options = { webgpu: { subgroupMatrices: false } };
    const own = { packed: true, constant: true, options, place, kernels: ["attention\\w+"] } as const;
    const forms: readonly Form[] = [
      { ...own, type: "float32", size: 128, heads: 2, shared: 1, pairs: 64, norm: true },
      { ...own, type: "float32", size: 20, heads: 14, shared: 2, pairs: 10, norm: true, sinks: true },
      { ...own, type: "float16", size: 64, heads: 8, shared: 1, pairs: 32, sinks: true, byHead: false },
      { ...own, type: "float32", size: 160, heads: 3, shared: 3, norm: true, attrs: { left_window_size: 9 } },
    ];
    const steps = soak ? [...tokens, ...longer, ...prompts] : [tokens[1], longer[1], prompts[1]];
    for (const form of soak ? forms : forms.slice(1, 3)) expect(await problemsOf(form, steps)).toEqual([]);
  });

  test("a circular cache that went round", async () => {
    const form: Form = { type: "float32", size: 16, heads: 2, shared: 1, pairs: 8, packed: true, kernels: step };
    const attrs = { mode: "circular", is_causal: 0 };
    const steps = [
      { before: [70, 6], length: 1, capacity: 66 },
      { before: [66], length: 1, capacity: 66 },
    ];
    expect(await problemsOf({ ...form, attrs }, steps)).toEqual([]);
  });

  // In one dispatch or two: wide subgroups leave room to do a short context at once.
  test.each([
    { size: 256, kernels: ["attentionStep\\w*"] },
    { size: 512, kernels: apart },
  ])("large heads where workgroups have the 16 KiB of every device: %o", async (more) => {
    const small = PlacedSession.place(offeringGpu({ maxComputeWorkgroupStorageSize: 16_384 }));
    const form = { type: "float32", heads: 4, shared: 1, pairs: 64, norm: true, packed: true, place: small } as const;
    const steps = [
      { before: [70, 3], length: 1, capacity: 100 },
      { before: [300], length: 1, capacity: 320 },
    ];
    expect(await problemsOf({ ...form, ...more }, steps)).toEqual([]);
  });

  // As many as every device of WebGPU's binds.
  const place = PlacedSession.place(offeringGpu({ maxStorageBuffersPerShaderStage: 8 }));
  const constant = true;

  test.each<Form>([
    { type: "float32", size: 16, heads: 4, shared: 2, pairs: 8, norm: true, packed: true, constant, kernels: step },
    { type: "float16", size: 32, heads: 4, shared: 1, pairs: 16, norm: true, packed: true, constant, kernels: step },
    {
      type: "float16",
      size: 16,
      heads: 3,
      shared: 1,
      pairs: 4,
      interleaved: true,
      norm: true,
      packed: true,
      byHead: false,
      constant,
      kernels: step,
    },
    {
      type: "float32",
      size: 8,
      heads: 2,
      shared: 2,
      pairs: 4,
      interleaved: true,
      packed: true,
      constant,
      kernels: step,
    },
    { type: "float32", size: 8, heads: 8, shared: 2, norm: true, packed: true, constant, kernels: step },
    { type: "float16", size: 8, heads: 2, shared: 1, norm: true, packed: true, kernels: step },
    { type: "float32", size: 8, heads: 4, shared: 2, pairs: 4, packed: true, kernels: step },
    { type: "float32", size: 16, heads: 3, shared: 1, kernels: step },
  ])("a token in the attention's own dispatches with 8 bindings: %o", async (form) => {
    expect(await problemsOf({ ...form, place }, tokens)).toEqual([]);
    expect(await problemsOf({ ...form, kernels: split, place }, longer)).toEqual([]);
  });

  test("what 8 bindings are too few for is turned and written first", async () => {
    const form = {
      type: "float32",
      size: 16,
      heads: 4,
      shared: 2,
      pairs: 8,
      norm: true,
      kernels: apart,
      place,
    } as const;
    expect(await problemsOf({ ...form, packed: true }, tokens)).toEqual([]);
    expect(await problemsOf({ ...form, constant }, tokens)).toEqual([]);
    expect(await problemsOf({ ...form, packed: true, constant }, prompts)).toEqual([]);
  });
});
