/**
 * Runs a bound program: encodes its dispatches, and does on the host, in between, what is to be done there. A program with nothing to wait for
 * in the middle is submitted as a whole, also several times at once; its results come when the device has them, and others are submitted meanwhile.
 */
import { InsituError } from "../../base/error.js";
import { callReference } from "../../graph/call.js";
import type { Value } from "../../graph/graph.js";
import { bodyOf } from "../../graph/infer.js";
import type { Step } from "../../plan/program.js";
import { cloneView, copyView } from "../../tensor/copy.js";
import { Placed } from "../../tensor/placed.js";
import { bytesIn, coversStorage, View } from "../../tensor/view.js";
import { type Environment, runBody, runDynamically } from "../body.js";
import {
  type Action,
  type BoundDispatch,
  type BoundRun,
  forgetSent,
  type HostNumber,
  type HostRange,
  type Sent,
} from "./bound-run.js";
import type { DeviceBuffer, DevicePlace } from "./buffers.js";
import { startOf } from "./byte-moves.js";
import { download, type OpenLanding } from "./landing.js";
import { copyDispatch, endOf } from "./copies.js";
import { submitting } from "../../webgpu-kernels/tuning.js";
import { DispatchPass, type WebgpuSession } from "./session.js";
import { stagedUploads } from "./staged-uploads.js";

type Outputs = ReadonlyMap<Value, Placed>;

/** What comes to the host, by value. */
type OpenLandings = ReadonlyMap<Value, OpenLanding>;

/** Runs it, and waits where it has to. The outputs by value: those wanted on the host as Views. */
export async function runBound(
  session: WebgpuSession,
  bound: BoundRun,
  inputs: readonly Placed[],
  results: ReadonlyMap<Value, Placed | null>,
): Promise<Outputs> {
  const running = new Running(session, bound, inputs);
  try {
    for (const action of bound.actions) {
      const waiting = running.act(action);
      if (waiting !== undefined) await waiting;
    }
    const landings = openLandings(bound, 1);
    session.device.guard((gpu) => {
      const commands = new Commands(gpu);
      running.encodeEnd(commands, landings);
      commands.submit();
    });
    const [outputs] = await land(session, landings, [running], results);
    return outputs;
  } catch (cause) {
    throw running.failure(cause);
  }
}

/**
 * Submits a program that waits for nothing, once for each of some inputs, one after the other without a wait. Throws where a run is refused,
 * with nothing submitted; what it returns are the outputs of each run as `runBound` gives them.
 */
export function submitBound(
  session: WebgpuSession,
  bound: BoundRun,
  series: readonly (readonly Placed[])[],
  results: ReadonlyMap<Value, Placed | null>,
): Promise<readonly Outputs[]> {
  const runs = series.map((inputs) => new Running(session, bound, inputs));
  const fail = (cause: unknown): never => {
    throw runs[0].failure(cause);
  };
  const landings = openLandings(bound, runs.length);
  try {
    return session.device.guard((gpu) => {
      const staged = runs.length === 1 ? undefined : stagedUploads(session, bound, runs.length);
      // A device with little to do computes the first commands while the host encodes the others; one that is busy is asked once, which costs the host less.
      const isApart = session.runsUnderWay < submitting.fewRuns;
      const together = new Commands(gpu);
      const commands = runs.map(() => (isApart ? new Commands(gpu) : together));
      const end = (at: number): void => {
        const first = isApart && session.runsUnderWay + at === 0 ? submitting.firstDispatches : Infinity;
        runs[at].encodeEnd(commands[at], landings, first);
      };
      runs.forEach((running, at) => {
        // What the first run reads comes before the submission, what the others read when it is their turn.
        if (at > 0) running.stage((view, to) => staged!.encode(commands[at].encoder, view, to));
        for (const action of bound.actions)
          if (running.act(action) !== undefined)
            throw new InsituError("internal", `${action.kind} was taken for no wait`);
        if (!isApart) end(at);
      });
      staged?.send();
      if (!isApart) together.submit();
      else
        for (const [at, running] of runs.entries()) {
          // Parts of it may be submitted while the others are encoded.
          running.note();
          end(at);
          commands[at].submit();
        }
      session.runsUnderWay += runs.length;
      return land(session, landings, runs, results)
        .catch(fail)
        .finally(() => (session.runsUnderWay -= runs.length));
    });
  } catch (cause) {
    forgetSent(bound);
    for (const landing of landings.values()) landing.abandon();
    return fail(cause);
  }
}

/** Memory for what so many runs bring to the host. */
const openLandings = ({ landings }: BoundRun, runs: number): OpenLandings =>
  new Map([...landings].map(([value, landing]) => [value, landing.open(runs)]));

