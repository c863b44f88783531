/**
 * The programs of one plan on a GPU. Each step runs as dispatches of kernels where its operator has one that accepts the call. Small
 * integer steps whose operands are all on the host run on the host. Steps without a kernel run there too, and `explain` tells the downloads that they
 * take. Caches are buffers of their own, bound where they lie. Runs are submitted in the order in which they were asked for; one that has nothing
 * to wait for on the host makes way for the next as soon as it was submitted.
 */
import { InsituError } from "../../base/error.js";
import { Recent } from "../../base/recent.js";
import type { Node, Value } from "../../graph/graph.js";
import type { Plan } from "../../plan/plan.js";
import { ProgramCache } from "../../plan/program-cache.js";
import type { Program } from "../../plan/program.js";
import type { StepAccount } from "../step-account.js";
import { cloneView, copyView } from "../../tensor/copy.js";
import { holding } from "../../tensor/deferred.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { Placed, samePlace } from "../../tensor/placed.js";
import { elementCount, hostView, View } from "../../tensor/view.js";
import type { CacheRequest, Executable, MemoryUse, Move, Transfer } from "../backend.js";
import { bindProgram, foresee } from "./binding.js";
import { keeping } from "../../webgpu-kernels/tuning.js";
import type { BoundRun } from "./bound-run.js";
import { byteMovesOf, moveBytes } from "./byte-moves.js";
import { type DevicePlace, devicePlace, isDevicePlace } from "./buffers.js";
import { copyDispatch, endOf } from "./copies.js";
import { download } from "./landing.js";
import { runBound, submitBound } from "./run.js";
import type { WebgpuSession } from "./session.js";

const cacheWayOut =
  "ask for a smaller capacity or batch, keep caches in fewer bits or on pages, or use another backend";

/** The name of the largest value that lies in a buffer of the arena. */
function largestIn({ steps }: Program, at: number): string {
  const there = steps.flatMap(({ node, placements }) =>
    placements.flatMap((placement, output) =>
      placement?.kind === "arena" && placement.buffer === at
        ? [
            {
              name: node.outputs[output]?.name ?? node.label,
              bytes: byteLengthOf(placement.type, elementCount(placement.shape)),
            },
          ]
        : [],
    ),
  );
  const [largest] = there.toSorted((a, b) => b.bytes - a.bytes);
  return largest === undefined ? `arena ${at}` : `"${largest.name}" and what shares its memory`;
}

/** Makes a plan's programs ready and runs them. */
export class WebgpuExecutable implements Executable {
  readonly location = "gpu-buffer";
  readonly plan: Plan;
  readonly #session: WebgpuSession;
  readonly #programs: ProgramCache;
  readonly #bound = new Map<Program, Recent<BoundRun>>();
  #last: BoundRun | undefined;
  #allocations = 0;
  #allocatedBytes = 0;

  constructor(plan: Plan, session: WebgpuSession) {
    this.plan = plan;
    this.#session = session;
    const forget = (program: Program): void => this.#forget(program);
    this.#programs = new ProgramCache(plan, { resultsInArena: true, apart: true }, forget, keeping.mostPrograms);
  }

  get memory(): MemoryUse {
    return {
      arenaBytes: this.#session.arenaBytes,
      allocations: this.#allocations,
      allocatedBytes: this.#allocatedBytes,
    };
  }

  programFor(inputs: readonly Placed[]): Program {
    return this.#programs.get(inputs);
  }

  allocate(caches: readonly CacheRequest[]): Placed[] {
    const made: Placed[] = [];
    try {
      for (const { cache, type, shape, bounds } of caches) {
        const bytes = byteLengthOf(type, elementCount(shape));
        const buffer = this.#session.spares.take(bytes, `cache "${cache.name}"`, cacheWayOut);
        if (bounds !== undefined) this.#session.bounds.set(buffer, bounds);
        made.push(new Placed(type, shape, buffer));
        this.#allocations++;
        this.#allocatedBytes += bytes;
      }
    } catch (error) {
      for (const place of made) this.free(place);
      throw error;
    }
    return made;
  }

