// The fast paths of onnxruntime's attentions against the reference: prompts and steps, growing pasts and buffers, rotary embedding, windows,
// packed operands, padding and biases; what must be refused is; and a decoder's steps in place of a state.
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { of } from "../../tools/cases/shared/case.js";
import { type AttributeInput, buildModel, float, initializer, node, value } from "../../src/onnx/build.js";
import type { ModelTensor } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import type { View } from "../../src/tensor/view.js";
import { differenceOf, type FastCall, type Feed, randomFrom, randomView, seed, tryCall } from "./fast-path.js";
import { checking, pick, type Random, rounds, useVariants } from "./light-checks.js";

const variants = useVariants();
const check = checking(variants);
const domain = "com.microsoft";
const floats = ["float32", "float16", "bfloat16"] as const;
const int32 = (values: readonly number[], shape: readonly number[] = [values.length]): View =>
  of("int32", shape, values);
/** Softmax and sums in float32 against float64. */
const near = { relative: 2e-2, absolute: 2e-3 };
const nearBy = {
  float32: { relative: 1e-5, absolute: 2e-6 },
  float16: near,
  bfloat16: { relative: 4e-2, absolute: 2e-2 },
};

/** A step of GroupQueryAttention: a prompt, or queries after a past that grows or is a buffer. */
function groupQuery(random: Random): FastCall {
  const type = pick(random, floats);
  const shared = pick(random, [1, 2, 3]);
  const heads = shared * pick(random, [1, 2, 4]);
  const size = pick(random, [4, 6, 8, 32]);
  const form = pick(random, ["prompt", "prompt with a buffer", "step", "step in a buffer"] as const);
  const prompt = form.startsWith("prompt");
  const batch = pick(random, [1, 1, 2, 3]);
  const length = prompt ? pick(random, [1, 3, 70]) : batch > 1 || random() < 0.5 ? 1 : pick(random, [2, 5]);
  const before = prompt ? 0 : pick(random, [1, 4, 37]);
  const total = before + length;
  const capacity = form === "step" ? before : form === "prompt" ? 0 : total + pick(random, [0, 5]);
  const window = random() < 0.3 ? pick(random, [1, 3, 8]) : -1;
  // Samples of a batch differ in length, the longest one has them all; a window is counted from each one's own end.
  const shorter = (sample: number): number =>
    sample === 0 || (prompt && window > 0) ? 0 : Math.floor(random() * before);
  const padded = (sample: number): number =>
    prompt && window < 0 && sample > 0 && random() < 0.3 ? Math.floor(random() * length) : shorter(sample);
  const seqlens = Array.from({ length: batch }, (_, sample) => total - 1 - padded(sample));
  const rotary = random() < 0.5;
  const pairs = size / 2;
  const make = (shape: readonly number[]): View => randomView(random, type, shape, { spread: 1 });
  const packed = random() < 0.3;
  const fresh = (count: number): Feed => ({ view: make([batch, length, count * size]) });
  const past: Feed | undefined =
    form === "prompt" ? undefined : { view: make([batch, shared, capacity, size]), as: pick(random, ["fed", "gaps"]) };
  const table: Feed = { view: make([total + 3, pairs]), as: "constant" };
  const start = Math.floor(random() * 3);
  const positions = of(
    "int64",
    [batch, length],
    Array.from({ length: batch * length }, (_, at) =>
      BigInt(prompt ? start + (at % length) : Math.floor(random() * total)),
    ),
  );
  const biased = random() < 0.2 && seqlens.every((last) => last < total);
  const attrs: Record<string, AttributeInput> = { num_heads: heads, kv_num_heads: shared, do_rotary: rotary ? 1 : 0 };
  if (window > 0) attrs["local_window_size"] = window;
  if (random() < 0.3) attrs["rotary_interleaved"] = 1;
  if (random() < 0.3) attrs["softcap"] = float(2.5);
  if (random() < 0.3) attrs["scale"] = float(0.3);
  if (random() < 0.2) attrs["smooth_softmax"] = 1;
  if (random() < 0.3) attrs["qk_norm_epsilon"] = float(1e-3);
  // Layers that read what another has written bring no keys; those whose cache nobody wants have no present.
  const borrows = !packed && form === "step in a buffer" && random() < 0.4;
  const none: Feed = { view: make([batch, 0, shared * size]) };
  const [sinks, norms, presents] = [random() < 0.3, random() < 0.3, random() < 0.7];
  const weight = (count: number): Feed => ({ view: make([count]), as: pick(random, ["fed", "constant"]) });
  return {
    op: "GroupQueryAttention",
    domain,
    attrs,
    inputs: [
      packed ? fresh(heads + 2 * shared) : fresh(heads),
      packed ? undefined : borrows ? none : fresh(shared),
      packed ? undefined : borrows ? none : fresh(shared),
      past,
      past && { ...past, view: make(past.view.shape) },
      { view: int32(seqlens) },
      // Where no present's shape follows from it, it is known only if it does not change.
      { view: int32([total], []), as: presents ? "fed" : "constant" },
      rotary ? table : undefined,
      rotary ? { ...table, view: make([total + 3, pairs]) } : undefined,
      rotary && random() < 0.4 ? { view: positions } : undefined,
      biased ? { view: make([1, pick(random, [1, heads]), length, total]) } : undefined,
      sinks ? weight(heads) : undefined,
      undefined,
      undefined,
      norms ? weight(size) : undefined,
      norms ? weight(size) : undefined,
    ],
    outputs: presents ? [true, true, true] : [true],
    ...(norms && type !== "float32" ? { relative: 6e-2, absolute: 3e-2 } : nearBy[type]),
  };
}

