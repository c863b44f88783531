/**
 * Several runs on a state that follow each other, begun at once: the first with all its feeds, each that follows with those that differ. Where
 * the backend takes them together the host has less to do for each; where it does not, they are begun one by one.
 */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { Value } from "../graph/graph.js";
import type { Placed } from "../tensor/placed.js";
import type { Tensor } from "../tensor/tensor.js";
import { type Feeds, inOrder, readReplacement } from "./feeds.js";
import type { Holding } from "./holding.js";
import { lengthsAfter, LengthViews } from "./lengths.js";
import { buffersOf, makeResults } from "./results.js";
import type { Parts } from "./session.js";
import type { State } from "./state.js";
import {
  begin,
  keepApart,
  type Outcome,
  type PreparedRun,
  prepareRun,
  programOf,
  startWithState,
} from "./stateful-run.js";

type Results = Record<string, Tensor>;

type Wanted = ReadonlyMap<Value, Tensor | null> | undefined;

/** Runs that were begun: the state is free for the next, whose results come after these. */
export interface StartedSeries {
  /** The results of each run, in their order. Rejects where one fails after it was begun: the state is lost then. */
  readonly results: Promise<readonly Results[]>;
}

/** Lengths of runs after the first: all are there at a time. */
const laterViews = new WeakMap<State, LengthViews[]>();

/** Begins a run on a state with `feeds`, and one more for each of `changes`, with what it names in place of what was fed before. */
export async function startSeries(
  parts: Parts,
  feeds: Feeds,
  changes: readonly Feeds[],
  wanted: Wanted,
  state: State,
): Promise<StartedSeries> {
  if (changes.length > 0 && mayGoTogether(parts, wanted, state)) {
    const holdings = state.acquire(parts);
    let series: Series | undefined;
    try {
      series = prepareSeries(parts, feeds, changes, wanted, holdings, state);
    } finally {
      if (series === undefined) state.settle(undefined);
    }
    if (series.isOneProgram) return begin(state, (begun) => runTogether(series, state, begun));
    // What was copied for a fork stays copied.
    state.settle({ lengths: state.lengths, writtenRows: 0, movedBytes: series.first.movedBytes, runs: 0 });
  }
  return startEach(parts, feeds, changes, wanted, state);
}

/** Begins them one by one. Where one is refused, those before it are rewound: none has happened then. */
async function startEach(
  parts: Parts,
  feeds: Feeds,
  changes: readonly Feeds[],
  wanted: Wanted,
  state: State,
): Promise<StartedSeries> {
  const { lengths } = state;
  const all: Promise<Results>[] = [];
  let own = feeds;
  for (const change of [{}, ...changes]) {
    own = { ...own, ...change };
    try {
      const { results } = await startWithState(parts, own, wanted, state);
      all.push(results);
    } catch (error) {
      const isLost = error instanceof InsituError && error.code === "state-lost";
      if (all.length > 0 && !isLost) state.rewind(lengths);
      throw error;
    }
  }
  const results = Promise.all(all);
  results.catch(() => undefined);
  return { results };
}

/** Runs that are one program on the same caches, each with its inputs. */
interface Series {
  readonly first: PreparedRun;
  readonly inputs: readonly (readonly Placed[])[];
  /** Rows of each sample when all are done. */
  readonly lengths: readonly number[];
  /** Rows from the front of its caches that one of them may write. */
  readonly writtenRows: number;
  /** False where lengths make them different programs: the rest says nothing then. */
  readonly isOneProgram: boolean;
}

/** True if what one run leaves in the caches is where the next one reads it, and no result is written over by the next run's. */
function mayGoTogether(parts: Parts, wanted: Wanted, { pairing: { stateful } }: State): boolean {
  const { plan } = stateful;
  return (
    stateful.runSeries !== undefined &&
    parts.staysOnDevice === undefined &&
    plan.pairs.every(({ past, present, kind }) => kind === "update" && plan.inPlace.get(present) === past) &&
    [...(wanted?.values() ?? [])].every((target) => target === null || target.location === stateful.location)
  );
}

/** The runs, made ready. */
function prepareSeries(
  parts: Parts,
  feeds: Feeds,
  changes: readonly Feeds[],
  wanted: Wanted,
  holdings: ReadonlyMap<string, Holding>,
  state: State,
): Series {
  const { graph } = parts;
  const { pairing } = state;
  const first = prepareRun(parts, feeds, wanted, holdings, state);
  const { program, added } = first;
  const after = (before: readonly number[], inputs: ReadonlyMap<Value, Placed>): readonly number[] =>
    lengthsAfter(before, inputs, pairing.lengthInputs, added, undefined);
  const filled = [...pairing.lengthInputs.start, ...pairing.lengthInputs.end].filter(
    ({ name }) => feeds[name] === undefined,
  );
  const inputs = [inOrder(graph, first.inputs)];
  const { standing } = pairing;
  const { broughtRows } = standing.of(program);
  let lengths = after(state.lengths, first.inputs);
  let { writtenRows } = first;
  let before = first.inputs;
  const views = laterViews.get(state) ?? [];
  laterViews.set(state, views);
  for (const [at, change] of changes.entries()) {
    const own = new Map(before);
    for (const [name, tensor] of Object.entries(change)) {
      const value = standing.inputs.get(name);
      if (value === undefined || holdings.has(name))
        throw new InsituError("invalid-feed", `${valueText(name)} is no input that a run of a series may change`);
      own.set(value, readReplacement(value, tensor, first.inputs.get(value), first.slotOf));
    }
    for (const value of filled) own.delete(value);
    keepApart(own, graph.inputs, holdings, pairing.stateful);
    const lengthViews = (views[at] ??= new LengthViews());
    const next = programOf(graph, own, { pairing, lengths, lengthViews });
    if (next.program !== program || next.added !== added)
      return { first, inputs, lengths, writtenRows, isOneProgram: false };
    inputs.push(inOrder(graph, own));
    lengths = after(lengths, own);
    writtenRows = Math.max(writtenRows, standing.writtenRows.of(own, broughtRows));
    before = own;
  }
  return { first, inputs, lengths, writtenRows, isOneProgram: true };
}

function runTogether(
  { first, inputs, lengths, writtenRows }: Series,
  { pairing: { stateful } }: State,
  begun: (outcome: Outcome) => void,
): Promise<{ readonly results: readonly Results[]; readonly outcome: Outcome }> {
  const { program, targets, taken, slotOf, movedBytes } = first;
  const outcome = { lengths, writtenRows, movedBytes, runs: inputs.length };
  return stateful.runSeries!(
    program,
    inputs,
    buffersOf(targets, taken, program, slotOf),
    (series) => ({
      results: series.map((outputs) => makeResults(targets, outputs, taken, stateful, slotOf).results),
      outcome,
    }),
    () => begun(outcome),
  );
}
