// Weights that are transposed before they are read: products and rows read them as they lie, and what is not such a weight stays.
import { expect, test } from "vitest";
import { initializer, node, value } from "../../src/onnx/build.js";
import type { Model, ModelNode } from "../../src/onnx/model.js";
import { expectLeftAlone, expectSameResults, modelOf, onlyNode, operatorsOf, optimized, weights } from "./support.js";

// More elements than are folded when a model is loaded.
const [width, words] = [48, 1500];
const dims = { batch: 2, sequence: 3 };
const x = ["batch", "sequence", width] as const;
const turn = (attributes: Parameters<typeof node>[3] = { perm: [1, 0] }): ModelNode =>
  node("Transpose", ["weight"], ["turned"], attributes);
const tied = (nodes: readonly ModelNode[], more: Partial<Parameters<typeof modelOf>[0]> = {}): Model =>
  modelOf({ inputs: { x }, outputs: ["y"], constants: [weights("weight", words, width)], ...more, nodes });
const multiply = node("MatMul", ["x", "turned"], ["y"]);
const ids = value("ids", "int64", ["batch", "sequence"]);

test("a product, whether or not the order is spelled out", async () => {
  for (const turning of [turn(), turn({})]) {
    const model = tied([turning, multiply]);
    expect(operatorsOf(model)).toEqual(["FusedMatMul"]);
    expect(onlyNode(optimized(model), "FusedMatMul").inputs[1]?.name).toBe("weight");
    await expectSameResults(model, dims);
  }
});

test("a product with a bias", async () => {
  const constants = [weights("weight", words, width), weights("bias", words)];
  const model = tied([turn(), node("MatMul", ["x", "turned"], ["product"]), node("Add", ["product", "bias"], ["y"])], {
    constants,
  });
  expect(operatorsOf(model)).toEqual(["FusedMatMul", "Add"]);
  await expectSameResults(model, dims);
});

test("rows of a table, by indices of any rank", async () => {
  const constants = [weights("weight", width, words)];
  for (const shape of [["batch", "sequence"], ["batch"], [], ["batch", 1, "sequence"]]) {
    const model = modelOf({
      inputs: { ids: value("ids", "int64", shape) },
      outputs: ["y"],
      constants,
      nodes: [turn(), node("Gather", ["turned", "ids"], ["y"])],
    });
    expect(operatorsOf(model)).toEqual(["Gather", "Transpose"]);
    expect(onlyNode(optimized(model), "Gather").inputs[0]?.name).toBe("weight");
    await expectSameResults(model, dims);
  }
});

test("one matrix for embedding and head, either of them transposed", async () => {
  for (const first of [true, false]) {
    const [lookedUp, multiplied] = first ? ["turned", "weight"] : ["weight", "turned"];
    const model = modelOf({
      inputs: { ids },
      outputs: ["y"],
      constants: [first ? weights("weight", width, words) : weights("weight", words, width)],
      nodes: [
        turn(),
        node("Gather", [lookedUp, "ids"], ["rows"]),
        node("Tanh", ["rows"], ["hidden"]),
        node("MatMul", ["hidden", multiplied], ["y"]),
      ],
    });
    const transposes = optimized(model).nodes.filter(({ op }) => op.name === "Transpose");
    expect(transposes.flatMap(({ inputs }) => inputs.filter((input) => input?.initializer !== undefined))).toEqual([]);
    await expectSameResults(model, dims);
  }
});

test("the transposed matrix stays for readers that need it", async () => {
  const model = tied([turn(), multiply, node("ReduceSum", ["turned", "axes"], ["z"])], {
    outputs: ["y", "z"],
    constants: [weights("weight", words, width), initializer("axes", "int64", [0n], [1])],
  });
  expect(operatorsOf(model).toSorted()).toEqual(["FusedMatMul", "ReduceSum", "Transpose"]);
  await expectSameResults(model, dims);
});

test("left alone: weights that are fed, columns, vectors, batches of matrices, an order that changes nothing", () => {
  const fed = { weight: value("weight", "float32", [words, width]) };
  expectLeftAlone(tied([turn(), multiply], { inputs: { x, ...fed }, constants: [] }));
  expectLeftAlone(tied([turn(), multiply], { inputs: { x, ...fed } }));
  expectLeftAlone(tied([turn(), multiply], { inputs: { x: [width] } }));
  expectLeftAlone(tied([turn(), node("Gather", ["turned", "ids"], ["y"], { axis: 1 })], { inputs: { ids } }));
  expectLeftAlone(
    tied([turn({ perm: [0, 2, 1] }), multiply], {
      inputs: { x: [2, 3, width] },
      constants: [weights("weight", 2, words, width)],
    }),
  );
});
