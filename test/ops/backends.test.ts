// The cases that stand beside each operator, as models of one node, on every backend: operands fed, and constant where that can make
// another path be taken. The tests run all of them on WASM and some on the others (test/support/backends.ts), the soak all of them everywhere.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import type { CaseAttribute, OpCase } from "../../tools/cases/shared/case.js";
import { type AttributeInput, buildModel, float, floats, initializer, node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { backends } from "../support/backends.js";
import { compareViews } from "../support/compare.js";
import { keepDevice } from "../support/device.js";

const modules = import.meta.glob<{ cases: readonly OpCase[] }>("../../tools/cases/*.ts", { eager: true });

function attributeOf(given: CaseAttribute): AttributeInput {
  if (given instanceof View) return Tensor.fromView(given);
  if (typeof given === "object" && "float" in given) return float(given.float);
  if (typeof given === "object" && "floats" in given) return floats(given.floats);
  return given as AttributeInput;
}

/** A model of the case's node alone. `constant` says which operands are weights of it. */
function modelOf(example: OpCase, constant: (position: number) => boolean): Model {
  const { op, domain = "", opset, attrs = {}, inputs } = example;
  const name = (at: number): string => `operand${at}`;
  const outputs = example.outputs ?? [undefined, inputs[0]].slice(1, 2);
  const given = inputs.flatMap((view, at) => (view === undefined ? [] : [{ view, at }]));
  const values = Object.fromEntries(Object.entries(attrs).map(([key, each]) => [key, attributeOf(each)]));
  return buildModel({
    opset: domain === "" ? opset : { "": 24, [domain]: opset },
    inputs: given.filter(({ at }) => !constant(at)).map(({ view, at }) => value(name(at), view.type, [...view.shape])),
    outputs: outputs.flatMap((view, at) => (view === undefined ? [] : [value(`result${at}`)])),
    initializers: given
      .filter(({ at }) => constant(at))
      .map(({ view, at }) => initializer(name(at), Tensor.fromView(view))),
    nodes: [
      node(
        op,
        inputs.map((view, at) => (view === undefined ? "" : name(at))),
        outputs.map((view, at) => (view === undefined ? "" : `result${at}`)),
        values,
        { name: "case", domain },
      ),
    ],
  });
}

async function run(
  example: OpCase,
  constant: (position: number) => boolean,
  options: object,
): Promise<Map<number, View>> {
  const session = await InferenceSession.create(writeModel(modelOf(example, constant)), options);
  try {
    const feeds = Object.fromEntries(
      example.inputs.flatMap((view, at) =>
        view === undefined || constant(at) ? [] : [[`operand${at}`, Tensor.fromView(view)]],
      ),
    );
    const results = await session.run(feeds);
    return new Map(
      Object.entries(results).map(([name, tensor]) => [Number(name.slice("result".length)), tensor.toView()]),
    );
  } finally {
    await session.release();
  }
}

/** Operands fed; and all but the first one constant, as weights and indices are in models. */
const ways = [
  ["fed", () => false],
  ["with weights", (position: number) => position > 0],
] as const;

describe.each(backends)("on $name", ({ name: backend, options, exceptions, tolerance = 0, every = 1 }) => {
  let letGo: (() => Promise<void>) | undefined;
  beforeAll(async () => {
    if (backend === "webgpu") letGo = await keepDevice();
  });
  afterAll(() => letGo?.());

  for (const [path, { cases }] of Object.entries(modules)) {
    const folder = path.split("/").at(-2)!;
    test(folder, async () => {
      const problems: string[] = [];
      for (const example of cases.filter((_, at) => at % every === folder.length % every))
        for (const [way, constant] of ways) {
          const name = `${example.op}-${example.opset}: ${example.shows} (${way})`;
          const exception = exceptions.find((each) => name.startsWith(each.case));
          const problem = await problemOf(example, constant, options, tolerance);
          if (exception === undefined && problem !== "") problems.push(`${name}: ${problem}`);
          if (exception !== undefined && exception.sometimes !== true && problem === "")
            problems.push(`${name}: the exception no longer holds`);
        }
      expect(problems).toEqual([]);
    });
  }
});

async function problemOf(
  example: OpCase,
  constant: (position: number) => boolean,
  options: object,
  leastTolerance: number,
): Promise<string> {
  let results: Map<number, View>;
  try {
    results = await run(example, constant, options);
  } catch (error) {
    if (example.throws === undefined) return String(error);
    return example.throws.test(String(error)) ? "" : `must be refused with ${example.throws}, got ${String(error)}`;
  }
  if (example.throws !== undefined) return `must be refused with ${example.throws}`;
  return example
    .outputs!.flatMap((expected, at) =>
      expected === undefined
        ? []
        : [compareViews(results.get(at)!, expected, { tolerance: Math.max(example.tolerance ?? 0, leastTolerance) })],
    )
    .join("");
}
