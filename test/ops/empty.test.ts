// A run of no rows reads no weights: products and look-ups whose result has no element are asked for with weights that count how often
// they are touched.
import { expect, test } from "vitest";
import { readAttributes } from "../../src/graph/attribute.js";
import { caseAttributes, type OpCase } from "../../tools/cases/shared/case.js";
import { callReference, inferOutputs } from "../../src/graph/call.js";
import { factOfView } from "../../src/graph/fact.js";
import { operators } from "../../src/ops/index.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { View } from "../../src/tensor/view.js";

const zeros = (type: ElementType, ...shape: number[]): View => View.allocate(type, shape);
const microsoft = "com.microsoft";
const blocks = { K: 64, N: 32, bits: 4, block_size: 32 };

/** Operators, their operands without rows, and which operand holds the weights. */
const calls: readonly (readonly [Pick<OpCase, "op" | "domain" | "opset" | "attrs">, readonly View[], number])[] = [
  [{ op: "MatMul", opset: 13 }, [zeros("float32", 1, 0, 64), zeros("float32", 64, 32)], 1],
  [{ op: "MatMul", opset: 13 }, [zeros("float32", 0, 1, 64), zeros("float32", 64, 32)], 1],
  [{ op: "Gemm", opset: 13 }, [zeros("float32", 0, 64), zeros("float32", 64, 32), zeros("float32", 32)], 1],
  [{ op: "MatMulInteger", opset: 10 }, [zeros("uint8", 0, 64), zeros("int8", 64, 32)], 1],
  [
    { op: "QLinearMatMul", opset: 10 },
    [
      zeros("uint8", 0, 64),
      zeros("float32"),
      zeros("uint8"),
      zeros("uint8", 64, 32),
      zeros("float32"),
      zeros("uint8"),
      zeros("float32"),
      zeros("uint8"),
    ],
    3,
  ],
  [{ op: "FusedMatMul", domain: microsoft, opset: 1 }, [zeros("float32", 0, 64), zeros("float32", 64, 32)], 1],
  [
    { op: "DynamicQuantizeMatMul", domain: microsoft, opset: 1 },
    [zeros("float32", 0, 64), zeros("uint8", 64, 32), zeros("float32", 1)],
    1,
  ],
  [
    { op: "MatMulIntegerToFloat", domain: microsoft, opset: 1 },
    [zeros("uint8", 0, 64), zeros("uint8", 64, 32), zeros("float32", 1), zeros("float32", 1)],
    1,
  ],
  [
    { op: "MatMulNBits", domain: microsoft, opset: 1, attrs: blocks },
    [zeros("float32", 1, 0, 64), zeros("uint8", 32, 2, 16), zeros("float32", 32, 2)],
    1,
  ],
  [
    { op: "GatherBlockQuantized", domain: microsoft, opset: 1, attrs: { bits: 4, block_size: 32, quantize_axis: 1 } },
    [zeros("uint8", 100, 32), zeros("int64", 1, 0), zeros("float32", 100, 2)],
    0,
  ],
  [{ op: "Conv", opset: 11 }, [zeros("float32", 0, 3, 8, 8), zeros("float32", 4, 3, 3, 3)], 1],
];

/** The same view over storage that counts how often its elements are reached. */
function counting(view: View, count: () => void): View {
  const data = new Proxy(view.data, {
    get(target, name) {
      if (typeof name === "string" && /^\d+$/.test(name)) count();
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      count();
      return value.bind(target) as unknown;
    },
  });
  return new View(view.type, view.shape, data);
}

test.each(calls.map(([call, inputs, weights]) => ({ name: call.op, call, inputs, weights })))(
  "$name of no rows",
  ({ call: { op: name, domain = "", opset, attrs }, inputs, weights }) => {
    const op = operators.find(domain, name, opset)!;
    const node = {
      op,
      label: name,
      opset,
      attrs: readAttributes(op.attrs, caseAttributes(attrs), name),
      wanted: [true],
    };
    const none = (): never => expect.fail("there are no subgraphs");
    const run = (given: readonly View[]): number => {
      let touched = 0;
      const operands = given.map((view, at) => (at === weights ? counting(view, () => touched++) : view));
      const facts = inferOutputs(
        node,
        given.map((view) => ({ ...factOfView(view), constant: undefined })),
        none,
      );
      const outputs: (View | undefined)[] = facts.map(({ type, shape }) => View.allocate(type, shape as number[]));
      callReference(node, operands, outputs, facts, none);
      return touched;
    };
    expect(run(inputs)).toBe(0);
    // With a row they are read: the count counts.
    const rows = inputs.map((view, at) =>
      at === weights
        ? view
        : View.allocate(
            view.type,
            view.shape.map((dim) => (dim === 0 ? 1 : dim)),
          ),
    );
    expect(run(rows)).toBeGreaterThan(0);
  },
);
