/**
 * Runs a bound program: encodes its dispatches, and does on the host, in between, what is to be done there. A program with nothing to wait for
 * in the middle is submitted as a whole, and its results come when the device has them: others are submitted meanwhile.
 */
import { InsituError } from "../../base/error.js";
import { callReference } from "../../graph/call.js";
import type { Value } from "../../graph/graph.js";
import { bodyOf } from "../../graph/infer.js";
import type { Step } from "../../plan/program.js";
import { readIntegers } from "../../tensor/access.js";
import { copyView } from "../../tensor/copy.js";
import { Placed } from "../../tensor/placed.js";
import { bytesIn, coversStorage, View } from "../../tensor/view.js";
import { type Environment, runBody, runDynamically } from "../body.js";
import type { Action, BoundDispatch, BoundRun, HostRange } from "./bound-run.js";
import type { DeviceBuffer, DevicePlace } from "./buffers.js";
import { copyDispatch, endOf } from "./copies.js";
import { DispatchPass, type WebgpuSession } from "./session.js";

type Outputs = ReadonlyMap<Value, Placed>;

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
    return await running.end(results);
  } catch (cause) {
    throw running.failure(cause);
  }
}

/** Submits a program that waits for nothing. Throws where it is refused; what it returns are the outputs as `runBound` gives them. */
export function submitBound(
  session: WebgpuSession,
  bound: BoundRun,
  inputs: readonly Placed[],
  results: ReadonlyMap<Value, Placed | null>,
): Promise<Outputs> {
  const running = new Running(session, bound, inputs);
  const fail = (cause: unknown): never => {
    throw running.failure(cause);
  };
  try {
    for (const action of bound.actions)
      if (running.act(action) !== undefined) throw new InsituError("internal", `${action.kind} was taken for no wait`);
    return running.end(results).catch(fail);
  } catch (cause) {
    return fail(cause);
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
  /** The value whose largest number was asked for last, and that number. */
  #asked: Value | undefined;
  #largest = 0;

  constructor(session: WebgpuSession, bound: BoundRun, inputs: readonly Placed[]) {
    session.device.check();
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
        // What is written to the queue comes before what waits to be encoded: nothing that waits reads the buffer of a value to come.
        this.#upload(action);
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

  /** Encodes what waits as one pass, but for what is not done in this run. */
  #encode(encoder: GPUCommandEncoder): void {
    const pass = new DispatchPass(encoder);
    for (const block of this.#waiting)
      for (const dispatch of block) if (dispatch.only === undefined || this.#lies(dispatch.only)) pass.add(dispatch);
    pass.end();
  }

  /** True if the largest number of a value lies within a range. All layers ask the same. */
  #lies({ of, least, most }: HostRange): boolean {
    if (this.#asked !== of) {
      this.#asked = of;
      this.#largest = readIntegers(this.#host.get(of)!).reduce((a, b) => Math.max(a, b), -Infinity);
    }
    return this.#largest >= least && this.#largest <= most;
  }

  /** Submits what is left, before this returns; the outputs, once those wanted are on the host. */
  end(results: ReadonlyMap<Value, Placed | null>): Promise<Outputs> {
    const { device } = this.#session;
    const { landings, deliveries } = this.#bound;
    const encoder = device.gpu.createCommandEncoder();
    if (this.#waiting.length > 0) this.#encode(encoder);
    for (const { from, to } of deliveries)
      encoder.copyBufferToBuffer(from.buffer.gpu, startOf(from), to.buffer.gpu, startOf(to), to.byteLength);
    const reads = [...landings.values()].map((landing) => landing.encode(encoder));
    this.#overwrote = this.#overwrites;
    device.queue.submit([encoder.finish()]);
    return this.#land(
      reads.map((read) => read()),
      results,
    );
  }

  async #land(reading: readonly Promise<View>[], results: ReadonlyMap<Value, Placed | null>): Promise<Outputs> {
    const { device } = this.#session;
    const { landings, program, needed } = this.#bound;
    const host = this.#host;
    // What brings nothing to the host is over when the device says so.
    if (reading.length === 0) await device.queue.onSubmittedWorkDone();
    const landed = await Promise.all(reading);
    [...landings.keys()].forEach((value, at) => host.set(value, landed[at]));
    device.check();
    const outputs = new Map<Value, Placed>(this.#bound.outputs);
    for (const value of program.plan.graph.outputs) {
      if (outputs.has(value) || !needed.has(value)) continue;
      const view = host.get(value) ?? value.initializer!;
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
    const { memory } = this.#session;
    if (sent === undefined || !coversStorage(view)) return memory.upload(view, to.buffer);
    const bytes = bytesIn(view);
    if (sent.isHeld && bytes.every((byte, at) => byte === sent.bytes[at])) return;
    memory.upload(view, to.buffer);
    sent.bytes.set(bytes);
    sent.isHeld = true;
  }

  async #uploadIntoCache({ value, to }: Action & { readonly kind: "upload" }): Promise<void> {
    this.#submit();
    await uploadTo(this.#session, this.#host.get(value) ?? value.initializer!, to);
  }

  async #download({ value, from }: Action & { readonly kind: "download" }): Promise<void> {
    this.#submit();
    this.#host.set(value, await this.#session.memory.download(from));
  }

  #submit(): void {
    this.#overwrote = this.#overwrites;
    if (this.#waiting.length === 0) return;
    const { device } = this.#session;
    const encoder = device.gpu.createCommandEncoder();
    this.#encode(encoder);
    device.queue.submit([encoder.finish()]);
    this.#waiting = [];
  }
}

/** The first byte of a place of whole words. */
const startOf = ({ offset, byteLength, size }: DevicePlace): number => (offset * byteLength) / size;

function copyWhole({ device }: WebgpuSession, from: DeviceBuffer, to: DeviceBuffer): void {
  const encoder = device.gpu.createCommandEncoder();
  encoder.copyBufferToBuffer(from.gpu, 0, to.gpu, 0, from.bytes);
  device.queue.submit([encoder.finish()]);
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
