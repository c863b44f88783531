/** ConvTranspose: the transposed convolution, where every input place spreads a kernel over the output. */
import { int, ints } from "../../graph/attribute.js";
import {
  addDims,
  type Dim,
  isKnown,
  multiplyDims,
  type Shape,
  shapeText,
  subtractDims,
  unknownDim,
} from "../../graph/dim.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import { addBias, checkBias } from "../shared/families/convolution.js";
import { product } from "../shared/loops/rows.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { unifyDims } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";
import {
  forEachRun,
  kernelOf,
  spatialRank,
  type Window,
  windowAttributes,
  type WindowChoice,
  windowOf,
} from "../shared/families/window.js";
import { eachWithEach } from "../shared/rules/work.js";

/** The attributes that size the output. */
interface Choice extends WindowChoice {
  readonly output_padding?: readonly number[] | undefined;
  readonly output_shape?: readonly number[] | undefined;
}

function checkEntries(call: CallContext, name: string, values: readonly number[] | undefined, rank: number): void {
  const fits = values === undefined || (values.length === rank && values.every((value) => value >= 0));
  call.check(
    fits,
    () => `${name} must have ${rank} entries of at least 0, got [${values!.join(",")}]`,
    "invalid-argument",
  );
}

/** What the kernels cover along an axis before any padding is cut off. */
function covered(choice: Choice, window: Window, axis: number, input: Dim, kernel: Dim): Dim {
  const strides = multiplyDims(subtractDims(input, 1), window.strides[axis]);
  const reach = addDims(multiplyDims(subtractDims(kernel, 1), window.dilations[axis]), 1);
  return addDims(addDims(strides, reach), choice.output_padding?.[axis] ?? 0);
}

const isSame = (choice: Choice): boolean => choice.auto_pad === "SAME_UPPER" || choice.auto_pad === "SAME_LOWER";

function outputSize(choice: Choice, window: Window, axis: number, input: Dim, kernel: Dim): Dim {
  if (choice.output_shape !== undefined) return choice.output_shape[axis];
  if (isSame(choice)) return multiplyDims(input, window.strides[axis]);
  return subtractDims(covered(choice, window, axis, input, kernel), window.before[axis] + window.after[axis]);
}

/** How much is cut off before the output: the attribute, or what brings the kernels to the size that is asked for. */
function cutBefore(
  choice: Choice,
  window: Window,
  input: readonly number[],
  kernel: readonly number[],
  output: readonly number[],
): readonly number[] {
  if (choice.output_shape === undefined && !isSame(choice)) return window.before;
  return output.map((size, axis) => {
    const total = Math.max(0, (covered(choice, window, axis, input[axis], kernel[axis]) as number) - size);
    const half = Math.floor(total / 2);
    return choice.auto_pad === "SAME_UPPER" ? half : total - half;
  });
}

/** The transposed convolution of X [batch, channels, …] with W [channels, maps / group, …], plus B. */
export const ConvTranspose = defineOp({
  name: "ConvTranspose",
  since: 1,
  types: { T: floats },
  inputs: { X: tensor("T"), W: tensor("T"), B: optional(tensor("T")) },
  outputs: { Y: tensor("T") },
  attrs: { ...windowAttributes, group: int(1), output_padding: ints(), output_shape: ints() },

  infer(call) {
    const { X, W, B } = call.inputs;
    const { attrs } = call;
    call.check(attrs.group >= 1, `group must be at least 1, got ${attrs.group}`, "invalid-argument");
    if (X.shape === undefined) return {};
    const rank = spatialRank(call, "X", X.shape);
    const window = windowOf(call, attrs, rank);
    checkEntries(call, "output_padding", attrs.output_padding, rank);
    checkEntries(call, "output_shape", attrs.output_shape, rank);
    call.check(
      W.shape === undefined || W.shape.length === rank + 2,
      () => `W must have ${rank + 2} dimensions as X has, got ${shapeText(W.shape)}`,
    );
    const kernel = kernelOf(call, attrs.kernel_shape, W.shape?.slice(2), rank);
    if (W.shape !== undefined) unifyDims(call, X.shape[1], W.shape[0], "X and W must agree in the channels");
    const channels = X.shape[1];
    if (isKnown(channels))
      call.check(
        channels % attrs.group === 0,
        `group must divide the ${channels} channels of X, got ${attrs.group}`,
        "invalid-argument",
      );
    const maps = W.shape === undefined ? unknownDim() : multiplyDims(W.shape[1], attrs.group);
    checkBias(call, B, maps);
    const spatial: Shape = X.shape
      .slice(2)
      .map((size, axis) => (kernel === undefined ? unknownDim() : outputSize(attrs, window, axis, size, kernel[axis])));
    call.check(
      spatial.every((dim) => !isKnown(dim) || dim >= 0),
      () => `pads cut off more than there is: the output would be ${shapeText(spatial)}`,
      "invalid-argument",
    );
    return { Y: { shape: [X.shape[0], maps, ...spatial] } };
  },

  work: ({ inputs }) => eachWithEach(inputs.X, inputs.W),

  reference(call) {
    const { X, W, B } = call.inputs;
    const { Y } = call.outputs;
    const { attrs } = call;
    const [small, kernel, large] = [X.shape.slice(2), W.shape.slice(2), Y.shape.slice(2)];
    const written = windowOf(call, attrs, small.length);
    const window = { ...written, before: cutBefore(attrs, written, small, kernel, large) };
    const [smallSize, kernelSize, largeSize] = [product(small), product(kernel), product(large)];
    const [batch, channels] = X.shape;
    const mapsOfGroup = W.shape[1];
    const step = window.strides.at(-1)!;
    const x = readNumbers(X);
    const w = readNumbers(W);
    const out = float64Scratch(Y.size);
    for (let sample = 0; out.length > 0 && sample < batch; sample++) {
      for (let channel = 0; channel < channels; channel++) {
        const firstMap = Math.floor(channel / (channels / attrs.group)) * mapsOfGroup;
        const from = (sample * channels + channel) * smallSize;
        for (let map = 0; map < mapsOfGroup; map++) {
          const weights = (channel * mapsOfGroup + map) * kernelSize;
          const to = (sample * Y.shape[1] + firstMap + map) * largeSize;
          forEachRun(window, small, large, kernel, (entry, smallAt, largeAt, count) => {
            const weight = w[weights + entry];
            for (let i = 0, at = to + largeAt; i < count; i++, at += step) out[at] += weight * x[from + smallAt + i];
          });
        }
      }
    }
    addBias(out, Y.shape, B && readNumbers(B));
    writeNumbers(Y, out);
  },
});
