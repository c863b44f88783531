// Runs the cases that stand beside each operator, on the slow truth.
import { expect, test } from "vitest";
import { readAttributes } from "../../src/graph/attribute.js";
import { caseAttributes, type OpCase } from "../../src/graph/case.js";
import { type Callable, evaluate } from "../../src/graph/call.js";
import { factOfView } from "../../src/graph/fact.js";
import { operators } from "../../src/ops/index.js";
import type { View } from "../../src/tensor/view.js";
import { compareViews } from "../compare.js";

const modules = import.meta.glob<{ cases: readonly OpCase[] }>("../../src/ops/*/cases.ts", { eager: true });

function run(example: OpCase): (View | undefined)[] {
  const { domain = "", opset, inputs } = example;
  const label = `${example.op} "case"`;
  const op = operators.find(domain, example.op, opset);
  if (op === undefined) throw operators.missing(domain, example.op, opset, label);
  const names = Object.keys(op.outputs);
  const wanted = example.outputs?.map((view) => view !== undefined) ?? [true].slice(0, names.length);
  const node: Callable = { op, label, opset, attrs: readAttributes(op.attrs, caseAttributes(example.attrs), label), wanted };
  const none = (): never => {
    throw new Error("cases have no subgraphs");
  };
  return evaluate(node, inputs, inputs.map((view) => view && factOfView(view)), none, none);
}

for (const [path, { cases }] of Object.entries(modules)) {
  const folder = path.split("/").at(-2)!;
  for (const example of cases) {
    test(`${folder}: ${example.op}-${example.opset}: ${example.shows}`, () => {
      if (example.throws !== undefined) return expect(() => run(example)).toThrow(example.throws);
      const outputs = run(example);
      example.outputs!.forEach((expected, position) => {
        if (expected === undefined) return;
        expect(compareViews(outputs[position]!, expected, { tolerance: example.tolerance ?? 0 })).toBe("");
      });
    });
  }
}