/** A step of GroupQueryAttention over caches of integers, with one scale for all or one a channel. */
function quantizedGroupQuery(random: Random): FastCall {
  const shared = pick(random, [1, 2, 3]);
  const heads = shared * pick(random, [1, 2, 3, 4]);
  const rotary = random() < 0.4;
  const type = rotary ? "float32" : pick(random, floats);
  const size = rotary ? pick(random, [4, 8, 32]) : pick(random, [4, 5, 6, 8, 16, 33, 64]);
  const bits = pick(random, [4, 8]);
  const form = pick(random, ["prompt", "prompt in a buffer", "step", "step in a buffer"] as const);
  const prompt = form.startsWith("prompt");
  const batch = pick(random, [1, 1, 2, 3]);
  const length = prompt ? pick(random, [1, 3, 70]) : batch > 1 || random() < 0.6 ? 1 : pick(random, [2, 5]);
  const before = prompt ? 0 : pick(random, [1, 4, 37, 600]);
  const total = before + length;
  const capacity = form === "step" ? before : total + pick(random, [0, 5]);
  const seqlens = Array.from(
    { length: batch },
    (_, sample) => total - 1 - (prompt || sample === 0 ? 0 : Math.floor(random() * before)),
  );
  const make = (shape: readonly number[]): Feed => ({ view: randomView(random, type, shape, { spread: 1 }) });
  const rows = (): Feed => ({
    view: of(
      bits === 8 ? "int8" : "uint8",
      [batch, shared, capacity, bits === 8 ? size : Math.ceil(size / 2)],
      Array.from({ length: batch * shared * capacity * (bits === 8 ? size : Math.ceil(size / 2)) }, () =>
        Math.floor(random() * 256 - (bits === 8 ? 128 : 0)),
      ),
    ),
    as: pick(random, ["fed", "gaps"]),
  });
  const perChannel = random() < 0.5;
  const scale = (): Feed => {
    const count = perChannel ? shared * size : 1;
    const values = Array.from({ length: count }, () => (0.5 + random()) * (bits === 8 ? 0.01 : 0.15));
    return { view: of("float32", [count], values), as: pick(random, ["fed", "constant"]) };
  };
  const [past, presents] = [form !== "prompt", random() < 0.7];
  const borrows = form === "step in a buffer" && random() < 0.3;
  const fresh = (): Feed => make([batch, borrows ? 0 : length, shared * size]);
  const table = (): Feed => ({ ...make([total + 3, size / 2]), as: "constant" });
  const granularity = perChannel ? "PER_CHANNEL" : "PER_TENSOR";
  return {
    op: "GroupQueryAttention",
    domain,
    attrs: {
      num_heads: heads,
      kv_num_heads: shared,
      do_rotary: rotary ? 1 : 0,
      k_quant_type: granularity,
      v_quant_type: granularity,
      kv_cache_bit_width: bits,
      ...(random() < 0.3 ? { local_window_size: pick(random, [1, 3, 8]) } : {}),
      ...(random() < 0.3 ? { softcap: float(2.5) } : {}),
      ...(random() < 0.3 ? { scale: float(0.3) } : {}),
      ...(random() < 0.2 ? { smooth_softmax: 1 } : {}),
    },
    inputs: [
      make([batch, length, heads * size]),
      fresh(),
      fresh(),
      past ? rows() : undefined,
      past ? rows() : undefined,
      { view: int32(seqlens) },
      { view: int32([total], []), as: presents ? "fed" : "constant" },
      rotary ? table() : undefined,
      rotary ? table() : undefined,
      undefined,
      undefined,
      random() < 0.3 ? { ...make([heads]), as: pick(random, ["fed", "constant"]) } : undefined,
      scale(),
      scale(),
    ],
    outputs: presents ? [true, true, true] : [true],
    ...nearBy[type],
  };
}

