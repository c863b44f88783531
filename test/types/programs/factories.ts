import { Tensor, type TensorFactory } from "onnxruntime-common";

export const factory: TensorFactory = Tensor;
export const picture = (url: string): Promise<Tensor> => Tensor.fromImage(url, { tensorLayout: "NCHW" });
export const pinned = Tensor.fromPinnedBuffer("float32", new Float32Array(4), [2, 2]).data[0];
export const buffer = (given: Tensor.GpuBufferType): Tensor =>
  Tensor.fromGpuBuffer(given, { dataType: "float32", dims: [2, 2] });
export const url = (tensor: Tensor): string => tensor.toDataURL({ tensorLayout: "NHWC" });
export const types: Tensor.GpuBufferDataTypes[] = ["float32", "float16"];