  free(place: Placed): void {
    this.#session.enqueue(async () => this.#session.spares.give(devicePlace(place).buffer));
  }

  copy(moves: readonly Move[]): void {
    const given = moves.map(({ from, to }) => ({ from: from instanceof View ? cloneView(from) : from, to }));
    for (const { from, to } of given) if (to instanceof View) copyView(hostView(from), to);
    const left = given.filter(({ from, to }) => !(to instanceof View) && !samePlace(from, to));
    if (left.length === 0) return;
    const bytes = byteMovesOf(left);
    // What no shader can copy is refused before anything is asked of the device.
    if (bytes === undefined) for (const { from, to } of left) copyOf(from, to, this.#session.mostWorkgroups);
    this.#session.enqueueCopy(async () => {
      await this.#session.memory.settle();
      if (bytes === undefined) await this.#move(left);
      else moveBytes(this.#session, bytes);
    });
  }

  /** All moves as if at once: where a source is also a target, sources are read before the first is written. */
  async #move(moves: readonly Move[]): Promise<void> {
    const { memory } = this.#session;
    const targets = new Set(moves.map(({ to }) => to.buffer));
    const temporary = [];
    const ready: Move[] = [];
    for (const { from, to } of moves) {
      let source = from instanceof View || targets.has(from.buffer) ? undefined : from;
      if (source === undefined) {
        const buffer = memory.allocate(byteLengthOf(from.type, from.size), "a copy on its way");
        temporary.push(buffer);
        source = new Placed(from.type, from.shape, buffer);
        if (from instanceof View) memory.upload(from, buffer);
        else await this.#session.dispatch([copyOf(from, source, this.#session.mostWorkgroups)]);
      }
      ready.push({ from: source, to });
    }
    await this.#session.dispatch(ready.map(({ from, to }) => copyOf(from, to, this.#session.mostWorkgroups)));
    for (const buffer of temporary) memory.free(buffer);
  }

  read(place: Placed): Promise<View> {
    return this.#session.after(() => {
      this.#session.device.check();
      return download(this.#session.memory, devicePlace(place));
    });
  }

  lend(): never {
    throw new InsituError("internal", "what lies on a device is not lent");
  }

  owns(place: Placed): boolean {
    return isDevicePlace(place) && this.#session.isArena(place.buffer);
  }

  overlap(a: Placed, b: Placed): boolean {
    return a.buffer === b.buffer;
  }

  describeSteps(): ReadonlyMap<Node, StepAccount> | undefined {
    return this.#last?.accounts;
  }

  describeTransfers(): readonly Transfer[] {
    return this.#last?.transfers ?? [];
  }

  run<T>(
    program: Program,
    inputs: readonly Placed[],
    results: ReadonlyMap<Value, Placed | null>,
    finish: (outputs: ReadonlyMap<Value, Placed>) => T,
    submitted?: (outputs: ReadonlyMap<Value, Placed>) => void,
  ): Promise<T> {
    return this.runSeries(program, [inputs], results, ([outputs]) => finish(outputs), submitted);
  }

  runSeries<T>(
    program: Program,
    series: readonly (readonly Placed[])[],
    results: ReadonlyMap<Value, Placed | null>,
    finish: (outputs: readonly ReadonlyMap<Value, Placed>[]) => T,
    submitted?: (outputs: ReadonlyMap<Value, Placed>) => void,
  ): Promise<T> {
    const given = series.map((inputs) => inputs.map((place) => (place instanceof View ? cloneView(place) : place)));
    const session = this.#session;
    // Not the result itself: whoever comes next waits for what is resolved here.
    const begun = session.after(async (): Promise<{ readonly landed: Promise<T> }> => {
      session.device.check();
      if (session.compilingAhead !== undefined) {
        foresee(session, program, given[0], wantedOf(results));
        // Its numbers are no sign that they change with every run.
        session.runs += keeping.lastingRuns + 1;
        throw new InsituError("invalid-state", "what the run needs is compiled, and nothing is run");
      }
      await session.memory.settle();
      session.runs++;
      const bound = await this.#boundFor(program, given[0], results);
      this.#last = bound;
      if (bound.waits) {
        const outputs = await this.#runEach(bound, given, results);
        return { landed: Promise.resolve(await session.taking(() => finish(outputs))) };
      }
      const landed = session.landing(submitBound(session, bound, given, results).then(finish));
      submitted?.(bound.outputs);
      return { landed };
    });
    return begun.then(({ landed }) => landed);
  }

  /** Runs a program that the host has to wait for, once for each of some inputs. */
  async #runEach(
    bound: BoundRun,
    series: readonly (readonly Placed[])[],
    results: ReadonlyMap<Value, Placed | null>,
  ): Promise<readonly ReadonlyMap<Value, Placed>[]> {
    const outputs: ReadonlyMap<Value, Placed>[] = [];
    for (const inputs of series)
      try {
        outputs.push(await runBound(this.#session, bound, inputs, results));
      } catch (cause) {
        if (outputs.length === 0 || (cause instanceof InsituError && cause.code === "state-lost")) throw cause;
        const reason = cause instanceof Error ? cause.message : String(cause);
        throw new InsituError(
          "state-lost",
          `run ${outputs.length + 1} of ${series.length} that were begun at once: ${reason}; those before it have written caches, so the state is lost: restore a saved one into it, or create a new one`,
          { cause },
        );
      }
    return outputs;
  }

  async #boundFor(
    program: Program,
    inputs: readonly Placed[],
    results: ReadonlyMap<Value, Placed | null>,
  ): Promise<BoundRun> {
    const kept = this.#bound.get(program) ?? new Recent<BoundRun>(keeping.mostBound);
    this.#bound.set(program, kept);
    const arena = this.#session.arenaFor(program.arenaBuffers, (at) => largestIn(program, at));
    const known = kept.use((bound) => bound.arena === arena && isBoundTo(bound, inputs, results));
    if (known !== undefined) return known;
    const bound = await holding(() => bindProgram(this.#session, program, inputs, wantedOf(results), arena));
    const gone = kept.add(bound);
    gone?.release();
    return bound;
  }

  #forget(program: Program): void {
    const kept = this.#bound.get(program);
    this.#bound.delete(program);
    if (kept !== undefined)
      this.#session.enqueue(async () => kept.drop(() => true).forEach((bound) => bound.release()));
  }
}

/** Where a result is wanted on the device; null for the host. */
const targetOf = (place: Placed | null | undefined): DevicePlace | null =>
  place instanceof View || place === null || place === undefined ? null : devicePlace(place);

const wantedOf = (results: ReadonlyMap<Value, Placed | null>): ReadonlyMap<Value, DevicePlace | null> =>
  new Map([...results].map(([value, place]) => [value, targetOf(place)]));

/** True if a program was bound to inputs in these places, and to these results. */
function isBoundTo(
  { caches, wanted }: BoundRun,
  inputs: readonly Placed[],
  results: ReadonlyMap<Value, Placed | null>,
): boolean {
  if (wanted.size !== results.size) return false;
  for (let at = 0; at < caches.length; at++) {
    const place = caches[at];
    if (place === undefined ? isDevicePlace(inputs[at]) : !samePlace(place, inputs[at])) return false;
  }
  for (const [value, place] of results) {
    const [bound, asked] = [wanted.get(value), targetOf(place)];
    if (bound === undefined || (bound === null) !== (asked === null)) return false;
    if (bound !== null && asked !== null && !samePlace(bound, asked)) return false;
  }
  return true;
}

function copyOf(from: Placed, to: Placed, mostWorkgroups: number): Exclude<ReturnType<typeof copyDispatch>, string> {
  const dispatch = copyDispatch(endOf(from), endOf(to), mostWorkgroups);
  if (typeof dispatch === "string")
    throw new InsituError(
      "unsupported-type",
      `${to} cannot be copied on the device: ${dispatch}; use another backend for it`,
    );
  return dispatch;
}
