/** GridSample: an image read at places that a grid gives, between its elements and beyond its borders. */
import { flag, oneOf } from "../../graph/attribute.js";
import { isKnown } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, type OutputFact, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import { roundToEven } from "../../tensor/float.js";
import type { View } from "../../tensor/view.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";
import { eachWithEach } from "../shared/rules/work.js";

type Mode = "nearest" | "linear" | "cubic";
type Padding = "zeros" | "border" | "reflection";

interface GridOptions {
  readonly mode: Mode;
  readonly padding: Padding;
  readonly corners: boolean;
}

const types = { T1: floats, T2: floats };
const inputs = { X: tensor("T1"), grid: tensor("T2") };
const outputs = { Y: tensor("T1") };
const padding_mode = oneOf(["zeros", "border", "reflection"], "zeros");

function inferGrid(call: CallContext & { readonly inputs: { readonly X: Fact; readonly grid: Fact } }): {
  Y: OutputFact;
} {
  const { X, grid } = call.inputs;
  if (X.shape === undefined || grid.shape === undefined) return { Y: {} };
  const spatial = X.shape.length - 2;
  call.check(
    spatial >= 1,
    () => `X must have a batch, channels and at least one more dimension, got ${X.shape!.length}`,
  );
  checkRank(call, "grid", grid, spatial + 2);
  const batch = unifyDims(call, X.shape[0], grid.shape[0], "X and grid must agree in the batch");
  const places = grid.shape.at(-1)!;
  call.check(
    !isKnown(places) || places === spatial,
    () => `the last dimension of grid must be ${spatial}, one for each axis of the image, got ${String(places)}`,
  );
  return { Y: { shape: [batch, X.shape[1], ...grid.shape.slice(1, -1)] } };
}

const workOf = (call: { inputs: { readonly X: Fact; readonly grid: Fact } }): number =>
  64 * eachWithEach(call.inputs.grid, { ...call.inputs.X, shape: call.inputs.X.shape?.slice(1, 2) });

/** The modes of images: of two dimensions. */
export const GridSample16 = defineOp({
  name: "GridSample",
  since: 16,
  types,
  inputs,
  outputs,
  attrs: { align_corners: flag(false), mode: oneOf(["bilinear", "nearest", "bicubic"], "bilinear"), padding_mode },
  infer: inferGrid,
  work: workOf,
  reference({ inputs: { X, grid }, outputs: { Y }, attrs }) {
    const mode = ({ bilinear: "linear", nearest: "nearest", bicubic: "cubic" } as const)[attrs.mode];
    sampleGrid(X, grid, Y, { mode, padding: attrs.padding_mode, corners: attrs.align_corners });
  },
});

/** The same for any number of dimensions. */
export const GridSample20 = defineOp({
  name: "GridSample",
  since: 20,
  types,
  inputs,
  outputs,
  attrs: { align_corners: flag(false), mode: oneOf(["linear", "nearest", "cubic"], "linear"), padding_mode },
  infer: inferGrid,
  work: workOf,
  reference({ inputs: { X, grid }, outputs: { Y }, attrs }) {
    sampleGrid(X, grid, Y, { mode: attrs.mode, padding: attrs.padding_mode, corners: attrs.align_corners });
  },
});

/** Elements of one axis, with their weights; index −1 is outside. */
type Taps = readonly { readonly index: number; readonly weight: number }[];

function sampleGrid(x: View, grid: View, y: View, options: GridOptions): void {
  const [batch, channels, ...sizes] = x.shape;
  const [values, places] = [readNumbers(x), readNumbers(grid)];
  const area = sizes.reduce((product, size) => product * size, 1);
  const points = grid.size / Math.max(1, batch * sizes.length);
  const result = float64Scratch(y.size);
  for (let sample = 0; sample < batch; sample++)
    for (let point = 0; point < points; point++) {
      const at = (sample * points + point) * sizes.length;
      // The first number of a place is along the last axis.
      const taps = sizes.map((size, axis) => tapsOf(places[at + sizes.length - 1 - axis], size, options));
      for (let channel = 0; channel < channels; channel++) {
        const start = (sample * channels + channel) * area;
        result[(sample * channels + channel) * points + point] = weigh(values, start, sizes, taps, 0);
      }
    }
  writeNumbers(y, result);
}

/** The weighted sum over the axes from `axis` on. */
function weigh(
  values: ArrayLike<number>,
  start: number,
  sizes: readonly number[],
  taps: readonly Taps[],
  axis: number,
): number {
  if (axis === sizes.length) return values[start];
  const step = sizes.slice(axis + 1).reduce((product, size) => product * size, 1);
  let sum = 0;
  for (const { index, weight } of taps[axis])
    if (index >= 0) sum += weight * weigh(values, start + index * step, sizes, taps, axis + 1);
  return sum;
}

/** What of an axis a place between −1 and 1 reads. */
function tapsOf(place: number, size: number, { mode, padding, corners }: GridOptions): Taps {
  const [low, high] = corners ? [0, size - 1] : [-0.5, size - 0.5];
  let x = corners ? ((place + 1) / 2) * (size - 1) : ((place + 1) * size - 1) / 2;
  if (mode === "nearest") x = roundToEven(x);
  if (x < low || x > high) {
    if (padding === "border") x = Math.min(Math.max(x, 0), size - 1);
    if (padding === "reflection") x = reflect(x, low, high);
  }
  const indexOf = (index: number): number => {
    if (index >= 0 && index < size) return index;
    if (padding === "zeros") return -1;
    const inside = padding === "border" ? index : Math.trunc(reflect(index, low, high));
    return Math.min(Math.max(inside, 0), size - 1);
  };
  const first = Math.floor(x);
  const t = x - first;
  if (Number.isNaN(x)) return padding === "zeros" ? [] : [{ index: 0, weight: 1 }];
  if (mode === "nearest") return [{ index: indexOf(roundToEven(x)), weight: 1 }];
  const weights = mode === "linear" ? [1 - t, t] : cubicWeights(t);
  const before = mode === "linear" ? 0 : 1;
  return weights.map((weight, at) => ({ index: indexOf(first - before + at), weight }));
}

/** A place beyond the borders, mirrored at them until it lies within. */
function reflect(x: number, low: number, high: number): number {
  const range = high - low;
  if (range <= 0) return low;
  const beyond = x < low ? low - x : x > high ? x - high : undefined;
  if (beyond === undefined) return x;
  const times = Math.trunc(beyond / range);
  const rest = beyond - times * range;
  return (times % 2 === 0) === x < low ? low + rest : high - rest;
}

/** Keys' weights of four neighbours, with −0.75. */
function cubicWeights(t: number): number[] {
  const a = -0.75;
  const far = (d: number): number => ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  const near = (d: number): number => ((a + 2) * d - (a + 3)) * d * d + 1;
  return [far(t + 1), near(t), near(1 - t), far(2 - t)];
}
