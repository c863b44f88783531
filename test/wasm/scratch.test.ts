// Calls whose kernels need more scratch than a thread has are computed all the same: by another kernel, or by the reference implementation, and explain
// says why. A small memory gives its threads less.
import { expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import type { ModelNode } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { readNumbers, writeNumbers } from "../../src/tensor/access.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";

const small = { wasm: { memoryBytes: 2 ** 22 } };

const cases: readonly {
  readonly name: string;
  readonly node: ModelNode;
  readonly type?: "float16" | "float32";
  readonly shapes: readonly (readonly number[])[];
  readonly options: object;
  readonly slow: boolean;
}[] = [
  {
    name: "one key head for 300 query heads",
    node: node("Attention", ["x0", "x1", "x1"], ["y"]),
    shapes: [
      [1, 300, 1, 64],
      [1, 1, 4, 64],
    ],
    options: {},
    slow: true,
  },
  {
    name: "one key head for 71 query heads, in a small memory",
    node: node("Attention", ["x0", "x1", "x1"], ["y"]),
    shapes: [
      [1, 71, 1, 64],
      [1, 1, 4, 64],
    ],
    options: small,
    slow: true,
  },
  {
    name: "few long rows times weights by columns",
    node: node("Gemm", ["x0", "x1"], ["y"], { transB: 1 }),
    shapes: [
      [8, 70_000],
      [4, 70_000],
    ],
    options: {},
    slow: false,
  },
  {
    name: "a row as long as kernels take, in a small memory",
    node: node("RMSNormalization", ["x0", "x1"], ["y"]),
    type: "float16",
    shapes: [[1, 65_536], [65_536]],
    options: small,
    slow: true,
  },
];

test.each(cases)("$name", async ({ node: subject, type = "float32" as const, shapes, options, slow }) => {
  const random = seededRandom(7);
  const model = buildModel({
    opset: 24,
    inputs: shapes.map((shape, at) => value(`x${at}`, type, [...shape])),
    outputs: [value("y")],
    nodes: [subject],
  });
  const feeds = Object.fromEntries(
    shapes.map((shape, at) => {
      const view = View.allocate(type, shape);
      writeNumbers(
        view,
        Array.from({ length: view.size }, () => random() - 0.5),
      );
      return [`x${at}`, Tensor.fromView(view)];
    }),
  );
  const results: Tensor[] = [];
  for (const backend of ["reference", "wasm"] as const) {
    const own = backend === "wasm" ? { ...options, threads: 1 } : {};
    const session = await InferenceSession.create(writeModel(model), { backend, ...own });
    // Twice: what was found the first time holds.
    for (let run = 0; run < 2; run++) results.push((await session.run(feeds))["y"]);
    if (backend === "wasm") {
      const [step] = session.explain({ json: true }).steps;
      expect(step.runs).toBe(slow ? "reference" : "kernel");
      if (slow) expect(step.reasons?.join()).toMatch(/needs \d+ bytes of scratch, a thread has \d+/);
    }
    await session.release();
  }
  const [expected, ...others] = results.map((tensor) => readNumbers(tensor.toView()));
  for (const actual of others)
    actual.forEach((each: number, at: number) => {
      if (!(Math.abs(each - expected[at]) <= 1e-3 * Math.max(1, Math.abs(expected[at]))))
        expect.fail(`element ${at} is ${each}, not ${expected[at]}`);
    });
});
