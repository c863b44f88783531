/** The arithmetic of convolutions, in float64: shared by the operators on floats and on quantized integers. */
import { type Dim, isKnown, multiplyDims, type Shape, shapeText, unknownDim } from "../../../graph/dim.js";
import type { Fact } from "../../../graph/fact.js";
import type { CallContext } from "../../../graph/op.js";
import type { Numbers } from "../../../tensor/access.js";
import { product } from "../loops/rows.js";
import { float64Scratch } from "../loops/scratch.js";
import { checkRank, unifyDims } from "../rules/shapes.js";
import {
  forEachRun,
  kernelOf,
  padded,
  slidingSizes,
  spatialRank,
  type Window,
  type WindowChoice,
  windowOf,
} from "./window.js";

/** The attributes of a convolution. */
interface ConvolutionChoice extends WindowChoice {
  readonly group: number;
  readonly kernel_shape?: readonly number[] | undefined;
}

/** Fails unless the bias is a vector with one entry a channel of the output. */
export function checkBias(call: CallContext, bias: Fact | undefined, channels: Dim): void {
  checkRank(call, "B", bias, 1);
  if (bias?.shape !== undefined) unifyDims(call, bias.shape[0], channels, "B needs one entry a channel of the output");
}

/** The output's shape of a convolution of X [batch, channels, …] with W [maps, channels / group, …]. */
export function convolutionShape(
  call: CallContext,
  choice: ConvolutionChoice,
  X: Shape | undefined,
  W: Shape | undefined,
): Shape | undefined {
  const { group } = choice;
  call.check(group >= 1, `group must be at least 1, got ${group}`, "invalid-argument");
  if (X === undefined) return undefined;
  const rank = spatialRank(call, "X", X);
  const window = windowOf(call, choice, rank);
  call.check(
    W === undefined || W.length === rank + 2,
    () => `W must have ${rank + 2} dimensions as X has, got ${shapeText(W)}`,
  );
  const kernel = kernelOf(call, choice.kernel_shape, W?.slice(2), rank);
  if (W !== undefined) {
    unifyDims(call, X[1], multiplyDims(W[1], group), `X must have the channels of W times group ${group}`);
    if (isKnown(W[0]))
      call.check(W[0] % group === 0, `group must divide the ${W[0]} maps of W, got ${group}`, "invalid-argument");
  }
  const spatial =
    kernel === undefined
      ? X.slice(2).map(() => unknownDim())
      : slidingSizes(call, window, choice.auto_pad, X.slice(2), kernel);
  return [X[0], W?.[0] ?? unknownDim(), ...spatial];
}

/** The convolution of x [batch, channels, …] with w [maps, channels / group, …], in the order of the output's shape. */
export function convolve(
  call: CallContext,
  choice: ConvolutionChoice,
  x: Numbers,
  X: readonly number[],
  w: Numbers,
  W: readonly number[],
  Y: readonly number[],
): Float64Array {
  const [large, kernel, small] = [X.slice(2), W.slice(2), Y.slice(2)];
  const window: Window = padded(windowOf(call, choice, large.length), choice.auto_pad, large, kernel);
  const [largeSize, kernelSize, smallSize] = [product(large), product(kernel), product(small)];
  const [batch, maps] = Y;
  const channels = W[1];
  const mapsOfGroup = maps / choice.group;
  const step = window.strides.at(-1)!;
  const out = float64Scratch(product(Y));
  if (out.length === 0) return out;
  for (let sample = 0; sample < batch; sample++) {
    for (let map = 0; map < maps; map++) {
      const to = (sample * maps + map) * smallSize;
      for (let channel = 0; channel < channels; channel++) {
        const weights = (map * channels + channel) * kernelSize;
        const from = (sample * X[1] + Math.floor(map / mapsOfGroup) * channels + channel) * largeSize;
        forEachRun(window, small, large, kernel, (entry, smallAt, largeAt, count) => {
          const weight = w[weights + entry];
          for (let i = 0, at = from + largeAt; i < count; i++, at += step) out[to + smallAt + i] += weight * x[at];
        });
      }
    }
  }
  return out;
}

/** Adds a bias by channel to values of the shape [batch, channels, …], in place. */
export function addBias(values: Float64Array, shape: readonly number[], bias: Numbers | undefined): void {
  if (bias === undefined || values.length === 0) return;
  const area = product(shape.slice(2));
  for (let start = 0; start < values.length; start += area) {
    const shift = bias[(start / area) % shape[1]];
    for (let i = start; i < start + area; i++) values[i] += shift;
  }
}
