/** One run on a state: past inputs from its caches, lengths filled in, presents kept, results handed out. */
import type { Move, Places } from "../backends/backend.js";
import { InsituError } from "../base/error.js";
import { isKnownShape } from "../graph/dim.js";
import type { Graph, Value } from "../graph/graph.js";
import type { Pair } from "../plan/pairs.js";
import type { Program } from "../plan/program.js";
import { cloneView } from "../tensor/copy.js";
import type { Tensor } from "../tensor/tensor.js";
import type { Placed } from "../tensor/placed.js";
import { hostView } from "../tensor/view.js";
import { type Feeds, inOrder, readFeeds } from "./feeds.js";
import type { Adoption, Holding } from "./holding.js";
import { lengthsAfter } from "./lengths.js";
import { targetsOnDevice } from "./output-locations.js";
import type { Pairing } from "./pairing.js";
import { buffersOf, makeResults, Taken } from "./results.js";
import type { Parts } from "./session.js";
import { placeInSlot } from "./slots.js";
import type { State } from "./state.js";

type Results = Record<string, Tensor>;

/** A run that `start` began. The state is free for the next run. */
export interface StartedRun {
  /** The results. Rejects if the run fails after it began; its state is lost then. It need not be awaited. */
  readonly results: Promise<Results>;
}

/** Runs the model once on a state. `insideOf` tells where a feed lies that stays in the backend's memory, beside slots. */
export async function runWithState(
  parts: Parts,
  feeds: Feeds,
  wanted: ReadonlyMap<Value, Tensor | null> | undefined,
  state: State,
  insideOf?: (tensor: unknown) => Placed | undefined,
): Promise<Results> {
  const holdings = state.acquire(parts);
  let outcome: Outcome | undefined;
  try {
    const run = await runOnce(parts, feeds, wanted, holdings, state, undefined, insideOf);
    outcome = run.outcome;
    return run.results;
  } catch (error) {
    if (error instanceof InsituError && error.code === "state-lost") state.lose(error);
    throw error;
  } finally {
    state.settle(outcome);
  }
}

/** Begins a run on a state. Rejects where it is refused; resolves when the state has what it will have after the run. */
export function startWithState(
  parts: Parts,
  feeds: Feeds,
  wanted: ReadonlyMap<Value, Tensor | null> | undefined,
  state: State,
): Promise<StartedRun> {
  const holdings = state.acquire(parts);
  return begin(state, (begun) => runOnce(parts, feeds, wanted, holdings, state, begun));
}

/** Begins what uses a state that was acquired, and settles the state as soon as it is known what becomes of it. */
export async function begin<T>(
  state: State,
  run: (begun: (outcome: Outcome) => void) => Promise<{ readonly results: T; readonly outcome: Outcome }>,
): Promise<{ readonly results: Promise<T> }> {
  let resolve = (): void => undefined;
  const begun = new Promise<void>((done) => (resolve = done));
  let isSettled = false;
  const settle = (outcome: Outcome | undefined): void => {
    if (!isSettled) state.settle(outcome);
    isSettled = true;
  };
  const all = async (): Promise<T> => {
    try {
      const { results, outcome } = await run((known) => {
        settle(known);
        resolve();
      });
      settle(outcome);
      return results;
    } catch (error) {
      if (error instanceof InsituError && error.code === "state-lost") state.lose(error);
      settle(undefined);
      throw error;
    }
  };
  const results = all();
  // Told by the state too, whoever asks it next.
  results.catch(() => undefined);
  await Promise.race([begun, results]);
  return { results };
}

/** What a run made of a state. */
export interface Outcome {
  readonly lengths: readonly number[];
  /** Rows from the front of its caches that it may have written. */
  readonly writtenRows: number;
  readonly movedBytes: number;
  /** One where left out. */
  readonly runs?: number;
}

/** What a state's own lengths are filled in by. */
type Lengths = Pick<State, "pairing" | "lengths" | "lengthViews">;

/** A run that can be done: nothing was written for it. */
export interface PreparedRun {
  readonly program: Program;
  /** Places by input: feeds, caches, and lengths that were filled in. */
  readonly inputs: Map<Value, Placed>;
  /** Rows that it adds, where that is known beforehand. */
  readonly added: number | undefined;
  /** Rows from the front of the caches that it may write. */
  readonly writtenRows: number;
  /** The caches, in the order of the pairs. */
  readonly own: readonly Holding[];
  readonly slotOf: (tensor: unknown) => Placed | undefined;
  /** The outputs that are asked for, and memory that they must not lie in. */
  readonly targets: ReadonlyMap<Value, Tensor | null>;
  readonly taken: Taken;
  /** Bytes that had to be moved so far. */
  readonly movedBytes: number;
}

