/** The reductions: sums, products, extremes, means and norms along axes. The axes are an attribute at first, an input later. */
import { flag, ints } from "../../graph/attribute.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { readIntegers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import { checkRank } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";
import {
  absoluteSum,
  type Fold,
  logSum,
  logSumExp,
  maximum,
  mean,
  minimum,
  norm,
  productOfAll,
  squareSum,
  sum,
} from "./fold.js";
import { axesOfInput, reducedAxes, reducedIntegers, reducedShape, reduceView, shapeBeforeAxes } from "./reduction.js";

const summable: readonly ElementType[] = [...floats, "int32", "int64", "uint32", "uint64"];
const comparable: readonly ElementType[] = [...summable, "int8", "uint8"];

/** A reduction whose axes are an attribute. */
function byAttribute(name: string, types: readonly ElementType[], fold: Fold) {
  return defineOp({
    name,
    since: 1,
    types: { T: types },
    inputs: { data: tensor("T") },
    outputs: { reduced: tensor("T") },
    attrs: { axes: ints(), keepdims: flag(true) },

    infer(call) {
      const { shape } = call.inputs.data;
      const { axes, keepdims } = call.attrs;
      return { reduced: { shape: shape && reducedShape(call, shape, { axes, noop: false }, keepdims) } };
    },

    integers: ({ inputs, attrs }) => reducedIntegers(inputs.data, { axes: attrs.axes, noop: false }, fold),

    reference(call) {
      const { data } = call.inputs;
      reduceView(
        data,
        call.outputs.reduced,
        reducedAxes(call, data.rank, { axes: call.attrs.axes, noop: false }),
        fold,
      );
    },
  });
}

/** A reduction whose axes are an input. */
function byInput(name: string, since: number, types: readonly ElementType[], fold: Fold) {
  return defineOp({
    name,
    since,
    types: { T: types },
    inputs: { data: tensor("T"), axes: optional(tensor("int64")) },
    outputs: { reduced: tensor("T") },
    attrs: { keepdims: flag(true), noop_with_empty_axes: flag(false) },

    infer(call) {
      const { data, axes } = call.inputs;
      const { keepdims, noop_with_empty_axes: noop } = call.attrs;
      checkRank(call, "axes", axes, 1);
      if (data.shape === undefined) return {};
      const list = axesOfInput(axes);
      const shape =
        list === undefined
          ? shapeBeforeAxes(call, data.shape, axes!, keepdims)
          : reducedShape(call, data.shape, { axes: list, noop }, keepdims);
      return { reduced: { shape } };
    },

    integers({ inputs, attrs }) {
      const axes = axesOfInput(inputs.axes);
      return axes && reducedIntegers(inputs.data, { axes, noop: attrs.noop_with_empty_axes }, fold);
    },

    reference(call) {
      const { data, axes } = call.inputs;
      const choice = { axes: axes && readIntegers(axes), noop: call.attrs.noop_with_empty_axes };
      reduceView(data, call.outputs.reduced, reducedAxes(call, data.rank, choice), fold);
    },
  });
}

/** The sum of elements; axes as an attribute. */
export const ReduceSumByAttribute = byAttribute(
  "ReduceSum",
  summable.filter((type) => type !== "bfloat16"),
  sum,
);
/** The sum of elements. */
export const ReduceSum = byInput("ReduceSum", 13, summable, sum);

/** The mean of elements; axes as an attribute. */
export const ReduceMeanByAttribute = byAttribute("ReduceMean", summable, mean);
/** The mean of elements. */
export const ReduceMean = byInput("ReduceMean", 18, summable, mean);

/** The product of elements; axes as an attribute. */
export const ReduceProdByAttribute = byAttribute("ReduceProd", summable, productOfAll);
/** The product of elements. */
export const ReduceProd = byInput("ReduceProd", 18, summable, productOfAll);

/** The greatest element; axes as an attribute. */
export const ReduceMaxByAttribute = byAttribute("ReduceMax", comparable, maximum);
/** The greatest element. */
export const ReduceMax = byInput("ReduceMax", 18, [...comparable, "bool"], maximum);

/** The least element; axes as an attribute. */
export const ReduceMinByAttribute = byAttribute("ReduceMin", comparable, minimum);
/** The least element. */
export const ReduceMin = byInput("ReduceMin", 18, [...comparable, "bool"], minimum);

/** The sum of absolute values; axes as an attribute. */
export const ReduceL1ByAttribute = byAttribute("ReduceL1", summable, absoluteSum);
/** The sum of absolute values. */
export const ReduceL1 = byInput("ReduceL1", 18, summable, absoluteSum);

/** The root of the sum of squares; axes as an attribute. */
export const ReduceL2ByAttribute = byAttribute("ReduceL2", summable, norm);
/** The root of the sum of squares. */
export const ReduceL2 = byInput("ReduceL2", 18, summable, norm);

/** The sum of squares; axes as an attribute. */
export const ReduceSumSquareByAttribute = byAttribute("ReduceSumSquare", summable, squareSum);
/** The sum of squares. */
export const ReduceSumSquare = byInput("ReduceSumSquare", 18, summable, squareSum);

/** The logarithm of the sum; axes as an attribute. */
export const ReduceLogSumByAttribute = byAttribute("ReduceLogSum", summable, logSum);
/** The logarithm of the sum. */
export const ReduceLogSum = byInput("ReduceLogSum", 18, summable, logSum);

/** The logarithm of the sum of exponentials; axes as an attribute. */
export const ReduceLogSumExpByAttribute = byAttribute("ReduceLogSumExp", summable, logSumExp);
/** The logarithm of the sum of exponentials. */
export const ReduceLogSumExp = byInput("ReduceLogSumExp", 18, summable, logSumExp);
