/**
 * A program bound to the places of its caches: which steps run on the device and by what, which stay on the host, and what goes from one to
 * the other in between. Decided once, and run as often as the caches stay where they are.
 */
import type { Node, Value } from "../../graph/graph.js";
import { InsituError } from "../../base/error.js";
import type { Operand } from "../../graph/kernel.js";
import type { Placement } from "../../plan/layout.js";
import type { DataCheck } from "../../plan/data-checks.js";
import type { Program, Step } from "../../plan/program.js";
import { dynamicStep, type StepAccount } from "../step-account.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { Placed } from "../../tensor/placed.js";
import { elementCount, View } from "../../tensor/view.js";
import type { Transfer } from "../backend.js";
import type { Binding, Dispatch } from "../../webgpu-kernels/webgpu-kernel.js";
import { DeviceBuffer, type DevicePlace, devicePlace, isDevicePlace } from "./buffers.js";
import { type BoundRun, deliveryOf, type Delivery, type HostRange, isWait, layingOf } from "./bound-run.js";
import { copyDispatch, endOf } from "./copies.js";
import { KeptChecks } from "./kept-checks.js";
import { Landing } from "./landing.js";
import { type Bounds, holdsWithin, lookedAt, neededSteps } from "./needs.js";
import { type DraftAction, DraftDispatches, readyActions } from "./draft-dispatches.js";
import { Pending } from "./pending.js";
import type { WebgpuSession } from "./session.js";
import { belongsToHost, isView, Whereabouts } from "./whereabouts.js";

/** Binds a program to inputs in these places; `wanted` are the outputs that are asked for. What nobody needs is not computed. */
export async function bindProgram(
  session: WebgpuSession,
  program: Program,
  inputs: readonly Placed[],
  wanted: ReadonlyMap<Value, DevicePlace | null>,
  arena: readonly DeviceBuffer[],
): Promise<BoundRun> {
  const { live, needed } = neededSteps(program, wanted);
  const binder = new Binder(session, program, arena, live, needed);
  try {
    binder.record(inputs);
    return await binder.finish(
      inputs.map((place) => (isDevicePlace(place) ? place : undefined)),
      wanted,
    );
  } catch (error) {
    binder.release();
    throw error;
  }
}

/** How the steps of a program would be done with inputs in these places. What their pipelines are is asked for, and nothing is bound. */
export function foresee(
  session: WebgpuSession,
  program: Program,
  inputs: readonly Placed[],
  wanted: ReadonlyMap<Value, DevicePlace | null> = new Map(program.plan.graph.outputs.map((value) => [value, null])),
): ReadonlyMap<Node, StepAccount> {
  const arena = session.arenaFor(program.arenaBuffers, (at) => `arena ${at}`);
  const { live, needed } = neededSteps(program, wanted);
  const binder = new Binder(session, program, arena, live, needed);
  try {
    return binder.record(inputs);
  } finally {
    binder.release();
  }
}

class Binder {
  readonly #session: WebgpuSession;
  readonly #program: Program;
  readonly #arena: readonly DeviceBuffer[];
  readonly #live: ReadonlySet<Node>;
  readonly #needed: ReadonlySet<Value>;
  readonly #actions: DraftAction[] = [];
  readonly #accounts = new Map<Node, StepAccount>();
  readonly #transfers: Transfer[] = [];
  readonly #values: Whereabouts;
  readonly #dispatches: DraftDispatches;
  /** What is to be let go of, with the run or where it is not bound after all. */
  readonly #releases: (() => void)[] = [];
  /** Buffers that dispatches write. */
  readonly #written = new Set<DeviceBuffer>();

  constructor(
    session: WebgpuSession,
    program: Program,
    arena: readonly DeviceBuffer[],
    live: ReadonlySet<Node>,
    needed: ReadonlySet<Value>,
  ) {
    this.#session = session;
    this.#program = program;
    this.#values = new Whereabouts(program);
    this.#arena = arena;
    this.#live = live;
    this.#needed = needed;
    this.#dispatches = new DraftDispatches(session);
  }

  /** Takes down all steps. */
  record(inputs: readonly Placed[]): ReadonlyMap<Node, StepAccount> {
    this.#program.plan.graph.inputs.forEach((value, at) => this.#input(value, inputs[at]));
    this.#check(this.#program.checks);
    for (const step of this.#program.steps) if (this.#live.has(step.node)) this.#step(step);
    return this.#accounts;
  }

