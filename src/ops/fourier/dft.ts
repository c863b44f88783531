/** What DFT does to a tensor, in each of its versions: shapes, and the reference implementation along one axis. */
import {
  addDims,
  type Dim,
  floorDivideDims,
  isKnown,
  multiplyDims,
  type Shape,
  shapeText,
  subtractDims,
  unknownDim,
} from "../../graph/dim.js";
import type { CallContext } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { forEachLine } from "../shared/loops/along.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { normalizeAxis } from "../shared/rules/shapes.js";
import { complexLine, Fourier } from "./transform.js";

/** Which way, and whether half of a symmetric spectrum stands for all of it. */
interface Direction {
  readonly inverse: boolean;
  readonly onesided: boolean;
}

/** Fails unless the last dimension is a real number or a pair; says which, where that is known. */
export function checkParts(call: CallContext, name: string, shape: Shape): 1 | 2 | undefined {
  const parts = shape.at(-1)!;
  call.check(
    !isKnown(parts) || parts === 1 || parts === 2,
    () => `the last dimension of ${name} must be 1 (real) or 2 (complex), got ${shapeText(shape)}`,
  );
  return isKnown(parts) ? (parts as 1 | 2) : undefined;
}

/** Fails for a length that no transform has. */
export function checkLength(call: CallContext, name: string, length: Dim): void {
  call.check(!isKnown(length) || length >= 1, () => `${name} must be at least 1, got ${length}`, "invalid-argument");
}

/** The axis counted from the front; the last one holds the parts of numbers. */
export function signalAxis(call: CallContext, axis: number, rank: number): number {
  const at = normalizeAxis(call, axis, rank);
  call.check(
    at < rank - 1,
    () => `axis must not be the last one, which holds real and imaginary parts, got ${axis}`,
    "invalid-argument",
  );
  return at;
}

/** The shape of the result; `length` is undefined where the operand is left out. */
export function transformedShape(
  call: CallContext,
  { inverse, onesided }: Direction,
  shape: Shape,
  axis: number,
  length: Dim | undefined,
): Shape {
  const parts = checkParts(call, "input", shape);
  if (onesided)
    call.check(
      parts === undefined || parts === (inverse ? 2 : 1),
      () =>
        `onesided takes ${inverse ? "complex input of the inverse transform" : "real input"}, got ${shapeText(shape)}`,
    );
  const full = length ?? (inverse && onesided ? multiplyDims(subtractDims(shape[axis], 1), 2) : shape[axis]);
  checkLength(call, "dft_length", full);
  const bins = onesided && !inverse ? addDims(floorDivideDims(full, 2), 1) : full;
  return shape.with(axis, bins).with(shape.length - 1, inverse && onesided ? 1 : 2);
}

/** As many unknown dimensions as the input has. */
export const unknownShape = (shape: Shape): Shape => shape.map(() => unknownDim());

/** Transforms every line along `axis` of `input` [..., 1 or 2] into `output`. */
export function transformAlong(
  input: View,
  output: View,
  axis: number,
  length: number,
  { inverse, onesided }: Direction,
): void {
  if (output.size === 0) return;
  const values = readNumbers(input);
  const [parts, made] = [input.shape.at(-1)!, output.shape.at(-1)!];
  const [from, to] = [complexLine(length), complexLine(length)];
  const fourier = new Fourier(length, inverse);
  const factor = inverse ? 1 / length : 1;
  const result = float64Scratch(output.size);
  // Lines in front of the parts: what is read and what is written come in the same order.
  const starts: { readonly start: number; readonly step: number }[] = [];
  forEachLine(output.shape.slice(0, -1), axis, (line) => starts.push(line));
  const mirrors = inverse && onesided;
  const given = Math.min(input.shape[axis], mirrors ? Math.floor(length / 2) + 1 : length);
  forEachLine(input.shape.slice(0, -1), axis, ({ start, step }, count) => {
    from.real.fill(0);
    from.imaginary.fill(0);
    for (let at = 0; at < given; at++) {
      const place = (start + at * step) * parts;
      from.real[at] = values[place];
      if (parts === 2) from.imaginary[at] = values[place + 1];
    }
    if (mirrors) mirror(from.real, from.imaginary, length);
    fourier.run(from, to);
    const target = starts[count];
    for (let at = 0; at < output.shape[axis]; at++) {
      const place = (target.start + at * target.step) * made;
      result[place] = to.real[at] * factor;
      if (made === 2) result[place + 1] = to.imaginary[at] * factor;
    }
  });
  writeNumbers(output, result);
}

/** The half of a spectrum that is not given, from the one that is: the transform is real then. */
function mirror(real: Float64Array, imaginary: Float64Array, length: number): void {
  imaginary[0] = 0;
  if (length % 2 === 0) imaginary[length / 2] = 0;
  for (let at = Math.floor(length / 2) + 1; at < length; at++) {
    real[at] = real[length - at];
    imaginary[at] = -imaginary[length - at];
  }
}
