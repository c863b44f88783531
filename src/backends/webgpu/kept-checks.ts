/**
 * Checks on data that a bound program makes in every run. What they look at is copied to where the first run had it, so that a run builds nothing; of
 * checks that ask the same of the same values, as those of layers do, one is made.
 */
import type { Value } from "../../graph/graph.js";
import type { DataCheck } from "../../plan/data-checks.js";
import type { Program } from "../../plan/program.js";
import { cloneView, copyView } from "../../tensor/copy.js";
import { sameNumbers, type View } from "../../tensor/view.js";
import { checksOf } from "../bound-program.js";
import { lookedAt } from "./needs.js";

/** Checks that are made together. */
export class KeptChecks {
  readonly #program: Program;
  readonly #checks: readonly DataCheck[];
  /** The values that are looked at, as they are in this run. */
  #held: ReadonlyMap<Value, View> = new Map();
  #made: readonly (() => void)[] | undefined;

  constructor(program: Program, checks: readonly DataCheck[]) {
    this.#program = program;
    this.#checks = different(program, checks);
  }

  /** Throws where a value of this run breaks a rule. */
  check(values: ReadonlyMap<Value, View>): void {
    if (this.#made === undefined || !this.#take(values)) this.#make(values);
    for (const check of this.#made!) check();
  }

  #make(values: ReadonlyMap<Value, View>): void {
    const looked = this.#checks.flatMap(lookedAt);
    this.#held = new Map(
      looked.flatMap((value) => {
        const view = values.get(value);
        return view === undefined ? [] : [[value, cloneView(view)]];
      }),
    );
    this.#made = checksOf(this.#program, this.#checks, this.#held);
  }

  /** False where a value is not shaped as it was. */
  #take(values: ReadonlyMap<Value, View>): boolean {
    for (const [value, held] of this.#held) {
      const view = values.get(value);
      if (view === undefined || !sameNumbers(view.shape, held.shape)) return false;
      copyView(view, held);
    }
    return true;
  }
}

/** The checks without those that ask what another one asks: the same operator with the same attributes, of the same values and shapes. */
function different({ facts }: Program, checks: readonly DataCheck[]): readonly DataCheck[] {
  const numbers = new Map<unknown, number>();
  const numberOf = (thing: unknown): number => {
    const number = numbers.get(thing) ?? numbers.size;
    numbers.set(thing, number);
    return number;
  };
  const kept = new Map<string, DataCheck>();
  for (const check of checks) {
    const { node } = check;
    const looked = new Set(lookedAt(check));
    const operands = node.inputs.map((value) => {
      if (value === undefined) return "";
      const fact = facts.get(value) ?? value.fact;
      return looked.has(value) ? numberOf(value) : `${fact?.type} ${fact?.shape?.join(",")}`;
    });
    const attributes = JSON.stringify(node.attrs, (_, value: unknown) =>
      typeof value === "bigint" ? `${value}n` : value,
    );
    const key = `${numberOf(node.op)} ${node.opset} ${attributes} ${operands.join(" ")} ${node.wanted.join(",")}`;
    // What a subgraph does is not told by operands and attributes.
    kept.set(node.bodies.size > 0 ? `${key} ${kept.size}` : key, kept.get(key) ?? check);
  }
  return [...kept.values()];
}