/** The same over a cache as short as the window, or a little longer: steps before, while and after it overflows. */
function slidingGroupQuery(random: Random): FastCall {
  const call = random() < 0.5 ? quantizedGroupQuery(random) : groupQuery(random);
  const [query, key, , past] = call.inputs.map((feed) => feed?.view);
  const shared = call.attrs!["kv_num_heads"] as number;
  const heads = call.attrs!["num_heads"] as number;
  const bits = (call.attrs!["kv_cache_bit_width"] ?? 0) as number;
  const { type } = query!;
  const size = query!.shape[2] / (key === undefined ? heads + 2 * shared : heads);
  const batch = pick(random, [1, 2, 3]);
  const length = batch > 1 ? 1 : pick(random, [1, 1, 2, 9, 40]);
  const window = pick(random, [1, 3, 8]);
  const capacity = window + pick(random, [0, 0, 1, 7]);
  const counts = Array.from({ length: batch }, () => Math.floor(random() * 3 * capacity));
  const total = Math.max(...counts) + length;
  const make = (count: number): Feed => ({
    view: randomView(random, type, [batch, length, count * size], { spread: 1 }),
  });
  const width = bits === 4 ? Math.ceil(size / 2) : size;
  const rows = (): Feed => ({
    view:
      bits === 0
        ? randomView(random, type, [batch, shared, capacity, width], { spread: 1 })
        : of(
            bits === 8 ? "int8" : "uint8",
            [batch, shared, capacity, width],
            Array.from({ length: batch * shared * capacity * width }, () => Math.floor(random() * 100)),
          ),
    as: past === undefined ? "fed" : pick(random, ["fed", "gaps"]),
  });
  const table = (): Feed => ({
    view: randomView(random, type, [total + 3, size / 2], { spread: 1 }),
    as: "constant",
  });
  const rotary = call.attrs!["do_rotary"] === 1;
  const isWhole = key === undefined;
  return {
    ...call,
    attrs: { ...call.attrs, local_window_size: window, sliding_window_cache: 1 },
    inputs: [
      make(isWhole ? heads + 2 * shared : heads),
      isWhole ? undefined : make(shared),
      isWhole ? undefined : make(shared),
      rows(),
      rows(),
      { view: int32(counts.map((count) => count + length - 1)) },
      { view: int32([total], []), as: call.outputs!.length > 1 ? "fed" : "constant" },
      rotary ? table() : undefined,
      rotary ? table() : undefined,
      undefined,
      undefined,
      ...call.inputs.slice(11),
    ],
  };
}

