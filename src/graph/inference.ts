/**
 * What one inference may still do, so that hostile graphs end, and what each node of it took. Where a node's facts are taken over from
 * another inference it counts as if it had been inferred here, so that what is left for the others is the same.
 */
import { InsituError } from "../base/error.js";
import { alwaysFolded, mostFoldedWork, mostRules } from "../base/limits.js";
import type { Callable } from "./call.js";
import { countTerms, termsLeft } from "./dim.js";
import { LikeNodes } from "./like-nodes.js";

/** What inferring one node took, what its subgraphs took included. */
export interface Expense {
  /** Shape rules applied. */
  readonly rules: number;
  /** Terms of symbolic dimensions worked on; Infinity where there were none left. */
  readonly terms: number;
  /** Work on constants that was asked for, and whether there was enough left for it. */
  readonly asked: readonly { readonly work: number; readonly allowed: boolean }[];
}

/** What most nodes take. */
const oneRule: Expense = { rules: 1, terms: 0, asked: [] };

/** The allowance of one inference. */
export class Inference {
  /** At load, declared shapes fill in what rules cannot tell; for a run, only what follows from the operands counts. */
  readonly believeDeclared: boolean;
  readonly like: LikeNodes = new LikeNodes();
  readonly #mostRules: number;
  #rules: number;
  #work: number;
  #asked: { readonly work: number; readonly allowed: boolean }[] = [];

  /** For a graph of this many nodes, those of its subgraphs included. */
  constructor(nodes: number, believeDeclared: boolean) {
    this.believeDeclared = believeDeclared;
    this.#mostRules = mostRules(nodes);
    this.#rules = this.#mostRules;
    this.#work = mostFoldedWork(nodes);
  }

  /** Counts the rule of one node. Throws where there were too many. */
  countRule(node: Callable): void {
    if (--this.#rules < 0)
      throw new InsituError(
        "invalid-graph",
        `${node.label}: nested subgraphs need more than ${this.#mostRules} inference steps`,
      );
  }

  /** Takes work on constants; false, with nothing taken, where that is more than is left. */
  spend(work: number): boolean {
    const allowed = work <= alwaysFolded || work <= this.#work;
    if (allowed) this.#work -= work;
    this.#asked.push({ work, allowed });
    return allowed;
  }

  /** Does what infers one node, and tells what it took. */
  expenseOf(infer: () => void): Expense {
    const [rules, terms] = [this.#rules, termsLeft()];
    this.#asked = [];
    infer();
    const left = termsLeft();
    if (rules - this.#rules === 1 && left === terms && this.#asked.length === 0) return oneRule;
    return { rules: rules - this.#rules, terms: left < 0 ? Infinity : terms - left, asked: this.#asked };
  }

  /** Counts a node as one whose expense is known; false, with nothing counted, where it could not be inferred alike here. */
  repeat({ rules, terms, asked }: Expense): boolean {
    if (this.#rules < rules || (terms > 0 && termsLeft() < terms)) return false;
    const before = this.#work;
    for (const { work, allowed } of asked)
      if (this.spend(work) !== allowed) {
        this.#work = before;
        return false;
      }
    this.#rules -= rules;
    if (terms > 0) countTerms(terms);
    return true;
  }
}
