// Logits are computed for the rows that are wanted and for no others, in every form of decoder: texts are those of a loop of the test's own
// over the reference implementation, which computes all rows.
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { publishedDecoder } from "../../tools/demo/published-decoder.js";
import { CausalLM, InferenceSession } from "../../src/entry/node.js";
import { initializer, node } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { withLogitRows } from "../../packages/rewrite/logit-rows-model.js";
import { Decoder } from "../../src/decoder/decoder.js";
import { expectSameTokens, hubFolder, tokensOf } from "./support.js";

const prompt = Array.from("The wolf was at the door", (character) => character.charCodeAt(0) % 100);
const others = [prompt.slice(0, 5), prompt.slice(3), [7]];
const newTokens = 6;

/** The likeliest tokens by the reference implementation, with all logits: the prompt in one run, then token by token. */
async function slowly(model: string, tokens: readonly number[]): Promise<number[]> {
  const session = await InferenceSession.create(model, { backend: "reference", rewrite: "auto" });
  const decoder = new Decoder(session);
  const state = decoder.createState(1, 64);
  const made: number[] = [];
  let [next, position] = [tokens, 0];
  while (made.length < newTokens) {
    const logits = await decoder.run(state, { tokens: [next], positions: [position] });
    position += next.length;
    const row = logits.at(0);
    next = [row.indexOf(Math.max(...row))];
    made.push(next[0]);
  }
  await session.release();
  return made;
}

const forms = ["llama_op24", "llama_op20_eager", "llama_op20_q4", "llama_op20_q8", "llama_op24_fp16", "gpt2_op24"];

describe.each(forms)("%s", (form) => {
  const folder = hubFolder(form);
  afterAll(() => folder.remove());
  const model = join(folder.path, "onnx/model.onnx");
  const load = (): Promise<CausalLM> => CausalLM.load(folder.path, { context: 64, threads: 1 });
  const options = { maxTokens: newTokens, temperature: 0, logprobs: 2 };

  test("one row a run, and the same text", async () => {
    const lm = await load();
    const run = vi.spyOn(lm.session, "run");
    const made = await tokensOf(lm.generate(prompt, options));
    const wanted = await slowly(model, prompt);
    expectSameTokens(
      wanted.map((token) => ({ token })),
      made,
      form,
    );
    for (const { value } of run.mock.results)
      expect(((await value) as Record<string, { dims: readonly number[] }>)["logits"].dims.slice(0, 2)).toEqual([1, 1]);
    await lm.release();
  });

  // A scale that is found for all rows of a run ties texts to each other.
  test.skipIf(form.endsWith("q8"))("guesses need several rows, texts of a batch one each", async () => {
    const lm = await load();
    const guessed = await tokensOf(lm.generate(prompt, { ...options, speculate: { adaptive: false } }));
    const wanted = await slowly(model, prompt);
    expectSameTokens(
      wanted.map((token) => ({ token })),
      guessed,
      `${form}, guessed`,
    );
    const run = vi.spyOn(lm.session, "run");
    const texts: number[][] = others.map(() => []);
    for await (const { sample, token } of lm.generateBatch(others, options)) texts[sample].push(token);
    for (const [index, tokens] of others.entries()) {
      const alone = await tokensOf(lm.generate(tokens, options));
      // A batch also tells the token that ends a text.
      expectSameTokens(
        texts[index].slice(0, alone.length).map((token) => ({ token })),
        alone,
        `${form}, text ${index}`,
      );
    }
    const [first] = (await Promise.all(run.mock.results.map(({ value }) => value as Promise<unknown>))) as Record<
      string,
      { dims: readonly number[] }
    >[];
    expect(first["logits"].dims.slice(0, 2)).toEqual([others.length, 1]);
    await lm.release();
  });
});

test("who runs the session of a language model and says nothing of rows is given the last", async () => {
  const folder = hubFolder("llama_op24");
  const lm = await CausalLM.load(folder.path, { context: 64, threads: 1 });
  const { session } = lm;
  expect(session.outputMetadata.find(({ name }) => name === "logits")?.shape[1]).toBe(1);
  expect(session.inputNames).toContain("logit_rows");
  await lm.release();
  folder.remove();
});

/** A decoder that picks the last row before its head, in other words than its exporter's. */
function pruned(
  form: "as exported" | "list" | "slice",
  change: { readonly at?: bigint; readonly read?: true } = {},
): Model {
  const model = publishedDecoder(undefined, { type: "float32", logits: "last" });
  const { graph } = model;
  const unsqueeze = graph.nodes.find(({ name }) => name === "/lm_head/prune/Unsqueeze")!;
  const gather = graph.nodes.find(({ name }) => name === "/lm_head/prune/Gather")!;
  const [hidden] = gather.inputs;
  const [last] = unsqueeze.outputs;
  const { at = -1n } = change;
  const list = (name: string, value: bigint) => initializer(name, "int64", [value], [1]);
  const picks = {
    "as exported": at === -1n ? [gather, unsqueeze] : [{ ...gather, inputs: [hidden, "pick.at"] }, unsqueeze],
    list: [node("Gather", [hidden, "pick.at"], [last], { axis: 1 })],
    slice: [node("Slice", [hidden, "pick.at", "pick.end", "pick.axis"], [last])],
  };
  const others = graph.nodes.filter((each) => each !== gather && each !== unsqueeze);
  const head = others.findIndex(({ inputs }) => inputs.includes(last));
  const spied = change.read === true ? [node("Identity", [last], ["spied"])] : [];
  return {
    ...model,
    graph: {
      ...graph,
      initializers: [
        ...graph.initializers,
        list("pick.at", at),
        list("pick.end", 2n ** 31n - 1n),
        list("pick.axis", 1n),
      ],
      nodes: [...others.slice(0, head), ...picks[form], ...spied, ...others.slice(head)],
    },
  };
}

describe.each(["as exported", "list", "slice"] as const)("a head that was pruned to the last row, %s", (form) => {
  test("has the rows that are asked for, on pages and beside others", async () => {
    const model = pruned(form);
    const folder = hubFolder("llama_op24", { "onnx/model.onnx": writeModel(model) });
    const wanted = await Promise.all(others.map((tokens) => slowly(join(folder.path, "onnx/model.onnx"), tokens)));
    const options = { maxTokens: newTokens, temperature: 0, ignoreEnd: true };
    for (const cache of ["linear", "paged"] as const) {
      const lm = await CausalLM.load(folder.path, { context: 64, threads: 1, cache });
      expect(lm.session.inputNames).toContain("logit_rows");
      if (cache === "paged") expect(lm.pages!.isPacked).toBe(true);
      for (const [at, tokens] of others.entries())
        expect(
          (await tokensOf(lm.generate(tokens, { ...options, speculate: { adaptive: false } }))).map(
            ({ token }) => token,
          ),
        ).toEqual(wanted[at]);
      const texts: number[][] = others.map(() => []);
      for await (const { sample, token } of lm.generateBatch(others, options)) texts[sample].push(token);
      expect(texts).toEqual(wanted);
      await lm.release();
    }
    folder.remove();
  });

  test("and is left as it is where it picks another row, or somebody else reads it", () => {
    for (const change of [{ at: -2n }, { at: 0n }, { read: true }] as const) {
      const model = pruned(form, change);
      expect(withLogitRows(model)).toBe(model);
    }
  });
});
