import { Tensor, type TypedTensor } from "onnxruntime-common";

export const all = [
  new Tensor(new Float32Array([1, 2])) as TypedTensor<"float32">,
  new Tensor(new Float64Array(2), [2]) as TypedTensor<"float64">,
  new Tensor(new Int8Array(2)) as TypedTensor<"int8">,
  new Tensor(new Uint8Array(2)) as TypedTensor<"uint8">,
  new Tensor(new Uint8ClampedArray(2)) as TypedTensor<"uint8">,
  new Tensor(new Int16Array(2)) as TypedTensor<"int16">,
  new Tensor(new Uint16Array(2)) as TypedTensor<"uint16">,
  new Tensor(new Int32Array(2)) as TypedTensor<"int32">,
  new Tensor(new Uint32Array(2)) as TypedTensor<"uint32">,
  new Tensor(new BigInt64Array(2)) as TypedTensor<"int64">,
  new Tensor(new BigUint64Array(2)) as TypedTensor<"uint64">,
  new Tensor(["a", "b"]) as TypedTensor<"string">,
  new Tensor([true, false], [1, 2]) as TypedTensor<"bool">,
];
