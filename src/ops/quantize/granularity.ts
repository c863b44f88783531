/**
 * Which scale belongs to which element: one for the tensor, one for each index along an axis, or one for each block along it.
 * Shared by QuantizeLinear and DequantizeLinear.
 */
import { isKnown, type Shape, shapeText } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import { normalizeAxis, unifyDims } from "../shared/rules/shapes.js";

const isSingle = (shape: Shape): boolean => shape.length === 0 || (shape.length === 1 && shape[0] === 1);

/** The axis counted from the front; a vector has only one, whatever the attribute says. */
const quantizationAxis = (call: CallContext, axis: number, rank: number): number =>
  rank === 1 ? 0 : normalizeAxis(call, axis, rank);

/** Where axis and block size of a node may lie; opsets that lack one have no such attribute. */
export interface Granularity {
  /** Undefined where only scalars are allowed. */
  readonly axis?: number;
  /** 0 for no blocks. */
  readonly blockSize?: number;
}

/** Checks the shapes of scale and zero point against the tensor's. */
export function checkGranularity(
  call: CallContext,
  x: Fact,
  scale: Fact,
  zeroPoint: Fact | undefined,
  { axis, blockSize = 0 }: Granularity,
): void {
  call.check(blockSize >= 0, () => `block_size must not be negative, got ${blockSize}`, "invalid-argument");
  const shape = scale.shape;
  if (shape === undefined) return;
  checkZeroPoint(call, shape, zeroPoint);
  if (x.shape === undefined || isSingle(shape)) return;
  call.check(
    axis !== undefined,
    () => `the scale must be a scalar before opset 13, got ${scale.type}${shapeText(shape)}`,
  );
  const rank = x.shape.length;
  call.check(rank > 0, () => `a scalar needs a scalar scale, got ${scale.type}${shapeText(shape)}`);
  const at = quantizationAxis(call, axis!, rank);
  if (blockSize === 0) {
    call.check(
      shape.length === 1,
      () => `without block_size the scale must be a scalar or a vector, got ${scale.type}${shapeText(shape)}`,
    );
    unifyDims(call, shape[0], x.shape[at], `the scale must have the length of axis ${at}`);
    return;
  }
  call.check(
    shape.length === rank,
    () => `with block_size the scale must have the rank of the tensor, ${rank}, got ${scale.type}${shapeText(shape)}`,
  );
  x.shape.forEach((dim, k) => {
    if (k !== at) return void unifyDims(call, shape[k], dim, `scale and tensor must agree in dimension ${k}`);
    if (!isKnown(dim) || !isKnown(shape[k])) return;
    const blocks = Math.ceil(dim / blockSize);
    call.check(
      shape[k] === blocks,
      () => `${dim} elements in blocks of ${blockSize} along axis ${k} need ${blocks} scales, got ${String(shape[k])}`,
    );
  });
}

function checkZeroPoint(call: CallContext, scale: Shape, zeroPoint: Fact | undefined): void {
  const shape = zeroPoint?.shape;
  if (shape === undefined || (isSingle(shape) && isSingle(scale))) return;
  const rule = `scale ${shapeText(scale)} and zero point ${shapeText(shape)} must have the same shape`;
  call.check(shape.length === scale.length, rule);
  scale.forEach((dim, k) => unifyDims(call, dim, shape[k], rule));
}

/** A function from the row-major position of an element to the row-major position of its scale. */
export function scalePositions(
  call: CallContext,
  shape: readonly number[],
  scale: readonly number[],
  { axis = 1, blockSize = 0 }: Granularity,
): (position: number) => number {
  if (isSingle(scale)) return () => 0;
  const at = quantizationAxis(call, axis, shape.length);
  const length = shape[at];
  const inner = shape.slice(at + 1).reduce((product, dim) => product * dim, 1);
  if (blockSize === 0) return (position) => Math.floor(position / inner) % length;
  const blocks = scale[at];
  return (position) => {
    const row = Math.floor(position / inner);
    const block = Math.floor(row / length) * blocks + Math.floor((row % length) / blockSize);
    return block * inner + (position % inner);
  };
}
