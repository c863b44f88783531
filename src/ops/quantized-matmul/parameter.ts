/** Scales and zero points of a matrix: one for all, one a row of the left operand, or one a column of the right. */
import { isKnown, type Shape, shapeText } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import { readNumbers } from "../../tensor/access.js";
import { View } from "../../tensor/view.js";
import { float64Scratch } from "../shared/loops/scratch.js";

/** Whether a matrix is the left or the right operand of the product. */
type Side = "left" | "right";

/** Fails unless the parameter is a scalar, a vector over rows or columns, or fits the matrix with 1 at the inner axis. */
export function checkParameter(
  call: CallContext,
  name: string,
  parameter: Fact | undefined,
  matrix: Shape | undefined,
  side: Side,
): void {
  const shape = parameter?.shape;
  if (shape === undefined || matrix === undefined || shape.length === 0) return;
  const wanted = matrix.map((dim, axis) => (axis === matrix.length - (side === "left" ? 1 : 2) ? 1 : dim));
  const line = matrix.length === 1 ? 1 : matrix.at(side === "left" ? -2 : -1)!;
  const target = shape.length === 1 ? [line] : wanted;
  const fits =
    shape.length <= target.length &&
    shape.every((dim, axis) => fitsDim(dim, target[axis + target.length - shape.length]));
  const rule = side === "left" ? "one entry a row" : "one entry a column";
  call.check(fits, () => `${name} must be a scalar or have ${rule} of ${shapeText(matrix)}, got ${shapeText(shape)}`);
}

const fitsDim = (dim: Shape[number], target: Shape[number]): boolean =>
  !isKnown(dim) || dim === 1 || !isKnown(target) || dim === target;

/** The parameter repeated to one entry an element of the matrix. */
function spread(parameter: View, matrix: readonly number[], side: Side): View {
  const { type, shape, data, offset, strides } = parameter;
  if (parameter.size === 1) return new View(type, [], data, offset, []).broadcastTo(matrix);
  const column = side === "left" && shape.length === 1;
  return (column ? new View(type, [shape[0], 1], data, offset, [strides[0], 0]) : parameter).broadcastTo(matrix);
}

/** (matrix − zero point) · scale as float64, where either parameter may be left out. */
export function dequantized(matrix: View, side: Side, zeroPoint: View | undefined, scale: View | undefined): View {
  const values = readNumbers(matrix);
  const zeros = zeroPoint && readNumbers(spread(zeroPoint, matrix.shape, side));
  const scales = scale && readNumbers(spread(scale, matrix.shape, side));
  const result = float64Scratch(values.length);
  for (let i = 0; i < values.length; i++) result[i] = (values[i] - (zeros?.[i] ?? 0)) * (scales?.[i] ?? 1);
  return new View("float64", matrix.shape, result);
}