  #input(value: Value, place: Placed): void {
    if (!isDevicePlace(place)) this.#values.host.add(value);
    else if (place.buffer.isOpen) this.#values.device.set(value, place);
    else
      throw new InsituError(
        "state-lost",
        `"${value.name}" has no memory on ${this.#session.device.description}: create a smaller state`,
      );
  }

  #check(checks: readonly DataCheck[]): void {
    const left = checks.filter((check) => this.#live.has(check.node) && !this.#holdsWithinBounds(check));
    if (left.length === 0) return;
    for (const check of left) for (const value of lookedAt(check)) this.#toHost(value);
    this.#actions.push({ kind: "check", checks: new KeptChecks(this.#program, left) });
  }

  #holdsWithinBounds(check: DataCheck): boolean {
    const bounds = new Map<Value, Bounds>();
    for (const value of lookedAt(check)) {
      const own = this.#boundsOf(value);
      if (own !== undefined) bounds.set(value, own);
      else if (this.#values.constantOf(value) === undefined) return false;
    }
    return bounds.size > 0 && holdsWithin(this.#program, check, bounds, (value) => this.#values.factOf(value)!);
  }

  #boundsOf(value: Value): Bounds | undefined {
    const place = this.#values.device.get(value);
    return place === undefined || this.#values.isHere(value) ? undefined : this.#session.bounds.get(place.buffer);
  }

