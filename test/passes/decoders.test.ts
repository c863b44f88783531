// The exported decoders after all passes: how often each fusion was taken, that nothing it is made of is left, and that the results are
// those of the graph as the file has it: of a third of them in the tests (test/support/sample-setup.ts), of all in the soak.
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import type { Graph, Node } from "../../src/graph/graph.js";
import { readModel } from "../../src/onnx/read.js";
import { preparedGraphOf } from "../../src/session/load.js";
import type { Tensor } from "../../src/tensor/tensor.js";
import { decoders, fileOf, stepFeeds } from "./exported.js";
import { largestDifference } from "./support.js";

const columns = ["rms", "layer", "residual", "rotary", "attention", "grouped", "swiglu", "gelu", "bias"] as const;
type Counts = Readonly<Record<(typeof columns)[number], number>>;

const headsOf = (node: Node, operand: number): unknown => node.inputs[operand]?.fact?.shape?.[1];

function countsOf({ nodes }: Graph): Counts {
  const count = (...names: string[]): number => nodes.filter((node) => names.includes(node.op.name)).length;
  const attentions = nodes.filter((node) => node.op.name === "Attention");
  return {
    rms: count("RMSNormalization", "SkipSimplifiedLayerNormalization"),
    layer: count("LayerNormalization", "SkipLayerNormalization"),
    residual: count("SkipSimplifiedLayerNormalization", "SkipLayerNormalization"),
    rotary: count("RotaryEmbedding"),
    attention: attentions.length,
    grouped: attentions.filter((node) => headsOf(node, 0) !== headsOf(node, 1)).length,
    swiglu: count("SwiGLU"),
    gelu: count("Gelu"),
    bias: count("MatMulBias"),
  };
}

/** What the fusions are made of: none of it should be left. Tanh stays where logits are capped. */
const parts = ["Pow", "Sqrt", "Reciprocal", "ReduceMean", "Sigmoid", "Erf", "Neg", "Softmax", "IsNaN"];

/** Counts in the order of the columns, and what is left, with the reason. */
const expected: Readonly<Record<string, readonly [counts: string, left?: string]>> = {
  gpt2_op24: ["0 5 5 0 2 0 0 2 0"],
  llama_op20_eager: ["5 0 4 4 2 2 2 0 0"],
  llama_op20_q4: ["5 0 4 4 2 2 2 0 0"],
  llama_op20_q8: ["5 0 4 4 2 2 2 0 0"],
  llama_op24: ["5 0 4 4 2 2 2 0 0"],
  llama_op24_fp16: ["5 0 4 4 2 2 2 0 0"],
  llama_static_op24: ["5 0 4 4 2 2 2 0 0"],
  mistral_op24: ["5 0 4 4 2 2 2 0 0"],
  bloom_op18_eager: ["0 6 4 0 2 0 0 2 8"],
  bloom_op24_eager: ["0 6 4 0 2 0 0 2 8"],
  cohere_op18_sdpa: ["0 3 2 4 2 2 2 0 0"],
  falcon_op18_sdpa: ["0 3 2 4 2 0 0 2 0"],
  gemma2_op18_sdpa: ["9 0 4 4 2 2 0 2 0"],
  gemma2_op24_eager: ["9 0 4 4 2 2 0 2 0"],
  gemma3_op18_sdpa: ["13 0 4 4 2 2 0 2 0"],
  gemma_op18_sdpa: ["5 0 4 4 2 2 0 2 0"],
  gpt2_op18_sdpa: ["0 5 5 0 2 0 0 2 0"],
  gpt_neox_op18_sdpa: ["0 3 2 4 2 0 0 2 8"],
  gptj_op18_eager: ["0 3 2 4 2 0 0 2 5"],
  granite_op18_sdpa: ["5 0 4 4 2 2 2 0 0"],
  llama_op17_eager_ts: ["5 0 4 4 2 2 2 0 0"],
  llama_op18_sdpa: ["5 0 4 4 2 2 2 0 0"],
  olmo2_op18_sdpa: ["9 0 1 4 2 2 2 0 0"],
  olmo2_op21_eager: ["9 0 1 4 2 2 2 0 0"],
  // The first layer's mask has the length that positions counted from the mask give: not shown to be that of the keys.
  opt_op18_sdpa: ["0 5 0 0 1 0 0 0 8", "Softmax IsNaN"],
  phi3_op18_sdpa: ["5 0 4 4 2 2 2 0 0"],
  phi3_op24_sdpa: ["5 0 4 4 2 2 2 0 0"],
  phi_op18_sdpa: ["0 3 2 4 2 0 0 2 13"],
  qwen2_op17_sdpa_ts: ["5 0 4 4 2 2 2 0 6"],
  qwen2_op18_sdpa: ["5 0 4 4 2 2 2 0 6"],
  qwen2_op24_sdpa: ["5 0 4 4 2 2 2 0 6"],
  qwen3_op18_sdpa: ["9 0 4 4 2 2 2 0 0"],
  qwen3_op23_sdpa: ["9 0 4 4 2 2 2 0 0"],
  smollm3_op18_sdpa: ["5 0 4 4 2 2 2 0 0"],
  stablelm_op18_sdpa: ["0 5 4 4 2 2 2 0 0"],
  starcoder2_op18_sdpa: ["0 5 4 4 2 2 0 2 12"],
};