describe("GroupQueryAttention", () => {
  test("prompts and steps, growing pasts and buffers", async () => {
    const random = randomFrom(90);
    for (let round = 0; round < 6 * rounds; round++) await check(groupQuery(random));
  });

  test("caches of 8 and 4 bits, prompts and steps", async () => {
    const random = randomFrom(93);
    for (let round = 0; round < 8 * rounds; round++) await check(quantizedGroupQuery(random));
  });

  test("caches as short as the window", async () => {
    const random = randomFrom(94);
    for (let round = 0; round < 8 * rounds; round++) await check(slidingGroupQuery(random));
  });

  test("what it leaves to the reference implementation", async () => {
    const random = randomFrom(91);
    const query = (): Feed => ({ view: randomView(random, "float32", [1, 2, 8]) });
    const lengths = [{ view: int32([1]) }, { view: int32([2], []) }];
    const attrs = { num_heads: 2, kv_num_heads: 2 };
    const inputs = [query(), query(), query(), undefined, undefined, ...lengths];
    const call = { op: "GroupQueryAttention", domain, attrs, inputs, outputs: [true, true, true] };
    await check({ ...call, ...nearBy.float32 });
    await check({ ...call, outputs: [true, true] }, false);
    await check({ ...call, outputs: [true, true, true, true], attrs: { ...attrs, qk_output: 1 } }, false);
  });

  test("lengths that do not fit are refused in the reference implementation's words", async () => {
    const random = randomFrom(92);
    const make = (shape: readonly number[]): Feed => ({ view: randomView(random, "float32", shape) });
    for (const last of [-1, 9, 400]) {
      const call: FastCall = {
        op: "GroupQueryAttention",
        domain,
        attrs: { num_heads: 2, kv_num_heads: 2 },
        inputs: [
          make([1, 1, 8]),
          make([1, 1, 8]),
          make([1, 1, 8]),
          make([1, 2, 8, 4]),
          make([1, 2, 8, 4]),
          { view: int32([last]) },
          { view: int32([5], []) },
        ],
        outputs: [true, true, true],
      };
      for (const variant of variants)
        await expect(tryCall(variant, call)).rejects.toThrow(/seqlens_k\[0\] must lie in \[0, 7\], got/);
    }
  });
});

/** MultiHeadAttention in one of its layouts. */
function multiHead(random: Random): FastCall {
  const type = pick(random, floats);
  const [batch, heads, size] = [pick(random, [1, 2]), pick(random, [1, 3, 4]), pick(random, [4, 6, 8])];
  const layout = pick(random, ["apart", "apart", "by heads", "packed keys", "packed"] as const);
  const causal = random() < 0.4;
  const length = pick(random, [1, 3, 66]);
  const fresh = causal || layout === "packed" ? length : pick(random, [1, 5, 67]);
  const width = heads * size;
  const valueSize = layout === "packed" || layout === "packed keys" ? size : pick(random, [size, size + 2]);
  const make = (shape: readonly number[]): Feed => ({ view: randomView(random, type, shape, { spread: 1 }) });
  const operands: (Feed | undefined)[] =
    layout === "packed"
      ? [make([batch, length, heads, 3, size]), undefined, undefined]
      : layout === "packed keys"
        ? [make([batch, length, width]), make([batch, fresh, heads, 2, size]), undefined]
        : layout === "by heads"
          ? [make([batch, length, width]), make([batch, heads, fresh, size]), make([batch, heads, fresh, valueSize])]
          : [make([batch, length, width]), make([batch, fresh, width]), make([batch, fresh, heads * valueSize])];
  const before = layout === "apart" && random() < 0.5 ? pick(random, [1, 9]) : 0;
  const buffered = before > 0 && random() < 0.4;
  const rows = buffered ? before + fresh + 3 : before;
  const past = before === 0 ? [] : [make([batch, heads, rows, size]), make([batch, heads, rows, valueSize])];
  const total = before + fresh;
  // A row of nothing but padding would be told apart by what −10000 leaves of float32's digits.
  const padding = (shape: readonly number[]): View =>
    int32(
      Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, at) => (at % total === 0 || random() < 0.8 ? 1 : 0)),
      shape,
    );
  const masked = !buffered && random() < 0.4;
  const added = !buffered && random() < 0.4;
  return {
    op: "MultiHeadAttention",
    domain,
    attrs: {
      num_heads: heads,
      ...(causal ? { unidirectional: 1 } : {}),
      ...(random() < 0.3 ? { scale: float(0.3) } : {}),
    },
    inputs: [
      ...operands,
      layout !== "packed keys" && random() < 0.4 ? make([2 * width + heads * valueSize]) : undefined,
      masked ? { view: padding(random() < 0.5 ? [batch, total] : [batch, length, total]) } : undefined,
      added ? make([pick(random, [1, batch]), pick(random, [1, heads]), length, total]) : undefined,
      past[0],
      past[1],
      buffered ? { view: int32([before]) } : undefined,
    ],
    outputs: before > 0 || (layout === "apart" && random() < 0.3) ? [true, true, true] : [true],
    ...nearBy[type],
  };
}

