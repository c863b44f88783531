/**
 * How an operator's kernel on WebGPU is written: `ops/<op>/webgpu.ts` exports these, beside the declaration. A kernel says whether it accepts
 * a call, and records the dispatches that do it. It knows no device: buffers, pipelines and passes are the backend's.
 */
import type { ElementType } from "../tensor/element-type.js";
import type { Measure } from "./measures.js";
import type { Tuning } from "./tuning.js";
import {
  bindKernel,
  type CallOf,
  kernelFamily,
  type KernelPath,
  type Operand,
  type RecordingKernel,
  type Served,
} from "../graph/kernel.js";

/** Memory for what one dispatch of a call hands to the next: it holds nothing from run to run. */
export interface Temporary {
  readonly bytes: number;
}

/** How something lies that is larger than one binding can be: in so many buffers, of so many bytes each but the last. */
export interface Pieces {
  readonly count: number;
  readonly bytes: number;
}

/** Another form of operands, which a dispatch makes: of weights once for a session, of what the host knows once a run. */
export interface OperandForm {
  readonly of: readonly Operand[];
  /** Which form it is: kernels that ask for the same one of the same operands share it. */
  readonly key: string;
  readonly bytes: number;
}

/** A storage binding: `name` is an array of `element` in the shader. */
export interface Binding {
  readonly name: string;
  /** A WGSL type; "u32" where left out. */
  readonly element?: string;
  /** What is bound, as a whole: the shader adds where an operand begins (`place.offset`), which a parameter tells it. */
  readonly of: Operand | Temporary | OperandForm;
  /** True if the shader writes it. What it writes it may read, and nothing else of the same dispatch may lie there. */
  readonly writes?: boolean;
  /** Which piece of it, where it lies in several buffers. */
  readonly piece?: number;
}

/** What a shader enables of WGSL's extensions. */
export type Extension = "subgroups" | "f16" | "chromium_experimental_subgroup_matrix";

/** A number of a shader's parameters: 32 bits. One below 0 is read as `i32(p.name)`. */
export type Parameter = number | { readonly float: number };

/** One dispatch: see `dispatchOf`. */
export interface Dispatch {
  /** The kernel's name, as `explain` tells it. */
  readonly name: string;
  /**
   * WGSL without bindings; `main` is its entry. The backend declares extensions, bindings and parameters in front of it. It writes what it reads of
   * workgroup memory: not every device is asked to zero it.
   */
  readonly code: string;
  /** Tells the code from every other, in a few numbers: equal keys, equal codes. */
  readonly key: string;
  readonly extensions: readonly Extension[];
  readonly bindings: readonly Binding[];
  /** Numbers by name: whole ones are `u32` constants of the dispatch, others `f32`. They cost no pipeline of their own. */
  readonly parameters: Readonly<Record<string, Parameter>>;
  /**
   * True if the parameters become constants of the shader: a pipeline for each set of values, and one load less before the first instruction. For
   * what runs for every token, with the same numbers in every layer.
   */
  readonly fixed?: boolean;
  /**
   * Parameters that are no constants though the others are fixed: dispatches that differ in these alone share a pipeline. The shader reads them by
   * `openOf`.
   */
  readonly open?: readonly string[];
  readonly workgroups: readonly [x: number, y?: number, z?: number];
  /** In which runs it is done, in those that lie in all of these; in all runs where left out. */
  readonly only?: readonly Range[];
}

/** Runs in which a measure of operands, which the host knows of, lies between two numbers, both of them included. */
export interface Range {
  readonly of: readonly Operand[];
  readonly measure: Measure;
  readonly least: number;
  readonly most: number;
}

/** Sizes of the matrices that a subgroup multiplies together: [rows, depth] · [depth, columns], float16 summed up in float32. */
export interface SubgroupMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
}

/** What the device is, as far as kernels choose by it. */
export interface DeviceTraits {
  /** Invocations of a subgroup, where there are subgroups of one size. */
  readonly subgroup: number | undefined;
  readonly f16: boolean;
  /** Whether four bytes are multiplied and added up in one instruction of WGSL. */
  readonly dots: boolean;
  /** What subgroups multiply together, where they do; float16 and subgroups of one size are there too then. */
  readonly subgroupMatrix: SubgroupMatrix | undefined;
  readonly mostWorkgroups: number;
  readonly workgroupBytes: number;
  /** Storage buffers that one dispatch binds at most: 8 everywhere. */
  readonly mostBindings: number;
  /** What one binding holds, but for weights, which may lie in pieces. */
  readonly mostBindingBytes: number;
  /** Invocations of a workgroup at most: 256 everywhere. */
  readonly mostInvocations: number;
  /** The numbers that were tried out on such a device. */
  readonly tuning: Tuning;
}

/** Takes down the dispatches of a call. They hold as long as the operands stay where they are. */
export interface WebgpuRecorder {
  readonly device: DeviceTraits;
  /** True if the host knows the numbers of an operand before each run: dispatches may be chosen by them. */
  isOnHost(operand: Operand): boolean;
  temporary(bytes: number): Temporary;
  /** The same as something that a part of the call makes and another part reads: without gaps. */
  between(type: ElementType, shape: readonly number[]): Operand & Temporary;
  /**
   * Another form of operands: `make` gives the dispatch that reads them and writes the form. They are all constant, and stay on the device only
   * where something binds them; or the host knows all of them before each run. `laidAt`, where the form is the operands' bytes and nothing else: at
   * which byte those of each begin. What the host knows needs no dispatch then.
   */
  form(
    of: readonly Operand[],
    key: string,
    bytes: number,
    make: (form: OperandForm) => Dispatch,
    laidAt?: readonly number[],
  ): OperandForm;
  dispatch(dispatch: Dispatch): void;
}

/** The same recorder for dispatches that are done in no other runs than these. */
export const recorderOf = (recorder: WebgpuRecorder, only: readonly Range[]): WebgpuRecorder => ({
  device: recorder.device,
  isOnHost: (operand) => recorder.isOnHost(operand),
  temporary: (bytes) => recorder.temporary(bytes),
  between: (type, shape) => recorder.between(type, shape),
  form: (...asked) => recorder.form(...asked),
  dispatch: (dispatch) => recorder.dispatch({ ...dispatch, only: [...only, ...(dispatch.only ?? [])] }),
});

/** A kernel, as the backend sees it. */
export type WebgpuKernel = RecordingKernel<WebgpuRecorder>;

/** Binds one to the declarations whose calls it serves. */
export const webgpuKernel: <const Ops extends Served>(
  ops: Ops,
  path: KernelPath<CallOf<Ops[number]>, WebgpuRecorder>,
) => WebgpuKernel = bindKernel;

/** Those of a family, which differ only in how they read their calls. */
export const webgpuFamily: <Work extends object>(
  family: KernelPath<Work, WebgpuRecorder>,
) => <const Ops extends Served>(ops: Ops, workOf: (call: CallOf<Ops[number]>) => Work | string) => WebgpuKernel =
  kernelFamily;
