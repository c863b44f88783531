// Runs the cases that stand beside each operator, on the reference implementation: once with everything known when shapes are inferred, and once
// as a compiled program runs it, with shapes inferred beforehand and the data there only when the operator is called.
import { expect, test } from "vitest";
import { readAttributes } from "../../src/graph/attribute.js";
import { caseAttributes, type OpCase } from "../../tools/cases/shared/case.js";
import { type Callable, callReference, evaluate, inferOutputs, validateOperands } from "../../src/graph/call.js";
import { isKnownShape } from "../../src/graph/dim.js";
import { factOfView } from "../../src/graph/fact.js";
import { operators } from "../../src/ops/index.js";
import { View } from "../../src/tensor/view.js";
import { compareViews } from "../support/compare.js";

const modules = import.meta.glob<{ cases: readonly OpCase[] }>("../../tools/cases/*.ts", { eager: true });

const none = (): never => {
  throw new Error("cases have no subgraphs");
};

function nodeOf(example: OpCase): Callable {
  const { domain = "", opset } = example;
  const label = `${example.op} "case"`;
  const op = operators.find(domain, example.op, opset);
  if (op === undefined) throw operators.missing(domain, example.op, opset, label);
  const wanted = example.outputs?.map((view) => view !== undefined) ?? [true].slice(0, Object.keys(op.outputs).length);
  return { op, label, opset, attrs: readAttributes(op.attrs, caseAttributes(example.attrs), label), wanted };
}

function runKnowing(example: OpCase): (View | undefined)[] {
  const { inputs } = example;
  return evaluate(
    nodeOf(example),
    inputs,
    inputs.map((view) => view && factOfView(view)),
    none,
    none,
  );
}

/** As a program does; an output whose shape the data decide makes the whole call a dynamic one. */
function runCompiled(example: OpCase): (View | undefined)[] {
  const { inputs } = example;
  const node = nodeOf(example);
  const facts = inferOutputs(
    node,
    inputs.map((view) => view && { type: view.type, shape: view.shape }),
    none,
  );
  if (facts.some((fact, at) => node.wanted[at] && !isKnownShape(fact.shape))) return runKnowing(example);
  const outputs = facts.map((fact, at) =>
    node.wanted[at] ? View.allocate(fact.type, fact.shape as number[]) : undefined,
  );
  validateOperands(
    node,
    inputs.map((view) => view && factOfView(view)),
  );
  callReference(node, inputs, outputs, facts, none);
  return outputs;
}

for (const [path, { cases }] of Object.entries(modules)) {
  const folder = path.split("/").at(-2)!;
  for (const example of cases) {
    test(`${folder}: ${example.op}-${example.opset}: ${example.shows}`, () => {
      for (const run of [runKnowing, runCompiled]) check(run, example);
    });
  }
}

function check(run: (example: OpCase) => (View | undefined)[], example: OpCase): void {
  if (example.throws !== undefined) return expect(() => run(example), run.name).toThrow(example.throws);
  const outputs = run(example);
  example.outputs!.forEach((expected, position) => {
    if (expected === undefined) return;
    expect(compareViews(outputs[position]!, expected, { tolerance: example.tolerance ?? 0 }), run.name).toBe("");
  });
}
