import type { Tensor } from "onnxruntime-common";

/** A table of all types that onnxruntime has, closed by the compiler. */
export const bytesOf: Record<Tensor.Type, number> = {
  float32: 4,
  uint8: 1,
  int8: 1,
  uint16: 2,
  int16: 2,
  int32: 4,
  int64: 8,
  string: 0,
  bool: 1,
  float16: 2,
  float64: 8,
  uint32: 4,
  uint64: 8,
  uint4: 0.5,
  int4: 0.5,
};