/** Reads feeds, finds the program, and makes the caches ready to be written. */
export function prepareRun(
  parts: Parts,
  feeds: Feeds,
  wanted: ReadonlyMap<Value, Tensor | null> | undefined,
  holdings: ReadonlyMap<string, Holding>,
  state: Lengths,
  insideOf?: (tensor: unknown) => Placed | undefined,
): PreparedRun {
  const { graph, mayMove } = parts;
  const { stateful, standing } = state.pairing;
  const { pairs } = stateful.plan;
  // In the order of the pairs, of which there are many.
  const own = pairs.map(({ past }) => holdings.get(past.name)!);
  const held = new Map<Value, Placed>();
  pairs.forEach(({ past }, at) => held.set(past, own[at].past));
  const reserves = own.map(({ buffer }) => buffer);
  const slotOf = (tensor: unknown): Placed | undefined => placeInSlot(tensor, parts) ?? insideOf?.(tensor);
  const inputs = readFeeds(graph, standing.inputs, feeds, held, standing.omissible, slotOf);
  keepApart(inputs, graph.inputs, holdings, stateful);
  const { program, added } = programOf(graph, inputs, state);

  let movedBytes = 0;
  const notes = standing.of(program);
  for (let at = 0; at < pairs.length; at++) {
    const { past, present, kind, axis } = pairs[at];
    const holding = own[at];
    const made = program.facts.get(present)?.shape;
    if (!notes.presentsFit && isKnownShape(made)) holding.checkPresent(made);
    movedBytes += holding.detach();
    const rows = kind === "grow" && axis !== undefined ? made?.[axis] : undefined;
    if (typeof rows === "number") movedBytes += holding.reserve(rows, mayMove);
    // It may have grown, or been copied or left to a fork; the caller's own code ran since, where feeds have getters.
    if (holding.buffer !== reserves[at]) inputs.set(past, holding.past);
  }
  notes.presentsFit = true;

  const targets = targetsOnDevice(wanted ?? standing.unheldOutputs, parts.staysOnDevice, program, parts, stateful);
  const taken = new Taken(inputs.values(), notes.taken);
  const writtenRows = standing.writtenRows.of(inputs, notes.broughtRows);
  return { program, inputs, added, writtenRows, own, slotOf, targets, taken, movedBytes };
}

async function runOnce(
  parts: Parts,
  feeds: Feeds,
  wanted: ReadonlyMap<Value, Tensor | null> | undefined,
  holdings: ReadonlyMap<string, Holding>,
  state: Lengths,
  begun?: (outcome: Outcome) => void,
  insideOf?: (tensor: unknown) => Placed | undefined,
): Promise<{ results: Results; outcome: Outcome }> {
  const { graph } = parts;
  const { lengths, pairing } = state;
  const { stateful, lengthInputs } = pairing;
  const { pairs } = stateful.plan;
  const prepared = prepareRun(parts, feeds, wanted, holdings, state, insideOf);
  const { program, inputs, added, writtenRows, own, slotOf, targets, taken } = prepared;
  let { movedBytes } = prepared;
  /** Presents become pasts; `moves` are copied at once with them. */
  const adopt = (outputs: ReadonlyMap<Value, Placed>, moves: readonly Move[]): Outcome => {
    const grown = pairs.find((pair) => pair.kind !== "update" && pair.axis !== undefined);
    const rows = grown && outputs.get(grown.present)!.shape[grown.axis!];
    const after = lengthsAfter(lengths, inputs, lengthInputs, added, rows);
    const adoptions = adoptAll(pairs, own, outputs, taken, stateful);
    stateful.copy([...adoptions.flatMap(({ move }) => move ?? []), ...moves]);
    for (const adoption of adoptions) {
      adoption.settle();
      movedBytes += adoption.movedBytes;
    }
    return { lengths: after, writtenRows, movedBytes };
  };
  let known: Outcome | undefined;
  return stateful.run(
    program,
    inOrder(graph, inputs),
    buffersOf(targets, taken, program, slotOf),
    (outputs) => {
      // Everything is read before a cache or a tensor of the caller's is written or let go of: results may show old bytes.
      const { results, moves } = makeResults(targets, outputs, taken, stateful, slotOf);
      if (known === undefined) return { results, outcome: adopt(outputs, moves) };
      stateful.copy(moves);
      return { results, outcome: known };
    },
    begun &&
      ((outputs) => {
        known = adopt(outputs, []);
        begun(known);
      }),
  );
}

