/**
 * Runs programs step by step on an engine whose memory is the host's: every place is a view. Places every output where the program says, so that what the planner decided is what
 * happens. Knows no kernel: the engine does the calls.
 */
import { InsituError, unreachable } from "../base/error.js";
import { Recent } from "../base/recent.js";
import { isKnownShape } from "../graph/dim.js";
import type { Node, Value } from "../graph/graph.js";
import { bodyOf } from "../graph/infer.js";
import { dynamicStep, type StepAccount } from "./step-account.js";
import type { Placement } from "../plan/layout.js";
import type { Plan } from "../plan/plan.js";
import { ProgramCache } from "../plan/program-cache.js";
import type { Program, Step } from "../plan/program.js";
import { cloneView } from "../tensor/copy.js";
import { type Placed, samePlace } from "../tensor/placed.js";
import { byteLengthOf } from "../tensor/element-type.js";
import type { RestingView } from "../tensor/rows.js";
import { elementCount, hostView, View } from "../tensor/view.js";
import type { CacheRequest, Executable, MemoryUse, Move, Transfer } from "./backend.js";
import { type Environment, runBody, runDynamically } from "./body.js";
import { type BoundProgram, type BoundStep, checksOf, isBoundStep, isBoundTo } from "./bound-program.js";
import type { Engine, Repeat } from "./engine.js";
import { Journal, lostState } from "./journal.js";
import { moveAll } from "./moves.js";
import { separateOverlaps } from "./overlaps.js";
import { bringsRows, rowTables } from "./row-tables.js";
import { ValueMemory } from "./value-memory.js";

/** Outputs that are wanted, with buffers of the caller's where it has some. */
type Results = ReadonlyMap<Value, View | null>;

/** The outputs of a run, or what goes on with it after others have had the thread. */
type Progress = ReadonlyMap<Value, View> | (() => Progress);

/** How often a program is kept with inputs in different places: conversations that take turns without being placed anew. */
const mostBound = 16;

/** The programs of one plan on one engine. */
export class ProgramExecutor implements Executable {
  readonly location = "cpu";
  readonly plan: Plan;
  readonly #engine: Engine;
  readonly #programs: ProgramCache;
  readonly #values: ValueMemory;
  /** Weights of which steps ask for rows. */
  readonly #tables: ReadonlyMap<Value, RestingView>;
  /** Programs as they last ran, by where their inputs lay. */
  readonly #bound = new WeakMap<Program, Recent<BoundProgram>>();
  /** True if a value of the run so far may lie elsewhere in the next one. */
  #unsettled = false;
  /** What the run so far has overwritten in caches, where it can still be put back. */
  readonly #journal = new Journal();
  /** True once the run has overwritten rows of a cache that nothing can put back. */
  #overwrote = false;
  #last: Program | undefined;
  /** The steps as they last ran: a program that has some of them in common goes on from there. */
  #lastSteps: readonly BoundStep[] = [];
  /** True for a run that may stop between steps: nothing that it reads can be written meanwhile. */
  #mayPause = false;
  #transfers: readonly Transfer[] = [];

  constructor(plan: Plan, engine: Engine) {
    this.plan = plan;
    this.#engine = engine;
    this.#tables = rowTables(plan);
    this.#values = new ValueMemory(engine);
    const layout = { resultsInArena: engine.resultsInArena };
    this.#programs = new ProgramCache(plan, layout, (_, left) => engine.forget(left));
  }

  get memory(): MemoryUse {
    return this.#values.use;
  }

  programFor(inputs: readonly Placed[]): Program {
    return this.#programs.get(inputs);
  }

  allocate(caches: readonly CacheRequest[]): View[] {
    for (const { type, shape } of caches) this.#values.count(byteLengthOf(type, elementCount(shape)));
    return this.#engine.allocateCaches(this.plan, caches);
  }

  free(place: Placed): void {
    this.#engine.free(hostView(place));
  }

