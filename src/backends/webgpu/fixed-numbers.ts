/**
 * Which dispatches have their numbers as constants of their shaders. A pipeline for each set of numbers pays where a step runs with the same
 * ones again and again; where every run brings others, as with a past that is fed and grows, they are parameters, and one pipeline serves all.
 */
import type { Node } from "../../graph/graph.js";
import { keeping } from "../../webgpu-kernels/tuning.js";
import type { Dispatch } from "../../webgpu-kernels/webgpu-kernel.js";

/** What one dispatch of a step was given so far. */
interface Given {
  /** Sets of numbers that have a pipeline of their own, as text. */
  readonly fixed: Set<string>;
  /** The run that last brought new ones, and how many did so one right after the other. */
  run: number;
  inARow: number;
}

/** What the steps of one session were given. */
export class FixedNumbers {
  readonly #given = new WeakMap<Node, Map<string, Given>>();
  /** Sets of numbers as text: like steps have them in common. */
  readonly #texts = new WeakMap<Dispatch["parameters"], string>();

  /** A dispatch of a step as it is to be compiled in the run of this number; `position` tells it from the step's others. */
  settle(node: Node, dispatch: Dispatch, position: number, run: number): Dispatch {
    if (dispatch.fixed !== true) return dispatch;
    let ofNode = this.#given.get(node);
    if (ofNode === undefined) this.#given.set(node, (ofNode = new Map<string, Given>()));
    const key = `${position} ${dispatch.name}`;
    let given = ofNode.get(key);
    if (given === undefined) ofNode.set(key, (given = { fixed: new Set(), run: -Infinity, inARow: 0 }));
    const numbers = this.#textOf(dispatch);
    if (given.fixed.has(numbers)) return dispatch;
    given.inARow = run - given.run <= keeping.lastingRuns ? given.inARow + 1 : 0;
    given.run = run;
    if (given.inARow > keeping.mostInARow) return { ...dispatch, fixed: false };
    given.fixed.add(numbers);
    return dispatch;
  }

  #textOf({ parameters, open = [] }: Dispatch): string {
    let text = this.#texts.get(parameters);
    if (text === undefined) {
      text = JSON.stringify(Object.entries(parameters).filter(([name]) => !open.includes(name)));
      this.#texts.set(parameters, text);
    }
    return text;
  }
}
