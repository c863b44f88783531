/** Operators that fold any number of operands into one, with numpy's broadcasting. */
import { type Dim, maxDim, minDim } from "../../graph/dim.js";
import { reuse } from "../../graph/effect.js";
import {
  type DeclaredOp,
  defineOp,
  type NoAttributes,
  type Parameter,
  type Singles,
  tensor,
  variadic,
} from "../../graph/op.js";
import type { ElementType } from "../../tensor/element-type.js";
import { type Binary, foldElements } from "../shared/loops/elementwise.js";
import { combineIntegers } from "../shared/rules/integer-facts.js";
import { broadcastShapes } from "../shared/rules/shapes.js";
import { floats, numeric } from "../shared/rules/types.js";

interface Fold<Output extends string> extends Binary {
  readonly name: string;
  /** The output's name. */
  readonly output: Output;
  readonly types: readonly ElementType[];
  /** The fold on symbols. */
  readonly integer?: (x: Dim, y: Dim) => Dim;
  /** The fold picks the largest operand. */
  readonly largest?: boolean;
  /** What becomes of the folded value of `count` operands. */
  readonly finish?: (value: number, count: number) => number;
}

/** The operator that folds `data_0` into an output of this name. */
type FoldOp<Output extends string> = DeclaredOp<
  { readonly data_0: Parameter<"variadic"> },
  Singles<Output>,
  NoAttributes
>;

function foldOp<const Output extends string>(fold: Fold<Output>): FoldOp<Output> {
  const { name, types, number, bigint, integer, finish, largest = false } = fold;
  const output: string = fold.output;
  return defineOp({
    name,
    since: 6,
    largest,
    types: { T: types },
    inputs: { data_0: variadic(tensor("T")) },
    outputs: { [output]: tensor("T") },
    effects: { [output]: reuse("data_0") },
    infer: (call) => ({
      [output]: {
        shape: broadcastShapes(
          call,
          call.inputs.data_0.map((operand) => operand.shape),
        ),
      },
    }),
    integers: ({ inputs: { data_0: operands } }) =>
      integer && combineIntegers(operands, operands[0].type, (dims) => dims.reduce((x, y) => integer(x, y))),
    reference({ inputs: { data_0: operands }, outputs }) {
      foldElements(
        operands,
        outputs[output],
        { number, bigint },
        finish && ((value) => finish(value, operands.length)),
      );
    },
  }) as FoldOp<Output>; // by the name above
}

/** The largest of the operands; NaN if one is. */
export const Max = foldOp({
  name: "Max",
  output: "max",
  types: numeric,
  number: Math.max,
  bigint: (x, y) => (x > y ? x : y),
  integer: maxDim,
  largest: true,
});

/** The smallest of the operands; NaN if one is. */
export const Min = foldOp({
  name: "Min",
  output: "min",
  types: numeric,
  number: Math.min,
  bigint: (x, y) => (x < y ? x : y),
  integer: minDim,
});

/** The sum of the operands. */
export const Sum = foldOp({ name: "Sum", output: "sum", types: floats, number: (x, y) => x + y });

/** The mean of the operands. */
export const Mean = foldOp({
  name: "Mean",
  output: "mean",
  types: floats,
  number: (x, y) => x + y,
  finish: (sum, count) => sum / count,
});
