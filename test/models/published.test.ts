// Text of published folders as they are: greedy tokens with their probabilities beside onnxruntime's, on linear caches and on pages, prompts whole and in
// parts, two texts of different length in one batch. The soak runs the reference implementation too.
import { describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { attributes, initializer, node, value } from "../../src/onnx/build.js";
import type { ModelNode, ModelValue } from "../../src/onnx/model.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { type Answers, publishedAnswers, publishedFiles, writeFolder } from "../support/published-folders.js";
import { soak } from "../support/soak.js";

/** How far a log-probability may be from onnxruntime's: its float16 rounds elsewhere, and a file of another provider multiplies otherwise. */
const cases: readonly [folder: string, answers: string, tolerance: number, caches: readonly ("linear" | "paged")[]][] =
  [
    ["llama-int4-cpu", "llama-int4-cpu", 1e-4, ["linear", "paged"]],
    ["llama-int4-webgpu", "llama-int4-webgpu", 2e-2, ["linear", "paged"]],
    ["mistral-int4-webgpu", "mistral-int4-webgpu", 2e-2, ["linear", "paged"]],
    ["mistral-int4-cpu", "mistral-int4-webgpu", 0.1, ["linear", "paged"]],
    ["phi3-long-int4-cpu", "phi3-long-int4-cpu", 2e-3, ["linear", "paged"]],
    ["qwen3-int4-cpu", "qwen3-int4-cpu", 1e-4, ["linear", "paged"]],
    ["qwen3-int4-webgpu", "qwen3-int4-cpu", 0.1, ["linear", "paged"]],
    ["lfm2-int4-cpu", "lfm2-int4-cpu", 1e-4, ["linear", "paged"]],
    ["qwen35-int4-cpu", "qwen35-int4-cpu", 1e-4, ["linear", "paged"]],
    ["qwen35-int4-cuda", "qwen35-int4-cuda", 2e-2, ["linear", "paged"]],
    ["gptoss-int4-webgpu", "gptoss-int4-webgpu", 2e-2, ["linear", "paged"]],
    ["gptoss-int4-cpu", "gptoss-int4-webgpu", 0.1, ["linear", "paged"]],
  ];

/** A file whose caches hold keys and values as integers, with one scale for all. */
function withQuantizedCaches(folder: string, bits: number): Uint8Array {
  const model = readModel(publishedFiles(folder).get("model.onnx")!);
  const { graph } = model;
  const type = bits === 8 ? "int8" : "uint8";
  const held = (each: ModelValue): ModelValue =>
    /^(past|present)/.test(each.name) && each.type?.kind === "tensor"
      ? { ...each, type: { ...each.type, elementType: type } }
      : each;
  const quantized = { k_quant_type: "PER_TENSOR", v_quant_type: "PER_TENSOR", kv_cache_bit_width: bits };
  const scale = new Tensor("float32", Float32Array.of(bits === 8 ? 0.03 : 0.3), [1]);
  return writeModel({
    ...model,
    graph: {
      ...graph,
      inputs: graph.inputs.map(held),
      outputs: graph.outputs.map(held),
      valueInfo: graph.valueInfo.map(held),
      initializers: [...graph.initializers, initializer("scale", scale)],
      nodes: graph.nodes.map((each) =>
        each.opType === "GroupQueryAttention"
          ? {
              ...node(
                each.opType,
                [...inputsOf(each, 12), "scale", "scale"],
                each.outputs,
                {},
                { domain: each.domain },
              ),
              attributes: new Map([...each.attributes, ...attributes(quantized)]),
            }
          : each,
      ),
    },
  });
}

/** The inputs of a node with those that it leaves out at its end. */
const inputsOf = ({ inputs }: ModelNode, count: number): string[] =>
  Array.from({ length: count }, (_, at) => inputs[at] ?? "");

/** A file whose states without rows also hold what they were after each of the last tokens, as those have it that check guesses by them. */
function withStateWindows(window: number): Uint8Array {
  const model = readModel(publishedFiles("qwen35-int4-cpu").get("model.onnx")!);
  const { graph } = model;
  const wide = (each: ModelValue): ModelValue =>
    each.name.endsWith("_state") && each.type?.kind === "tensor"
      ? { ...each, type: { ...each.type, shape: [window, ...each.type.shape!] } }
      : each;
  return writeModel({
    ...model,
    graph: {
      ...graph,
      inputs: graph.inputs.map(wide),
      outputs: graph.outputs.map(wide),
      valueInfo: graph.valueInfo.map(wide),
      nodes: graph.nodes.map((each) =>
        /^(CausalConvWithState|LinearAttention)$/.test(each.opType)
          ? { ...each, attributes: new Map([...each.attributes, ...attributes({ state_window: window })]) }
          : each,
      ),
    },
  });
}

/** A file that reads one text at a time. */
function withFixedBatch(): Uint8Array {
  const model = readModel(publishedFiles("llama-int4-cpu").get("model.onnx")!);
  const fixed = (each: ModelValue): ModelValue =>
    each.type?.kind === "tensor"
      ? { ...each, type: { ...each.type, shape: each.type.shape!.map((dim) => (dim === "batch_size" ? 1 : dim)) } }
      : each;
  const { graph } = model;
  return writeModel({
    ...model,
    graph: { ...graph, inputs: graph.inputs.map(fixed), outputs: graph.outputs.map(fixed) },
  });
}

/** A file whose attention is onnxruntime's PagedAttention, with tokens behind each other, as the builder has it with `use_paged_attention`; logits of the last tokens alone with `prune_lm_head`. */
function withVendorsPages({ readsLengths = false, prunes = false } = {}): Uint8Array {
  const model = readModel(publishedFiles("llama-int4-webgpu").get("model.onnx")!);
  const { graph } = model;
  const kept = [
    "num_heads",
    "kv_num_heads",
    "scale",
    "local_window_size",
    "softcap",
    "do_rotary",
    "rotary_interleaved",
  ];
  const told = ["cumulative_sequence_lengths", "past_sequence_lengths", "block_table", "attention_metadata"];
  const shapes = [["batch_size + 1"], ["batch_size"], ["batch_size", "max_num_blocks"], [3]];
  const given = (each: ModelValue): ModelValue[] => {
    if (each.name === "attention_mask" || each.type?.kind !== "tensor") return [];
    const shape = each.type.shape!;
    const isCache = /^(past|present)/.test(each.name);
    const own = isCache ? ["num_blocks", "block_size", shape[1], 16] : ["num_tokens", ...shape.slice(2)];
    return [{ ...each, type: { ...each.type, shape: own } }];
  };
  const lastTokens = (head: ModelNode): ModelNode[] => [
    node("Slice", [told[0], "from", "to", "axis"], ["ends"]),
    node("Sub", ["ends", "one"], ["lasts"]),
    node("Gather", [head.inputs[0], "lasts"], ["last rows"], { axis: 0 }),
    { ...head, inputs: ["last rows", ...head.inputs.slice(1)] },
  ];
  const numbers = { from: 1n, to: 2n ** 62n, axis: 0n };
  const nodes = graph.nodes.flatMap((each) => {
    if (prunes && each.outputs[0] === "logits") return lastTokens(each);
    if (each.name.includes("attn_mask_reformat")) return [];
    if (each.opType !== "GroupQueryAttention") return [each];
    const [q, k, v, pastKey, pastValue, , , cos, sin] = each.inputs;
    const inputs = [q, k, v, pastKey, pastValue, ...told.slice(0, 3), cos, sin, "", "", "", "", "", "", told[3]];
    const paged = node("PagedAttention", inputs, each.outputs, {}, { domain: each.domain, name: each.name });
    return [{ ...paged, attributes: new Map([...each.attributes].filter(([name]) => kept.includes(name))) }];
  });
  return writeModel({
    ...model,
    graph: {
      ...graph,
      inputs: [...graph.inputs.flatMap(given), ...told.map((name, at) => value(name, "int32", shapes[at]))],
      outputs: [...graph.outputs.flatMap(given), ...(readsLengths ? [value("ends", "int32", ["batch_size + 1"])] : [])],
      valueInfo: [],
      initializers: [
        ...graph.initializers,
        ...Object.entries(numbers).map(([name, number]) =>
          initializer(name, new Tensor("int64", BigInt64Array.of(number), [1])),
        ),
        initializer("one", new Tensor("int32", Int32Array.of(1), [])),
      ],
      nodes: [...nodes, ...(readsLengths ? [node("Identity", [told[0]], ["ends"])] : [])],
    },
  });
}

/** A file with a smooth softmax whose second layer has no keys of its own: it attends over those of the first. */
function withBorrowedCaches(): Uint8Array {
  const model = readModel(publishedFiles("qwen3-int4-cpu").get("model.onnx")!);
  const { graph } = model;
  const [lender, borrower] = graph.nodes.filter(({ opType }) => opType === "GroupQueryAttention");
  const isOwn = ({ name }: ModelValue): boolean => !/^(past|present).*\.1\./.test(name);
  const integers = (name: string, value: bigint): ReturnType<typeof initializer> =>
    initializer(name, new Tensor("int64", BigInt64Array.of(value), [1]));
  return writeModel({
    ...model,
    graph: {
      ...graph,
      inputs: graph.inputs.filter(isOwn),
      outputs: graph.outputs.filter(isOwn),
      initializers: [...graph.initializers, integers("start", 0n), integers("axis", 1n)],
      nodes: graph.nodes.flatMap((each) => {
        if (each.opType !== "GroupQueryAttention") return [each];
        const smooth = { ...each, attributes: new Map([...each.attributes, ...attributes({ smooth_softmax: 1 })]) };
        if (each !== borrower) return [smooth];
        const cut = node("Slice", [each.inputs[1], "start", "start", "axis"], ["no keys"]);
        const inputs = [each.inputs[0], "no keys", "no keys", ...lender.outputs.slice(1, 3), ...each.inputs.slice(5)];
        return [cut, { ...smooth, inputs, outputs: each.outputs.slice(0, 1) }];
      }),
    },
  });
}

interface Step {
  readonly token: number;
  readonly logprob?: number;
}

/** Log-probabilities of logits. */
function logprobs(logits: readonly number[]): number[] {
  const most = Math.max(...logits);
  const sum = Math.log(logits.reduce((all, logit) => all + Math.exp(logit - most), 0)) + most;
  return logits.map((logit) => logit - sum);
}

/** Fails unless each token is onnxruntime's choice, or as good as it, with its probability. */
function expectAnswers(steps: readonly Step[], answers: Answers, tolerance: number): void {
  expect(steps.length).toBe(answers.steps.length);
  for (const [at, { token, logprob }] of steps.entries()) {
    const wanted = logprobs(answers.steps[at]);
    expect(Math.abs(logprob! - wanted[token]), `step ${at}`).toBeLessThan(tolerance);
    const best = wanted.indexOf(Math.max(...wanted));
    if (token === best) continue;
    // Two tokens as likely as each other: from here on the texts differ.
    expect(wanted[best] - wanted[token], `step ${at}: ${token} in place of ${best}`).toBeLessThan(2 * tolerance);
    return;
  }
}

async function textOf(lm: CausalLM, prompt: readonly number[]): Promise<Step[]> {
  const steps: Step[] = [];
  for await (const step of lm.generate(prompt, { maxTokens: 12, temperature: 0, ignoreEnd: true, logprobs: true }))
    steps.push(step);
  return steps;
}

test("as the file has it, caches growing: texts beside each other are those that are made alone", async () => {
  const answers = publishedAnswers("llama-int4-cpu")!;
  const folder = writeFolder(publishedFiles("llama-int4-cpu"));
  const lm = await CausalLM.load(folder.path, { rewrite: "never", threads: 1 });
  const prompts = [answers.prompt.slice(4), answers.prompt];
  const texts: Step[][] = [[], []];
  const options = { maxTokens: 12, temperature: 0, ignoreEnd: true, logprobs: true } as const;
  for await (const step of lm.generateBatch(prompts, options)) texts[step.sample].push(step);
  expectAnswers(texts[1], answers, 1e-4);
  expect(texts[0].map(({ token }) => token)).toEqual((await textOf(lm, prompts[0])).map(({ token }) => token));
  await lm.release();
  folder.remove();
});

test("a state without rows: texts are onnxruntime's, in parts, with guesses, again and beside each other", async () => {
  const answers = publishedAnswers("lfm2-int4-cpu")!;
  const folder = writeFolder(publishedFiles("lfm2-int4-cpu"));
  const lm = await CausalLM.load(folder.path, { threads: 1, chunk: 4 });
  const options = { maxTokens: 12, temperature: 0, ignoreEnd: true, logprobs: true } as const;
  const first = await textOf(lm, answers.prompt);
  expectAnswers(first, answers, 1e-4);
  expect(lm.session.explain()).toMatch(/3 cache updates, all in place[^]*this plan moves +0 bytes/);
  // What comes behind the last checkpoint before the place where the prompts part is read again.
  const longer = [...answers.prompt, ...first.slice(0, 3).map(({ token }) => token)];
  expectAnswers((await textOf(lm, longer)).slice(0, 9), { ...answers, steps: answers.steps.slice(3) }, 1e-4);
  const guessed: Step[] = [];
  for await (const step of lm.generate(answers.prompt, {
    ...options,
    speculate: { ngram: 2, draft: 3, adaptive: false },
  }))
    guessed.push(step);
  expectAnswers(guessed, answers, 1e-4);
  const texts: Step[][] = [[], []];
  for await (const step of lm.generateBatch([answers.prompt.slice(4), answers.prompt], options))
    texts[step.sample].push(step);
  expectAnswers(texts[1], answers, 1e-4);
  expect(texts[0].map(({ token }) => token)).toEqual(
    (await textOf(lm, answers.prompt.slice(4))).map(({ token }) => token),
  );
  await lm.release();
  folder.remove();
});

test.each([
  ["qwen35-int4-cpu", 1e-4],
  ["qwen35-int4-cuda", 2e-2],
] as const)("linear attention of %s: texts are onnxruntime's, whole, in parts and again", async (name, tolerance) => {
  const answers = publishedAnswers(name)!;
  const folder = writeFolder(publishedFiles(name));
  for (const backend of soak ? (["reference", "wasm"] as const) : (["wasm"] as const))
    for (const options of [{}, { chunk: 4, keep: 0 }]) {
      const far = backend === "reference" ? Math.max(tolerance, 0.1) : tolerance;
      const lm = await CausalLM.load(folder.path, { threads: 1, backend, ...options });
      for (let round = 0; round < 2; round++) expectAnswers(await textOf(lm, answers.prompt), answers, far);
      expect(lm.session.explain()).toMatch(/8 cache updates, all in place/);
      await lm.release();
    }
  folder.remove();
});

test("layers that borrow a cache, and a smooth softmax: texts are those of the file as it is, linear and on pages", async () => {
  const { prompt } = publishedAnswers("qwen3-int4-cpu")!;
  const folder = writeFolder([...publishedFiles("qwen3-int4-cpu"), ["model.onnx", withBorrowedCaches()]]);
  const asItIs = await CausalLM.load(folder.path, { rewrite: "never", backend: "reference" });
  const wanted = await textOf(asItIs, prompt);
  await asItIs.release();
  for (const cache of ["linear", "paged"] as const) {
    const lm = await CausalLM.load(folder.path, { rewrite: "require", cache, threads: 1 });
    const text = await textOf(lm, prompt);
    expect(text.map(({ token }) => token)).toEqual(wanted.map(({ token }) => token));
    for (const [at, { logprob }] of text.entries()) expect(logprob! - wanted[at].logprob!).toBeCloseTo(0, 1);
    expect(lm.session.explain()).toMatch(/2 cache updates, all in place/);
    await lm.release();
  }
  folder.remove();
});

test.each([
  ["llama-int4-cpu", "llama-int4-cpu", 8],
  ["llama-int4-cpu", "llama-int4-cpu", 4],
  // As short as the window, as the file has them: whole ones in their place.
  ["mistral-int4-cpu", "mistral-int4-webgpu", 8],
] as const)(
  "%s, beside %s, with caches of %i bits: text as that of the file's own caches, nearly",
  async (name, from, bits) => {
    const answers = publishedAnswers(from)!;
    const folder = writeFolder([...publishedFiles(name), ["model.onnx", withQuantizedCaches(name, bits)]]);
    const lm = await CausalLM.load(folder.path, { threads: 1 });
    const [step] = await textOf(lm, answers.prompt);
    const wanted = logprobs(answers.steps[0]);
    expect(Math.abs(step.logprob! - wanted[step.token])).toBeLessThan(bits === 8 && name === from ? 0.02 : 0.1);
    expect(lm.session.explain()).toMatch(/4 cache updates, all in place/);
    await lm.release();
    folder.remove();
  },
);

test.each(["linear", "paged"] as const)(
  "states with a window of tokens, on %s caches: onnxruntime's text",
  async (cache) => {
    const answers = publishedAnswers("qwen35-int4-cpu")!;
    const folder = writeFolder([...publishedFiles("qwen35-int4-cpu"), ["model.onnx", withStateWindows(3)]]);
    const lm = await CausalLM.load(folder.path, { cache, threads: 1 });
    expectAnswers(await textOf(lm, answers.prompt), answers, 1e-4);
    expect(lm.session.explain()).toMatch(/cache updates, all in place/);
    await lm.release();
    folder.remove();
  },
);

test.each([
  ["linear", false],
  ["paged", false],
  ["linear", true],
  ["paged", true],
] as const)(
  "onnxruntime's PagedAttention, on %s caches, logits of the last tokens alone: %s: the text of the file without pages",
  async (cache, prunes) => {
    const answers = publishedAnswers("llama-int4-webgpu")!;
    const folder = writeFolder([...publishedFiles("llama-int4-webgpu"), ["model.onnx", withVendorsPages({ prunes })]]);
    const lm = await CausalLM.load(folder.path, { cache, threads: 1 });
    const texts: Step[][] = [[], []];
    const options = { maxTokens: 12, temperature: 0, ignoreEnd: true, logprobs: true } as const;
    for await (const step of lm.generateBatch([answers.prompt, answers.prompt.slice(4)], options))
      texts[step.sample].push(step);
    expectAnswers(texts[0], answers, 2e-2);
    expect(texts[1].map(({ token }) => token)).toEqual(
      (await textOf(lm, answers.prompt.slice(4))).map(({ token }) => token),
    );
    expect(lm.session.explain()).toMatch(/4 cache updates, all in place/);
    await lm.release();
    folder.remove();
  },
);

test("a PagedAttention whose lengths something else reads is refused by its name", async () => {
  const folder = writeFolder([
    ...publishedFiles("llama-int4-webgpu"),
    ["model.onnx", withVendorsPages({ readsLengths: true })],
  ]);
  await expect(CausalLM.load(folder.path)).rejects.toThrow(
    /com\.microsoft::PagedAttention \(2 nodes, the first is "\/model\/layers\.0\/attn/,
  );
  folder.remove();
});

test("a file with a batch of one: texts of a batch have states of their own, and pages are refused by its input", async () => {
  const answers = publishedAnswers("llama-int4-cpu")!;
  const folder = writeFolder([...publishedFiles("llama-int4-cpu"), ["model.onnx", withFixedBatch()]]);
  const lm = await CausalLM.load(folder.path, { threads: 1 });
  const texts: Step[][] = [[], []];
  const options = { maxTokens: 12, temperature: 0, ignoreEnd: true, logprobs: true } as const;
  for await (const step of lm.generateBatch([answers.prompt.slice(4), answers.prompt], options))
    texts[step.sample].push(step);
  expectAnswers(texts[1], answers, 1e-4);
  expect(texts[0].map(({ token }) => token)).toEqual(
    (await textOf(lm, answers.prompt.slice(4))).map(({ token }) => token),
  );
  await lm.release();
  await expect(CausalLM.load(folder.path, { cache: "paged" })).rejects.toThrow(
    /input "input_ids" has a batch of 1, .* use linear caches/,
  );
  folder.remove();
});

describe.each(cases)("%s", (name, from, tolerance, caches) => {
  const answers = publishedAnswers(from)!;
  for (const cache of caches)
    for (const backend of soak ? (["reference", "wasm"] as const) : (["wasm"] as const))
      test(`${cache} caches on ${backend}`, async () => {
        // onnxruntime and WASM round activations to bytes where a file allows it, the reference implementation does not.
        const far = backend === "reference" ? Math.max(tolerance, 0.1) : tolerance;
        const folder = writeFolder(publishedFiles(name));
        const lm = await CausalLM.load(folder.path, { cache, backend, threads: 1 });
        expectAnswers(await textOf(lm, answers.prompt), answers, far);
        const parts = await CausalLM.load(folder.path, { cache, backend, threads: 1, chunk: 4, keep: 0 });
        expectAnswers(await textOf(parts, answers.prompt), answers, far);
        const short = answers.prompt.slice(4);
        const alone = await textOf(parts, short);
        const texts: Step[][] = [[], []];
        const options = { maxTokens: 12, temperature: 0, ignoreEnd: true, logprobs: true } as const;
        for await (const step of lm.generateBatch([answers.prompt, short], options)) texts[step.sample].push(step);
        expectAnswers(texts[0], answers, far);
        expect(texts[1].map(({ token }) => token)).toEqual(alone.map(({ token }) => token));
        await Promise.all([lm.release(), parts.release()]);
        folder.remove();
      });
});
