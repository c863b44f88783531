// Sessions and language models that are given the original: rewritten while they are loaded, or left alone with a reason.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { publishedDecoder } from "../../scripts/published-decoder.mjs";
import { CausalLM, InferenceSession, rewrite } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { moveToExternalData } from "../../tools/demo/move-external.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { expectSameTokens, hubFolder, tokensOf } from "../generate/support.js";
import { builtCommand } from "../support/built.js";
import { bytesOf, int64, packedSteps } from "./exports.js";
import { styledDecoder } from "./styles.js";

/** Negates whole numbers: no cache anywhere. */
const plain = writeModel(
  buildModel({
    opset: 20,
    inputs: [value("x", "int64", [2])],
    outputs: [value("y", "int64", [2])],
    nodes: [node("Neg", ["x"], ["y"])],
  }),
);

describe("a session", () => {
  test('rewrite: "auto" makes caches in place', async () => {
    const session = await InferenceSession.create(bytesOf("llama_op20_eager"), { rewrite: "auto", inPlace: "require" });
    expect(session.inputNames).toContain("write_indices");
    const [{ ids, positions }] = packedSteps("llama_op20_eager", "step");
    const state = session.createState({ dims: { batch: ids.dims[0], capacity: 16 } });
    await session.run({ input_ids: ids, position_ids: positions }, { state });
    expect(state.lengths[0]).toBe(ids.dims[1]);
    expect(state.statistics.movedBytes).toBe(0);
  });

  test("what has no cache to rewrite is left alone", async () => {
    for (const policy of ["auto", "require"] as const) {
      const session = await InferenceSession.create(plain, { rewrite: policy });
      expect((await session.run({ x: int64([1, 2]) }))["y"].data).toEqual(BigInt64Array.of(-1n, -2n));
      const done = (await rewrite(bytesOf("llama_op24"))).model;
      const again = await InferenceSession.create(done, { rewrite: policy });
      expect(again.inputNames.filter((name) => name === "write_indices").length).toBe(1);
      expect(again.explain({ json: true }).notRewritten).toBe(undefined);
    }
  });

  test("what is not understood stays as it is, with a reason; or is refused", async () => {
    const bytes = writeModel(styledDecoder({ growth: "stacked" }));
    const session = await InferenceSession.create(bytes, { rewrite: "auto" });
    expect(session.inputNames).not.toContain("write_indices");
    const reason = /cache "past_0" cannot be rewritten: Gather "Gather_\d+" reads it/;
    expect(session.explain()).toMatch(reason);
    expect(session.explain({ json: true }).notRewritten).toMatch(reason);
    await expect(InferenceSession.create(bytes, { rewrite: "require" })).rejects.toThrow(reason);
    await expect(InferenceSession.create(bytes, { rewrite: "auto", inPlace: "require" })).rejects.toThrow(reason);
    await expect(InferenceSession.create(plain, { rewrite: "always" as "auto" })).rejects.toThrow(
      /rewrite must be "auto", "require" or "never"/,
    );
  });
});

describe("a language model", () => {
  const { model, pieces } = moveToExternalData(readModel(bytesOf("llama_op20_eager")), {
    location: "model.onnx_data",
  });
  const folder = hubFolder("llama_op24", {
    "onnx/model.onnx": writeModel(model),
    "onnx/model.onnx_data": new Uint8Array(Buffer.concat(pieces)),
  });
  afterAll(() => folder.remove());

  test("the original is rewritten, its weights read from their own file, and says the same", async () => {
    const [rewritten, original] = [
      await CausalLM.load(folder.path),
      await CausalLM.load(folder.path, { rewrite: "never" }),
    ];
    expect(rewritten.session.inputNames).toContain("nonpad_kv_seqlen");
    expect(original.session.inputNames).toContain("attention_mask");
    const options = { maxTokens: 20, temperature: 0, logprobs: 2 } as const;
    for (const prompt of ["a", "Once upon a time"]) {
      const wanted = await tokensOf(original.generate(prompt, options));
      expectSameTokens(await tokensOf(rewritten.generate(prompt, options)), wanted, prompt);
    }
    await Promise.all([rewritten, original].map((lm) => lm.release()));
  });

  test.each([
    ["GroupQueryAttention, lengths as inputs", () => publishedDecoder({ vocabulary: 256, seed: 3 }) as Uint8Array],
    [
      "two graphs under an If",
      () => writeModel(styledDecoder({ merged: true, sizes: { vocabulary: 256, positions: 128 } })),
    ],
    [
      "a static cache",
      () => writeModel(styledDecoder({ growth: "scatter-nd", positions: "row", sizes: { vocabulary: 256 } })),
    ],
  ])("a text from %s, which nothing but the rewritten form can be fed by", async (_, make) => {
    const other = hubFolder("llama_op24", { "onnx/model.onnx": make() });
    const lm = await CausalLM.load(other.path, { context: 32 });
    const options = { maxTokens: 9, temperature: 0, logprobs: 2 } as const;
    const wanted = await tokensOf(lm.generate("abc", options));
    expect(wanted).toHaveLength(9);
    const batch: { token: number }[] = [];
    for await (const { sample, token } of lm.generateBatch(["abc", "a longer one"], options))
      if (sample === 0) batch.push({ token });
    expectSameTokens(batch, wanted, "in a batch");
    await lm.release();
    other.remove();
  });

  test("insitu generate --model takes the folder and the file", () => {
    const texts = [folder.path, join(folder.path, "onnx/model.onnx")].map((path) => {
      const given = ["generate", "abc", "--model", path, "--max-tokens", "8", "--temperature", "0", "--json"];
      const { stdout, stderr } = spawnSync(process.execPath, [builtCommand, ...given], { encoding: "utf8" });
      expect(stderr).toBe("");
      return JSON.parse(stdout) as { newTokens: number; movedBytes: number; text: string };
    });
    expect(texts[0]).toMatchObject({ newTokens: 8, movedBytes: 0 });
    expect(texts[1].text).toBe(texts[0].text);
  });
});
