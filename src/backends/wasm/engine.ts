/**
 * The WASM backend's engine: tensors live in shared memories, a step runs as jobs of compiled kernels where an operator has a fast path
 * that accepts the call, and on the reference implementation over the same memory where not. With several memories a step runs where its weights and
 * caches lie. Nothing is decided silently: `describe` and `describeMemories` tell.
 */
import { InsituError } from "../../base/error.js";
import { Recent } from "../../base/recent.js";
import { callReference } from "../../graph/call.js";
import type { Value } from "../../graph/graph.js";
import { chooseKernel, findOperand, type KernelCall, type KernelTable } from "../../graph/kernel.js";
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import type { StepAccount } from "../step-account.js";
import type { Plan } from "../../plan/plan.js";
import type { Leftovers } from "../../plan/program-cache.js";
import type { Program, Step } from "../../plan/program.js";
import { roomToGrow } from "../../plan/room.js";
import { bytesReadBy } from "../../plan/uses.js";
import { copyView } from "../../tensor/copy.js";
import type { ElementType } from "../../tensor/element-type.js";
import { sameNumbers, type View, viewIn } from "../../tensor/view.js";
import type { CacheRequest } from "../backend.js";
import type { Arena, BodyRunner, Engine, Repeat, Seating } from "../engine.js";
import { isWeight, kernelCallOf } from "../kernel-call.js";
import type { Turns } from "../turns.js";
import { WasmArena } from "./arena.js";
import { JobBlocks } from "./job-blocks.js";
import type { WasmMemories } from "./memories.js";
import type { KernelPool } from "./pool.js";
import { type Recording, StepRecorder } from "./recorder.js";
import { type Carriage, chooseSeat } from "./seats.js";
import { SessionMemory } from "./session-memory.js";

/** How a step runs: by a fast path, or on the reference implementation with the reasons why. */
interface Choice {
  readonly kernel: WasmKernel | undefined;
  readonly reasons: readonly string[];
  /** Jobs for operands in different places, as with several states. */
  readonly recordings: Recent<Recording>;
  /** The jobs of the last call; undefined where the reference implementation did it. */
  last?: Recording | undefined;
}

/** A copy of a feed, and the memory that it lies in, which may be larger. */
interface Staged {
  readonly memory: View;
  readonly copy: View;
}

/**
 * Copies of one input's feeds that are kept for shapes that come again, and the bytes up to which they are. As many as there are
 * numbers of texts that recur in a server's steps, up to 64: a program whose feeds come to lie elsewhere is bound and recorded anew. More of those that grow
 * with every token would leave gaps in the memory.
 */
const mostStaged = 12;
const smallFeed = 1 << 17;

/** Recordings of a step that are kept: conversations that take turns without being recorded anew. */
const mostRecordings = 16;

/** Memory and calls of one session on the WASM backend. */
export class WasmEngine implements Engine {
  readonly resultsInArena = true;
  readonly turns: Turns;
  readonly #memory: SessionMemory;
  readonly #blocks: JobBlocks;
  readonly #pool: KernelPool;
  readonly #kernels: KernelTable<WasmKernel>;
  readonly #choosing: { readonly relaxed: boolean; readonly batchInvariant: boolean };
  readonly #choices = new WeakMap<Step, Choice>();
  /** Copies of feeds. */
  readonly #staged = new Map<Value, Recent<Staged>>();
  /** Recordings that the data of a run did not allow. */
  readonly #refused = new WeakSet<Recording>();
  /** The memory that the step before ran in. */
  #last = 0;
  /** Copies between memories that steps make on each run. */
  readonly #carries = new Map<Step, string>();

  /** `choosing`: what kernels are chosen by. */
  constructor(
    memories: WasmMemories,
    pool: KernelPool,
    kernels: KernelTable<WasmKernel>,
    choosing: { readonly relaxed: boolean; readonly batchInvariant: boolean },
    turns: Turns,
  ) {
    this.turns = turns;
    this.#memory = new SessionMemory(memories);
    this.#blocks = new JobBlocks(this.#memory);
    this.#pool = pool;
    this.#kernels = kernels;
    this.#choosing = choosing;
  }

  allocate(type: ElementType, shape: readonly number[], near?: View): View {
    return this.#memory.allocate(type, shape, near && { view: near });
  }

  allocateCaches(plan: Plan, caches: readonly CacheRequest[]): View[] {
    return this.#memory.allocateCaches(plan, caches);
  }

  /** Memory for weights, one piece for each size. Those that come together lie together. */
  allocateBytes(sizes: readonly number[]): Uint8Array[] {
    return this.#memory.allocateBytes(sizes);
  }

