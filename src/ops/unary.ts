/** How element-wise operators of one operand are declared: everything but the function is the same for all of them. */
import type { Attribute } from "../graph/attribute.js";
import type { Dim } from "../graph/dim.js";
import { reuse } from "../graph/effect.js";
import { type AttributeResults, defineOp, type Op, tensor } from "../graph/op.js";
import type { ElementType } from "../tensor/element-type.js";
import { mapElements, type Unary } from "./elementwise.js";
import { combineIntegers } from "./integer-facts.js";

/** What one element-wise operator of one operand adds to the common form. */
export interface UnaryDeclaration<A> {
  readonly name: string;
  readonly since: number;
  readonly types: readonly ElementType[];
  /** ONNX's names of the operand and the result: X and Y when left out. */
  readonly names?: readonly [input: string, output: string];
  readonly attrs?: A;
  /** The function for a node's attributes. */
  apply(attrs: AttributeResults<A>): Unary;
  /** The function on symbols, where shape arithmetic uses it. */
  readonly integer?: (x: Dim) => Dim | undefined;
}

/** Declares Y = f(X): the same shape and type, the buffer taken over where it is free. */
export function unaryOp<const A extends Readonly<Record<string, Attribute<unknown>>> = Readonly<Record<never, never>>>(
  declaration: UnaryDeclaration<A>,
): Op {
  const { name, since, types, names = ["X", "Y"], attrs, integer } = declaration;
  const [input, output] = names;
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
  });
}
