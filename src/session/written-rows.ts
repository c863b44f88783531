/**
 * How far runs write the caches of a state, where operators declare it: the rows behind that are as they were made, so that nobody has to
 * save them. A cache that is written elsewhere than the state is told, or seen through a view, may hold something in any row.
 */
import { type Dim, isKnown } from "../graph/dim.js";
import type { Value } from "../graph/graph.js";
import type { Pair } from "../plan/pairs.js";
import type { Program } from "../plan/program.js";
import { effectOf, inputPosition, type Uses } from "../plan/uses.js";
import { readNumbers } from "../tensor/access.js";
import type { Placed } from "../tensor/placed.js";
import { View } from "../tensor/view.js";
import { rowsOf } from "./added-rows.js";
import type { LengthInputs } from "./lengths.js";

/** A cache whose rows fill up from the front. */
export interface FilledCache {
  /** The axis of its rows. */
  readonly axis: number;
  /** True if what comes behind its last row is written over its first. */
  readonly wraps: boolean;
}

/** The rows that runs of one plan write. */
export class WrittenRows {
  /** The caches whose rows fill up from the front, by input. */
  readonly filled: ReadonlyMap<string, FilledCache>;
  readonly #pairs: readonly Pair[];
  /** The inputs that say where their new rows start. */
  readonly #starts: ReadonlySet<Value>;

  constructor(pairs: readonly Pair[], lengths: LengthInputs, uses: Uses) {
    const found = pairs.flatMap((pair) => {
      const starts = startsOf(pair, lengths, uses);
      return starts === undefined ? [] : [{ pair, starts }];
    });
    this.#pairs = found.map(({ pair }) => pair);
    this.#starts = new Set(found.flatMap(({ starts }) => starts));
    this.filled = new Map(
      this.#pairs.map(({ past, axis, writers }) => [
        past.name,
        { axis: axis!, wraps: writers.some(({ op, attrs }) => op.lengths.wraps(attrs)) },
      ]),
    );
  }

  /** The most rows that a run of a program brings to one of them; infinitely many where data decide it. */
  ofProgram({ facts }: Program): number {
    const rows = this.#pairs.map((pair) => rowsOf(pair, (value) => facts.get(value)));
    return Math.max(
      0,
      ...rows.map((count: Dim | undefined) => (count !== undefined && isKnown(count) ? count : Infinity)),
    );
  }

  /** Rows from the front that a run with these inputs, which brings so many, may write. To be asked before it: results may lie over feeds. */
  of(inputs: ReadonlyMap<Value, Placed>, brought: number): number {
    let first = 0;
    for (const value of this.#starts) {
      const place = inputs.get(value);
      if (!(place instanceof View)) return Infinity;
      for (const start of readNumbers(place)) first = Math.max(first, start);
    }
    return first + brought;
  }
}

/** How far the caches of one state that fill up from the front are written. */
export class RowMarks {
  /** Rows that were written and that nobody has forgotten. */
  #written: number;
  /** Behind these rows nothing but a caller with an array has written anything: there are zeros. */
  #touched: number;
  /** True once somebody has an array of a cache, and may write any row of it. */
  #isLent = false;

  constructor(lengths: readonly number[]) {
    this.#written = this.#touched = Math.max(0, ...lengths);
  }

  /** Rows that hold something to be saved. `isZeroFrom` tells whether all caches have zeros from a row on. */
  saved(lengths: readonly number[], isZeroFrom: (row: number) => boolean): number {
    if (this.#isLent && !isZeroFrom(this.#touched)) return Infinity;
    return Math.max(this.#written, ...lengths);
  }

  /** Rows that may hold anything but zeros. */
  get touched(): number {
    return this.#isLent ? Infinity : this.#touched;
  }

  wrote(rows: number): void {
    this.#written = Math.max(this.#written, rows);
    this.#touched = Math.max(this.#touched, rows);
  }

  forgetBehind(lengths: readonly number[]): void {
    this.#written = Math.max(0, ...lengths);
  }

  /** Nothing is written, and everything is zeros. */
  restart(): void {
    this.#written = this.#touched = 0;
  }

  lend(): void {
    this.#isLent = true;
  }

  fork(): RowMarks {
    const fork = new RowMarks([]);
    fork.#written = this.#written;
    fork.#touched = this.#touched;
    fork.#isLent = this.#isLent;
    return fork;
  }
}

/** The inputs that say where a cache's new rows start, none where they start at the first; undefined where something else may be written. */
function startsOf(
  { past, present, kind, axis, writers }: Pair,
  { start }: LengthInputs,
  uses: Uses,
): readonly Value[] | undefined {
  if (kind !== "update" || axis === undefined || writers.length === 0) return undefined;
  const rank = past.fact?.shape?.length ?? 0;
  const starts: Value[] = [];
  let cache = past;
  for (const node of writers) {
    const { lengths } = node.op;
    const next = node.outputs.find((_, position) => {
      const effect = effectOf(node, position);
      if (effect?.kind !== "update" || effect.sources[0] !== cache || effect.axis === undefined) return false;
      return (effect.axis < 0 ? effect.axis + rank : effect.axis) === axis;
    });
    if (next === undefined || lengths.start === undefined) return undefined;
    const operand = node.inputs[inputPosition(node, lengths.start)];
    const base = operand && uses.baseOf(operand);
    if (base !== undefined && !start.has(base)) return undefined;
    if (base !== undefined) starts.push(base);
    cache = next;
  }
  return cache === present ? starts : undefined;
}
