// Nodes that are alike are inferred once: what they are told is what each would be told alone, and what a rule looked at decides.
import { expect, test, vi } from "vitest";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { LikeNodes } from "../../src/graph/like-nodes.js";
import { inferBody } from "../../src/graph/infer.js";
import { buildGraph } from "../../src/graph/build.js";
import { addDims, symbol, termsLeft, unknownDim, withTermAllowance } from "../../src/graph/dim.js";
import type { Fact } from "../../src/graph/fact.js";
import { operators } from "../../src/ops/index.js";

const model = (nodes: readonly ReturnType<typeof node>[]) =>
  buildModel({
    opset: 22,
    nodes,
    inputs: [value("x", "float32", ["n", 4]), value("s", "int64", [2])],
    outputs: [value("y", "float32")],
  });
const nodesOf = (nodes: readonly ReturnType<typeof node>[]) => buildGraph(model(nodes), operators).nodes;
const matrix: Fact = { type: "float32", shape: [symbol("n"), 4] };

test("one is asked for all that are given the same; others are asked themselves", () => {
  const turn = (perm: number[], at: number) => node("Transpose", ["x"], [`t${at}`], { perm });
  const [first, second, other] = nodesOf([
    turn([1, 0], 0),
    turn([1, 0], 1),
    turn([0, 1], 2),
    node("Relu", ["t2"], ["y"]),
  ]);
  const like = new LikeNodes();
  const infer = vi.fn((): Fact[] => [{ type: "float32", shape: [4, symbol("n")] }]);
  const told = like.outputsOf(first, [matrix], infer);
  expect(like.outputsOf(second, [{ ...matrix }], infer)).toBe(told);
  expect(infer).toHaveBeenCalledTimes(1);
  like.outputsOf(other, [matrix], infer);
  like.outputsOf(second, [{ ...matrix, shape: [symbol("m"), 4] }], infer);
  expect(infer).toHaveBeenCalledTimes(3);
});

test("a dimension's name may be any text", () => {
  const [first, second] = nodesOf([node("Relu", ["x"], ["r"]), node("Relu", ["r"], ["y"])]);
  const like = new LikeNodes();
  const infer = vi.fn((): Fact[] => [{ type: "float32", shape: [] }]);
  like.outputsOf(first, [{ type: "float32", shape: [symbol("a,b"), symbol("c")] }], infer);
  like.outputsOf(second, [{ type: "float32", shape: [symbol("a"), symbol("b,c")] }], infer);
  like.outputsOf(second, [{ type: "float32", shape: [4] }], infer);
  like.outputsOf(second, [{ type: "float32", shape: [symbol("4")] }], infer);
  expect(infer).toHaveBeenCalledTimes(4);
});

test("contents that a rule looked at decide, and what it made up is nobody else's", () => {
  const reshape = (at: number) => node("Reshape", ["x", "s"], [at === 2 ? "y" : `r${at}`]);
  const [first, second] = nodesOf([reshape(0), reshape(1), reshape(2)]);
  const like = new LikeNodes();
  const shapeFact = (integers: readonly number[]): Fact => ({ type: "int64", shape: [2], integers });
  const infer = (inputs: readonly (Fact | undefined)[]): Fact[] => [{ type: "float32", shape: inputs[1]!.integers }];
  const [known, others] = [shapeFact([2, -1]), shapeFact([4, -1])];
  expect(like.outputsOf(first, [matrix, known], infer)[0].shape).toEqual([2, -1]);
  expect(like.outputsOf(second, [matrix, known], infer)[0].shape).toEqual([2, -1]);
  expect(like.outputsOf(second, [matrix, others], infer)[0].shape).toEqual([4, -1]);
  const fresh = (): Fact[] => [{ type: "float32", shape: [unknownDim()] }];
  const none = { ...matrix, shape: undefined };
  const made = [first, second].map((each) => String(like.outputsOf(each, [none, known], fresh)[0].shape![0]));
  expect(new Set(made).size).toBe(2);
});

test("what is taken over counts against the terms that may be worked on, as if it had been inferred", () => {
  const [first, second] = nodesOf([node("Relu", ["x"], ["r"]), node("Relu", ["r"], ["y"])]);
  const infer = vi.fn((): Fact[] => [{ type: "float32", shape: [addDims(symbol("n"), symbol("m")), 4] }]);
  const counted = withTermAllowance(100, () => {
    const own = new LikeNodes();
    return [first, second].map((each) => {
      const before = termsLeft();
      own.outputsOf(each, [matrix], infer);
      return before - termsLeft();
    });
  });
  expect(counted[0]).toBeGreaterThan(0);
  expect(counted[1]).toBe(counted[0]);
  expect(infer).toHaveBeenCalledTimes(1);
});

test("a graph of like layers is inferred as each layer alone would be", () => {
  const layers = Array.from({ length: 12 }, (_, at) =>
    node("Add", [at === 0 ? "x" : `h${at - 1}`, "x"], [at === 11 ? "y" : `h${at}`]),
  );
  const graph = buildGraph(model(layers), operators);
  const facts = new Map();
  const [out] = inferBody(graph, [matrix, { type: "int64", shape: [2] }], facts);
  expect([out.type, String(out.shape)]).toEqual(["float32", "n,4"]);
});
