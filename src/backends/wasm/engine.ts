/**
 * The WASM backend's engine: tensors live in the one shared memory, a step runs as jobs of compiled kernels where an operator has a
 * fast path that accepts the call, and on the slow truth over the same memory where not. Nothing is decided silently: `describe` tells.
 */
import { callReference } from "../../graph/call.js";
import type { Value } from "../../graph/graph.js";
import type { Operand, WasmKernel } from "../../kernels/wasm-kernel.js";
import type { Program, Step } from "../../plan/program.js";
import { copyView } from "../../tensor/copy.js";
import { byteLengthOf, type ElementType } from "../../tensor/element-type.js";
import { elementCount, sameNumbers, sharesBytes, View } from "../../tensor/view.js";
import type { Arena, BodyRunner, Engine, Repeat } from "../engine.js";
import type { WasmMemory } from "./memory.js";
import type { KernelPool } from "./pool.js";
import { type Recording, StepRecorder } from "./recorder.js";

/** Fast paths by operator: `domain::name`. */
export type KernelTable = ReadonlyMap<string, readonly WasmKernel[]>;

/** How a step runs: by a fast path, or on the slow truth with the reasons why. */
interface Choice {
  readonly kernel: WasmKernel | undefined;
  readonly reasons: readonly string[];
  /** Jobs for operands in different places, as with several states, the last used first. */
  readonly recordings: Recording[];
}

/** Recordings of a step that are kept: conversations that take turns without being recorded anew. */
const mostRecordings = 16;

/** Memory and calls of one session on the WASM backend. */
export class WasmEngine implements Engine {
  readonly resultsInArena = true;
  readonly #memory: WasmMemory;
  readonly #pool: KernelPool;
  readonly #kernels: KernelTable;
  readonly #relaxed: boolean;
  readonly #choices = new WeakMap<Step, Choice>();
  /** Constants and weights, copied once: by the view that the graph holds. */
  readonly #resident = new Map<View, View>();
  readonly #prepared = new Map<string, number>();
  readonly #staged = new Map<Value, View>();
  /** Everything taken from the memory, to be given back together. */
  readonly #taken = new Map<number, number>();

  constructor(memory: WasmMemory, pool: KernelPool, kernels: KernelTable, relaxed: boolean) {
    this.#memory = memory;
    this.#pool = pool;
    this.#kernels = kernels;
    this.#relaxed = relaxed;
  }