/** The outputs of each run that was submitted, once those wanted are on the host. */
async function land(
  { device }: WebgpuSession,
  landings: OpenLandings,
  runs: readonly Running[],
  results: ReadonlyMap<Value, Placed | null>,
): Promise<readonly Outputs[]> {
  for (const running of runs) running.note();
  const reading = [...landings.values()].map((landing) => landing.read());
  // What brings nothing to the host is over when the device says so.
  if (reading.length === 0) await device.finish();
  const landed = await Promise.all(reading);
  await device.settle();
  return runs.map((running, at) => {
    [...landings.keys()].forEach((value, which) => running.set(value, landed[which][at]));
    return running.outputs(results);
  });
}

/** Commands that are encoded and not submitted. */
class Commands {
  readonly #gpu: GPUDevice;
  #open: GPUCommandEncoder | undefined;

  constructor(gpu: GPUDevice) {
    this.#gpu = gpu;
  }

  get encoder(): GPUCommandEncoder {
    return (this.#open ??= this.#gpu.createCommandEncoder());
  }

  submit(): void {
    this.#gpu.queue.submit([this.encoder.finish()]);
    this.#open = undefined;
  }
}

/** One run of a program. */
class Running {
  readonly #session: WebgpuSession;
  readonly #bound: BoundRun;
  readonly #host: Environment;
  readonly #kept: { readonly cache: DevicePlace; readonly copy: DeviceBuffer }[] = [];
  #waiting: (readonly BoundDispatch[])[] = [];
  /** What was encoded overwrites caches; what was submitted has. */
  #overwrites = false;
  #overwrote = false;
  /** The numbers that dispatches are chosen by, as far as they were asked for. */
  readonly #numbers = new Map<HostNumber, number>();
  #send: (view: View, to: DeviceBuffer) => void;

  constructor(session: WebgpuSession, bound: BoundRun, inputs: readonly Placed[]) {
    session.device.check();
    this.#send = (view, to) => session.memory.upload(view, to);
    this.#session = session;
    this.#bound = bound;
    this.#host = new Map(bound.program.constants);
    bound.program.plan.graph.inputs.forEach((value, at) => {
      const place = inputs[at];
      if (place instanceof View) this.#host.set(value, place);
    });
  }

