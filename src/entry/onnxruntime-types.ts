/** onnxruntime-common's names for the types around a session, in insitu's own words. Types alone. */
import type { ModelSource } from "../session/load.js";
import type { SessionOptions } from "../session/options.js";
import type { ValueMetadata } from "../session/metadata.js";
import type { RunOptions } from "../session/run-options.js";
import type { Session } from "../session/session.js";
import type { Tensor } from "../tensor/tensor.js";

/** The same with properties that may be set one by one, as programs do with onnxruntime's. */
type Settable<T> = { -readonly [Name in keyof T]: T[Name] };

/** Values that are no tensors: none. */
export type NonTensorType = never;

/** A value that is fed, or comes out. */
export type OnnxValue = Tensor;

/** Where a value lies. */
export type OnnxValueDataLocation = Tensor.DataLocation;

/** What `InferenceSession` is as a value. */
export interface InferenceSessionFactory {
  /** As `InferenceSession.create`. */
  create(model: ModelSource, options?: SessionOptions): Promise<Session>;
  create(buffer: ArrayBufferLike, byteOffset: number, byteLength?: number, options?: SessionOptions): Promise<Session>;
}

/** The types that onnxruntime-common has in the namespace of its session. */
export declare namespace SessionTypes {
  type OnnxValueMapType = { readonly [name: string]: OnnxValue };
  type NullableOnnxValueMapType = { readonly [name: string]: OnnxValue | null };
  type FeedsType = OnnxValueMapType;
  type FetchesType = readonly string[] | NullableOnnxValueMapType;
  type ReturnType = OnnxValueMapType;
  type Options = Settable<SessionOptions>;
  type Run = Settable<RunOptions>;
  type TensorValueMetadata = ValueMetadata;
  interface NonTensorValueMetadata {
    readonly name: string;
    readonly isTensor: false;
  }
  type Metadata = TensorValueMetadata | NonTensorValueMetadata;
  interface ExecutionProviderOption {
    readonly name: string;
  }
  interface CpuExecutionProviderOption extends ExecutionProviderOption {
    readonly name: "cpu";
    useArena?: boolean;
  }
  interface CudaExecutionProviderOption extends ExecutionProviderOption {
    readonly name: "cuda";
    deviceId?: number;
  }
  interface WebAssemblyExecutionProviderOption extends ExecutionProviderOption {
    readonly name: "wasm";
  }
  interface WebGpuExecutionProviderOption extends ExecutionProviderOption {
    readonly name: "webgpu";
    preferredLayout?: "NCHW" | "NHWC";
    forceCpuNodeNames?: readonly string[];
    validationMode?: "disabled" | "wgpuOnly" | "basic" | "full";
  }
  type ExecutionProviderName =
    | "coreml"
    | "cpu"
    | "cuda"
    | "dml"
    | "nnapi"
    | "tensorrt"
    | "wasm"
    | "webgl"
    | "webgpu"
    | "webnn"
    | "qnn"
    | "xnnpack";
  type ExecutionProviderConfig =
    | CpuExecutionProviderOption
    | CudaExecutionProviderOption
    | WebAssemblyExecutionProviderOption
    | WebGpuExecutionProviderOption
    | ExecutionProviderOption
    | string;
}
