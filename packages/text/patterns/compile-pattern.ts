/**
 * A pattern's tree → a program of steps. No step leads back to itself without taking a character: an iteration that takes nothing is
 * never written down, as JavaScript lets none count. So a step at a place has one outcome, which may be remembered.
 */
import { CharacterSet } from "./character-set.js";
import { mostSteps, refusePattern } from "./limits.js";
import type { ParsedPattern, Tree } from "./parse-pattern.js";

/** What a step does. */
export const kindOf = {
  /** Takes a character of the set `second`. */
  take: 0,
  /** Takes the character before the place. */
  takeBack: 1,
  /** Tries `first`, then `second`. Its failures are remembered under its memo. */
  fork: 2,
  /** Asks whether the program from `second` on matches here. Answers are remembered under its memo. */
  look: 3,
  lookNot: 4,
  /** Asks whether the text begins, or ends, here. */
  begins: 5,
  ends: 6,
  /** Notes the place in the slot `second`: the beginning or the end of a group. */
  note: 7,
  /** Forgets what the slots from `second` up to its memo hold. */
  forget: 8,
  done: 9,
  /** What cannot match. */
  nowhere: 10,
} as const;

/** A pattern as steps, in arrays. `first` is where a step leads to. */
export interface PatternProgram {
  readonly source: string;
  readonly kinds: readonly number[];
  readonly first: readonly number[];
  readonly second: readonly number[];
  readonly memos: readonly number[];
  readonly sets: readonly CharacterSet[];
  readonly entry: number;
  readonly forks: number;
  readonly looks: number;
  readonly groups: number;
}

/** Where a way that cannot match leads to. */
export const nowhere = -1;

/** Parts that may be looked at for each step that may come of them. */
const workPerStep = 20;

/** Compiles a pattern. */
export function compilePattern(source: string, { tree, groups }: ParsedPattern): PatternProgram {
  const compiler = new Compiler(source);
  const entry = compiler.compile(tree, compiler.add(kindOf.done, nowhere), false);
  const { kinds, first, second, memos, sets, forks, looks } = compiler;
  return { source, kinds, first, second, memos, sets, entry, forks, looks, groups };
}

class Compiler {
  readonly kinds: number[] = [];
  readonly first: number[] = [];
  readonly second: number[] = [];
  readonly memos: number[] = [];
  readonly sets: CharacterSet[] = [];
  forks = 0;
  looks = 0;
  readonly #source: string;
  readonly #setNumbers = new Map<string, number>();
  #work = 0;

  constructor(source: string) {
    this.#source = source;
  }

  add(kind: number, first: number, second = 0, memo = 0): number {
    if (this.kinds.length >= mostSteps) this.#refuse();
    this.first.push(first);
    this.second.push(second);
    this.memos.push(memo);
    return this.kinds.push(kind) - 1;
  }

  #refuse(): never {
    return refusePattern(this.#source, `is larger than ${mostSteps} steps once its repetitions are written out`);
  }

  /** The steps of a tree, after which `next` follows. `back`: the text is read towards its beginning. */
  compile(tree: Tree, next: number, back: boolean): number {
    return this.#compile(tree, next, next, back);
  }

