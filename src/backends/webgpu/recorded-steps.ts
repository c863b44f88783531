/**
 * What kernels recorded for the steps of a session, for programs that have steps in common: a step whose operands and outputs lie where they
 * lay is not recorded again. Knows no buffers of its own, and binds nothing.
 */
import { chooseKernel, kernelCall, type KernelTable } from "../../graph/kernel.js";
import type { Program, Step } from "../../plan/program.js";
import { samePlace } from "../../tensor/placed.js";
import type { DeviceTraits, Dispatch, WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { checking } from "../../webgpu-kernels/shader-part.js";
import { callOperands } from "../kernel-call.js";
import type { DevicePlace } from "./buffers.js";
import { LikeSteps } from "./like-steps.js";
import { Pending, tokenView } from "./pending.js";
import { CallRecorder, isTemporary } from "./recorder.js";

type Places = readonly (DevicePlace | undefined)[];

/** The dispatches of a step with its operands in these places, or why no kernel takes it. */
interface RecordedStep {
  readonly operands: Places;
  /** Which of the operands the host knows of. */
  readonly onHost: readonly boolean[];
  readonly outputs: Places;
  readonly recorder: CallRecorder | undefined;
  readonly reasons: readonly string[];
}

/** The steps of one session as they were last recorded. */
export class RecordedSteps {
  readonly #steps = new WeakMap<Step, RecordedStep>();
  readonly #like = new LikeSteps();
  readonly #kernels: KernelTable<WebgpuKernel>;
  readonly #traits: DeviceTraits;

  constructor(kernels: KernelTable<WebgpuKernel>, traits: DeviceTraits) {
    this.#kernels = kernels;
    this.#traits = traits;
  }

  /** The step with operands and outputs in these places; `onHost` tells which of the operands the host knows of before each run. */
  of(program: Program, step: Step, operands: Places, onHost: readonly boolean[], outputs: Places): RecordedStep {
    const known = this.#steps.get(step);
    if (
      known !== undefined &&
      haveSamePlaces(known.operands, operands) &&
      haveSamePlaces(known.outputs, outputs) &&
      known.onHost.every((is, at) => is === onHost[at])
    )
      return known;
    const recorded = { operands, onHost, outputs, ...this.#record(program, step, operands, onHost, outputs) };
    this.#steps.set(step, recorded);
    return recorded;
  }

  #record(
    program: Program,
    step: Step,
    operands: Places,
    onHost: readonly boolean[],
    outputs: Places,
  ): Pick<RecordedStep, "recorder" | "reasons"> {
    if ([...operands, ...outputs].some((place) => place?.type === "string"))
      return { recorder: undefined, reasons: ["strings stay on the host"] };
    const { node } = step;
    const looked = new Set<number>();
    const [given, made] = callOperands(program, step, operands, outputs, tokenView, (at) => void looked.add(at));
    const all = [...given, ...made];
    const here = new Set(operands.filter((place, at) => place !== undefined && onHost[at]) as readonly DevicePlace[]);
    const name = this.#like.nameOf(node, all, onHost);
    const like = name === undefined ? undefined : this.#like.find(name, all, this.#traits, here);
    if (like !== undefined && !checking.texts) return { recorder: like, reasons: [] };
    looked.clear();
    const call = kernelCall(node, given, made);
    const { kernel, reasons } = chooseKernel(this.#kernels, node.op, call);
    if (kernel === undefined) return { recorder: undefined, reasons };
    const recorder = new CallRecorder(this.#traits, here);
    kernel.record(call, recorder);
    if (like !== undefined) requireAlike(recorder, like, node.label);
    else if (name !== undefined) this.#like.add(name, { operands: all, looked, recorder });
    return { recorder: like ?? recorder, reasons };
  }

  /** The dispatch that a dispatch has code, numbers and bindings from: they have one pipeline. */
  originalOf(dispatch: Dispatch): Dispatch {
    return this.#like.originalOf(dispatch);
  }
}

const haveSamePlaces = (a: Places, b: Places): boolean => a.every((place, at) => isSame(place, b[at]));

/** What is still on the host is the same where the value is. */
function isSame(a: DevicePlace | undefined, b: DevicePlace | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.buffer instanceof Pending) return b.buffer instanceof Pending && a.buffer.value === b.buffer.value;
  return samePlace(a, b);
}

/** Throws where what was taken from a like step is not what the kernel records. */
function requireAlike(recorded: CallRecorder, like: CallRecorder, label: string): void {
  const [own, other] = [recorded, like].map(({ dispatches, forms, temporaries }) =>
    JSON.stringify([
      [...dispatches, ...forms.map(({ dispatch }) => dispatch)].map(({ bindings, only, ...rest }) => [
        rest,
        bindings.map(({ of, ...binding }) => [binding, numberOf(of)]),
        only?.map(({ of, measure, least, most }) => [measure.name, least, most, of.map(numberOf)]),
      ]),
      forms.map(({ key, bytes, laidAt, of }) => [key, bytes, laidAt, of.map(numberOf)]),
      temporaries.map(({ bytes }) => bytes),
    ]),
  );
  if (own !== other) throw new RangeError(`${label}: steps that look alike are recorded otherwise:\n${own}\n${other}`);
}

const numbers = new WeakMap<object, number>();
let count = 0;

/** The number of the buffer behind something that is bound; what is no operand is told by its size. */
function numberOf(of: object): string {
  if (!("place" in of) || isTemporary(of)) return `${(of as { readonly bytes: number }).bytes} bytes`;
  const { buffer } = (of as { readonly place: DevicePlace }).place;
  if (!numbers.has(buffer)) numbers.set(buffer, count++);
  return String(numbers.get(buffer));
}