test("how often each fusion was taken", () => {
  const width = Math.max(...decoders.map((model) => model.length));
  const lines = [`${"".padEnd(width)}  nodes      ${columns.join("  ")}`];
  const found: Record<string, readonly string[]> = {};
  for (const model of decoders) {
    const before = preparedGraphOf(readModel(fileOf(model)), { level: "disabled" }).graph;
    const { graph } = preparedGraphOf(readModel(fileOf(model)));
    const counts = countsOf(graph);
    const left = parts.filter((name) => graph.nodes.some((node) => node.op.name === name));
    const numbers = columns.map((column) => counts[column]);
    found[model] = [numbers.join(" "), ...(left.length === 0 ? [] : [left.join(" ")])];
    const cells = columns.map((column) => String(counts[column]).padStart(column.length)).join("  ");
    lines.push(
      `${model.padEnd(width)}  ${`${before.nodes.length} → ${graph.nodes.length}`.padEnd(9)}  ${cells}  ${left.join(" ")}`,
    );
  }
  console.log(lines.join("\n"));
  expect(found).toEqual(expected);
});

test("the repeated cache is never made: attention reads the present itself", () => {
  for (const model of decoders) {
    const { graph } = preparedGraphOf(readModel(fileOf(model)));
    const producers = new Map(graph.nodes.flatMap((node) => node.outputs.map((value) => [value, node])));
    for (const node of graph.nodes.filter(({ op }) => op.name === "Attention"))
      for (const operand of node.inputs.slice(1, 3))
        expect(["Concat", "Transpose"], model).toContain(producers.get(operand!)?.op.name);
  }
});

// Narrow types round at every stage that fusion takes away; 8-bit activations turn a last bit into a step.
const toleranceOf = (model: string): number => (/fp16/.test(model) ? 2e-3 : /q8/.test(model) ? 1e-3 : 1e-5);

describe("results after all passes are those of the graph as it is", () => {
  for (const decoder of decoders) {
    test(decoder, async () => {
      const plain = await InferenceSession.create(fileOf(decoder), {
        backend: "reference",
        inPlace: "never",
        graphOptimizationLevel: "disabled",
      });
      const fused = await InferenceSession.create(fileOf(decoder), { backend: "reference" });
      let worst = 0;
      let compared = 0;
      for (const run of ["step", "padded"]) {
        let carried: readonly [Record<string, Tensor>, Record<string, Tensor>] | undefined;
        for (let number = 0; number < 3; number++) {
          const [expectedFeeds, feeds] = [plain, fused].map((session, at) =>
            stepFeeds(session, decoder, `${run}${number}`, carried?.[at]),
          );
          if (expectedFeeds === undefined || feeds === undefined) break;
          carried = [await plain.run(expectedFeeds), await fused.run(feeds)];
          worst = Math.max(worst, largestDifference(carried[1], carried[0]));
          compared++;
        }
      }
      expect(compared).toBeGreaterThan(0);
      expect(worst).toBeLessThanOrEqual(toleranceOf(decoder));
    });
  }
});
