import { Tensor, type TypedTensor } from "onnxruntime-common";

const floats: TypedTensor<"float32"> = new Tensor("float32", new Float32Array([1, 2, 3, 4]), [2, 2]);
const longs: TypedTensor<"int64"> = new Tensor("int64", new BigInt64Array(2), [2]);
const fromBigints: TypedTensor<"uint64"> = new Tensor("uint64", [1n, 2n], [2]);
const fromNumbers: TypedTensor<"int32"> = new Tensor("int32", [1, 2, 3]);
const flags: TypedTensor<"bool"> = new Tensor("bool", [true, false]);
const flagBytes: TypedTensor<"bool"> = new Tensor("bool", new Uint8Array([1, 0]), [2]);
const words: TypedTensor<"string"> = new Tensor("string", ["a", "b"], [2]);
const clamped: TypedTensor<"uint8"> = new Tensor("uint8", new Uint8ClampedArray(4), [4]);
export const sum: number = floats.data[0] + fromNumbers.data[0] + clamped.data[0] + flagBytes.data[0] + flags.data[0];
export const total: bigint = longs.data[0] + fromBigints.data[1];
export const text: string = words.data[0];
