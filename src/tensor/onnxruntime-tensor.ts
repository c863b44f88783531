/**
 * What onnxruntime-common's Tensor has beside its elements: pictures, textures and buffers of a GPU. insitu carries none of them; each is
 * refused by name, with the way out. Its names for types are here too.
 */
import type { ElementType as AnyElementType } from "./element-type.js";
import type { TypedTensor } from "./tensor.js";
import { refuse } from "./tensor-data.js";

/** What each refused way to make a tensor, or out of it, can be replaced by. */
const waysOut = {
  fromImage: "draw the picture on a canvas, and make new Tensor(type, data, dims) of getImageData(…).data",
  fromTexture: "read the texture's pixels, and make new Tensor(type, data, dims) of them",
  fromGpuBuffer:
    "map the buffer to the host, and make new Tensor(type, data, dims) of it; a state keeps caches on the device",
  fromMLTensor: "read the MLTensor to the host, and make new Tensor(type, data, dims) of it",
  toDataURL: "draw tensor.data on a canvas, and ask that for toDataURL()",
  toImageData: "make new ImageData(pixels, width) of tensor.data",
  texture: "await tensor.getData() has the elements",
  gpuBuffer: "await tensor.getData() has the elements",
  mlTensor: "await tensor.getData() has the elements",
} as const;

/** Throws for what onnxruntime's tensors can do and insitu's cannot. */
export const refuseFeature = (name: keyof typeof waysOut): never =>
  refuse(`${name} is not there in insitu; ${waysOut[name]}`);

/** A class of the place that a program is compiled for; another type where that place has none. */
type GlobalType<Name extends string, Other> =
  typeof globalThis extends Readonly<Record<Name, { readonly prototype: infer T }>> ? T : Other;

/** What devices and pages call the things that onnxruntime's tensors can be made of, and into. */
export interface DeviceTypes {
  readonly texture: GlobalType<"WebGLTexture", object>;
  readonly gpuBuffer: GlobalType<"GPUBuffer", { destroy(): void }>;
  readonly mlTensor: GlobalType<"MLTensor", { destroy(): void }>;
  readonly imageData: GlobalType<"ImageData", object>;
}

/** Plain values by element type, as onnxruntime-common lists them. */
export interface ElementTypeMap {
  float32: number;
  uint8: number;
  int8: number;
  uint16: number;
  int16: number;
  int32: number;
  int64: bigint;
  string: string;
  bool: boolean;
  float16: number;
  float64: number;
  uint32: number;
  uint64: bigint;
  uint4: number;
  int4: number;
}

/** The ways to make a tensor that onnxruntime-common has; all but the last are refused. */
export interface TensorFactory {
  /** Part of onnxruntime's interface. Throws, and says what to use instead. */
  fromImage(image: unknown, options?: object): Promise<TypedTensor<"float32"> | TypedTensor<"uint8">>;
  /** Part of onnxruntime's interface. Throws, and says what to use instead. */
  fromTexture(texture: unknown, options: object): TypedTensor<"float32">;
  /** Part of onnxruntime's interface. Throws, and says what to use instead. */
  fromGpuBuffer<T extends AnyElementType = "float32">(
    buffer: unknown,
    options: { readonly dataType?: T; readonly dims: readonly number[] },
  ): TypedTensor<T>;
  /** Part of onnxruntime's interface. Throws, and says what to use instead. */
  fromMLTensor<T extends AnyElementType = "float32">(
    tensor: unknown,
    options: { readonly dataType?: T; readonly dims: readonly number[] },
  ): TypedTensor<T>;
  /** Memory that a device can read: the same as `new Tensor`. */
  fromPinnedBuffer<T extends Exclude<AnyElementType, "string">>(
    type: T,
    buffer: TypedTensor<T>["data"],
    dims?: readonly number[],
  ): TypedTensor<T>;
}