  /** Counts weights that the session has in common with others. */
  countCommon(pieces: readonly Uint8Array[]): void {
    this.#memory.countCommon(pieces);
  }

  free(view: View): void {
    this.#memory.free(view);
  }

  lend(view: View): View {
    return this.#memory.memories.of(view)?.lend(view) ?? view;
  }

  arena(bytes: number, before: Arena | undefined): Arena {
    if (before instanceof WasmArena) before.release();
    return new WasmArena(bytes, this.#memory);
  }

  stage(value: Value, view: View): View {
    if (view.type === "string" || this.owns(view)) return view;
    let kept = this.#staged.get(value);
    if (kept === undefined) this.#staged.set(value, (kept = new Recent(mostStaged)));
    let staged = kept.use(({ copy }) => copy.type === view.type && sameNumbers(copy.shape, view.shape));
    if (staged === undefined) {
      // Runs of several shapes take turns: what is small stays where it lies, so that their programs stay bound to it.
      const spare = kept.drop(({ memory }) => memory.byteLength > smallFeed);
      const oldest = kept.makeRoom();
      if (oldest !== undefined) spare.push(oldest);
      const memory = this.#memoryFor(view.byteLength, spare);
      staged = { memory, copy: viewIn(memory, view.type, view.shape) };
      kept.add(staged);
    }
    copyView(view, staged.copy);
    return staged.copy;
  }

  /** Memory for a feed: what others leave, where it serves, or new one; with room to grow where the feed is one that grows. */
  #memoryFor(bytes: number, spare: readonly Staged[]): View {
    const found = spare.find(({ memory: { byteLength: room } }) => room >= bytes && room <= 4 * bytes + smallFeed);
    for (const each of spare) if (each !== found) this.free(each.memory);
    if (found !== undefined) return found.memory;
    const before = Math.max(0, ...spare.map(({ memory }) => memory.byteLength));
    return this.allocate("uint8", [roomToGrow(bytes, before)]);
  }

  overlap(a: View, b: View): boolean {
    return this.#memory.overlap(a, b);
  }

  owns(view: View): boolean {
    return this.#memory.memories.of(view) !== undefined;
  }

