/** Runs loads: starts each group's contestants, compares what they give, measures them in turn, and reports. Prints nothing. */
import { InsituError } from "#insitu/base/error.js";
import { type BackendName, backends } from "#insitu/entry/backends.js";
import { deviceName } from "./device/gpu.js";
import type { Contestant, Group, Load, Profile, Result, Running } from "./load.js";
import { type Effort, inRounds, measure, median } from "./measure.js";
import { findPeers, machineThreads, type MissingPeer, type Peer } from "./peers.js";
import { insituVersion } from "#insitu/cli/version.js";
import { type ContestantReport, describeMachine, type GroupReport, type Report } from "./report.js";

/** How to run. */
interface BenchOptions {
  /** Small sizes and few rounds. */
  readonly quick?: boolean;
  /** Small sizes, with as many rounds as ever. */
  readonly small?: boolean;
  /** Rounds in which every contestant has its turn. */
  readonly repeats?: number | undefined;
  readonly backend?: BackendName | undefined;
  /** Threads of every runtime; those that the machine has where left out. */
  readonly threads?: number | undefined;
  /** Without peers, installed or not. */
  readonly alone?: boolean;
  /** Only the groups whose name contains this. */
  readonly only?: string | undefined;
  /** The runtimes to compare with; those that are installed where left out. */
  readonly found?: { readonly peers: readonly Peer[]; readonly missing: readonly MissingPeer[] };
  /** Told what is being done. */
  readonly onProgress?: (text: string) => void;
  /** Given each group's report when it is done. */
  readonly onGroup?: (group: GroupReport) => void;
  /** The command that reproduces the run, for the report. */
  readonly command?: string;
  /** What starts this program anew. */
  readonly program?: readonly string[];
}

const thorough: Effort = { repeats: 21, sampleMs: 1, turnMs: 15, warmUpMs: 300 };
const brief: Effort = { repeats: 3, sampleMs: 0.1, turnMs: 1, warmUpMs: 1 };

/** Runs the loads and reports what was measured. */
export async function runBench(loads: readonly Load[], options: BenchOptions = {}): Promise<Report> {
  const { quick = false, alone = false, only = "", threads = machineThreads, onProgress = () => {} } = options;
  const own = alone ? [] : loads.flatMap((load) => (load.found === undefined ? [] : [load.found()]));
  const needed = !alone && loads.some((load) => load.found === undefined);
  const { found = needed ? findPeers(undefined, threads) : { peers: [], missing: [] } } = options;
  const { peers } = found;
  const missing = [...found.missing, ...own.flatMap((each) => each.missing)];
  const backend = options.backend ?? loads.find((load) => load.backend !== undefined)?.backend;
  const machine = describeMachine(backend === "webgpu" ? await deviceName() : null);
  const effort = quick ? brief : thorough;
  const reports: Report["loads"][number][] = [];
  for (const load of loads) {
    const { name, description } = load;
    const tell = (what: string): void => onProgress(`${name}: ${what}`);
    const all = load
      .groups({
        quick: quick || options.small === true,
        peers,
        alone,
        backend,
        threads,
        program: options.program,
        tell,
      })
      .filter((group) => isAskedFor(group, only));
    if (all.length === 0)
      throw new InsituError("invalid-argument", `load ${name} has no group with "${only}" in its name`);
    const done: GroupReport[] = [];
    try {
      for (const group of all) {
        const where = `${name}: ${done.length + 1} of ${all.length}, ${group.name}`;
        const report = await runGroup(group, effort, options.repeats, (what) => onProgress(`${where}: ${what}`));
        options.onGroup?.(report);
        done.push(report);
      }
    } finally {
      await load.stop?.();
    }
    reports.push({ name, description, groups: done });
  }
  return {
    command: options.command ?? "insitu bench",
    quick: quick || options.small === true,
    backend: backend ?? backends[0].name,
    threads,
    machine,
    versions: Object.assign(
      { insitu: insituVersion() },
      ...peers.map(({ name, version }) => ({ [name]: version })),
      ...own.map((each) => each.versions),
    ) as Report["versions"],
    missing,
    loads: reports,
  };
}