/** A call of com.microsoft's Attention. */
function attention(random: Random): FastCall {
  const heads = pick(random, [1, 2, 3]);
  const [size, hidden] = [pick(random, [4, 6, 16]), pick(random, [5, 8, 32])];
  const [batch, length] = [pick(random, [1, 2, 3]), pick(random, [1, 3, 20])];
  const unidirectional = pick(random, [0, 1]);
  const form = pick(random, ["none", "grows", "buffer"] as const);
  const before = form === "none" ? 0 : pick(random, [1, 7]);
  const rows = form === "buffer" ? before + length + 3 : before;
  const total = before + length;
  const make = (shape: readonly number[]): Feed => ({ view: randomView(random, "float32", shape, { spread: 0.5 }) });
  const constant = (shape: readonly number[]): Feed => ({ ...make(shape), as: "constant" });
  const list = (count: number, most: number): number[] =>
    Array.from({ length: count }, () => Math.floor(random() * most));
  // Every query sees a key: where all are hidden, what is left of scores beside −10000 in float32 decides.
  const ends = list(batch, total).map((end) => end + 1);
  const starts = ends.map((end) => Math.floor(random() * end));
  const seen = (rows: number): number[] => list(rows * total, 2).map((entry, at) => (at % total === 0 ? 1 : entry));
  const masks: readonly (View | undefined)[] = [
    undefined,
    int32(ends),
    int32([...ends, ...starts.map((start) => (unidirectional === 1 ? 0 : start))]),
    int32(seen(batch), [batch, total]),
    int32(seen(batch * length), [batch, length, total]),
  ];
  const mask = form === "buffer" ? undefined : pick(random, masks);
  return {
    op: "Attention",
    domain,
    attrs: {
      num_heads: heads,
      unidirectional,
      ...(form === "buffer" ? { past_present_share_buffer: 1 } : {}),
    },
    inputs: [
      make([batch, length, hidden]),
      constant([hidden, 3 * heads * size]),
      random() < 0.8 ? constant([3 * heads * size]) : undefined,
      mask && { view: mask },
      form === "none" ? undefined : make([2, batch, heads, rows, size]),
      form === "none" && random() < 0.3 ? make([1, heads, length, total]) : undefined,
      form === "buffer" ? { view: int32([before]) } : undefined,
    ],
    outputs: [true, form !== "none" || random() < 0.3],
    relative: 1e-4,
    absolute: 1e-4,
  };
}

describe("MultiHeadAttention", () => {
  test("every layout, past, padding and bias", async () => {
    const random = randomFrom(93);
    for (let round = 0; round < 6 * rounds; round++) await check(multiHead(random));
  });

  test("what it leaves to the reference implementation", async () => {
    const random = randomFrom(94);
    const make = (): Feed => ({ view: randomView(random, "float32", [1, 3, 8]) });
    const call = { op: "MultiHeadAttention", domain, attrs: { num_heads: 2 }, inputs: [make(), make(), make()] };
    await check({ ...call, outputs: [true, true, true, true] }, false);
  });

  test("padding by lengths, and keys by heads behind a past", async () => {
    const random = randomFrom(95);
    const make = (...shape: readonly number[]): Feed => ({ view: randomView(random, "float32", shape) });
    const attrs = { num_heads: 2 };
    const rows = [make(2, 3, 8), make(2, 3, 8), make(2, 3, 8)];
    const call = { op: "MultiHeadAttention", domain, attrs, ...nearBy.float32 };
    await check({ ...call, inputs: [...rows, undefined, { view: int32([2, 3]) }] });
    const heads = [make(2, 3, 8), make(2, 2, 3, 4), make(2, 2, 3, 4)];
    const past = [make(2, 2, 5, 4), make(2, 2, 5, 4)];
    const inputs = [...heads, undefined, undefined, undefined, ...past];
    await check({ ...call, inputs, outputs: [true, true, true] });
  });
});