  seat(
    program: Program,
    step: Step,
    inputs: readonly (View | undefined)[],
    arena: Arena,
    elsewhere: readonly View[],
  ): Seating | undefined {
    const { memories } = this.#memory;
    if (memories.all.length === 1) return undefined;
    if (!(arena instanceof WasmArena)) throw new InsituError("internal", "the arena is another engine's");
    const isConstant = (value: Value | undefined): boolean =>
      isWeight(program, value) || (value !== undefined && program.constants.has(value));
    const { readers } = program.plan.uses;
    const isCommon = (value: Value | undefined): boolean =>
      value !== undefined && (readers.get(value)?.length ?? 0) > 1;
    const call = { step, inputs, elsewhere, arena, isConstant, isCommon, last: this.#last };
    const seat = chooseSeat(call, memories);
    this.#last = seat;
    // The reference implementation reads every memory.
    if (!this.#kernels.has(step.node.op)) return { seat, operands: inputs, carry: undefined };
    const read = bytesReadBy(step.node);
    const carriages: Carriage[] = [];
    const words: string[] = [];
    const operands = inputs.map((view, at) => {
      const value = step.node.inputs[at];
      if (view === undefined || isConstant(value)) return view;
      const from = memories.of(view);
      const number = from === undefined ? seat : memories.numberOf(from);
      if (number === seat) return view;
      const carriage = this.#memory.carriage(view, number, seat, arena);
      // What is asked for its shape alone may have lost its bytes to another value, here too.
      if (!read.has(value!)) return carriage.view;
      carriages.push(carriage);
      words.push(`${value!.name} (${carriage.to.length} bytes from memory ${number})`);
      return carriage.view;
    });
    if (carriages.length === 0) {
      this.#carries.delete(step);
      return { seat, operands, carry: undefined };
    }
    this.#carries.set(step, `${step.node.label} in memory ${seat} reads ${words.join(", ")}`);
    const carry = (): void => {
      for (const { from, to } of carriages) to.set(from);
    };
    carry();
    return { seat, operands, carry };
  }

  call(
    program: Program,
    step: Step,
    inputs: readonly (View | undefined)[],
    outputs: (View | undefined)[],
    runBody: BodyRunner,
    seat: number,
  ): void {
    const recording = this.#recordingFor(program, step, inputs, outputs, seat);
    this.#choices.get(step)!.last = recording;
    if (recording === undefined || !this.#runJobs(recording)) callReference(step.node, inputs, outputs, [], runBody);
  }

  repeat(step: Step): Repeat | undefined {
    const recording = this.#choices.get(step)?.last;
    return recording && (() => !recording.replaced && this.#runJobs(recording));
  }

  /** Runs what was recorded; false, with nothing done, where the data do not allow it. */
  #runJobs(recording: Recording): boolean {
    const { tests, jobs, seat } = recording;
    for (const test of tests) {
      if (test()) continue;
      this.#refused.add(recording);
      return false;
    }
    for (const { kernel, job, parts } of jobs) this.#pool.run(kernel, job, parts, seat);
    return true;
  }

  /** The jobs for operands that lie where these lie, first among the step's recordings; undefined where no kernel serves them. */
  #recordingFor(
    program: Program,
    step: Step,
    inputs: readonly (View | undefined)[],
    outputs: readonly (View | undefined)[],
    seat: number,
  ): Recording | undefined {
    const before = this.#choices.get(step);
    const recordings = before?.recordings ?? new Recent<Recording>(mostRecordings);
    const known = recordings.use((each) => each.fits(inputs, outputs));
    if (known !== undefined) return known;
    if (before !== undefined && recordings.size === 0) return undefined;
    // What moved may also lie differently, so that another path serves it.
    const call = kernelCallOf(program, step, inputs, outputs);
    const { kernel } = this.#choose(step, recordings, call, seat);
    if (kernel === undefined) return undefined;
    // The jobs of the one that goes are written over where the new ones need as much memory.
    const oldest = recordings.makeRoom();
    if (oldest !== undefined) oldest.replaced = true;
    const reuse = oldest?.seat === seat ? oldest : undefined;
    if (oldest !== undefined && reuse === undefined) this.#giveBlocks(oldest);
    const recorder = this.#recorder(reuse, seat);
    kernel.record(call, recorder);
    const recording = recorder.finish(inputs, outputs);
    if (recorder.refusal !== undefined) {
      this.#giveBlocks(recording);
      this.#choices.set(step, { kernel: undefined, reasons: [recorder.refusal], recordings });
      return undefined;
    }
    recordings.add(recording);
    return recording;
  }

  forget({ steps, constants }: Leftovers): void {
    for (const step of steps) {
      for (const recording of this.#choices.get(step)?.recordings ?? []) {
        recording.replaced = true;
        this.#giveBlocks(recording);
      }
      this.#choices.delete(step);
      this.#carries.delete(step);
    }
    for (const constant of constants) this.#memory.forgetConstant(constant);
  }

  #giveBlocks({ seat, blocks }: Recording): void {
    for (const block of blocks) this.#blocks.give(seat, block);
  }

  /** The kernels that do a step, or why the reference implementation does; for steps that have run. */
  describe(step: Step): StepAccount | undefined {
    const choice = this.#choices.get(step);
    const recording = choice?.last;
    if (recording === undefined) return { runs: "reference", reasons: choice?.reasons ?? ["it has not run"] };
    if (recording.jobs.length === 0) return { runs: "nothing" };
    const refused = this.#refused.has(recording) ? { reasons: ["not always: data of a run did not allow it"] } : {};
    return { runs: "kernel", kernels: [...new Set(recording.jobs.map(({ kernel }) => kernel))], ...refused };
  }

  /** What each memory holds for the session, and what steps copy from one to another on each run; nothing where there is one memory. */
  describeMemories(): readonly string[] {
    const shares = this.#memory.describe();
    return shares.length < 2 ? [] : [...shares, ...this.#carries.values()];
  }

  /** Gives everything back. */
  release(): void {
    this.#memory.release();
  }

  #choose(step: Step, recordings: Recent<Recording>, call: KernelCall, seat: number): Choice {
    const memory = this.#memory.memories.all[seat];
    const outside = findOperand(call, ({ known, view }) => !known && !memory.holds(view));
    const found =
      outside === undefined
        ? chooseKernel(this.#kernels, step.node.op, call)
        : { kernel: undefined, reasons: [`${outside.view} lies outside the memory that the step runs in`] };
    const choice: Choice = { ...found, recordings };
    this.#choices.set(step, choice);
    return choice;
  }

  #recorder(reuse: Recording | undefined, seat: number): StepRecorder {
    return new StepRecorder({
      memory: this.#memory.memories.all[seat],
      seat,
      pool: this.#pool,
      ...this.#choosing,
      transients: this.#memory.transients(seat),
      resident: (operand) => this.#memory.resident(operand.view, seat),
      blocks: this.#blocks,
      reuse,
    });
  }
}
