/** Runs loads: starts each group's contestants, compares what they give, measures them in turn, and reports. Prints nothing. */
import { InsituError } from "../base/error.js";
import { type BackendName, backends } from "../entry/backends.js";
import type { Contestant, Group, Load, Profile, Result, Running } from "./load.js";
import { type Effort, inRounds, measure, median } from "./measure.js";
import { findPeers, machineThreads, type MissingPeer, type Peer } from "./peers.js";
import { type ContestantReport, describeMachine, type GroupReport, insituVersion, type Report } from "./report.js";

/** How to run. */
interface BenchOptions {
  readonly quick?: boolean;
  /** Rounds in which every contestant has its turn. */
  readonly repeats?: number | undefined;
  readonly backend?: BackendName | undefined;
  /** Threads of every runtime; those that the machine has where left out. */
  readonly threads?: number | undefined;
  /** Only the groups whose name contains this. */
  readonly only?: string | undefined;
  /** The runtimes to compare with; those that are installed where left out. */
  readonly found?: { readonly peers: readonly Peer[]; readonly missing: readonly MissingPeer[] };
  /** Told what is being done. */
  readonly onProgress?: (text: string) => void;
  /** The command that reproduces the run, for the report. */
  readonly command?: string;
}

const thorough: Effort = { repeats: 21, sampleMs: 1, turnMs: 15, warmUpMs: 300 };
const brief: Effort = { repeats: 3, sampleMs: 0.1, turnMs: 1, warmUpMs: 1 };

/** Runs the loads and reports what was measured. */
export async function runBench(loads: readonly Load[], options: BenchOptions = {}): Promise<Report> {
  const { quick = false, only = "", backend, threads = machineThreads, onProgress = () => {} } = options;
  const { found = findPeers(undefined, threads) } = options;
  const { peers, missing } = found;
  const machine = describeMachine();
  const usual = quick ? brief : thorough;
  const effort = { ...usual, repeats: options.repeats ?? usual.repeats };
  const reports: Report["loads"][number][] = [];
  for (const load of loads) {
    const { name, description } = load;
    const all = load.groups({ quick, peers, backend, threads }).filter((group) => group.name.includes(only));
    if (all.length === 0)
      throw new InsituError("invalid-argument", `load ${name} has no group with "${only}" in its name`);
    const done: GroupReport[] = [];
    for (const group of all) {
      const where = `${name}: ${done.length + 1} of ${all.length}, ${group.name}`;
      done.push(await runGroup(group, effort, (what) => onProgress(`${where}: ${what}`)));
    }
    reports.push({ name, description, groups: done });
  }
  return {
    command: options.command ?? "insitu bench",
    quick,
    backend: backend ?? backends[0].name,
    threads,
    machine,
    versions: { insitu: insituVersion(), ...Object.fromEntries(peers.map(({ name, version }) => [name, version])) },
    missing,
    loads: reports,
  };
}

async function runGroup(group: Group, effort: Effort, tell: (what: string) => void): Promise<GroupReport> {
  const started: { contestant: Contestant; running: Running }[] = [];
  try {
    for (const contestant of group.contestants) {
      tell(`starting ${contestant.name}`);
      started.push({ contestant, running: await contestant.start() });
    }
    const problems = await compare(group, started);
    const timings = await measure(
      started.map(({ running }) => running),
      effort,
      (repeat) => tell(`round ${repeat + 1} of ${effort.repeats}`),
    );
    const kernels = await profile(started, effort.repeats, tell);
    const contestants = started.map(({ contestant: { name, runtime, costs = {} } }, at): ContestantReport => {
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
      };
    });
    return { name: group.name, contestants };
  } finally {
    for (const { running } of started) await running.stop();
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

async function compare(
  group: Group,
  started: readonly { contestant: Contestant; running: Running }[],
): Promise<ReadonlyMap<string, string>> {
  const results = new Map<string, Result>();
  for (const { contestant, running } of started) results.set(contestant.name, await running.result());
  return group.check(results);
}
