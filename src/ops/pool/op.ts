/** Pooling: the greatest, the mean or a norm of the elements under a sliding window, or of all places of a channel. */
import { flag, int, ints, required } from "../../graph/attribute.js";
import { type Shape, shapeText, isKnownShape } from "../../graph/dim.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { readNumbers, writeIntegers, writeNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { type Fold, maximum, mean } from "../reduce/fold.js";
import { reduceView } from "../reduce/reduction.js";
import { product } from "../shared/loops/rows.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { floats } from "../shared/rules/types.js";
import {
  kernelOf,
  slidingSizes,
  spatialRank,
  windowAttributes,
  type WindowChoice,
  windowOf,
} from "../shared/families/window.js";
import { forEachWindow } from "./windows.js";

const attrs = { ...windowAttributes, kernel_shape: required(ints()), ceil_mode: flag(false) };

type Choice = WindowChoice & { readonly kernel_shape: readonly number[]; readonly ceil_mode: boolean };

function pooledShape(call: CallContext, choice: Choice, X: Shape | undefined): Shape | undefined {
  if (X === undefined) return undefined;
  const rank = spatialRank(call, "X", X);
  const window = windowOf(call, choice, rank);
  const kernel = kernelOf(call, choice.kernel_shape, undefined, rank)!;
  return [X[0], X[1], ...slidingSizes(call, window, choice.auto_pad, X.slice(2), kernel, choice.ceil_mode)];
}

/** An element for each place of each window, at most. */
function pooledSteps(call: CallContext, choice: Choice, X: Shape | undefined): number {
  const [places, input] = [pooledShape(call, choice, X), X?.slice(2)];
  if (!isKnownShape(places) || !isKnownShape(input)) return Infinity;
  return product(places) * product(choice.kernel_shape.map((size, axis) => Math.min(size, input[axis])));
}

/** Sums what `term` makes of the elements of each window; `finish` makes the result of a sum. */
function poolSums(
  call: CallContext,
  choice: Choice,
  X: View,
  Y: View,
  term: (x: number) => number,
  finish: (sum: number, count: number, paddedCount: number) => number,
): void {
  const values = readNumbers(X);
  const result = float64Scratch(Y.size);
  let sum = 0;
  forEachWindow(call, choice, choice.kernel_shape, X, Y, {
    begin: () => (sum = 0),
    run(start, count, step) {
      for (let i = 0; i < count; i++) sum += term(values[start + i * step]);
    },
    end: (output, { count, paddedCount }) => (result[output] = finish(sum, count, paddedCount)),
  });
  writeNumbers(Y, result);
}

/** The greatest element of each window, and where it lies. A NaN counts as less than every number. */
export const MaxPool = defineOp({
  name: "MaxPool",
  since: 1,
  types: { T: [...floats, "int8", "uint8"] },
  inputs: { X: tensor("T") },
  outputs: { Y: tensor("T"), Indices: optional(tensor("int64")) },
  attrs: { ...attrs, storage_order: int(0) },

  infer(call) {
    const { storage_order: order } = call.attrs;
    call.check(order === 0 || order === 1, `storage_order must be 0 or 1, got ${order}`, "invalid-argument");
    const shape = pooledShape(call, call.attrs, call.inputs.X.shape);
    return { Y: { shape }, Indices: { shape } };
  },

  work: (call) => pooledSteps(call, call.attrs, call.inputs.X.shape),

  reference(call) {
    const { X } = call.inputs;
    const { Y, Indices } = call.outputs;
    const values = readNumbers(X);
    const best = float64Scratch(Y.size);
    const places = float64Scratch(Y.size);
    const nothing = Y.type === "int8" ? -128 : Y.type === "uint8" ? 0 : -Infinity;
    let at = -1;
    forEachWindow(call, call.attrs, call.attrs.kernel_shape, X, Y, {
      begin: () => (at = -1),
      run(start, count, step) {
        for (let i = start, left = count; left > 0; i += step, left--) {
          if (at < 0 || values[i] > values[at] || (Number.isNaN(values[at]) && !Number.isNaN(values[i]))) at = i;
        }
      },
      end(output) {
        best[output] = at < 0 ? nothing : values[at];
        places[output] = at;
      },
    });
    writeNumbers(Y, best);
    if (Indices === undefined) return;
    if (call.attrs.storage_order === 1)
      places.forEach((index, output) => (places[output] = columnMajor(index, X.shape.slice(2))));
    writeIntegers(Indices, places);
  },
});

