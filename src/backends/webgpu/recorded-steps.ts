/**
 * What kernels recorded for the steps of a session, for programs that have steps in common: a step whose operands and outputs lie where they
 * lay is not recorded again. Knows no buffers of its own, and binds nothing.
 */
import { chooseKernel, type KernelTable } from "../../graph/kernel.js";
import type { Program, Step } from "../../plan/program.js";
import { samePlace } from "../../tensor/placed.js";
import type { DeviceTraits, WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { kernelCallOf } from "../kernel-call.js";
import type { DevicePlace } from "./buffers.js";
import { Pending, tokenView } from "./pending.js";
import { CallRecorder } from "./recorder.js";

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
    const call = kernelCallOf(program, step, operands, outputs, tokenView);
    const { kernel, reasons } = chooseKernel(this.#kernels, step.node.op, call);
    if (kernel === undefined) return { recorder: undefined, reasons };
    const here = operands.filter((place, at) => place !== undefined && onHost[at]) as readonly DevicePlace[];
    const recorder = new CallRecorder(this.#traits, new Set(here));
    kernel.record(call, recorder);
    return { recorder, reasons };
  }
}

const haveSamePlaces = (a: Places, b: Places): boolean => a.every((place, at) => isSame(place, b[at]));

/** What is still on the host is the same where the value is. */
function isSame(a: DevicePlace | undefined, b: DevicePlace | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.buffer instanceof Pending) return b.buffer instanceof Pending && a.buffer.value === b.buffer.value;
  return samePlace(a, b);
}
