/**
 * What runs of one session ask again and again, found once: names, sets of outputs, and per program what its shapes decide.
 * Derived from the graph and its plans alone; holds nothing of any run.
 */
import type { Graph, Value } from "../graph/graph.js";
import type { Pair } from "../plan/pairs.js";
import type { Uses } from "../plan/uses.js";
import type { Program } from "../plan/program.js";
import type { View } from "../tensor/view.js";
import { AddedRows } from "./added-rows.js";
import { areBounded, type LengthInputs } from "./lengths.js";
import { Taken } from "./results.js";
import { WrittenRows } from "./written-rows.js";

/** What the shapes of a program decide for every run of it. */
interface ProgramNotes {
  /** Memory of the model and of the program's constants. */
  readonly taken: Taken;
  /** Rows that a run adds to the caches it writes by index, where that is known beforehand. */
  readonly addedRows: number | undefined;
  /** The most rows that it brings to a cache which fills up from the front; infinitely many where data decide it. */
  readonly broughtRows: number;
  /** Set once every present was found to be one that its past can become: shapes decide it. */
  presentsFit: boolean;
}

/** The standing answers of one session. */
export class Standing {
  readonly inputs: ReadonlyMap<string, Value>;
  /** Inputs that a state fills in where they are not fed. */
  readonly omissible: ReadonlySet<Value>;
  /** True if lengths are always rows that some cache can hold. */
  readonly hasBoundedLengths: boolean;
  /** Every output, and those that no state keeps: what a run computes where the caller names nothing. */
  readonly outputs: ReadonlyMap<Value, null>;
  readonly unheldOutputs: ReadonlyMap<Value, null>;
  /** How many rows runs add. */
  readonly addedRows: AddedRows;
  /** How far runs write. */
  readonly writtenRows: WrittenRows;
  readonly #weights: Taken;
  readonly #notes = new WeakMap<Program, ProgramNotes>();

  constructor(
    graph: Graph,
    { pairs, uses }: { readonly pairs: readonly Pair[]; readonly uses: Uses },
    lengths: LengthInputs,
    weights: Iterable<View>,
  ) {
    const held = new Set(pairs.map((pair) => pair.present));
    this.inputs = new Map(graph.inputs.map((value) => [value.name, value]));
    this.omissible = new Set([...lengths.start, ...lengths.end]);
    this.hasBoundedLengths = areBounded(lengths, pairs);
    this.outputs = new Map(graph.outputs.map((value) => [value, null]));
    this.unheldOutputs = new Map(graph.outputs.filter((value) => !held.has(value)).map((value) => [value, null]));
    this.addedRows = new AddedRows(graph, pairs);
    this.writtenRows = new WrittenRows(pairs, lengths, uses);
    this.#weights = new Taken(weights);
  }

  /** What is to be known of a program. */
  of(program: Program): ProgramNotes {
    let notes = this.#notes.get(program);
    if (notes === undefined) {
      const taken = new Taken(program.constants.values(), this.#weights);
      notes = {
        taken,
        addedRows: this.addedRows.ofProgram(program),
        broughtRows: this.writtenRows.ofProgram(program),
        presentsFit: false,
      };
      this.#notes.set(program, notes);
    }
    return notes;
  }
}
