import * as ort from "onnxruntime-common";

// @ts-expect-error: no arguments
new ort.Tensor();
// @ts-expect-error: a type without data
new ort.Tensor("float32");
// @ts-expect-error: numbers without a type
new ort.Tensor([1, 2, 3, 4]);
// @ts-expect-error: dims that are no list
new ort.Tensor(new Float32Array([1, 2, 3, 4]), 2);
// @ts-expect-error: clamped bytes are no booleans
new ort.Tensor("bool", new Uint8ClampedArray([255, 256]), [2]);
// @ts-expect-error: uint8 is not bool
export const flags = new ort.Tensor(new Uint8Array([1, 1, 0, 0])) as ort.TypedTensor<"bool">;
// @ts-expect-error: without new
ort.Tensor("float32", [1, 2, 3, 4], [2, 2]);
