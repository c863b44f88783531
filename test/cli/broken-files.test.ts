// Published folders whose file breaks a rule: loading and `insitu check` name the file, the node and the way out, in the same words, on linear caches and on pages.
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkModel } from "../../packages/cli/check-report.js";
import { openChecked } from "../../packages/cli/check-source.js";
import { CausalLM } from "../../src/entry/node.js";
import type { ModelGraph } from "../../src/onnx/model.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { publishedFiles, writeFolder } from "../support/published-folders.js";

/** A published folder with another graph. */
function damaged(name: string, damage: (graph: ModelGraph) => Partial<ModelGraph>): ReturnType<typeof writeFolder> {
  const files = publishedFiles(name);
  const model = readModel(files.get("model.onnx")!);
  const graph = { ...model.graph, ...damage(model.graph) };
  return writeFolder([...files, ["model.onnx", writeModel({ ...model, graph })]]);
}

const anew = /; the file is damaged or was exported wrong: fetch or export it again$/;

const rules: [what: string, folder: string, damage: (graph: ModelGraph) => Partial<ModelGraph>, message: RegExp][] = [
  [
    "half of the layers",
    "llama-int4-cpu",
    ({ nodes }) => ({ nodes: nodes.filter(({ name }) => !name.includes("layers.1")) }),
    /SkipSimplifiedLayerNormalization "\/model\/layers\.2\/final_norm_layernorm.*": input ".*" is no graph input, initializer or output/,
  ],
  [
    "a weight without its scales",
    "llama-int4-cpu",
    ({ initializers }) => ({ initializers: initializers.filter(({ name }) => !/1\.mlp\.up.*scales/.test(name)) }),
    /MatMulNBits "\/model\/layers\.1\/mlp\/up_proj.*": input "model\.layers\.1\.mlp\.up_proj.*scales" is no graph input/,
  ],
  [
    "a cache that no input is",
    "llama-int4-cpu",
    ({ inputs }) => ({ inputs: inputs.filter(({ name }) => name !== "past_key_values.1.value") }),
    /GroupQueryAttention "\/model\/layers\.1\/attn.*": input "past_key_values\.1\.value" is no graph input/,
  ],
  [
    "more experts than there are",
    "gptoss-int4-cpu",
    ({ nodes }) => ({
      nodes: nodes.map((node) => {
        const k = node.attributes.get("k");
        const isChoice = node.opType === "QMoE" && k?.kind === "int";
        return isChoice ? { ...node, attributes: new Map([...node.attributes, ["k", { ...k, value: 5n }]]) } : node;
      }),
    }),
    /QMoE "\/model\/layers\.0\/moe\/QMoE": k must be at most the number of experts, 4, got 5/,
  ],
];

test.each(rules)("%s", async (_, name, damage, message) => {
  const folder = damaged(name, damage);
  const { runs, problems } = await checkModel(await openChecked(folder.path, {}, false), undefined);
  expect([runs, problems.length]).toEqual([false, 1]);
  expect(problems[0]).toMatch(message);
  expect(problems[0]).toMatch(anew);
  expect(problems[0].startsWith(`${join(folder.path, "model.onnx")}: `)).toBe(true);
  for (const cache of ["linear", "paged"] as const)
    await expect(CausalLM.load(folder.path, { cache })).rejects.toThrow(problems[0]);
  folder.remove();
});

test("a decoder without its head, and one without the next content of a cache: refused by the check as by loading", async () => {
  const without = (name: string) =>
    damaged("llama-int4-cpu", ({ outputs }) => ({ outputs: outputs.filter((each) => each.name !== name) }));
  for (const [name, told, refused] of [
    ["logits", /no output is called logits: export it with its head/, /and an output "logits"/],
    [
      "present.1.value",
      /input "past_key_values\.1\.value".* no output is its next content/,
      /export the model with that output/,
    ],
  ] as const) {
    const folder = without(name);
    const { runs, problems } = await checkModel(await openChecked(folder.path, {}, false), undefined);
    expect([runs, problems.length]).toEqual([false, 1]);
    expect(problems[0]).toMatch(told);
    const error = await CausalLM.load(folder.path).catch((each: Error) => each.message);
    expect(error).toMatch(refused);
    expect(error).toContain(`${join(folder.path, "model.onnx")}: `);
    folder.remove();
  }
});
