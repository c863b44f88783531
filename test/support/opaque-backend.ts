// A backend whose memory nobody can look into: buffers are sealed, bytes come out as copies and only behind a promise, never at the same
// address twice; rows that hold nothing are poisoned, and so is what was let go of. It computes by the reference's arithmetic. What runs on
// it runs on any device, and nothing outside of a backend has touched bytes.
import type { Backend, BackendSession, CacheRequest, Executable, Move, Transfer } from "../../src/backends/backend.js";
import { runBody, runDynamically } from "../../src/backends/body.js";
import { checksOf } from "../../src/backends/bound-program.js";
import { callReference } from "../../src/graph/call.js";
import type { Value } from "../../src/graph/graph.js";
import { bodyOf } from "../../src/graph/infer.js";
import type { Plan } from "../../src/plan/plan.js";
import { ProgramCache } from "../../src/plan/program-cache.js";
import type { Program, Step } from "../../src/plan/program.js";
import { cloneView, copyView } from "../../src/tensor/copy.js";
import { traitsOf } from "../../src/tensor/element-type.js";
import { Placed } from "../../src/tensor/placed.js";
import { View } from "../../src/tensor/view.js";

/** A buffer of the device: its contents move to another address each time they are looked at or written. */
class Sealed {
  #contents: View | undefined;

  constructor(contents: View) {
    this.#contents = cloneView(contents);
  }

  async open(): Promise<View> {
    await Promise.resolve();
    if (this.#contents === undefined) throw new Error("a buffer was used after it had been let go of");
    return (this.#contents = cloneView(this.#contents));
  }

  /** The contents as they are after `change`; whoever holds an earlier look holds an old copy. */
  async write(change: (contents: View) => void): Promise<void> {
    const contents = cloneView(await this.open());
    change(contents);
    this.#contents = contents;
  }

  discard(): void {
    this.#contents = undefined;
  }
}

type SealedPlace = Placed<Sealed>;

const isSealed = (place: Placed): place is SealedPlace => place.buffer instanceof Sealed;

/** A place in an opened buffer. */
const viewIn = (contents: View, { type, shape, offset, strides }: Placed): View =>
  new View(type, shape, contents.data, offset, strides);

/** Fills a view with what shows wherever it is read. */
function poison(view: View): View {
  if (Array.isArray(view.data)) view.data.fill("poison");
  else if (traitsOf(view.type).kind === "float" && view.type === "float32") (view.data as Float32Array).fill(NaN);
  else new Uint8Array(view.data.buffer, view.data.byteOffset, view.data.byteLength).fill(0x7f);
  return view;
}

/** Does work once everything is done that was asked before. */
type Queue = <T>(work: () => Promise<T>) => Promise<T>;

function makeQueue(): Queue {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };
}

/** What one session has of the device. */
class OpaqueDevice {
  readonly queue = makeQueue();
  readonly #sealed = new Set<Sealed>();

  seal(contents: View): Sealed {
    const sealed = new Sealed(contents);
    this.#sealed.add(sealed);
    return sealed;
  }

  /** Nothing that lay here can be looked at any more. */
  release(): Promise<void> {
    return this.queue(async () => this.#sealed.forEach((sealed) => sealed.discard()));
  }
}

/** The programs of one plan. */
class OpaqueExecutable implements Executable {
  readonly location = "gpu-buffer";
  readonly plan: Plan;
  readonly #device: OpaqueDevice;
  readonly #programs: ProgramCache;
  readonly #then: Queue;
  #transfers: readonly Transfer[] = [];
  readonly memory = { arenaBytes: 0, allocations: 0, allocatedBytes: 0 };

  constructor(plan: Plan, device: OpaqueDevice) {
    this.plan = plan;
    this.#device = device;
    this.#then = device.queue;
    this.#programs = new ProgramCache(plan);
  }

  programFor(inputs: readonly Placed[]): Program {
    return this.#programs.get(inputs);
  }

  allocate(caches: readonly CacheRequest[]): Placed[] {
    return caches.map(({ cache, type, shape }) => {
      const grows = this.plan.pairs.some(({ past, kind }) => past === cache && kind !== "update");
      const zeros = View.allocate(type, shape);
      return new Placed(type, shape, this.#device.seal(grows ? poison(zeros) : zeros));
    });
  }

  free(place: Placed): void {
    if (isSealed(place)) void this.#then(async () => place.buffer.discard());
  }

  copy(moves: readonly Move[]): void {
    const given = moves.map(({ from, to }) => ({ from: from instanceof View ? cloneView(from) : from, to }));
    for (const { from, to } of given)
      if (to instanceof View) {
        if (!(from instanceof View)) throw new Error("a copy to the host must be awaited");
        copyView(from, to);
      }
    void this.#then(async () => {
      const sources = await Promise.all(given.map(({ from }) => this.#look(from)));
      for (const [at, { to }] of given.entries())
        if (isSealed(to)) await to.buffer.write((contents) => copyView(sources[at], viewIn(contents, to)));
    });
  }

  read(place: Placed): Promise<View> {
    return this.#then(() => this.#look(place));
  }

  async #look(place: Placed): Promise<View> {
    if (place instanceof View) return place;
    if (!isSealed(place)) throw new Error("a place of another backend");
    return cloneView(viewIn(await place.buffer.open(), place));
  }

  lend(): never {
    throw new Error("nobody is lent what lies here");
  }

