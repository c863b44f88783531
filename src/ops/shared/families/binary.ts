/** How element-wise operators of two operands are declared: broadcasting, types and effects are the same for all of them. */
import type { Dim } from "../../../graph/dim.js";
import { reuse } from "../../../graph/effect.js";
import {
  type AttributeResults,
  type Attributes,
  type CallContext,
  type DeclaredOp,
  defineOp,
  type NoAttributes,
  type Singles,
  tensor,
} from "../../../graph/op.js";
import { type ElementType, traitsOf } from "../../../tensor/element-type.js";
import { type Binary, testElements, zipElements } from "../loops/elementwise.js";
import { combineIntegers } from "../rules/integer-facts.js";
import { broadcastShapes } from "../rules/shapes.js";

/** What one element-wise operator of two operands adds to the common form. */
interface BinaryDeclaration<A, Left extends string, Right extends string, Output extends string> {
  readonly name: string;
  readonly since: number;
  readonly types: readonly ElementType[];
  /** ONNX's names of the operands and the result: A, B and C when left out. */
  readonly names?: readonly [left: Left, right: Right, output: Output];
  readonly attrs?: A;
  /** Checks of attributes against the element type. */
  check?(call: CallContext, attrs: AttributeResults<A>, type: ElementType): void;
  /** The function for a node's attributes and element type. */
  apply(attrs: AttributeResults<A>, type: ElementType): Binary;
  /** The function on symbols, where shape arithmetic uses it. */
  readonly integer?: (x: Dim, y: Dim, attrs: AttributeResults<A>) => Dim | undefined;
}

/** True for the integer types, packed ones included. */
export const isInteger = (type: ElementType): boolean => traitsOf(type).kind === "integer";

/** Declares C = f(A, B) with numpy's broadcasting: operands and result of one type, an operand's buffer taken over where it is free. */
export function binaryOp<
  const A extends Attributes = NoAttributes,
  const Left extends string = "A",
  const Right extends string = "B",
  const Output extends string = "C",
>(declaration: BinaryDeclaration<A, Left, Right, Output>): DeclaredOp<Singles<Left | Right>, Singles<Output>, A> {
  const { name, since, types, attrs, integer } = declaration;
  const [left, right, output]: readonly [string, string, string] = declaration.names ?? ["A", "B", "C"];
  return defineOp({
    name,
    since,
    types: { T: types },
    inputs: { [left]: tensor("T"), [right]: tensor("T") },
    outputs: { [output]: tensor("T") },
    ...(attrs === undefined ? {} : { attrs }),
    effects: { [output]: reuse(left, right) },
    infer(call) {
      const [a, b] = [call.inputs[left], call.inputs[right]];
      declaration.check?.(call, call.attrs as AttributeResults<A>, a.type);
      return { [output]: { shape: broadcastShapes(call, [a.shape, b.shape]) } };
    },
    integers({ inputs, attrs: values }) {
      const [a, b] = [inputs[left], inputs[right]];
      return integer && combineIntegers([a, b], a.type, ([x, y]) => integer(x, y, values as AttributeResults<A>));
    },
    reference({ inputs, outputs, attrs: values }) {
      const a = inputs[left];
      zipElements(a, inputs[right], outputs[output], declaration.apply(values as AttributeResults<A>, a.type));
    },
  }) as DeclaredOp<Singles<Left | Right>, Singles<Output>, A>; // by the names above
}

/** What a comparison adds to the common form. */
interface ComparisonDeclaration {
  readonly name: string;
  readonly since: number;
  readonly types: readonly ElementType[];
  readonly test: (x: number | bigint | string, y: number | bigint | string) => boolean;
  /** The answer on symbols; undefined where they cannot tell. */
  readonly integer: (x: Dim, y: Dim) => boolean | undefined;
}

/** Declares C = A ⋚ B with numpy's broadcasting; C is bool. */
export function comparisonOp({ name, since, types, test, integer }: ComparisonDeclaration) {
  return defineOp({
    name,
    since,
    types: { T: types },
    inputs: { A: tensor("T"), B: tensor("T") },
    outputs: { C: tensor("bool") },
    infer: (call) => ({ C: { shape: broadcastShapes(call, [call.inputs.A.shape, call.inputs.B.shape]) } }),
    integers: ({ inputs }) =>
      combineIntegers([inputs.A, inputs.B], "bool", ([x, y]) => {
        const answer = integer(x, y);
        return answer === undefined ? undefined : Number(answer);
      }),
    reference: ({ inputs, outputs }) => testElements(inputs.A, inputs.B, outputs.C, test),
  });
}
