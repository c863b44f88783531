// Attention nodes and what stands around them: repeated heads, and heads moved to the front and back.
import { expect, test } from "vitest";
import { float, node, value } from "../../src/onnx/build.js";
import type { Model, ModelNode, ModelTensor } from "../../src/onnx/model.js";
import { expectSameResults, list, modelOf, onlyNode, operatorsOf, optimized } from "./support.js";

const dims = { batch: 2, queries: 3, keys: 5, sequence: 3, past: 4 };
const lists: readonly ModelTensor[] = [
  list("two", 2),
  list("expanded", 1, 1, 3, 1, 1),
  list("tiled", 1, 3, 1, 1),
  list("grouped", 0, 6, -1, 8),
  list("picks", 0, 0, 0, 1, 1, 1),
  list("mixed_picks", 0, 1, 0, 1, 0, 1),
];
const inputs = {
  q: ["batch", 6, "queries", 8],
  k: ["batch", 2, "keys", 8],
  v: ["batch", 2, "keys", 8],
} as const;
const attend = node("Attention", ["q", "k6", "v6"], ["y"], { scale: float(0.25) });

/** k and v, each repeated to 6 heads by nodes made from their name. */
const model = (
  repeat: (name: string) => readonly ModelNode[],
  more: Partial<Parameters<typeof modelOf>[0]> = {},
): Model =>
  modelOf({
    inputs,
    outputs: ["y"],
    opset: 24,
    nodes: [...repeat("k"), ...repeat("v"), attend],
    constants: lists,
    ...more,
  });

const widened = (name: string): ModelNode => node("Unsqueeze", [name, "two"], [`${name}_wide`]);
const grouped = (name: string): ModelNode => node("Reshape", [`${name}_spread`, "grouped"], [`${name}6`]);
const repetitions: Readonly<Record<string, (name: string) => readonly ModelNode[]>> = {
  Expand: (name) => [widened(name), node("Expand", [`${name}_wide`, "expanded"], [`${name}_spread`]), grouped(name)],
  Tile: (name) => [widened(name), node("Tile", [`${name}_wide`, "expanded"], [`${name}_spread`]), grouped(name)],
  Concat: (name) => [
    widened(name),
    node("Concat", [`${name}_wide`, `${name}_wide`, `${name}_wide`], [`${name}_spread`], { axis: 2 }),
    grouped(name),
  ],
  Gather: (name) => [node("Gather", [name, "picks"], [`${name}6`], { axis: 1 })],
};

for (const [how, repeat] of Object.entries(repetitions)) {
  test(`heads repeated by ${how} are read unrepeated`, async () => {
    const written = model(repeat);
    expect(operatorsOf(written)).toEqual(["Attention"]);
    expect(onlyNode(optimized(written), "Attention").inputs.map((input) => input?.name)).toEqual(["q", "k", "v"]);
    await expectSameResults(written, dims);
  });
}

test("a single head repeated for all", async () => {
  const one = { q: ["batch", 3, "queries", 8], k: ["batch", 1, "keys", 8], v: ["batch", 1, "keys", 8] } as const;
  for (const how of ["Expand", "Tile"]) {
    const written = model((name) => [node(how, [name, "tiled"], [`${name}6`])], { inputs: one });
    expect(operatorsOf(written)).toEqual(["Attention"]);
    await expectSameResults(written, dims);
  }
});

test("a repetition that others read stays for them", async () => {
  const written = model(repetitions["Expand"], { outputs: ["y", "k6"] });
  expect(onlyNode(optimized(written), "Attention").inputs.map((input) => input?.name)).toEqual(["q", "k", "v"]);
  expect(operatorsOf(written)).toContain("Expand");
  await expectSameResults(written, dims);
});

test("left alone: heads in another order, or only one of the two repeated", async () => {
  const tiled = model((name) => [node("Tile", [name, "tiled"], [`${name}6`])]);
  expect(operatorsOf(tiled)).toEqual(["Tile", "Tile", "Attention"]);
  await expectSameResults(tiled, dims);
  const mixed = model((name) => [node("Gather", [name, "mixed_picks"], [`${name}6`], { axis: 1 })]);
  expect(operatorsOf(mixed)).toEqual(["Gather", "Gather", "Attention"]);
  await expectSameResults(mixed, dims);
  const half = modelOf({
    inputs: { ...inputs, v6: ["batch", 6, "keys", 8] },
    outputs: ["y"],
    opset: 24,
    constants: lists,
    nodes: [...repetitions["Expand"]("k"), attend],
  });
  expect(operatorsOf(half)).toEqual(["Unsqueeze", "Expand", "Reshape", "Attention"]);
});