/** An index into planes of the given dimensions, with each plane counted in column-major order. */
function columnMajor(index: number, dims: readonly number[]): number {
  if (index < 0) return index;
  const area = product(dims);
  let rest = index % area;
  let size = area;
  let result = index - rest;
  for (let axis = dims.length - 1; axis >= 0; axis--) {
    size /= dims[axis];
    result += (rest % dims[axis]) * size;
    rest = Math.floor(rest / dims[axis]);
  }
  return result;
}

/** The mean of each window; padding counts as zeros if asked to. A window without any element gives 0. */
export const AveragePool = defineOp({
  name: "AveragePool",
  since: 1,
  types: { T: floats },
  inputs: { X: tensor("T") },
  outputs: { Y: tensor("T") },
  attrs: { ...attrs, count_include_pad: flag(false) },

  infer: (call) => ({ Y: { shape: pooledShape(call, call.attrs, call.inputs.X.shape) } }),

  work: (call) => pooledSteps(call, call.attrs, call.inputs.X.shape),

  reference(call) {
    const { count_include_pad: all } = call.attrs;
    const finish = (sum: number, count: number, paddedCount: number): number =>
      sum / Math.max(1, all ? paddedCount : count);
    poolSums(call, call.attrs, call.inputs.X, call.outputs.Y, (x) => x, finish);
  },
});

function checkOrder(call: CallContext, p: number): void {
  call.check(p >= 1, `p must be at least 1, got ${p}`, "invalid-argument");
}

/** The Lp norm of each window. */
export const LpPool = defineOp({
  name: "LpPool",
  since: 2,
  types: { T: floats },
  inputs: { X: tensor("T") },
  outputs: { Y: tensor("T") },
  attrs: { ...attrs, p: int(2) },

  infer(call) {
    checkOrder(call, call.attrs.p);
    return { Y: { shape: pooledShape(call, call.attrs, call.inputs.X.shape) } };
  },

  work: (call) => pooledSteps(call, call.attrs, call.inputs.X.shape),

  reference(call) {
    const { p } = call.attrs;
    poolSums(
      call,
      call.attrs,
      call.inputs.X,
      call.outputs.Y,
      (x) => Math.abs(x) ** p,
      (sum) => sum ** (1 / p),
    );
  },
});

/** Every axis but batch and channels, of a shape that must have both. */
function globalShape(call: CallContext, X: Shape | undefined): Shape | undefined {
  call.check(
    X === undefined || X.length >= 2,
    () => `X must have at least 2 dimensions, [batch, channels, …], got ${shapeText(X)}`,
  );
  return X?.map((dim, axis) => (axis < 2 ? dim : 1));
}

const spatialAxes = (X: View): number[] => X.shape.map((_, axis) => axis).slice(2);

function globalPool(name: string, fold: Fold) {
  return defineOp({
    name,
    since: 1,
    types: { T: floats },
    inputs: { X: tensor("T") },
    outputs: { Y: tensor("T") },
    infer: (call) => ({ Y: { shape: globalShape(call, call.inputs.X.shape) } }),
    reference: ({ inputs, outputs }) => reduceView(inputs.X, outputs.Y, spatialAxes(inputs.X), fold),
  });
}

/** The mean of each channel. */
export const GlobalAveragePool = globalPool("GlobalAveragePool", mean);
/** The greatest element of each channel. */
export const GlobalMaxPool = globalPool("GlobalMaxPool", maximum);

/** The Lp norm of each channel. */
export const GlobalLpPool = defineOp({
  name: "GlobalLpPool",
  since: 2,
  types: { T: floats },
  inputs: { X: tensor("T") },
  outputs: { Y: tensor("T") },
  attrs: { p: int(2) },

  infer(call) {
    checkOrder(call, call.attrs.p);
    return { Y: { shape: globalShape(call, call.inputs.X.shape) } };
  },

  reference({ inputs, outputs, attrs: { p } }) {
    const number: Fold["number"] = (values, start, end) => {
      let sum = 0;
      for (let i = start; i < end; i++) sum += Math.abs(values[i]) ** p;
      return sum ** (1 / p);
    };
    reduceView(inputs.X, outputs.Y, spatialAxes(inputs.X), { number, integer: () => 0n });
  },
});
