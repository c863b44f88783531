/** The axes that a reduction goes along, as its kernels ask for them. */
import type { CallOf } from "../../graph/kernel.js";
import { readIntegers } from "../../tensor/access.js";
import { fromFront } from "../shared/rules/layout.js";
import * as ops from "./op.js";

/** The declarations of one reduction: axes as an attribute, axes as an input. */
export type Versions = readonly [typeof ops.ReduceSumByAttribute, typeof ops.ReduceSum];

/** All reductions. */
export const reductions = {
  Sum: [ops.ReduceSumByAttribute, ops.ReduceSum],
  Mean: [ops.ReduceMeanByAttribute, ops.ReduceMean],
  Prod: [ops.ReduceProdByAttribute, ops.ReduceProd],
  Max: [ops.ReduceMaxByAttribute, ops.ReduceMax],
  Min: [ops.ReduceMinByAttribute, ops.ReduceMin],
  L1: [ops.ReduceL1ByAttribute, ops.ReduceL1],
  L2: [ops.ReduceL2ByAttribute, ops.ReduceL2],
  SumSquare: [ops.ReduceSumSquareByAttribute, ops.ReduceSumSquare],
  LogSum: [ops.ReduceLogSumByAttribute, ops.ReduceLogSum],
  LogSumExp: [ops.ReduceLogSumExpByAttribute, ops.ReduceLogSumExp],
} as const satisfies Readonly<Record<string, Versions>>;

/** The axes in order, counted from the front; undefined where they are data. */
export function axesOf({ inputs, attrs }: CallOf<Versions[number]>): readonly number[] | undefined {
  const { shape } = inputs.data;
  const operand = "axes" in inputs ? inputs.axes : undefined;
  if (operand?.known === false) return undefined;
  const given = operand === undefined ? ("axes" in attrs ? attrs.axes : undefined) : readIntegers(operand.view);
  if (given === undefined || given.length === 0)
    return "noop_with_empty_axes" in attrs && attrs.noop_with_empty_axes ? [] : shape.map((_, axis) => axis);
  return given.map((axis) => fromFront(axis, shape)).sort((a, b) => a - b);
}