  #step(step: Step): void {
    const { node } = step;
    this.#check(step.checks);
    if (step.dynamic) return this.#fallBack(step, dynamicStep.reasons!);
    if (isView(step)) return this.#view(step);
    if (belongsToHost(step, this.#values))
      return this.#onHost(step, { runs: "reference", reasons: ["its operands are on the host"] });
    const operands = node.inputs.map((value) => value && this.#placeOrPending(value));
    const outputs = node.outputs.map((value, at) => value && this.#outputPlace(step.placements[at]!, value));
    const onHost = node.inputs.map((value) => value !== undefined && this.#values.host.has(value));
    const recorded = this.#session.recorded.of(this.#program, step, operands, onHost, outputs);
    const { recorder } = recorded;
    if (recorder === undefined) return this.#fallBack(step, recorded.reasons);
    this.#keep(step, outputs);
    const valueOf = ({ place }: Operand): Value => node.inputs[recorded.operands.indexOf(devicePlace(place))]!;
    const bufferOf = ({ of }: Binding): DeviceBuffer => this.#bufferOf((of as Operand).place);
    const making: Dispatch[] = [];
    for (const { form, of, buffer } of this.#dispatches.take(recorder, valueOf))
      if (form.laidAt !== undefined) this.#lay(of, form.laidAt, buffer);
      else this.#dispatch(making[making.push(form.dispatch) - 1], bufferOf);
    recorder.dispatches.forEach((dispatch, at) =>
      this.#dispatch(this.#session.settle(node, dispatch, at), bufferOf, this.#dispatches.rangesOf(dispatch, valueOf)),
    );
    node.outputs.forEach((value, at) => value && this.#values.device.set(value, outputs[at]!));
    const kernels = [...new Set([...making, ...recorder.dispatches].map(({ name }) => name))];
    this.#accounts.set(node, kernels.length === 0 ? { runs: "nothing" } : { runs: "kernel", kernels });
  }

  #fallBack(step: Step, reasons: readonly string[]): void {
    if (this.#session.fallback === "never")
      throw new InsituError(
        "unsupported-operator",
        `${step.node.label} cannot run on ${this.#session.device.description}: ${reasons.join("; ")}; fallback: "host" computes it on the host`,
      );
    this.#onHost(step, { runs: "reference", reasons });
  }

  async finish(
    caches: readonly (DevicePlace | undefined)[],
    wanted: ReadonlyMap<Value, DevicePlace | null>,
  ): Promise<BoundRun> {
    const outputs = new Map<Value, DevicePlace>();
    const landings = new Map<Value, Landing>();
    const deliveries: Delivery[] = [];
    const { memory } = this.#session;
    const lasting = new Set(caches.map((place) => place?.buffer));
    let waits = false;
    for (const value of this.#program.plan.graph.outputs) {
      if (!this.#needed.has(value)) continue;
      const target = wanted.get(value);
      if (target !== null && this.#values.hasShape(value)) {
        const from = this.#toDevice(value);
        outputs.set(value, target ?? from);
        if (target !== undefined) deliveries.push(deliveryOf(value, from, target));
        // A present that is still to be moved must be taken before another run writes what it lies in.
        else waits ||= !lasting.has(from.buffer);
      } else if (!this.#values.isHere(value) && this.#values.device.has(value)) {
        const landing = new Landing(memory, this.#values.device.get(value)!);
        this.#releases.push(() => landing.release());
        landings.set(value, landing);
        this.#tell(value, "host");
      } else this.#values.checkHeld(value);
    }
    const ready = await this.#dispatches.ready();
    const actions = readyActions(this.#actions, ready, this.#written);
    waits ||= actions.some(isWait);
    return {
      program: this.#program,
      caches,
      arena: this.#arena,
      wanted,
      needed: this.#needed,
      actions,
      waits,
      outputs,
      landings,
      deliveries,
      accounts: this.#accounts,
      transfers: this.#transfers,
      release: () => this.release(),
    };
  }

  /** Lets go of all that was taken for the run. */
  release(): void {
    for (const release of this.#releases.splice(0)) release();
    this.#dispatches.release();
  }

  #view(step: Step): void {
    const { node, placements } = step;
    const source = placements.flatMap((each) => (each?.kind === "shared" ? [each.with] : []))[0];
    if (source === undefined || !this.#values.device.has(source)) return this.#onHost(step, { runs: "nothing" });
    this.#accounts.set(node, { runs: "nothing" });
    node.outputs.forEach((value, at) => {
      const placement = placements[at];
      if (value === undefined || placement?.kind !== "shared") return;
      const from = this.#values.device.get(placement.with)!;
      const { type, shape } = placement;
      if (from.contiguous) this.#values.device.set(value, new Placed(type, shape, from.buffer, from.offset));
      else {
        const buffer = this.#own(byteLengthOf(type, elementCount(shape)), `${node.label}: without gaps`);
        this.#pendingCopies.push({ from, to: new Placed(from.type, from.shape, buffer) });
        this.#values.device.set(value, new Placed(type, shape, buffer));
      }
    });
  }

  /** Copies that the next dispatch waits for. */
  readonly #pendingCopies: { readonly from: DevicePlace; readonly to: DevicePlace }[] = [];

  #onHost(step: Step, account: StepAccount): void {
    const { node } = step;
    for (const value of [...node.inputs, ...[...node.bodies.values()].flatMap(({ captured }) => [...captured])])
      if (value !== undefined) this.#toHost(value);
    const updated = node.outputs.map((value, at) => {
      const placement = step.placements[at];
      const isUpdate = placement?.kind === "shared" && placement.effect === "update";
      return value !== undefined && isUpdate ? this.#values.device.get(placement.with) : undefined;
    });
    this.#keep(step, updated);
    this.#actions.push({ kind: "host", step });
    this.#accounts.set(node, account);
    node.outputs.forEach((value, at) => {
      if (value === undefined) return;
      this.#values.host.add(value);
      const cache = updated[at];
      const placement = step.placements[at];
      if (cache === undefined || placement === undefined || placement.kind === "dynamic") return;
      const place = new Placed(placement.type, placement.shape, cache.buffer, cache.offset, cache.strides);
      this.#actions.push({ kind: "upload", value, to: place, intoCache: true });
      this.#tell(value, "backend");
      this.#values.device.set(value, place);
    });
  }

  #keep(step: Step, outputs: readonly (DevicePlace | undefined)[]): void {
    if (!step.overwrites && !step.keeps) return;
    if (!step.keeps) {
      this.#actions.push({ kind: "overwrites" });
      return;
    }
    step.placements.forEach((placement, at) => {
      const cache = outputs[at];
      if (placement?.kind === "shared" && placement.effect === "update" && cache !== undefined)
        this.#actions.push({ kind: "keep", cache, copy: this.#own(cache.buffer.bytes, `${step.node.label}: kept`) });
    });
  }

  #placeOrPending(value: Value): DevicePlace {
    const place = this.#values.device.get(value);
    if (place !== undefined) return place;
    const fact = this.#values.factOf(value);
    const weight = this.#values.weightOf(value);
    const pieces = weight && this.#session.memory.piecesOf(weight.byteLength);
    return new Placed(fact!.type, fact!.shape, new Pending(value, pieces) as DeviceBuffer);
  }

  #bufferOf(place: Placed): DeviceBuffer {
    const { buffer } = devicePlace(place instanceof View ? this.#knownPlace(place) : place);
    return buffer instanceof Pending ? this.#toDevice(buffer.value).buffer : buffer;
  }

  #knownPlace(view: View): DevicePlace {
    return new Placed(view.type, view.shape, this.#session.weights.of(view, "constant"));
  }

  #outputPlace(placement: Placement, value: Value): DevicePlace {
    if (placement.kind === "arena") return new Placed(placement.type, placement.shape, this.#arena[placement.buffer]);
    if (placement.kind === "shared") {
      const from = this.#placeOrPending(placement.with);
      return placement.effect === "update"
        ? new Placed(placement.type, placement.shape, from.buffer, from.offset, from.strides)
        : new Placed(placement.type, placement.shape, from.buffer, from.offset);
    }
    const { type, shape } = this.#values.factOf(value)!;
    return new Placed(
      type,
      shape,
      this.#own(type === "string" ? 0 : byteLengthOf(type, elementCount(shape)), value.name),
    );
  }

  #own(bytes: number, label: string): DeviceBuffer {
    const { memory } = this.#session;
    const buffer = memory.allocate(bytes, label);
    this.#releases.push(() => memory.free(buffer));
    return buffer;
  }

  /** Where a value lies on the device; brought there where it is not. */
  #toDevice(value: Value): DevicePlace {
    const there = this.#values.device.get(value);
    if (there !== undefined) return there;
    const { type, shape } = this.#values.factOf(value)!;
    let place: DevicePlace;
    const constant = this.#values.constantOf(value);
    if (constant !== undefined) {
      const isWeight = this.#values.weightOf(value) !== undefined;
      const buffer = isWeight
        ? this.#session.weights.of(constant, value.name)
        : this.#own(constant.byteLength, `constant "${value.name}"`);
      if (!isWeight) this.#session.memory.upload(constant, buffer);
      place = new Placed(type, shape, buffer);
    } else {
      place = new Placed(
        type,
        shape,
        this.#own(byteLengthOf(type, elementCount(shape)), `"${value.name}" from the host`),
      );
      this.#actions.push({ kind: "upload", value, to: place, intoCache: false });
      this.#tell(value, "backend");
    }
    this.#values.device.set(value, place);
    return place;
  }

  #toHost(value: Value): void {
    if (this.#values.isHere(value)) return this.#values.checkHeld(value);
    const from = this.#values.device.get(value);
    if (from === undefined) return;
    this.#actions.push({ kind: "download", value, from });
    this.#tell(value, "host");
    this.#values.host.add(value);
  }

  #lay(values: readonly Value[], at: readonly number[], buffer: DeviceBuffer): void {
    this.#actions.push(layingOf(values, at, buffer));
    for (const value of values) this.#tell(value, "backend");
  }

  #tell(value: Value, to: Transfer["to"]): void {
    const fact = this.#values.factOf(value);
    this.#transfers.push({
      value,
      to,
      bytes: fact === undefined ? 0 : byteLengthOf(fact.type, elementCount(fact.shape)),
    });
  }

  #dispatch(dispatch: Dispatch, bufferOf: (binding: Binding) => DeviceBuffer, only?: readonly HostRange[]): void {
    const copies = this.#pendingCopies.splice(0);
    for (const { from, to } of copies) {
      const copy = copyDispatch(endOf(from), endOf(to), this.#session.mostWorkgroups);
      if (typeof copy === "string") throw new Error(`a view cannot be made without gaps on the device: ${copy}`);
      this.#dispatch(copy, ({ of }) => devicePlace((of as { place: Placed }).place).buffer);
    }
    for (const binding of dispatch.bindings)
      if (binding.writes === true && !this.#dispatches.makes(binding)) this.#written.add(bufferOf(binding));
    this.#actions.push(this.#dispatches.add(dispatch, bufferOf, only));
  }
}
