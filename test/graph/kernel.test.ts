// Kernels of any device: bound to declarations and so to versions, called by the names and types that the declarations give.
import { describe, expect, expectTypeOf, test } from "vitest";
import { flag, int, oneOf } from "../../src/graph/attribute.js";
import type { Callable } from "../../src/graph/call.js";
import {
  type CallOf,
  chooseKernel,
  findOperand,
  type Kernel,
  kernelCall,
  kernelTable,
  type Operand,
} from "../../src/graph/kernel.js";
import { defineOp, type Op, optional, tensor, variadic } from "../../src/graph/op.js";
import { wasmKernel } from "../../src/wasm-kernels/wasm-kernel.js";
import { View } from "../../src/tensor/view.js";

const common = {
  name: "Join",
  types: { T: ["float32"] },
  outputs: { joined: tensor("T") },
  infer: () => ({}),
  reference: () => undefined,
} as const;

const Join1 = defineOp({ ...common, since: 1, inputs: { data: tensor("T") }, attrs: { axis: int(0) } });
const Join9 = defineOp({
  ...common,
  since: 9,
  inputs: { data: tensor("T"), axes: optional(tensor("int64")) },
  attrs: { mode: oneOf(["near", "far"], "near"), stable: flag(false) },
});
const Parts = defineOp({
  ...common,
  name: "Parts",
  since: 1,
  inputs: { first: tensor("T"), skipped: optional(tensor("T")), rest: variadic(tensor("T")) },
  outputs: { whole: tensor("T"), parts: variadic(tensor("T")) },
});

const operand = (size: number): Operand => {
  const view = View.allocate("float32", [size]);
  const { type, shape, strides, contiguous } = view;
  return { type, shape, strides, contiguous, constant: false, known: false, place: view, view };
};

const nodeOf = (op: Op, outputs = 1): Callable => ({
  op,
  label: `${op.name} "node"`,
  opset: 20,
  attrs: {},
  wanted: Array.from({ length: outputs }, () => true),
});

const always = (ops: Kernel["ops"]): Kernel => ({ ops, accepts: () => true });
const never = (ops: Kernel["ops"], reason: string): Kernel => ({ ops, accepts: () => reason });

describe("a kernel serves the declarations that it names", () => {
  const call = kernelCall(nodeOf(Join1), [operand(3)], [operand(3)]);

  test("a later version of the same operator has none until one names it", () => {
    const table = kernelTable([always([Join1])]);
    expect(chooseKernel(table, Join1, call).kernel).toBeDefined();
    expect(chooseKernel(table, Join9, call)).toEqual({ kernel: undefined, reasons: ["it has no kernel"] });
    const both = always([Join1, Join9]);
    expect(chooseKernel(kernelTable([both]), Join9, call).kernel).toBe(both);
  });

  test("nor has another declaration of the same name and version", () => {
    const again = defineOp({ ...common, since: 1, inputs: { data: tensor("T") } });
    expect(chooseKernel(kernelTable([always([Join1])]), again, call).kernel).toBeUndefined();
  });

  test("they are tried in order, and reasons are told once each", () => {
    const last = always([Join1]);
    const refusing = [never([Join1], "too long"), never([Join9, Join1], "too wide"), never([Join1], "too long")];
    expect(chooseKernel(kernelTable([...refusing, last]), Join1, call).kernel).toBe(last);
    expect(chooseKernel(kernelTable(refusing), Join1, call).reasons).toEqual(["too long", "too wide"]);
  });
});

describe("a call has the names of its declaration", () => {
  const [a, b, c, d, e] = [1, 2, 3, 4, 5].map(operand);
  /** All operands, in the order in which they are looked at. */
  const allOf = (call: ReturnType<typeof kernelCall>): readonly Operand[] => {
    const seen: Operand[] = [];
    findOperand(call, (each) => seen.push(each) < 0);
    return seen;
  };

  test("operands that are left out, any number of them, outputs that nobody asks for", () => {
    const call = kernelCall(nodeOf(Parts, 4), [a, undefined, b, c], [undefined, d, undefined, e]);
    expect(call.inputs).toEqual({ first: a, skipped: undefined, rest: [b, c] });
    expect(call.outputs).toEqual({ whole: undefined, parts: [d, undefined, e] });
    expect(allOf(call)).toEqual([a, b, c, d, e]);
  });

  test("what stands behind the last operand that is given is there, as undefined", () => {
    const call = kernelCall(nodeOf(Join9), [a], [b]);
    expect("axes" in call.inputs).toBe(true);
    expect(allOf(call)).toEqual([a, b]);
  });

  test("and its types, which the compiler checks", () => {
    type Call = CallOf<typeof Join9>;
    expectTypeOf<Call["inputs"]>().toEqualTypeOf<{ readonly data: Operand; readonly axes: Operand | undefined }>();
    expectTypeOf<Call["outputs"]>().toEqualTypeOf<{ readonly joined: Operand }>();
    expectTypeOf<Call["attrs"]>().toEqualTypeOf<{ readonly mode: "near" | "far"; readonly stable: boolean }>();
    expectTypeOf<CallOf<typeof Parts>["inputs"]["rest"]>().toEqualTypeOf<readonly Operand[]>();
    expectTypeOf<CallOf<typeof Parts>["outputs"]>().toEqualTypeOf<{
      readonly whole: Operand | undefined;
      readonly parts: readonly (Operand | undefined)[];
    }>();
    // Of several versions, what all have is there without a test.
    wasmKernel([Join1, Join9], {
      accepts({ inputs, attrs }) {
        expectTypeOf(inputs).toHaveProperty("data");
        expectTypeOf(inputs).not.toHaveProperty("axes");
        expectTypeOf(attrs).not.toHaveProperty("axis");
        if ("axes" in inputs) expectTypeOf(inputs.axes).toEqualTypeOf<Operand | undefined>();
        return true;
      },
      record: () => undefined,
    });
  });
});
