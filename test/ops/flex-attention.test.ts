// FlexAttention with subgraphs; here they are functions that stand in for them.
import { expect, test } from "vitest";
import { of } from "../../tools/cases/shared/case.js";
import { type Callable, evaluate } from "../../src/graph/call.js";
import { type Fact, factOfView } from "../../src/graph/fact.js";
import { operators } from "../../src/ops/index.js";
import { readNumbers, writeNumbers } from "../../src/tensor/access.js";
import { View } from "../../src/tensor/view.js";

type Modifier = (values: number[], shape: readonly number[]) => number[];

function run(
  modifiers: Readonly<Record<string, Modifier>>,
  inputs: readonly View[],
  change: (fact: Fact) => Fact = (fact) => fact,
): { y: number[]; seen: string[] } {
  const op = operators.find("ai.onnx.preview", "FlexAttention", 1)!;
  const attrs = Object.fromEntries(Object.keys(modifiers).map((name) => [name, true]));
  const node: Callable = { op, label: 'FlexAttention "test"', opset: 1, attrs, wanted: [true] };
  const seen: string[] = [];
  const outputs = evaluate(
    node,
    inputs,
    inputs.map(factOfView),
    (_, facts) => facts.map(change),
    (name, views) => {
      seen.push(`${name} ${views[0]}`);
      const result = View.allocate(views[0].type, views[0].shape);
      writeNumbers(result, modifiers[name](Array.from(readNumbers(views[0])), views[0].shape));
      return [result];
    },
  );
  return { y: Array.from(readNumbers(outputs[0]!)), seen };
}

const zeros = (...shape: number[]): View => View.allocate("float16", shape);
const inputs = [zeros(1, 1, 2, 1), zeros(1, 1, 2, 1), of("float16", [1, 1, 2, 1], [2, 4])];

test("score_mod changes scores before softmax, in float32 for halves", () => {
  // A causal mask: position 1 of row 0.
  const { y, seen } = run({ score_mod: (scores) => scores.with(1, -Infinity) }, inputs);
  expect(y).toEqual([2, 3]);
  expect(seen).toEqual(["score_mod float32[1,1,2,2]"]);
});

test("prob_mod changes probabilities after softmax", () => {
  const { y, seen } = run(
    { score_mod: (scores) => scores, prob_mod: (weights) => weights.map((weight) => weight * 2) },
    inputs,
  );
  expect(y).toEqual([6, 6]);
  expect(seen).toEqual(["score_mod float32[1,1,2,2]", "prob_mod float32[1,1,2,2]"]);
});

test("a row whose scores are all −∞ has no softmax", () => {
  expect(run({ score_mod: (scores) => scores.map((score, i) => (i < 2 ? -Infinity : score)) }, inputs).y).toEqual([
    NaN,
    3,
  ]);
});

test("a modifier that changes type or shape is refused", () => {
  const modifiers = { score_mod: (scores: number[]): number[] => scores };
  expect(() => run(modifiers, inputs, (fact) => ({ ...fact, type: "float16" }))).toThrow(
    /score_mod must keep type and shape, got float16\[1,1,2,2\] for float32\[1,1,2,2\]/,
  );
  expect(() => run(modifiers, inputs, (fact) => ({ ...fact, shape: [1, 1, 2] }))).toThrow(
    /score_mod must keep type and shape/,
  );
});
