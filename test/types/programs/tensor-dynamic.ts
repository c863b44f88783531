import { Tensor } from "onnxruntime-common";

/** A type and data that only the running program knows. */
export function make(type: Tensor.Type, data: Tensor.DataType, dims: readonly number[]): Tensor {
  return new Tensor(type, data, dims);
}
export function zeros<T extends "float32" | "float64">(type: T, size: number): Tensor {
  const data: Tensor.DataTypeMap["float32"] | Tensor.DataTypeMap["float64"] =
    type === "float32" ? new Float32Array(size) : new Float64Array(size);
  return make(type, data, [size]);
}
export function numbers(tensor: Tensor): number[] {
  switch (tensor.type) {
    case "float32":
      return Array.from(tensor.data as Float32Array);
    case "int64":
      return Array.from(tensor.data as BigInt64Array, Number);
    case "string":
      return (tensor.data as string[]).map(Number);
    default:
      return Array.from(tensor.data as Uint8Array);
  }
}
export const value = (tensor: Tensor, at: number): Tensor.ElementType => tensor.data[at];