async function runGroup(
  group: Group,
  usual: Effort,
  asked: number | undefined,
  tell: (what: string) => void,
): Promise<GroupReport> {
  const repeats = asked ?? Math.min(usual.repeats, group.repeats ?? Infinity);
  const effort = { ...usual, repeats, isCold: group.isCold ?? false };
  const started: Started[] = [];
  const failed: Failure[] = [];
  try {
    for (const contestant of group.contestants) {
      tell(`starting ${contestant.name}`);
      try {
        started.push(await startAndTry(contestant));
      } catch (error) {
        // insitu must not fail, but for a lack of memory where that may be; what a peer says is told.
        const lacksMemory = contestant.mayLackMemory === true && isOutOfMemory(error);
        if (contestant.runtime === "insitu" && !lacksMemory) throw error;
        const problem = lacksMemory ? `there is not enough memory for it: ${messageOf(error)}` : messageOf(error);
        failed.push({ name: contestant.name, problem });
      }
    }
    const problems = group.check(new Map(started.map(({ contestant, result }) => [contestant.name, result])));
    const timings = await measure(
      started.map((each) => guarded(each, failed)),
      effort,
      (repeat) => tell(`round ${repeat + 1} of ${repeats}`),
    );
    const kernels = await profile(started, repeats, tell);
    const contestants = started.map(({ contestant: { name, runtime, costs = {} }, running }, at): ContestantReport => {
      const problem = problems.get(name) ?? null;
      const agrees = problem === null;
      return {
        name,
        runtime,
        ...timings[at],
        ratio: agrees ? timings[at].medianMs / timings[0].medianMs : null,
        kernelMs: kernels[at],
        kernelRatio: agrees && kernels[at] !== null && kernels[0] !== null ? kernels[at] / kernels[0] : null,
        agrees,
        problem,
        costs,
        figures: running.figures?.(timings[at].medianMs) ?? {},
      };
    });
    const right = contestants.filter(({ name }) => failed.every((each) => each.name !== name));
    return { name: group.name, contestants: right, failed };
  } finally {
    for (const { running } of started) await running.stop();
    await group.stop?.();
  }
}

/** Median milliseconds of the kernels of each, by its own profiler; null where it has none. */
async function profile(
  started: readonly { running: Running }[],
  repeats: number,
  tell: (what: string) => void,
): Promise<(number | null)[]> {
  const profiles: { at: number; profile: Profile }[] = [];
  const kernels: (number | null)[] = started.map(() => null);
  try {
    for (const [at, { running }] of started.entries())
      if (running.profile !== undefined) profiles.push({ at, profile: await running.profile() });
    await inRounds(
      repeats + firstRuns,
      profiles.length,
      (index) => profiles[index].profile.run(),
      (round) => tell(`profiling, round ${round + 1} of ${repeats + firstRuns}`),
    );
  } finally {
    for (const { at, profile } of profiles) kernels[at] = median((await profile.stop()).slice(firstRuns));
  }
  return kernels;
}

/** Runs of a profiled session that do not count: the first ones allocate. */
const firstRuns = 2;

/** A contestant that runs, and what it gave. */
interface Started {
  readonly contestant: Contestant;
  readonly running: Running;
  readonly result: Result;
}

/** A peer that could not do the work. */
interface Failure {
  readonly name: string;
  readonly problem: string;
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const isOutOfMemory = (error: unknown): boolean => error instanceof InsituError && error.code === "out-of-memory";

/** The work of a contestant; a peer that fails in the middle of it is asked no more. */
function guarded({ contestant: { name, runtime }, running }: Started, failed: Failure[]): Pick<Running, "run"> {
  if (runtime === "insitu") return running;
  return {
    run: async () => {
      if (failed.some((each) => each.name === name)) return 0;
      try {
        return await running.run();
      } catch (error) {
        failed.push({ name, problem: messageOf(error) });
        return 0;
      }
    },
  };
}

async function startAndTry(contestant: Contestant): Promise<Started> {
  const running = await contestant.start();
  try {
    return { contestant, running, result: await running.result() };
  } catch (error) {
    await running.stop();
    throw error;
  }
}

/** True for a group with this in its name; of those that are large, if it names what they are of. */
function isAskedFor({ name, largeName }: Group, only: string): boolean {
  const isNamed = largeName === undefined || (only !== "" && (largeName.includes(only) || only.includes(largeName)));
  return isNamed && name.includes(only);
}