  owns(): boolean {
    return false;
  }

  overlap(a: Placed, b: Placed): boolean {
    return a.buffer === b.buffer;
  }

  describeSteps(): undefined {
    return undefined;
  }

  describeTransfers(): readonly Transfer[] {
    return this.#transfers;
  }

  run<T>(
    program: Program,
    inputs: readonly Placed[],
    results: ReadonlyMap<Value, View | null>,
    finish: (outputs: ReadonlyMap<Value, Placed>) => T,
  ): Promise<T> {
    const given = inputs.map((place) => (place instanceof View ? cloneView(place) : place));
    this.#transfers = program.plan.graph.inputs.flatMap((value, at) =>
      given[at] instanceof View ? [{ value, to: "backend" as const, bytes: given[at].byteLength }] : [],
    );
    return this.#then(async () => {
      const values = new Map<Value, Placed>(program.constants);
      program.plan.graph.inputs.forEach((value, at) => values.set(value, given[at]));
      const kept: { buffer: Sealed; before: View }[] = [];
      try {
        await this.#check(program, program.checks, values);
        for (const step of program.steps) await this.#step(program, step, values, kept);
        const outputs = new Map<Value, Placed>();
        for (const value of program.plan.graph.outputs) {
          const place = values.get(value) ?? value.initializer!;
          const onHost = results.has(value);
          if (onHost) this.#transfers = [...this.#transfers, { value, to: "host", bytes: place.byteLength }];
          outputs.set(value, onHost ? cloneView(await this.#look(place)) : this.#sealed(place));
        }
        return finish(outputs);
      } catch (error) {
        for (const { buffer, before } of kept.toReversed())
          await buffer.write((contents) => copyView(before, contents));
        throw error;
      }
    });
  }

  /** What stays on the device. */
  #sealed(place: Placed): Placed {
    return place instanceof View ? new Placed(place.type, place.shape, this.#device.seal(cloneView(place))) : place;
  }

  /** Checks on data: what they look at is read back. */
  async #check(program: Program, checks: Step["checks"], values: ReadonlyMap<Value, Placed>): Promise<void> {
    const views = new Map<Value, View>();
    for (const { node } of checks)
      for (const value of node.inputs) {
        const place = value && values.get(value);
        if (place !== undefined) views.set(value!, await this.#look(place));
      }
    for (const check of checksOf(program, checks, views)) check();
  }

  async #step(
    program: Program,
    step: Step,
    values: Map<Value, Placed>,
    kept: { buffer: Sealed; before: View }[],
  ): Promise<void> {
    const { node } = step;
    await this.#check(program, step.checks, values);
    const places = node.inputs.map((value) => value && (values.get(value) ?? value.initializer!));
    const captured = new Map<Value, View>();
    for (const body of node.bodies.values())
      for (const value of body.captured) captured.set(value, await this.#look(values.get(value) ?? value.initializer!));
    // Operands that lie in one buffer lie in one look at it, and outputs that are written into it too.
    const opened = new Map<Sealed, View>();
    for (const place of places)
      if (place !== undefined && isSealed(place)) opened.set(place.buffer, await place.buffer.open());
    const viewOf = (place: Placed): View =>
      isSealed(place) ? viewIn(opened.get(place.buffer)!, place) : (place as View);
    const views = places.map((place) => place && viewOf(place));
    let outputs: readonly (View | undefined)[];
    const written = new Map<number, SealedPlace>();
    if (step.dynamic) outputs = runDynamically(node, views, captured);
    else {
      const placed = step.placements.map((placement, at): View | undefined => {
        if (placement === undefined || placement.kind === "dynamic") return undefined;
        const source = placement.kind === "shared" ? places[node.inputs.indexOf(placement.with)] : undefined;
        if (placement.kind !== "shared" || placement.effect !== "update" || source === undefined || !isSealed(source))
          return View.allocate(placement.type, placement.shape);
        const { type, shape } = placement;
        const place = new Placed(type, shape, source.buffer, source.offset, source.strides);
        written.set(at, place);
        if (step.keeps) kept.push({ buffer: source.buffer, before: cloneView(opened.get(source.buffer)!) });
        return viewOf(place);
      });
      // What is read beside the buffer that is written may lie in it.
      const operands = views.map((view, at) => {
        const place = places[at];
        const isUpdated = step.placements.some(
          (placement) =>
            placement?.kind === "shared" && placement.effect === "update" && placement.with === node.inputs[at],
        );
        return view !== undefined && place !== undefined && isSealed(place) && !isUpdated ? cloneView(view) : view;
      });
      callReference(node, operands, placed, [], (attribute, given) =>
        runBody(bodyOf(node, attribute), given, captured),
      );
      outputs = placed;
    }
    for (const [at, value] of node.outputs.entries()) {
      if (value === undefined) continue;
      const place = written.get(at);
      if (place === undefined) {
        values.set(value, outputs[at]!);
        continue;
      }
      const after = opened.get(place.buffer)!;
      await place.buffer.write((contents) => copyView(after, contents));
      values.set(value, place);
    }
  }
}

/** A device that can only be asked. */
export const opaqueBackend: Backend = {
  name: "opaque",
  async open(): Promise<BackendSession> {
    const device = new OpaqueDevice();
    return {
      describe: () => [],
      prepare: (plan) => new OpaqueExecutable(plan, device),
      release: () => device.release(),
    };
  },
};
