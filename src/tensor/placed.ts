/**
 * A value where it lies: element type, shape, strides and offset over a buffer that may be anybody's. Shared rooms hold, cut and compare
 * places; only the buffer's owner touches bytes. The place whose bytes every JavaScript program can read is a `View`.
 */
import { InsituError } from "../base/error.js";
import { byteLengthOf, type ElementType } from "./element-type.js";

/** Row-major strides of a shape. */
export function rowMajorStrides(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

/** True if two lists of numbers agree: shapes, strides. */
export function sameNumbers(a: readonly number[], b: readonly number[]): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false;
  return true;
}

/** Number of elements of a shape. Throws `out-of-memory` when the product cannot be addressed. */
export function elementCount(shape: readonly number[]): number {
  let count = 1;
  for (const dim of shape) count *= dim;
  // A zero among huge dims still multiplies to zero; without one, the product must stay an exact integer.
  if (count > Number.MAX_SAFE_INTEGER || Number.isNaN(count)) {
    throw new InsituError(
      "out-of-memory",
      `a tensor of shape [${shape.join(",")}] has more elements than can be addressed`,
    );
  }
  return count;
}

/** A value of one element type in a buffer. Offsets and strides count elements, also for packed and complex types. */
export class Placed<Buffer extends object = object> {
  readonly type: ElementType;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  /** Index of the first element. */
  readonly offset: number;
  /** What the elements lie in: a host array, or a thing that only a backend knows. Two places in one buffer may share elements. */
  readonly buffer: Buffer;
  /** Number of elements. */
  readonly size: number;

  constructor(
    type: ElementType,
    shape: readonly number[],
    buffer: Buffer,
    offset = 0,
    strides: readonly number[] = rowMajorStrides(shape),
  ) {
    this.type = type;
    this.shape = shape;
    this.buffer = buffer;
    this.offset = offset;
    this.strides = strides;
    this.size = elementCount(shape);
  }

  get rank(): number {
    return this.shape.length;
  }

  /** True if the elements lie in row-major order without gaps. */
  get contiguous(): boolean {
    let step = 1;
    for (let axis = this.shape.length - 1; axis >= 0; axis--) {
      if (this.shape[axis] !== 1 && this.strides[axis] !== step) return this.size === 0;
      step *= this.shape[axis];
    }
    return true;
  }

  /** Rows `start` to `end` (exclusive) along one axis of the same buffer. */
  slice(axis: number, start: number, end: number): Placed<Buffer> {
    const shape = this.shape.with(axis, end - start);
    return new Placed(this.type, shape, this.buffer, this.offset + start * this.strides[axis], this.strides);
  }

  /** Bytes of the elements themselves, not of the buffer around them. */
  get byteLength(): number {
    return byteLengthOf(this.type, this.size);
  }

  /** `float32[2,64]` */
  toString(): string {
    return `${this.type}[${this.shape.join(",")}]`;
  }
}

/** True if two places show the same elements in the same order; what is not there is in the same place as nothing else. */
export const samePlace = (a: Placed | undefined, b: Placed | undefined): boolean =>
  a === b ||
  (a !== undefined &&
    b !== undefined &&
    a.buffer === b.buffer &&
    a.type === b.type &&
    a.offset === b.offset &&
    sameNumbers(a.shape, b.shape) &&
    sameNumbers(a.strides, b.strides));
