/**
 * Fast paths of element-wise operators on integers, bools, float64 and wherever the exact result is asked for: one job of the `elements`
 * kernel an operator, every operand by its strides. Chains of floats are elementwise.ts's.
 */
import { elementCode, elementsOperation, registerKind } from "../../../wasm-kernels/jobs.js";
import type { Operand } from "../../../graph/kernel.js";
import { type Recorder, wasmFamily } from "../../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf, type ElementType, traitsOf } from "../../../tensor/element-type.js";
import { joinDimensions, productOf } from "../rules/layout.js";
import { partsFor } from "./work.js";

/** The types that the `elements` kernel reads and writes. */
export type PlainType = keyof typeof elementCode;

/** One element-wise operator over one to three operands, which are broadcast to the output. */
export interface ElementsCall {
  readonly operation: keyof typeof elementsOperation;
  readonly kind: keyof typeof registerKind;
  readonly inputs: readonly Operand[];
  /** How operands are read, where that is not their own type: those that are only moved. */
  readonly types?: readonly PlainType[];
  readonly output: Operand;
  readonly outputType?: PlainType;
}

/** True for types that the `elements` kernel knows. */
export const isPlainType = (type: ElementType): type is PlainType => type in elementCode;

/** Why operands cannot be served for their types, if so. */
export function plainOnly(operands: readonly (Operand | undefined)[]): true | string {
  const other = operands.find((operand) => operand !== undefined && !isPlainType(operand.type));
  return other === undefined ? true : `there is no kernel for ${other.type}`;
}

/** The registers that numbers of a type are computed in. */
export function kindOf(type: ElementType): "integer" | "unsigned" | "double" {
  if (traitsOf(type).kind === "float") return "double";
  return type === "uint64" ? "unsigned" : "integer";
}

/** Fast paths of operators with one output that one job computes. */
export const elements = wasmFamily<ElementsCall>({
  accepts(job) {
    const types = plainOnly([
      ...job.inputs.filter((_, at) => job.types?.[at] === undefined),
      job.outputType === undefined ? job.output : undefined,
    ]);
    if (types !== true) return types;
    const whole = job.kind === "bytes" || job.kind === "words";
    return whole && !job.output.contiguous ? "the output has gaps" : true;
  },
  record: (job, recorder) => recordElements(recorder, job),
});

/** Queues the computation. */
export function recordElements(recorder: Recorder, call: ElementsCall): void {
  const { operation, kind, inputs, types = [], output, outputType = output.type } = call;
  if (output.view.size === 0) return;
  const place = (operand: Operand, type: ElementType): ElementsPlace => ({
    address: recorder.address(operand),
    type: type as PlainType,
    strides: operand.view.broadcastTo(output.shape).strides,
  });
  runElements(recorder, {
    operation,
    kind,
    shape: output.shape,
    output: place(output, outputType),
    inputs: inputs.map((input, at) => place(input, types[at] ?? input.type)),
  });
}

/** Where elements of a shape lie. Strides in elements. */
export interface ElementsPlace {
  readonly address: number;
  readonly type: PlainType;
  readonly strides: readonly number[];
}

/** One element-wise operator between places in the memory. */
interface ElementsRun {
  readonly operation: keyof typeof elementsOperation;
  readonly kind: keyof typeof registerKind;
  readonly shape: readonly number[];
  readonly output: ElementsPlace;
  readonly inputs: readonly ElementsPlace[];
}

/** Queues one job; no size is 0. */
export function runElements(recorder: Recorder, { operation, kind, shape, output, inputs }: ElementsRun): void {
  const places = [output, ...inputs];
  const joined = joinDimensions(
    shape,
    places.map(({ strides }) => strides),
  );
  const scalar = joined.shape.length === 0;
  const layout = scalar ? [1] : [...joined.shape];
  places.forEach(({ type }, at) => {
    const width = byteLengthOf(type, 1);
    layout.push(...(scalar ? [width] : joined.strides[at].map((stride) => stride * width)));
  });
  const typeOf = (at: number): number => elementCode[inputs[at]?.type ?? "float32"];
  const addressOf = (at: number): number => inputs[at]?.address ?? 0;
  recorder.run(
    "elements",
    {
      operation: elementsOperation[operation],
      kind: registerKind[kind],
      output: output.address,
      outputType: elementCode[output.type],
      first: addressOf(0),
      firstType: typeOf(0),
      second: addressOf(1),
      secondType: typeOf(1),
      third: addressOf(2),
      thirdType: typeOf(2),
      rank: scalar ? 1 : joined.shape.length,
      layout: recorder.words(layout.map((word) => ({ word }))),
    },
    partsFor(recorder, productOf(shape) * costs[kind] + productOf(joined.shape.slice(0, -1)) * 20),
  );
}

/** Nanoseconds an element, about. */
const costs: Readonly<Record<keyof typeof registerKind, number>> = {
  integer: 2,
  unsigned: 2,
  double: 2,
  bytes: 0.15,
  words: 0.4,
};