  copy(moves: readonly Move[]): void {
    moveAll(moves, (a, b) => this.#engine.overlap(a, b));
  }

  async read(place: Placed): Promise<View> {
    return cloneView(hostView(place));
  }

  lend(place: Placed): View {
    return this.#engine.lend(hostView(place));
  }

  owns(place: Placed): boolean {
    return place instanceof View && this.#engine.owns(place);
  }

  overlap(a: Placed, b: Placed): boolean {
    return this.#engine.overlap(hostView(a), hostView(b));
  }

  describeSteps(): ReadonlyMap<Node, StepAccount> | undefined {
    const accounts = new Map<Node, StepAccount>();
    for (const step of this.#last?.steps ?? []) {
      const account = step.dynamic ? dynamicStep : this.#engine.describe(step);
      if (account === undefined) return undefined;
      accounts.set(step.node, account);
    }
    return this.#last && accounts;
  }

  describeTransfers(): readonly Transfer[] {
    return this.#transfers;
  }

  // Feeds are read at once, outputs are taken before another run can write them. What is short is done before the promise is returned.
  async run<T>(
    program: Program,
    inputs: readonly Placed[],
    results: ReadonlyMap<Value, View | null>,
    finish: (outputs: ReadonlyMap<Value, View>) => T,
  ): Promise<T> {
    const { turns } = this.#engine;
    let [now, own] = [program, inputs];
    const isNext = turns?.take() ?? true;
    if (!isNext) {
      own = inputs.map((place, at) => (this.#isHeld(at, place) ? place : cloneView(hostView(place))));
      await turns?.wait();
    }
    this.#overwrote = false;
    try {
      // It may have been let go of meanwhile.
      if (!isNext) now = this.programFor(own);
      let progress = this.#run(now, own, results);
      while (typeof progress === "function") {
        await turns!.pause(); // or it would not stop
        progress = progress();
      }
      turns?.did(now);
      return finish(progress);
    } catch (cause) {
      this.#journal.undo();
      throw this.#overwrote ? lostState(cause) : cause;
    } finally {
      this.#journal.clear();
      turns?.end();
    }
  }

  /** True for an input that nobody writes while a run is under way: a state holds it, or it is the model's own. */
  #isHeld(at: number, place: Placed): boolean {
    const value = this.plan.graph.inputs[at];
    return this.plan.held.has(value) || value.initializer === place;
  }

  #run(program: Program, inputs: readonly Placed[], results: Results): Progress {
    if (this.#values.reserve(program.arenaBytes)) this.#lastSteps = [];
    if (this.#last !== program) this.#transfers = this.#transfersOf(program, inputs, results);
    this.#last = program;
    const values = program.plan.graph.inputs;
    const staged: View[] = [];
    this.#mayPause = this.#engine.turns?.wasShort(program) === false;
    for (let at = 0; at < values.length; at++) {
      const view = hostView(inputs[at]);
      staged.push(this.#engine.stage(values[at], view));
      // Memory of the caller's that is read as it lies.
      if (staged[at] === view && !this.#isHeld(at, view)) this.#mayPause = false;
    }
    const bound = this.#boundTo(program, staged);
    return bound === undefined ? this.#runAnew(program, staged, results) : this.#runAgain(program, bound, results);
  }

  #transfersOf(program: Program, inputs: readonly Placed[], results: Results): readonly Transfer[] {
    if (!this.#engine.resultsInArena) return [];
    const fed = program.plan.graph.inputs.flatMap((value, at): Transfer[] => {
      const view = hostView(inputs[at]);
      const stays = view.type === "string" || this.#engine.owns(view);
      return stays ? [] : [{ value, to: "backend", bytes: view.byteLength }];
    });
    const fetched = [...results.keys()].flatMap((value): Transfer[] => {
      const fact = program.facts.get(value);
      if (!isKnownShape(fact?.shape) || fact.type === "string") return [];
      return [{ value, to: "host", bytes: byteLengthOf(fact.type, elementCount(fact.shape)) }];
    });
    return [...fed, ...fetched];
  }

  /** Places every value, runs every step, and keeps what was found where it will hold for the next run. */
  #runAnew(program: Program, inputs: readonly View[], results: Results): Progress {
    this.#unsettled = !this.#engine.resultsInArena;
    const environment: Environment = new Map<Value, View>([...program.constants, ...this.#tables]);
    program.plan.graph.inputs.forEach((value, at) => environment.set(value, inputs[at]));
    for (const check of checksOf(program, program.checks, environment)) check();
    const changing = program.checks.filter(({ constant }) => !constant);
    const checks = checksOf(program, changing, environment);
    const before = this.#lastSteps;
    const steps: BoundStep[] = [];
    const go = (): Progress => {
      while (steps.length < program.steps.length) {
        if (steps.length > 0 && this.#pauses()) return go;
        const step = program.steps[steps.length];
        const bound = before[steps.length];
        steps.push(
          isBoundStep(bound, step, environment)
            ? this.#runBound(program, bound, environment, results)
            : this.#runStep(program, step, environment, results),
        );
      }
      this.#lastSteps = steps;
      const outputs = outputsOf(program, environment);
      if (!this.#unsettled)
        this.#keep(program, { inputs, arena: this.#values.arena, environment, checks, steps, outputs });
      return outputs;
    };
    return go();
  }

  /** True where a run is to let others have the thread before its next step. */
  #pauses(): boolean {
    return this.#mayPause && this.#engine.turns!.isLong;
  }

  #boundTo(program: Program, inputs: readonly View[]): BoundProgram | undefined {
    return this.#bound.get(program)?.use((bound) => isBoundTo(bound, inputs, this.#values.arena));
  }

  #keep(program: Program, bound: BoundProgram): void {
    const kept = this.#bound.get(program) ?? new Recent<BoundProgram>(mostBound);
    kept.drop(({ arena }) => arena !== this.#values.arena);
    kept.add(bound);
    this.#bound.set(program, kept);
  }

  /** Runs a program whose values all lie where they lay. */
  #runAgain(program: Program, bound: BoundProgram, results: Results, first = 0): Progress {
    const { steps, environment, checks } = bound;
    if (first === 0) for (const check of checks) check();
    this.#lastSteps = steps;
    for (let at = first; at < steps.length; at++) {
      if (at > first && this.#pauses()) return () => this.#runAgain(program, bound, results, at);
      const { step, keep, repeat, outputs } = steps[at];
      if (repeat !== undefined) {
        steps[at].checks?.();
        if (keep !== undefined) keep();
        else if (step.overwrites) this.#overwrote = true;
        if (repeat()) continue;
      }
      const again = this.#runStep(program, step, environment, results);
      if (again.outputs.every((view, output) => samePlace(view, outputs[output]))) continue;
      // An output came to lie elsewhere: the steps after it must be told.
      this.#bound.delete(program);
      this.#lastSteps = [];
      for (const rest of program.steps.slice(at + 1)) this.#runStep(program, rest, environment, results);
      return outputsOf(program, environment);
    }
    return bound.outputs;
  }

  /** Runs a step of the program before, which this one shares, again. */
  #runBound(program: Program, bound: BoundStep, environment: Environment, results: Results): BoundStep {
    const { step, checks, keep, repeat, outputs } = bound;
    if (step.checks.length > 0) return this.#runStep(program, step, environment, results);
    checks?.();
    if (keep !== undefined) keep();
    else if (step.overwrites) this.#overwrote = true;
    if (!repeat!()) return this.#runStep(program, step, environment, results);
    step.node.outputs.forEach((value, at) => {
      if (value !== undefined) environment.set(value, outputs[at]!);
    });
    return bound;
  }

  #runStep(program: Program, step: Step, environment: Environment, results: Results): BoundStep {
    const { node } = step;
    const unsettled = this.#unsettled;
    this.#unsettled = !this.#engine.resultsInArena;
    const views = node.inputs.map((value) => value && viewOf(environment, value));
    let outputs: readonly (View | undefined)[];
    let keep: (() => void) | undefined;
    let repeat: Repeat | undefined;
    const brings = bringsRows(node, views, this.#tables);
    const checks = joined([...checksOf(program, step.checks, environment), ...(brings === undefined ? [] : [brings])]);
    checks?.();
    if (step.dynamic) {
      this.#unsettled = true;
      outputs = runDynamically(node, views, environment);
      for (const view of outputs) if (view !== undefined) this.#values.count(view.byteLength);
    } else {
      const arena = this.#values.arena;
      // A state that is made anew where it lies is no operand of the step that makes it.
      const elsewhere = step.placements.flatMap((placement) =>
        placement?.kind === "shared" && !node.inputs.includes(placement.with)
          ? [viewOf(environment, placement.with)]
          : [],
      );
      const seating = this.#engine.seat(program, step, views, arena, elsewhere);
      const seat = seating?.seat ?? 0;
      const seated = seating?.operands ?? views;
      const placed = step.placements.map((placement, at) => {
        if (placement === undefined) return undefined;
        const operand = placement.kind === "shared" ? node.inputs.indexOf(placement.with) : -1;
        const source =
          operand >= 0 || placement.kind !== "shared" ? seated[operand] : viewOf(environment, placement.with);
        return this.#place(placement, node.outputs[at]!, source, seat, results);
      });
      const operands = separateOverlaps(this.#engine, step, seated, placed);
      if (step.keeps) {
        keep = () => this.#journal.keep(step, operands, placed);
        keep();
      } else if (step.overwrites) this.#overwrote = true;
      const runInner = (attribute: string, given: readonly View[]): readonly View[] =>
        runBody(bodyOf(node, attribute), given, environment);
      this.#engine.call(program, step, operands, placed, runInner, seat);
      // Operands that were copied first must be copied each time.
      if (operands === seated) repeat = repeating(seating?.carry, this.#engine.repeat(step));
      outputs = placed;
    }
    node.outputs.forEach((value, at) => {
      if (value !== undefined) environment.set(value, outputs[at]!);
    });
    const settled = !this.#unsettled;
    this.#unsettled ||= unsettled;
    return { step, operands: views, settled, checks, keep, repeat, outputs };
  }

  /** `source` is the operand whose bytes a shared placement takes. */
  #place(placement: Placement, value: Value, source: View | undefined, seat: number, results: Results): View {
    switch (placement.kind) {
      case "arena":
        return this.#values.inArena(placement, seat);
      case "own": {
        this.#unsettled = true;
        const result = results.get(value);
        if (result !== undefined && result !== null) return result;
        this.#values.count(byteLengthOf(placement.type, elementCount(placement.shape)));
        return View.allocate(placement.type, placement.shape);
      }
      case "shared": {
        if (source === undefined)
          return unreachable(`"${placement.with.name}" is no operand of the step that shares it`);
        const { type, shape } = placement;
        if (placement.effect === "update") return new View(type, shape, source.data, source.offset, source.strides);
        if (source.contiguous) return new View(type, shape, source.data, source.offset);
        // A cache inside its capacity has gaps: its view under another shape needs a copy.
        this.#unsettled = true;
        if (this.#engine.resultsInArena && type !== "string") return this.#values.gapless(value, type, shape, source);
        this.#values.count(byteLengthOf(type, elementCount(shape)));
        return View.allocate(type, shape);
      }
      case "dynamic":
        return unreachable("a static step has a dynamic output");
      default:
        return placement satisfies never;
    }
  }
}

function viewOf(environment: Environment, value: Value): View {
  const view = environment.get(value) ?? value.initializer;
  if (view === undefined) throw new InsituError("internal", `value "${value.name}" was used before it was computed`);
  return view;
}

/** Several checks as one; undefined for none. */
const joined = (checks: readonly (() => void)[]): (() => void) | undefined =>
  checks.length === 0
    ? undefined
    : () => {
        for (const check of checks) check();
      };

/** What repeats a call whose operands are carried to it first. */
function repeating(carry: (() => void) | undefined, repeat: Repeat | undefined): Repeat | undefined {
  if (carry === undefined || repeat === undefined) return repeat;
  return () => {
    carry();
    return repeat();
  };
}

const outputsOf = (program: Program, environment: Environment): ReadonlyMap<Value, View> =>
  new Map(program.plan.graph.outputs.map((value) => [value, viewOf(environment, value)]));