  /** Does one thing; a promise where it has to be waited for. */
  act(action: Action): Promise<void> | undefined {
    switch (action.kind) {
      case "dispatches":
        this.#waiting.push(action.all);
        return undefined;
      case "check":
        action.checks.check(this.#host);
        return undefined;
      case "upload":
        if (action.intoCache) return this.#uploadIntoCache(action);
        // A write to the queue runs before all commands that are not submitted yet: none of those reads a buffer that a later upload fills.
        this.#upload(action);
        return undefined;
      case "lay":
        this.#lay(action);
        return undefined;
      case "download":
        return this.#download(action);
      case "host":
        runOnHost(action.step, this.#host);
        return undefined;
      case "keep":
        this.#submit();
        copyWhole(this.#session, action.cache.buffer, action.copy);
        this.#kept.push(action);
        return undefined;
      case "overwrites":
        this.#overwrites = true;
        return undefined;
      default:
        return action satisfies never;
    }
  }

  /** Encodes what waits, but for what is not done in this run: as one pass, or as several, of which the first has so many dispatches, each other twice as many as the one before, and all but the last are submitted. */
  #encode(commands: Pick<Commands, "encoder" | "submit">, first = Infinity): void {
    let pass = new DispatchPass(commands.encoder);
    let [size, left] = [first, first];
    for (const block of this.#waiting)
      for (const dispatch of block) {
        if (!dispatch.only.every((range) => this.#lies(range))) continue;
        if (left-- === 0) {
          pass.end();
          commands.submit();
          pass = new DispatchPass(commands.encoder);
          left = (size *= 2) - 1;
        }
        pass.add(dispatch);
      }
    pass.end();
  }

  /** True if a number lies within a range. All layers ask the same. */
  #lies({ number, least, most }: HostRange): boolean {
    let found = this.#numbers.get(number);
    if (found === undefined) {
      found = number.measure(number.of.map((value) => this.#host.get(value) ?? value.initializer!));
      this.#numbers.set(number, found);
    }
    return found >= least && found <= most;
  }

  /** Brings what is uploaded from now on by other means than at once. */
  stage(send: (view: View, to: DeviceBuffer) => void): void {
    this.#send = send;
  }

  /** Encodes what is left: dispatches, and what is brought to where it is wanted when they are done. */
  encodeEnd(commands: Pick<Commands, "encoder" | "submit">, landings: OpenLandings, first?: number): void {
    if (this.#waiting.length > 0) this.#encode(commands, first);
    const { encoder } = commands;
    for (const { from, to } of this.#bound.deliveries)
      encoder.copyBufferToBuffer(from.buffer.gpu, startOf(from), to.buffer.gpu, startOf(to), to.byteLength);
    for (const landing of landings.values()) landing.copy(encoder);
  }

  /** What was encoded was submitted. */
  note(): void {
    this.#overwrote = this.#overwrites;
  }

  /** A value has come to the host. */
  set(value: Value, view: View): void {
    this.#host.set(value, view);
  }

  /** The outputs that are wanted, once all is on the host that goes there. */
  outputs(results: ReadonlyMap<Value, Placed | null>): Outputs {
    const { program, needed } = this.#bound;
    const outputs = new Map<Value, Placed>(this.#bound.outputs);
    for (const value of program.plan.graph.outputs) {
      if (outputs.has(value) || !needed.has(value)) continue;
      const view = this.#host.get(value) ?? value.initializer!;
      const target = results.get(value);
      if (target instanceof View) copyView(view, target);
      outputs.set(value, target ?? view);
    }
    return outputs;
  }

  /** What a failure is told as. What was kept is put back; without that, caches that were being written are lost. */
  failure(cause: unknown): unknown {
    for (const { cache, copy } of this.#kept.toReversed()) copyWhole(this.#session, copy, cache.buffer);
    if (!this.#overwrote) return cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    return new InsituError(
      "state-lost",
      `${reason}; caches were being written, so the state is lost: restore a saved one into it, or create a new one`,
      { cause },
    );
  }

  #upload({ value, to, sent }: Action & { readonly kind: "upload" }): void {
    const view = this.#host.get(value) ?? value.initializer!;
    if (sent === undefined || !coversStorage(view)) this.#send(view, to.buffer);
    else this.#sendNew(view, to.buffer, sent);
  }

  #lay({ values, at, to, sent, laid }: Action & { readonly kind: "lay" }): void {
    const bytes = bytesIn(laid);
    values.forEach((value, which) => {
      const view = this.#host.get(value) ?? value.initializer!;
      bytes.set(bytesIn(coversStorage(view) ? view : cloneView(view)), at[which]);
    });
    this.#sendNew(laid, to.buffer, sent);
  }

  /** Sends what is not there yet. */
  #sendNew(view: View, to: DeviceBuffer, sent: Sent): void {
    const bytes = bytesIn(view);
    if (sent.isHeld && bytes.every((byte, at) => byte === sent.bytes[at])) return;
    this.#send(view, to);
    sent.bytes.set(bytes);
    sent.isHeld = true;
  }

  async #uploadIntoCache({ value, to }: Action & { readonly kind: "upload" }): Promise<void> {
    this.#submit();
    await uploadTo(this.#session, this.#host.get(value) ?? value.initializer!, to);
  }

  async #download({ value, from }: Action & { readonly kind: "download" }): Promise<void> {
    this.#submit();
    this.#host.set(value, await download(this.#session.memory, from));
  }

  #submit(): void {
    this.#overwrote = this.#overwrites;
    if (this.#waiting.length === 0) return;
    this.#session.device.guard((gpu) => {
      const commands = new Commands(gpu);
      this.#encode(commands);
      commands.submit();
    });
    this.#waiting = [];
  }
}

function copyWhole({ device }: WebgpuSession, from: DeviceBuffer, to: DeviceBuffer): void {
  device.submit((encoder) => encoder.copyBufferToBuffer(from.gpu, 0, to.gpu, 0, from.bytes));
}

/** Brings a view to a place: straight where the place is the front of its buffer, else by a copy on the device. */
async function uploadTo(session: WebgpuSession, view: View, to: DevicePlace): Promise<void> {
  if (to.offset === 0 && to.contiguous) return session.memory.upload(view, to.buffer);
  const buffer = session.memory.allocate(view.byteLength, "an upload on its way");
  session.memory.upload(view, buffer);
  const copy = copyDispatch(endOf(new Placed(to.type, to.shape, buffer)), endOf(to), session.mostWorkgroups);
  if (typeof copy === "string") throw new InsituError("internal", `an upload to ${to}: ${copy}`);
  await session.dispatch([copy]);
  session.memory.free(buffer);
}

/** Computes a step by the reference implementation. */
function runOnHost(step: Step, host: Environment): void {
  const { node } = step;
  const operands = node.inputs.map((value) => value && (host.get(value) ?? value.initializer!));
  let outputs: readonly (View | undefined)[];
  if (step.dynamic) outputs = runDynamically(node, operands, host);
  else {
    const placed = step.placements.map((placement) =>
      placement === undefined || placement.kind === "dynamic"
        ? undefined
        : View.allocate(placement.type, placement.shape),
    );
    callReference(node, operands, placed, [], (attribute, given) => runBody(bodyOf(node, attribute), given, host));
    outputs = placed;
  }
  node.outputs.forEach((value, at) => {
    if (value !== undefined) host.set(value, outputs[at]!);
  });
}