  /** The same where it matters whether the tree took a character: `took` follows if it did, `idle` if not. */
  #compile(tree: Tree, took: number, idle: number, back: boolean): number {
    // Parts that match nothing at all leave no step behind, and are work all the same.
    if (++this.#work > workPerStep * mostSteps) this.#refuse();
    switch (tree.kind) {
      case "set":
        return this.#before(took, back ? kindOf.takeBack : kindOf.take, this.#setNumber(tree.source));
      case "sequence": {
        const parts = back ? tree.parts : tree.parts.toReversed();
        let ways = { took, idle };
        for (const part of parts) {
          const tookBefore = this.#compile(part, ways.took, ways.took, back);
          // A second form is needed only where something depends on whether this part takes anything.
          const same = ways.took === ways.idle || alwaysTakes(part);
          ways = { took: tookBefore, idle: same ? tookBefore : this.#compile(part, ways.took, ways.idle, back) };
        }
        return ways.idle;
      }
      case "choice":
        return tree.options
          .map((option) => this.#compile(option, took, idle, back))
          .reduceRight((second, first) => this.#fork(first, second));
      case "group": {
        const slots = [2 * tree.index, 2 * tree.index + 1];
        const [first, last] = back ? slots.toReversed() : slots;
        const tookEnd = this.#before(took, kindOf.note, last);
        const idleEnd = took === idle ? tookEnd : this.#before(idle, kindOf.note, last);
        return this.#before(this.#compile(tree.body, tookEnd, idleEnd, back), kindOf.note, first);
      }
      case "edge":
        return this.#before(idle, tree.end ? kindOf.ends : kindOf.begins);
      case "look": {
        const entry = this.compile(tree.body, this.add(kindOf.done, nowhere), tree.behind);
        return this.#before(idle, tree.negated ? kindOf.lookNot : kindOf.look, entry, this.looks++);
      }
      case "repeat":
        return this.#repeat(tree, took, idle, back);
      default:
        return tree satisfies never;
    }
  }

  #repeat(tree: Tree & { readonly kind: "repeat" }, took: number, idle: number, back: boolean): number {
    const { body, least, most, lazy } = tree;
    const [from, to] = slotsOf(body);
    const iteration = (after: number, afterIdle: number): number => {
      const entry = this.#compile(body, after, afterIdle, back);
      return from === to ? entry : this.#before(entry, kindOf.forget, from, to);
    };
    const fork = (again: number, out: number): number => (lazy ? this.#fork(out, again) : this.#fork(again, out));
    // Iterations beyond the least must take something; `ways` are what follows those that are written already.
    let ways = { took, idle };
    if (most === Infinity) {
      const loop = this.add(kindOf.fork, nowhere, nowhere, this.forks++);
      const again = iteration(loop, nowhere);
      this.first[loop] = lazy ? took : again;
      this.second[loop] = lazy ? again : took;
      ways = { took: loop, idle: took === idle ? loop : fork(again, idle) };
    } else
      for (let count = least; count < most; count++) {
        const again = iteration(ways.took, nowhere);
        ways = { took: fork(again, took), idle: nowhere };
        if (count === most - 1) ways.idle = took === idle ? ways.took : fork(again, idle);
      }
    for (let count = 0; count < least; count++) {
      const tookBefore = iteration(ways.took, ways.took);
      ways = { took: tookBefore, idle: ways.took === ways.idle ? tookBefore : iteration(ways.took, ways.idle) };
    }
    return ways.idle;
  }

  #fork(first: number, second: number): number {
    if (first === nowhere) return second;
    if (second === nowhere) return first;
    return this.add(kindOf.fork, first, second, this.forks++);
  }

  /** A step before another one; none where that one cannot match. */
  #before(next: number, kind: number, second = 0, memo = 0): number {
    return next === nowhere ? nowhere : this.add(kind, next, second, memo);
  }

  #setNumber(source: string): number {
    let number = this.#setNumbers.get(source);
    if (number === undefined) {
      number = this.sets.push(new CharacterSet(source)) - 1;
      this.#setNumbers.set(source, number);
    }
    return number;
  }
}

/** The slots of the groups inside a tree: from the first up to, not including, the last. Groups are numbered as they come. */
function slotsOf(tree: Tree): readonly [from: number, to: number] {
  const inside = (trees: readonly Tree[]): readonly [number, number] => {
    const spans = trees.map(slotsOf).filter(([from, to]) => from < to);
    return spans.length === 0 ? [0, 0] : [spans[0][0], spans.at(-1)![1]];
  };
  switch (tree.kind) {
    case "set":
    case "edge":
      return [0, 0];
    case "sequence":
      return inside(tree.parts);
    case "choice":
      return inside(tree.options);
    case "repeat":
    case "look":
      return slotsOf(tree.body);
    case "group":
      return [2 * tree.index, Math.max(2 * tree.index + 2, slotsOf(tree.body)[1])];
    default:
      return tree satisfies never;
  }
}

/** True if a tree cannot match without taking a character. */
function alwaysTakes(tree: Tree): boolean {
  switch (tree.kind) {
    case "set":
      return true;
    case "edge":
    case "look":
      return false;
    case "sequence":
      return tree.parts.some(alwaysTakes);
    case "choice":
      return tree.options.every(alwaysTakes);
    case "repeat":
      return tree.least > 0 && alwaysTakes(tree.body);
    case "group":
      return alwaysTakes(tree.body);
    default:
      return tree satisfies never;
  }
}
