// Tensors from bit patterns and back.
import type { ByteStorage, ElementType } from "../../src/tensor/element-type.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { widths } from "./oracle.js";

/** The same bytes as unsigned integers of the elements' width. */
function patterns(tensor: Tensor): Uint8Array | Uint16Array | Uint32Array {
  const { buffer, byteOffset } = tensor.data as ByteStorage;
  const width = widths[tensor.type]!;
  if (width === 4) return new Uint32Array(buffer, byteOffset, tensor.size);
  return width === 2
    ? new Uint16Array(buffer, byteOffset, tensor.size)
    : new Uint8Array(buffer, byteOffset, tensor.size);
}

/** The bit patterns behind a tensor's elements. */
export const bitsOf = (tensor: Tensor): number[] => Array.from(patterns(tensor));

/** A tensor with the given bit patterns. */
export function tensorOf(type: ElementType, shape: readonly number[], bits: readonly number[]): Tensor {
  const tensor = Tensor.fromView(View.allocate(type, shape));
  if (bits.length !== tensor.size) throw new Error(`${bits.length} patterns for ${tensor}`);
  patterns(tensor).set(bits);
  return tensor;
}

/** An index tensor. */
export const indices = (type: "int32" | "int64", shape: readonly number[], values: readonly number[]): Tensor =>
  type === "int32" ? new Tensor(type, values, shape) : new Tensor(type, values.map(BigInt), shape);

/** A copy that shares nothing. */
export const cloneOf = (tensor: Tensor): Tensor => tensorOf(tensor.type, tensor.dims, bitsOf(tensor));