test("GroupQueryAttention grows a state's caches where they lie, and explain tells by what", async () => {
  const [heads, shared, size, capacity] = [4, 2, 8, 16];
  const bytes = writeModel(
    buildModel({
      opset: { "": 21, [domain]: 1 },
      inputs: [
        value("query", "float32", [1, "length", heads * size]),
        value("key", "float32", [1, "length", shared * size]),
        value("value", "float32", [1, "length", shared * size]),
        value("past_key", "float32", [1, shared, "past", size]),
        value("past_value", "float32", [1, shared, "past", size]),
        value("seqlens_k", "int32", [1]),
        value("total_sequence_length", "int32", []),
      ],
      outputs: [value("output"), value("present_key"), value("present_value")],
      nodes: [
        node(
          "GroupQueryAttention",
          ["query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length"],
          ["output", "present_key", "present_value"],
          { num_heads: heads, kv_num_heads: shared },
          { domain, name: "attention" },
        ),
      ],
    }),
  );
  const sessions = await Promise.all(
    (["wasm", "reference"] as const).map((backend) => InferenceSession.create(bytes, { backend, threads: 2 })),
  );
  const states = sessions.map((session) => session.createState({ dims: { past: capacity } }));
  const random = randomFrom(95);
  let total = 0;
  for (const length of [5, 1, 1, 3, 1]) {
    total += length;
    const fed = (count: number): Tensor => Tensor.fromView(randomView(random, "float32", [1, length, count * size]));
    const feeds = {
      query: fed(heads),
      key: fed(shared),
      value: fed(shared),
      seqlens_k: Tensor.fromView(int32([total - 1])),
      total_sequence_length: Tensor.fromView(int32([total], [])),
    };
    const [fast, slow] = await Promise.all(sessions.map((session, at) => session.run(feeds, { state: states[at] })));
    expect(differenceOf(fast["output"].toView(), slow["output"].toView(), 1e-5, 2e-6), `seed ${seed}`).toBe("");
  }
  const { steps } = sessions[0].explain({ json: true });
  expect(steps.find(({ node: name }) => name === "attention")).toMatchObject({ runs: "kernel" });
  expect(sessions[0].explain()).toMatch(/1 of 1 steps by kernels, none on the reference/);
  expect(sessions[1].explain()).not.toMatch(/by kernels/);
  await Promise.all(sessions.map((session) => session.release()));
});

describe("com.microsoft's Attention", () => {
  test("masks of every form, pasts that grow and pasts in a buffer", async () => {
    const random = randomFrom(96);
    for (let round = 0; round < 4 * rounds; round++) await check(attention(random));
  });

  test("a decoder in GPT-2's form writes its past in place and agrees with pasts carried by hand", async () => {
    const past = value("past", "float32", [2, "batch", 2, "past", 4]);
    const random = randomFrom(97);
    const constant = (name: string, dims: readonly number[]): ModelTensor =>
      initializer(name, Tensor.fromView(randomView(random, "float32", dims)));
    const bytes = writeModel(
      buildModel({
        opset: { "ai.onnx": 17, "com.microsoft": 1 },
        inputs: [value("x", "float32", ["batch", "length", 8]), past],
        outputs: [value("y", "float32"), value("present", "float32")],
        initializers: [constant("w", [8, 24]), constant("b", [24])],
        nodes: [
          node(
            "Attention",
            ["x", "w", "b", undefined, "past"],
            ["y", "present"],
            { num_heads: 2, unidirectional: 1 },
            { domain },
          ),
        ],
      }),
    );
    const session = await InferenceSession.create(bytes, { backend: "wasm", threads: 2 });
    const oracle = await InferenceSession.create(bytes, { backend: "reference", inPlace: "never" });
    const state = session.createState({ dims: { batch: 2 } });
    let carried: Tensor = new Tensor("float32", new Float32Array(0), [2, 2, 2, 0, 4]);
    for (const length of [5, 1, 1, 3, 1]) {
      const x = Tensor.fromView(randomView(random, "float32", [2, length, 8]));
      const { y } = await session.run({ x }, { state });
      const expected = await oracle.run({ x, past: carried });
      carried = expected["present"];
      expect(differenceOf(y.toView(), expected["y"].toView(), 1e-5, 1e-5)).toBe("");
    }
    expect(session.explain()).toMatch(/past  y  Attention  in place/);
    expect(state.statistics.movedBytes).toBe(0);
    await Promise.all([session.release(), oracle.release()]);
  });
});
