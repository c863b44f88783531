/** How element-wise operators of one operand are declared: everything but the function is the same for all of them. */
import type { Dim } from "../../../graph/dim.js";
import { reuse } from "../../../graph/effect.js";
import {
  type AttributeResults,
  type Attributes,
  type DeclaredOp,
  defineOp,
  type NoAttributes,
  type Singles,
  tensor,
} from "../../../graph/op.js";
import type { ElementType } from "../../../tensor/element-type.js";
import { mapElements, type Unary } from "../loops/elementwise.js";
import { combineIntegers } from "../rules/integer-facts.js";

/** What one element-wise operator of one operand adds to the common form. */
interface UnaryDeclaration<A, Input extends string, Output extends string> {
  readonly name: string;
  readonly since: number;
  readonly types: readonly ElementType[];
  /** ONNX's names of the operand and the result: X and Y when left out. */
  readonly names?: readonly [input: Input, output: Output];
  readonly attrs?: A;
  /** The function for a node's attributes. */
  apply(attrs: AttributeResults<A>): Unary;
  /** The function on symbols, where shape arithmetic uses it. */
  readonly integer?: (x: Dim) => Dim | undefined;
}

/** Declares Y = f(X): the same shape and type, the buffer taken over where it is free. */
export function unaryOp<
  const A extends Attributes = NoAttributes,
  const Input extends string = "X",
  const Output extends string = "Y",
>(declaration: UnaryDeclaration<A, Input, Output>): DeclaredOp<Singles<Input>, Singles<Output>, A> {
  const { name, since, types, attrs, integer } = declaration;
  const [input, output]: readonly [string, string] = declaration.names ?? ["X", "Y"];
  return defineOp({
    name,
    since,
    types: { T: types },
    inputs: { [input]: tensor("T") },
    outputs: { [output]: tensor("T") },
    ...(attrs === undefined ? {} : { attrs }),
    effects: { [output]: reuse(input) },
    infer: ({ inputs }) => ({ [output]: { shape: inputs[input].shape } }),
    integers: ({ inputs }) => integer && combineIntegers([inputs[input]], inputs[input].type, ([x]) => integer(x)),
    reference: (call) =>
      mapElements(call.inputs[input], call.outputs[output], declaration.apply(call.attrs as AttributeResults<A>)),
  }) as DeclaredOp<Singles<Input>, Singles<Output>, A>; // by the names above
}
