/**
 * Compiled programs by what they depend on: the inputs' shapes, and the contents of those small integer inputs that decide shapes
 * further on. The least recently used program goes first. A cache's length is data and never part of the key.
 */
import { Recent } from "../base/recent.js";
import { shapeText } from "../graph/dim.js";
import { type Fact, factOfView } from "../graph/fact.js";
import { isWide, readBigInts, readNumbers } from "../tensor/access.js";
import { cloneView } from "../tensor/copy.js";
import { type Placed, sameNumbers } from "../tensor/placed.js";
import { hostView, View } from "../tensor/view.js";
import type { LayoutOptions } from "./layout.js";
import type { Plan } from "./plan.js";
import { compileProgram, type Program, type Step } from "./program.js";

/** Programs kept at once where nobody says. */
const usualPrograms = 32;

/** Compilations that may go into finding the inputs whose contents decide shapes. */
const mostTrials = 16;

/** Elements that an input may have to be looked at on the host. */
const mostDecidingElements = 16;

/** A program with the shapes of the inputs that it is for. */
interface Kept {
  readonly key: string;
  readonly shapes: readonly (readonly number[])[];
  readonly program: Program;
}

/** What was kept for a program that is let go of, and that no other program needs. */
export interface Leftovers {
  readonly steps: readonly Step[];
  /** What shapes decided, and feeds that decided shapes. */
  readonly constants: readonly View[];
}

/** The programs of one plan. */
export class ProgramCache {
  readonly #plan: Plan;
  readonly #programs: Recent<Kept>;
  #latest: (Omit<Kept, "key"> & { readonly values: string }) | undefined;
  /** Positions of the inputs whose contents decide shapes; found with the first program that would otherwise run dynamically. */
  #hostInputs: readonly number[] | undefined;
  /** How often a program was compiled: a run with known shapes does not add to it. */
  compilations = 0;

  readonly #options: LayoutOptions;

  readonly #evicted: (program: Program, left: Leftovers) => void;
  /** How many programs have a step, or a constant, in common. */
  readonly #holders = new Map<Step | View, number>();

  /** Keeps `most` programs; `evicted` hears of each program that is let go of, and of what no other one has. */
  constructor(
    plan: Plan,
    options: LayoutOptions = {},
    evicted: (program: Program, left: Leftovers) => void = () => {},
    most: number = usualPrograms,
  ) {
    this.#programs = new Recent(most);
    this.#plan = plan;
    this.#options = options;
    this.#evicted = evicted;
  }

  /** The program for these inputs. */
  get(inputs: readonly Placed[]): Program {
    const values = this.#hostInputs === undefined ? "" : valuesText(inputs, this.#hostInputs);
    const latest = this.#latest;
    if (latest !== undefined && latest.values === values && haveShapes(inputs, latest.shapes)) return latest.program;
    const key = inputs.map((view) => shapeText(view.shape)).join(" ") + values;
    const known = this.#programs.use((each) => each.key === key)?.program;
    const program = known ?? this.#compile(inputs);
    // The first dynamic program settles which inputs count, and so the key.
    const settled = this.#hostInputs === undefined ? "" : valuesText(inputs, this.#hostInputs);
    const shapes = inputs.map(({ shape }) => [...shape]);
    if (known === undefined) {
      const gone = this.#programs.add({ key: settled === values ? key : key + settled, shapes, program });
      for (const part of partsOf(program)) this.#holders.set(part, (this.#holders.get(part) ?? 0) + 1);
      if (gone !== undefined) this.#evicted(gone.program, this.#leftBy(gone.program));
    }
    this.#latest = { shapes, values: settled, program };
    return program;
  }

  /** What no kept program has any more. */
  #leftBy(program: Program): Leftovers {
    const steps: Step[] = [];
    const constants: View[] = [];
    for (const part of partsOf(program)) {
      const others = this.#holders.get(part)! - 1;
      if (others > 0) this.#holders.set(part, others);
      else {
        this.#holders.delete(part);
        if (part instanceof View) constants.push(part);
        else steps.push(part);
      }
    }
    return { steps, constants };
  }

  /** The program to take over from: of those whose inputs differ least, the last used. */
  #nearest(inputs: readonly Placed[]): Program | undefined {
    let [nearest, most]: [Program | undefined, number] = [undefined, -1];
    for (const { program, shapes } of this.#programs) {
      let alike = 0;
      for (let at = 0; at < inputs.length; at++) if (sameNumbers(shapes[at], inputs[at].shape)) alike++;
      if (alike > most) [nearest, most] = [program, alike];
    }
    return nearest;
  }

  #compile(inputs: readonly Placed[]): Program {
    const like = this.#nearest(inputs);
    const compile = (host: readonly number[]): Program => {
      this.compilations++;
      const looked = new Set(host);
      const facts = inputs.map((view, at): Fact =>
        looked.has(at) ? factOfView(cloneView(hostView(view))) : { type: view.type, shape: view.shape },
      );
      return compileProgram(this.#plan, facts, this.#options, like);
    };
    const program = compile(this.#hostInputs ?? []);
    if (this.#hostInputs !== undefined || dynamicSteps(program) === 0) return program;
    const candidates = inputs.flatMap((view, at) => (isHostSized(view) ? [at] : []));
    let best = candidates.length === 0 ? program : compile(candidates);
    let chosen = candidates;
    if (dynamicSteps(best) < dynamicSteps(program)) {
      // Inputs that change nothing are left out: one by one, or several together where there are many.
      const step = Math.ceil(candidates.length / mostTrials);
      for (let start = 0; start < candidates.length; start += step) {
        const left = new Set(candidates.slice(start, start + step));
        const fewer = chosen.filter((at) => !left.has(at));
        const trial = compile(fewer);
        if (dynamicSteps(trial) <= dynamicSteps(best)) [best, chosen] = [trial, fewer];
      }
    } else [best, chosen] = [program, []];
    this.#hostInputs = chosen;
    return best;
  }
}

/** What is kept for a program, and for others that have it too. */
function partsOf({ plan, steps, constants, facts }: Program): (Step | View)[] {
  const fed = plan.graph.inputs.flatMap((value) => facts.get(value)?.constant ?? []);
  return [...steps, ...constants.values(), ...fed];
}

const dynamicSteps = (program: Program): number => program.steps.filter((step) => step.dynamic).length;

/** True for what may be looked at on the host: it lies there, and is small. */
const isHostSized = (place: Placed): boolean =>
  place instanceof View && (place.type === "int64" || place.type === "int32") && place.size <= mostDecidingElements;

const valuesText = (inputs: readonly Placed[], positions: readonly number[]): string =>
  positions.map((at) => ` ${at}=${valueText(hostView(inputs[at]))}`).join("");

/** Every integer as it is, whatever its size: what it must not be is the operators' matter. */
const valueText = (view: View): string => (isWide(view.type) ? readBigInts(view) : readNumbers(view)).join(",");

/** True if the inputs have these shapes. */
function haveShapes(inputs: readonly Placed[], shapes: readonly (readonly number[])[]): boolean {
  for (let at = 0; at < inputs.length; at++) if (!sameNumbers(inputs[at].shape, shapes[at])) return false;
  return true;
}
