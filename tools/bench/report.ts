/** What a benchmark found, as data. `insitu bench --json` prints a Report as it is; tools/bench/README.md names its fields. */
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import type { Costs, Figures } from "./load.js";
import type { Timing } from "./measure.js";
import type { MissingPeer } from "./peers.js";

/** One contestant's figures. */
export interface ContestantReport extends Timing {
  readonly name: string;
  readonly runtime: string;
  /** How many times longer than the first of the group; null where the result is wrong. */
  readonly ratio: number | null;
  /** True if the result is what the group's check expects. */
  readonly agrees: boolean;
  /** What is wrong, where it does not agree; null otherwise. */
  readonly problem: string | null;
  /** Median milliseconds that the runtime's own profiler counts for the operators; null where it has none. */
  readonly kernelMs: number | null;
  /** How many times longer than the kernels of the first of the group; null where either is not known or the result is wrong. */
  readonly kernelRatio: number | null;
  readonly costs: Costs;
  /** What else was found, by what it is called. */
  readonly figures: Figures;
}

/** One group's figures, in the order of its contestants. */
export interface GroupReport {
  readonly name: string;
  readonly contestants: readonly ContestantReport[];
  /** Peers that could not do the work here, and what there is not enough memory for: why. */
  readonly failed: readonly { readonly name: string; readonly problem: string }[];
}

/** One load's figures. */
interface LoadReport {
  readonly name: string;
  readonly description: string;
  readonly groups: readonly GroupReport[];
}

/** Where figures come from. */
interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly platform: string;
  readonly node: string;
  /** The GPU, where a backend ran on one. */
  readonly gpu: string | null;
  /** Processes that waited for a core in the minute before, on average: what else the machine was doing. */
  readonly loadAverage: number;
}

/** Everything one call of `insitu bench` found. */
export interface Report {
  readonly command: string;
  readonly quick: boolean;
  readonly backend: string;
  /** Of every runtime. */
  readonly threads: number;
  readonly machine: Machine;
  readonly versions: Readonly<Record<string, string>>;
  readonly missing: readonly MissingPeer[];
  readonly loads: readonly LoadReport[];
}

/** What this machine is. */
export function describeMachine(gpu: string | null): Machine {
  return {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    platform: `${process.platform} ${process.arch}`,
    node: process.versions.node,
    gpu,
    loadAverage: loadavg()[0],
  };
}