/**
 * The program of a run, and how many rows it adds. Lengths that the caller leaves out are filled in: where shapes do not tell how many rows
 * are new, a program for the lengths before the run does.
 */
export function programOf(
  graph: Graph,
  inputs: Map<Value, Placed>,
  { pairing, lengths, lengthViews }: Lengths,
): { readonly program: Program; readonly added: number | undefined } {
  const { stateful, lengthInputs, standing } = pairing;
  const omitted = graph.inputs.filter((value) => !inputs.has(value));
  const ends = omitted.filter((value) => lengthInputs.end.has(value));
  const expected = ends.length === 0 ? undefined : standing.addedRows.ofInputs(inputs);
  for (const value of omitted) inputs.set(value, lengthViews.of(value, lengths));
  const starts = ends.length === 0 ? [] : startsOf(inputs, pairing, lengths);
  const fillEnds = (added: number): void => {
    const after = starts.map((start) => start + added);
    for (const value of ends) inputs.set(value, lengthViews.of(value, after));
  };
  if (expected !== undefined) fillEnds(expected);
  const program = stateful.programFor(inOrder(graph, inputs));
  const { addedRows: added } = standing.of(program);
  if (ends.length === 0) return { program, added };
  if (added === undefined)
    throw new InsituError(
      "invalid-feed",
      `input "${ends[0].name}" must be fed: how many rows the run adds cannot be told before it`,
    );
  if (added === expected) return { program, added };
  fillEnds(added);
  // Lengths that decide shapes decide the program too.
  return { program: stateful.programFor(inOrder(graph, inputs)), added };
}

/** Copies feeds that are caches of this very state, as `state.get` shows them: the run reads what they were before it writes or moves those. */
export function keepApart(
  inputs: Map<Value, Placed>,
  values: readonly Value[],
  holdings: ReadonlyMap<string, Holding>,
  places: Places,
): void {
  // Nothing can be a feed that was never seen.
  let seen = false;
  for (const { isSeen } of holdings.values()) seen ||= isSeen;
  if (!seen) return;
  const buffers = [...holdings.values()].map(({ buffer }) => buffer);
  const taken = new Taken(buffers);
  for (const value of values) {
    const view = inputs.get(value);
    if (view === undefined || view === value.initializer || holdings.has(value.name)) continue;
    if (!places.owns(view) && !taken.has(view)) continue;
    if (buffers.some((buffer) => places.overlap(view, buffer))) inputs.set(value, cloneView(hostView(view)));
  }
}

/** The presents on their way to becoming pasts, all or none. */
function adoptAll(
  pairs: readonly Pair[],
  holdings: readonly Holding[],
  outputs: ReadonlyMap<Value, Placed>,
  taken: Taken,
  places: Pick<Places, "owns">,
): readonly Adoption[] {
  const adoptions: Adoption[] = [];
  try {
    for (let at = 0; at < pairs.length; at++) {
      const view = outputs.get(pairs[at].present)!;
      const holding = holdings[at];
      // Written where it lies, in its full shape: there is nothing to become.
      if (view.buffer === holding.buffer.buffer && !holding.grows) continue;
      adoptions.push(holding.adopt(view, !taken.has(view) && !places.owns(view)));
      taken.add(view);
    }
  } catch (error) {
    for (const adoption of adoptions) adoption.abandon();
    throw error;
  }
  return adoptions;
}

/** Where each sample's new rows start: as fed, else the state's lengths. */
function startsOf(
  inputs: ReadonlyMap<Value, Placed>,
  { lengthInputs }: Pairing,
  lengths: readonly number[],
): readonly number[] {
  for (const value of lengthInputs.start) {
    const view = inputs.get(value);
    if (view !== undefined)
      return lengthsAfter(lengths, inputs, { start: new Set([value]), end: new Set() }, 0, undefined);
  }
  return lengthInputs.start.size === 0 ? lengths.map(() => 0) : lengths;
}
