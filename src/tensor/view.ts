/** A view: a value in a host array, which anyone can read and write. It owns nothing and checks nothing per access. */
import { InsituError, unreachable } from "../base/error.js";
import {
  allocateStorage,
  arrayConstructorOf,
  type ByteStorage,
  byteLengthOf,
  type ElementType,
  type Storage,
  storageLengthOf,
} from "./element-type.js";
import { elementCount, Placed } from "./placed.js";

export { elementCount, rowMajorStrides, sameNumbers } from "./placed.js";

/** The largest number of bytes one tensor may take: what every supported engine can still address in one array. */
export const largestByteLength: number = 2 ** 32;

/** Typed storage seen as an n-dimensional array. */
export class View extends Placed<Storage> {
  /** The buffer under its own name: the bytes, to read and write. */
  get data(): Storage {
    return this.buffer;
  }

  /** The same storage seen otherwise. */
  show(shape: readonly number[], offset: number = this.offset, strides?: readonly number[]): View {
    return new View(this.type, shape, this.data, offset, strides);
  }

  /** A fresh, zeroed, contiguous view. Throws `out-of-memory` when it cannot be had. */
  static allocate(type: ElementType, shape: readonly number[]): View {
    const count = elementCount(shape);
    const tooLarge = (cause?: unknown): InsituError =>
      new InsituError(
        "out-of-memory",
        `a tensor ${type}[${shape.join(",")}] of ${byteLengthOf(type, count)} bytes cannot be allocated`,
        { cause },
      );
    if (byteLengthOf(type, count) > largestByteLength || (type === "string" && count > 2 ** 25)) throw tooLarge();
    try {
      return new View(type, shape, allocateStorage(type, count));
    } catch (cause) {
      throw tooLarge(cause);
    }
  }

  /** The same elements under another shape. Needs a contiguous view. */
  reshape(shape: readonly number[]): View {
    return this.show(shape);
  }

  /** The same elements with axes in another order. */
  transpose(order: readonly number[]): View {
    return this.show(
      order.map((axis) => this.shape[axis]),
      this.offset,
      order.map((axis) => this.strides[axis]),
    );
  }

  /** Rows `start` to `end` (exclusive) along one axis, without copying. */
  override slice(axis: number, start: number, end: number): View {
    const shape = this.shape.with(axis, end - start);
    return this.show(shape, this.offset + start * this.strides[axis], this.strides);
  }

  /** The view repeated along broadcast dimensions (stride 0), as numpy's broadcast_to. */
  broadcastTo(shape: readonly number[]): View {
    const lead = shape.length - this.shape.length;
    const strides = shape.map((dim, axis) =>
      axis < lead || (this.shape[axis - lead] === 1 && dim !== 1) ? 0 : this.strides[axis - lead],
    );
    return this.show(shape, this.offset, strides);
  }
}

/** A view of another type and shape from the first byte of a view's storage on, which has enough of them. */
export function viewIn(memory: View, type: Exclude<ElementType, "string">, shape: readonly number[]): View {
  const { buffer, byteOffset } = memory.data as ByteStorage;
  const length = storageLengthOf(type, elementCount(shape));
  return new View(type, shape, new (arrayConstructorOf(type))(buffer, byteOffset, length));
}

/** A place as a view. For those who know that it lies on the host: any other is a bug of insitu. */
export const hostView = (place: Placed): View =>
  place instanceof View ? place : unreachable(`${place} was taken for one on the host`);

/** True if a contiguous view covers its whole storage. */
export const coversStorage = (view: View): boolean =>
  view.offset === 0 && view.contiguous && view.data.length === storageLengthOf(view.type, view.size);

/** The bytes of a view that covers its whole storage. */
export function bytesIn(view: View): Uint8Array {
  if (Array.isArray(view.data) || !coversStorage(view)) return unreachable(`${view} is no storage of bytes of its own`);
  const { buffer, byteOffset, byteLength } = view.data as ByteStorage;
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** A view of elements that are given as bytes: of a copy, aligned for every type. */
export function viewOfBytes(type: Exclude<ElementType, "string">, shape: readonly number[], bytes: Uint8Array): View {
  // A buffer of its own; a Buffer's slice would share the old one.
  const { buffer } = new Uint8Array(bytes);
  return new View(type, shape, new (arrayConstructorOf(type))(buffer, 0, storageLengthOf(type, elementCount(shape))));
}

/** Calls `visit` with the element index (offset included) of every element, in row-major order. */
export function forEachIndex(view: View, visit: (index: number, position: number) => void): void {
  const { shape, strides, size } = view;
  const rank = shape.length;
  if (size === 0) return;
  if (rank === 0) return visit(view.offset, 0);
  const counter = new Array<number>(rank).fill(0);
  const last = rank - 1;
  const inner = shape[last];
  const step = strides[last];
  let base = view.offset;
  for (let position = 0; position < size;) {
    for (let i = 0, index = base; i < inner; i++, index += step) visit(index, position++);
    let axis = last - 1;
    for (; axis >= 0; axis--) {
      base += strides[axis];
      if (++counter[axis] < shape[axis]) break;
      base -= strides[axis] * shape[axis];
      counter[axis] = 0;
    }
    if (axis < 0) break;
  }
}

/** Calls `visit` with the element indices of two views of one shape side by side, in row-major order. */
export function forEachIndexPair(first: View, second: View, visit: (index: number, other: number) => void): void {
  const { shape, size } = first;
  if (size === 0) return;
  const last = shape.length - 1;
  const counter = new Array<number>(shape.length).fill(0);
  const [inner, step, otherStep] = last < 0 ? [1, 0, 0] : [shape[last], first.strides[last], second.strides[last]];
  let [base, otherBase] = [first.offset, second.offset];
  for (;;) {
    for (let i = 0, index = base, other = otherBase; i < inner; i++, index += step, other += otherStep)
      visit(index, other);
    let axis = last - 1;
    for (; axis >= 0; axis--) {
      base += first.strides[axis];
      otherBase += second.strides[axis];
      if (++counter[axis] < shape[axis]) break;
      base -= first.strides[axis] * shape[axis];
      otherBase -= second.strides[axis] * shape[axis];
      counter[axis] = 0;
    }
    if (axis < 0) return;
  }
}

/** True if the two views may have a byte in common: their storage overlaps. */
export function sharesBytes(a: View, b: View): boolean {
  if (Array.isArray(a.data) || Array.isArray(b.data)) return a.data === b.data;
  if (a.data.buffer !== b.data.buffer) return false;
  const [aStart, bStart] = [a.data.byteOffset, b.data.byteOffset];
  return aStart < bStart + b.data.byteLength && bStart < aStart + a.data.byteLength;
}