  allocate(type: ElementType, shape: readonly number[]): View {
    if (type === "string") return View.allocate(type, shape);
    const bytes = byteLengthOf(type, elementCount(shape));
    const address = this.#take(bytes);
    new Uint8Array(this.#memory.buffer, address, bytes).fill(0);
    return this.#memory.viewAt(address, type, shape);
  }

  /** Bytes of the memory for weights. */
  allocateBytes(bytes: number): Uint8Array {
    const address = this.#take(bytes);
    return new Uint8Array(this.#memory.buffer, address, bytes);
  }

  free(view: View): void {
    const address = this.#memory.addressOf(view);
    if (address !== undefined) this.#give(address);
  }

  arena(bytes: number, before: Arena | undefined): Arena {
    if (before !== undefined) this.#give(before.start);
    const start = this.#take(bytes); // may grow the memory, which gives it a new buffer
    return { buffer: this.#memory.buffer, start };
  }

  stage(value: Value, view: View): View {
    if (view.type === "string" || this.#memory.addressOf(view) !== undefined) return view;
    let copy = this.#staged.get(value);
    if (copy === undefined || copy.type !== view.type || copy.size !== view.size) {
      if (copy !== undefined) this.free(copy);
      copy = this.allocate(view.type, view.shape);
    } else if (!sameNumbers(copy.shape, view.shape)) copy = copy.reshape(view.shape);
    this.#staged.set(value, copy);
    copyView(view, copy);
    return copy;
  }

  overlap(a: View, b: View): boolean {
    const [first, second] = [this.#memory.addressOf(a), this.#memory.addressOf(b)];
    if (first === undefined || second === undefined) return sharesBytes(a, b);
    return first < second + spanOf(b) && second < first + spanOf(a);
  }

  owns(view: View): boolean {
    return this.#memory.addressOf(view) !== undefined;
  }

  call(
    program: Program,
    step: Step,
    inputs: readonly (View | undefined)[],
    outputs: (View | undefined)[],
    runBody: BodyRunner,
  ): void {
    const recording = this.#recordingFor(program, step, inputs, outputs);
    if (recording === undefined || !this.#runJobs(recording)) callReference(step.node, inputs, outputs, [], runBody);
  }

  repeat(step: Step): Repeat | undefined {
    const recording = this.#choices.get(step)?.recordings[0];
    return recording && (() => !recording.replaced && this.#runJobs(recording));
  }

  /** Runs what was recorded; false, with nothing done, where the data do not allow it. */
  #runJobs({ tests, jobs }: Recording): boolean {
    for (const test of tests) if (!test()) return false;
    for (const { kernel, job, parts } of jobs) this.#pool.run(kernel, job, parts);
    return true;
  }

  /** The jobs for operands that lie where these lie, first among the step's recordings; undefined where no kernel serves them. */
  #recordingFor(
    program: Program,
    step: Step,
    inputs: readonly (View | undefined)[],
    outputs: readonly (View | undefined)[],
  ): Recording | undefined {
    const before = this.#choices.get(step);
    const recordings = before?.recordings ?? [];
    const known = recordings.findIndex((each) => each.fits(inputs, outputs));
    if (known >= 0) {
      if (known > 0) recordings.unshift(...recordings.splice(known, 1));
      return recordings[0];
    }
    if (before !== undefined && recordings.length === 0) return undefined;
    // What moved may also lie differently, so that another path serves it.
    const { kernel } = this.#choose(program, step, recordings, inputs, outputs);
    if (kernel === undefined) return undefined;
    const oldest = recordings.length < mostRecordings ? undefined : recordings.pop();
    if (oldest !== undefined) oldest.replaced = true;
    recordings.unshift(this.#record(kernel, oldest, program, step, inputs, outputs));
    return recordings[0];
  }

  forget(program: Program): void {
    for (const step of program.steps) {
      for (const recording of this.#choices.get(step)?.recordings ?? []) {
        recording.replaced = true;
        for (const { address } of recording.blocks) this.#give(address);
      }
      this.#choices.delete(step);
    }
    for (const constant of program.constants.values()) {
      const copy = this.#resident.get(constant);
      if (copy !== undefined) this.free(copy);
      this.#resident.delete(constant);
    }
  }

  /** Why a step runs on the slow truth; undefined where it has a fast path. For steps that have run. */
  describe(step: Step): readonly string[] | undefined {
    const choice = this.#choices.get(step);
    return choice === undefined || choice.kernel !== undefined ? undefined : choice.reasons;
  }

  /** Gives everything back. */
  release(): void {
    for (const [address, bytes] of this.#taken) this.#memory.give(address, bytes);
    this.#taken.clear();
  }

  #choose(
    program: Program,
    step: Step,
    recordings: Recording[],
    inputs: readonly (View | undefined)[],
    outputs: readonly (View | undefined)[],
  ): Choice {
    const { op } = step.node;
    const reasons: string[] = [];
    const call = this.#callOf(program, step, inputs, outputs);
    let kernel: WasmKernel | undefined;
    const outside = [...call.inputs, ...call.outputs].find(
      (operand) => operand?.known === false && this.#memory.addressOf(operand.view) === undefined,
    );
    if (outside !== undefined) reasons.push(`${outside.view} lies outside the memory`);
    for (const candidate of outside ? [] : (this.#kernels.get(`${op.domain}::${op.name}`) ?? [])) {
      const answer = candidate.accepts(call);
      if (answer === true) {
        kernel = candidate;
        break;
      }
      reasons.push(answer);
    }
    const choice: Choice = {
      kernel,
      reasons: reasons.length === 0 ? ["it has no kernel"] : reasons,
      recordings,
    };
    this.#choices.set(step, choice);
    return choice;
  }

  #record(
    kernel: WasmKernel,
    before: Recording | undefined,
    program: Program,
    step: Step,
    inputs: readonly (View | undefined)[],
    outputs: readonly (View | undefined)[],
  ): Recording {
    const recorder = new StepRecorder({
      memory: this.#memory,
      pool: this.#pool,
      relaxed: this.#relaxed,
      prepared: this.#prepared,
      resident: (operand) => this.#residentView(operand.view),
      take: (bytes) => this.#take(bytes),
      give: (address) => this.#give(address),
      reuse: before,
    });
    kernel.record(this.#callOf(program, step, inputs, outputs), recorder);
    return recorder.finish(inputs, outputs);
  }

  #callOf(
    program: Program,
    step: Step,
    inputs: readonly (View | undefined)[],
    outputs: readonly (View | undefined)[],
  ): Parameters<WasmKernel["accepts"]>[0] {
    const { node } = step;
    // What shapes decide belongs to one program, and is not worth another form of its own.
    const isConstant = (value: Value | undefined): boolean =>
      value?.initializer !== undefined && !program.plan.graph.inputs.includes(value);
    return {
      label: node.label,
      opset: node.opset,
      attrs: node.attrs,
      inputs: inputs.map((view, at) => {
        const value = node.inputs[at];
        const constant = isConstant(value);
        return view && operandOf(view, constant, constant || (value !== undefined && program.constants.has(value)));
      }),
      outputs: outputs.map((view) => view && operandOf(view, false, false)),
    };
  }

  /** A constant in the memory: copied there when a kernel first asks for its address. */
  #residentView(view: View): View {
    if (this.#memory.addressOf(view) !== undefined) return view;
    let copy = this.#resident.get(view);
    if (copy === undefined) {
      copy = this.allocate(view.type, view.shape);
      copyView(view, copy);
      this.#resident.set(view, copy);
    }
    return copy;
  }

  #give(address: number): void {
    const bytes = this.#taken.get(address);
    if (bytes === undefined) return;
    this.#taken.delete(address);
    this.#memory.give(address, bytes);
  }

  #take(bytes: number): number {
    const address = this.#memory.take(bytes);
    this.#taken.set(address, bytes);
    return address;
  }
}

/** Bytes from a view's first element to the end of its last. */
const spanOf = ({ type, shape, strides, size }: View): number =>
  size === 0 ? 0 : byteLengthOf(type, 1 + shape.reduce((sum, dim, axis) => sum + (dim - 1) * strides[axis], 0));

const operandOf = (view: View, constant: boolean, known: boolean): Operand => ({
  type: view.type,
  shape: view.shape,
  strides: view.strides,
  contiguous: view.contiguous,
  constant,
  known,
  view,
});
