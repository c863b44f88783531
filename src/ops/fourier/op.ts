/** DFT and STFT: the discrete Fourier transform along an axis, and of windows that slide over a signal. */
import { flag, int } from "../../graph/attribute.js";
import { addDims, floorDivideDims, isKnown, shapeText, subtractDims, unknownDim } from "../../graph/dim.js";
import { knownSize } from "../../graph/fact.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { readIntegers, readNumbers, writeNumbers } from "../../tensor/access.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { scalarOf } from "../shared/rules/operands.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { floats, indexTypes } from "../shared/rules/types.js";
import { checkLength, checkParts, signalAxis, transformAlong, transformedShape, unknownShape } from "./dft.js";
import { complexLine, Fourier, stepsOf } from "./transform.js";

const types = { T1: floats, T2: indexTypes } as const;
const outputs = { output: tensor("T1") } as const;

/** Lines are at most so long that their largest factor is worth as many steps. */
const work = (size: number | undefined, length: number | undefined): number =>
  (size ?? Infinity) * (length === undefined ? 64 : stepsOf(length));

/** The transform along an attribute's axis. */
export const DFT17 = defineOp({
  name: "DFT",
  since: 17,
  types,
  inputs: { input: tensor("T1"), dft_length: optional(tensor("T2")) },
  outputs,
  attrs: { axis: int(1), inverse: flag(false), onesided: flag(false) },
  infer(call) {
    const { input, dft_length } = call.inputs;
    const { shape } = input;
    if (shape === undefined) return {};
    call.check(shape.length >= 2, () => `input must have at least 2 dimensions, got ${shapeText(shape)}`);
    const axis = signalAxis(call, call.attrs.axis, shape.length);
    const length = dft_length && (scalarOf(call, "dft_length", dft_length) ?? unknownDim());
    return { output: { shape: transformedShape(call, call.attrs, shape, axis, length) } };
  },
  work: ({ inputs: { input } }) => work(knownSize(input), undefined),
  reference(call) {
    const { input, dft_length } = call.inputs;
    const { output } = call.outputs;
    const axis = signalAxis(call, call.attrs.axis, input.shape.length);
    const own = call.attrs.inverse && call.attrs.onesided ? 2 * (input.shape[axis] - 1) : input.shape[axis];
    transformAlong(input, output, axis, dft_length === undefined ? own : readIntegers(dft_length)[0], call.attrs);
  },
});

/** As before, along an axis that is an operand. */
export const DFT20 = defineOp({
  name: "DFT",
  since: 20,
  types,
  inputs: { input: tensor("T1"), dft_length: optional(tensor("T2")), axis: optional(tensor("int64")) },
  outputs,
  attrs: { inverse: flag(false), onesided: flag(false) },
  infer(call) {
    const { input, dft_length, axis: given } = call.inputs;
    const { shape } = input;
    if (shape === undefined) return {};
    call.check(shape.length >= 2, () => `input must have at least 2 dimensions, got ${shapeText(shape)}`);
    const axis = given === undefined ? -2 : scalarOf(call, "axis", given);
    const length = dft_length && (scalarOf(call, "dft_length", dft_length) ?? unknownDim());
    if (axis === undefined || !isKnown(axis)) return { output: { shape: unknownShape(shape) } };
    const at = signalAxis(call, axis, shape.length);
    return { output: { shape: transformedShape(call, call.attrs, shape, at, length) } };
  },
  work: ({ inputs: { input } }) => work(knownSize(input), undefined),
  reference(call) {
    const { input, dft_length, axis: given } = call.inputs;
    const axis = signalAxis(call, given === undefined ? -2 : readIntegers(given)[0], input.shape.length);
    const own = call.attrs.inverse && call.attrs.onesided ? 2 * (input.shape[axis] - 1) : input.shape[axis];
    const length = dft_length === undefined ? own : readIntegers(dft_length)[0];
    transformAlong(input, call.outputs.output, axis, length, call.attrs);
  },
});

/** The transforms of stretches of `signal` [batch, length, 1 or 2], `frame_step` apart, each seen through `window`. */
export const STFT = defineOp({
  name: "STFT",
  since: 17,
  types,
  inputs: {
    signal: tensor("T1"),
    frame_step: tensor("T2"),
    window: optional(tensor("T1")),
    frame_length: optional(tensor("T2")),
  },
  outputs,
  attrs: { onesided: flag(true) },
  infer(call) {
    const { signal, frame_step, window, frame_length } = call.inputs;
    checkRank(call, "signal", signal, 2, 3);
    checkRank(call, "window", window, 1);
    const step = scalarOf(call, "frame_step", frame_step);
    if (step !== undefined) checkLength(call, "frame_step", step);
    const { shape } = signal;
    if (shape === undefined) return {};
    const parts = shape.length === 2 ? 1 : checkParts(call, "signal", shape);
    call.check(
      !call.attrs.onesided || parts !== 2,
      () => `onesided takes a real signal, got ${shapeText(shape)}; set onesided to 0`,
    );
    const asked = frame_length && (scalarOf(call, "frame_length", frame_length) ?? unknownDim());
    const wide = window && (window.shape?.[0] ?? unknownDim());
    const length =
      asked !== undefined && wide !== undefined
        ? unifyDims(call, asked, wide, "window must have frame_length entries")
        : (asked ?? wide ?? shape[1]);
    checkLength(call, "frame_length", length);
    const room = subtractDims(shape[1], length);
    call.check(!isKnown(room) || room >= 0, () => `a frame of ${length} does not fit into a signal of ${shape[1]}`);
    const frames = step !== undefined && isKnown(step) ? addDims(floorDivideDims(room, step), 1) : unknownDim();
    const bins = call.attrs.onesided ? addDims(floorDivideDims(length, 2), 1) : length;
    return { output: { shape: [shape[0], frames, bins, 2] } };
  },
  work: ({ inputs: { signal } }) => work(knownSize(signal), undefined) * 16,
  reference({ inputs: { signal, frame_step, window, frame_length }, outputs: { output } }) {
    if (output.size === 0) return;
    const [batch, samples, parts = 1] = signal.shape;
    const [, frames, bins] = output.shape;
    const step = readIntegers(frame_step)[0];
    const weights = window && readNumbers(window);
    const length = frame_length === undefined ? (window?.size ?? samples) : readIntegers(frame_length)[0];
    const values = readNumbers(signal);
    const [from, to] = [complexLine(length), complexLine(length)];
    const fourier = new Fourier(length, false);
    const result = float64Scratch(output.size);
    for (let row = 0; row < batch * frames; row++) {
      const first = Math.floor(row / frames) * samples + (row % frames) * step;
      for (let at = 0; at < length; at++) {
        const weight = weights?.[at] ?? 1;
        from.real[at] = values[(first + at) * parts] * weight;
        if (parts === 2) from.imaginary[at] = values[(first + at) * 2 + 1] * weight;
      }
      fourier.run(from, to);
      for (let bin = 0; bin < bins; bin++) {
        result[(row * bins + bin) * 2] = to.real[bin];
        result[(row * bins + bin) * 2 + 1] = to.imaginary[bin];
      }
    }
    writeNumbers(output, result);
  },
});