test("left alone: a present with the repeated heads", () => {
  const written = model(repetitions["Gather"], {
    outputs: ["y", "present_key", "present_value"],
    nodes: [
      ...repetitions["Gather"]("k"),
      ...repetitions["Gather"]("v"),
      node("Attention", ["q", "k6", "v6"], ["y", "present_key", "present_value"]),
    ],
  });
  expect(operatorsOf(written)).toEqual(["Gather", "Gather", "Attention"]);
});

const packedInputs = {
  q: ["batch", "sequence", 32],
  k: ["batch", "sequence", 16],
  v: ["batch", "sequence", 16],
} as const;
const shapes = [list("four_heads", 0, 0, 4, 8), list("two_heads", 0, 0, 2, 8), list("flat", 0, 0, -1)];
const toFront = (name: string, shape: string): ModelNode[] => [
  node("Reshape", [name, shape], [`${name}_parted`]),
  node("Transpose", [`${name}_parted`], [`${name}4`], { perm: [0, 2, 1, 3] }),
];
const fronts = [...toFront("q", "four_heads"), ...toFront("k", "two_heads"), ...toFront("v", "two_heads")];
const toBack: readonly ModelNode[] = [
  node("Transpose", ["y4"], ["moved"], { perm: [0, 2, 1, 3] }),
  node("Reshape", ["moved", "flat"], ["y"]),
];

test("heads moved to the front and back again: Attention reads and writes them side by side", async () => {
  const written = modelOf({
    inputs: packedInputs,
    outputs: ["y"],
    opset: 24,
    constants: shapes,
    nodes: [...fronts, node("Attention", ["q4", "k4", "v4"], ["y4"], { is_causal: 1 }), ...toBack],
  });
  expect(operatorsOf(written)).toEqual(["Attention"]);
  expect(onlyNode(optimized(written), "Attention").attrs).toMatchObject({ q_num_heads: 4, kv_num_heads: 2 });
  await expectSameResults(written, dims);
});

test("with a past inside the operator, and a rotary embedding in between", async () => {
  const written = modelOf({
    inputs: {
      ...packedInputs,
      cos: ["batch", "sequence", 4],
      sin: ["batch", "sequence", 4],
      past_key: ["batch", 2, "past", 8],
      past_value: ["batch", 2, "past", 8],
    },
    outputs: ["y", "present_key", "present_value"],
    opset: 24,
    constants: shapes,
    nodes: [
      ...fronts,
      node("RotaryEmbedding", ["q4", "cos", "sin"], ["turned_q"]),
      node("RotaryEmbedding", ["k4", "cos", "sin"], ["turned_k"]),
      node(
        "Attention",
        ["turned_q", "turned_k", "v4", undefined, "past_key", "past_value"],
        ["y4", "present_key", "present_value"],
        { is_causal: 1 },
      ),
      ...toBack,
    ],
  });
  expect(operatorsOf(written)).toEqual(["RotaryEmbedding", "RotaryEmbedding", "Attention"]);
  await expectSameResults(written, dims);
});

test("not packed: a result that is read with heads in front, or keys that come another way", () => {
  const nodes = [...fronts, node("Attention", ["q4", "k4", "v4"], ["y4"]), ...toBack];
  const shown = modelOf({ inputs: packedInputs, outputs: ["y", "y4"], opset: 24, constants: shapes, nodes });
  expect(operatorsOf(shown)).toContain("Transpose");
  const fed = modelOf({
    inputs: { q: packedInputs.q, v: packedInputs.v, k4: value("k4", "float32", ["batch", 2, "sequence", 8]) },
    outputs: ["y"],
    opset: 24,
    constants: shapes,
    nodes: nodes.filter(({ outputs }) => !["k_parted", "k4"].includes(outputs[0])),
  });
  expect(operatorsOf(fed).filter((name) => name === "Transpose")).toHaveLength(3);
});
