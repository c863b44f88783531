/**
 * The stop-watch: contestants run in turn, in small batches, again and again and in changing order, so that what disturbs the
 * machine disturbs them all. Knows neither runtimes nor loads.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { seededRandom } from "#insitu/graph/call.js";

/** Something to be timed. */
interface Runnable {
  /** Does it once; the milliseconds that count, where it has a clock of its own. */
  run(): Promise<number | void>;
}

/** How long and how often. */
export interface Effort {
  /** Rounds in which every contestant has its turn. */
  readonly repeats: number;
  /** A turn is timed in samples of about this many milliseconds; one run where that takes longer. */
  readonly sampleMs: number;
  /** A turn has as many samples as fit into this many milliseconds, and at least one. */
  readonly turnMs: number;
  /** Each contestant runs this many milliseconds before it is timed: long enough for the engine to compile what is hot. */
  readonly warmUpMs: number;
  /** True for runs that each begin anew: none is for warming up, and every one counts. */
  readonly isCold?: boolean;
}

/** What was measured of one contestant; times are milliseconds a run. */
export interface Timing {
  readonly medianMs: number;
  /** A quarter of the samples lie below the lower one, a quarter above the upper one. */
  readonly lowerQuartileMs: number;
  readonly upperQuartileMs: number;
  /** Rounds in which the contestant had its turn. */
  readonly repeats: number;
  /** Samples that the median is taken over, and runs in each. */
  readonly samples: number;
  readonly runsPerSample: number;
}

/** The value below which the given part of all values lies, between neighbours where it falls between them. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const place = part * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
  return low + (high - low) * (place - Math.floor(place));
}

/** The middle value; the mean of the two in the middle of an even number. */
export const median = (values: readonly number[]): number => quantile(values, 0.5);

/** Milliseconds a run, over `runs` runs in a row: those that count, and those that passed. */
async function time(running: Runnable, runs: number): Promise<{ readonly counted: number; readonly passed: number }> {
  const start = performance.now();
  let own: number | undefined;
  for (let count = 0; count < runs; count++) {
    const told = await running.run();
    if (told !== undefined) own = (own ?? 0) + told;
  }
  const passed = (performance.now() - start) / runs;
  return { counted: own === undefined ? passed : own / runs, passed };
}

/** How a contestant's turn is divided. */
interface Turn {
  readonly runs: number;
  readonly samples: number;
  /** True if a sample is so long that how it finds the machine is a small part of it. */
  readonly isLong: boolean;
}

/** Milliseconds from which a sample is long. */
const longSample = 500;

/** Runs until the engine has seen the work often enough, and divides the turns to come. */
async function warmUp(running: Runnable, { sampleMs, turnMs, warmUpMs }: Effort): Promise<Turn> {
  const end = performance.now() + warmUpMs;
  let runs = 1;
  let each = Infinity;
  for (;;) {
    // The least: a disturbance just before the end must not decide how a turn is divided.
    each = Math.max(Math.min(each, (await time(running, runs)).passed), 1e-6);
    runs = Math.max(1, Math.min(2 * runs, Math.round(sampleMs / each)));
    if (performance.now() >= end)
      return {
        runs,
        samples: Math.max(1, Math.floor(turnMs / (runs * each))),
        isLong: runs * each >= longSample,
      };
  }
}

/** Gives each of `contestants` its turn once a round, in changing order; `onRound` is told before each. */
export async function inRounds(
  rounds: number,
  contestants: number,
  turn: (contestant: number) => Promise<void>,
  onRound: (round: number) => void = () => {},
): Promise<void> {
  const collectGarbage = garbageCollector();
  const random = seededRandom(1);
  for (let round = 0; round < rounds; round++) {
    onRound(round);
    for (const at of shuffled(contestants, random)) {
      await rest();
      collectGarbage();
      await turn(at);
    }
  }
}

/**
 * Waits until the threads of the contestant before have come to rest: one that still spins takes a core from whoever runs next.
 * A look is several ticks of the system's clock long, since a thread that runs on another core is charged at ticks alone: within
 * less, one that spins may seem to rest. A process that never rests is not waited for for ever.
 */
async function rest(): Promise<void> {
  const [lookMs, most, restless] = [16, 20, 0.15] as const;
  for (let look = 0; look < most; look++) {
    const used = process.cpuUsage();
    const start = performance.now();
    await new Promise((resolve) => setTimeout(resolve, lookMs));
    const { user, system } = process.cpuUsage(used);
    if ((user + system) / 1000 < restless * (performance.now() - start)) return;
  }
}

/** The numbers below `count` in a random order. */
function shuffled(count: number, random: () => number): number[] {
  const order = Array.from({ length: count }, (_, at) => at);
  for (let at = count - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [order[at], order[other]] = [order[other], order[at]];
  }
  return order;
}

/**
 * A function that collects young garbage now: what one contestant leaves behind is not paid for in the next one's turn. A full
 * collection would also throw away compiled code.
 */
function garbageCollector(): () => void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options: { type: "minor" }) => void;
  return () => collect({ type: "minor" });
}

/** Measures the contestants in turn; `onRepeat` is told before each round. */
export async function measure(
  contestants: readonly Runnable[],
  effort: Effort,
  onRepeat: (repeat: number) => void = () => {},
): Promise<Timing[]> {
  const turns: Turn[] = [];
  const { isCold = false } = effort;
  for (const running of contestants)
    turns.push(isCold ? { runs: 1, samples: 1, isLong: true } : await warmUp(running, effort));
  const times: number[][] = contestants.map(() => []);
  const turn = async (at: number): Promise<void> => {
    // The first sample of a turn finds the memory as the contestant before left it, and threads asleep: it does not count.
    if (!turns[at].isLong) await time(contestants[at], turns[at].runs);
    for (let sample = 0; sample < turns[at].samples; sample++)
      times[at].push((await time(contestants[at], turns[at].runs)).counted);
  };
  await inRounds(effort.repeats, contestants.length, turn, onRepeat);
  return times.map((each, at) => ({
    medianMs: median(each),
    lowerQuartileMs: quantile(each, 0.25),
    upperQuartileMs: quantile(each, 0.75),
    repeats: effort.repeats,
    samples: each.length,
    runsPerSample: turns[at].runs,
  }));
}
