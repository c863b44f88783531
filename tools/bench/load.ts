/**
 * What a load is: groups of contestants that do the same work, and how to tell that they did. One file a load; this one knows
 * no load, no runtime and no clock.
 */
import type { BackendName } from "#insitu/entry/backends.js";
import type { MissingPeer, Peer } from "./peers.js";

/** What a contestant computed, for the comparison with the others. */
export type Result = ArrayBufferView;

/** A contestant that is ready: its model is loaded, its tensors are made. */
export interface Running {
  /** The work that is timed, once; the milliseconds that count, where only a part of it does. */
  run(): Promise<number | void>;
  /** What the work gives on the input that all contestants of the group share. */
  result(): Promise<Result>;
  /** The same work under the runtime's own profiler, where it has one. */
  profile?(): Promise<Profile>;
  /** What else is to be told, by what it is called: asked once, when the median is known. */
  figures?(medianMs: number): Figures;
  stop(): Promise<void>;
}

/** Work whose operators a profiler times. */
export interface Profile {
  run(): Promise<void>;
  /** Ends it, and returns the milliseconds that the operators took, run by run. */
  stop(): Promise<readonly number[]>;
}

/** Numbers by what they are: `tokens a second`. */
export type Figures = Readonly<Record<string, number>>;

/** What a form of the work costs by its definition, whoever runs it. */
export interface Costs {
  /** Bytes of indices that the operator reads. */
  readonly indexBytes?: number;
  /** Bytes that a run writes: the new rows, or the whole result where it is made anew. */
  readonly writtenBytes?: number;
}

/** One way to do the work of a group. */
export interface Contestant {
  readonly name: string;
  /** "insitu", or the name of a peer. */
  readonly runtime: string;
  readonly costs?: Costs;
  /** True if it is left out, and that is told, where there is not enough memory for it to start. */
  readonly mayLackMemory?: boolean;
  start(): Promise<Running>;
}

/** Contestants that are measured in turn. Ratios count from the first. */
export interface Group {
  readonly name: string;
  readonly contestants: readonly Contestant[];
  /** What it is of, where that is so large that it is measured only where somebody asks for groups by this name. */
  readonly largeName?: string;
  /** Rounds, where nobody says how many, of a group whose rounds take long. */
  readonly repeats?: number;
  /** True if each run begins anew: there is nothing to warm up, and the first counts like any other. */
  readonly isCold?: boolean;
  /** Lets go of what no group after this one needs. */
  stop?(): Promise<void>;
  /** What is wrong with each result, by the contestant's name; those that agree are left out. */
  check(results: ReadonlyMap<string, Result>): ReadonlyMap<string, string>;
}

/** What a load may choose by. */
export interface Setting {
  /** Tiny sizes: to see that everything works. */
  readonly quick: boolean;
  readonly peers: readonly Peer[];
  /** True where nobody but insitu is to be measured. */
  readonly alone?: boolean;
  /** The backend of insitu; its default where undefined. */
  readonly backend: BackendName | undefined;
  /** Threads of every runtime. */
  readonly threads: number;
  /** What starts this program anew, for what needs a process of its own. */
  readonly program?: readonly string[] | undefined;
  /** Told what is being made before there is anything to measure. */
  readonly tell?: (what: string) => void;
}

/** Runtimes that a load found by itself, and those that it did not. */
export interface FoundRuntimes {
  readonly versions: Readonly<Record<string, string>>;
  readonly missing: readonly MissingPeer[];
}

/** A benchmark by name. */
export interface Load {
  readonly name: string;
  readonly description: string;
  /** For a load of one backend: which. It runs where that backend is asked for, or it by its name. */
  readonly backend?: BackendName;
  groups(setting: Setting): readonly Group[];
  /** Its own peers, for a load that takes none of the setting's. */
  found?(): FoundRuntimes;
  /** Lets go of what its groups share. */
  stop?(): Promise<void>;
}

const bytesOf = (view: ArrayBufferView): Buffer => Buffer.from(view.buffer, view.byteOffset, view.byteLength);

/** A sentence about the first difference between two results, bit by bit; undefined where there is none. */
export function differentBits(result: Result, expected: Result): string | undefined {
  if (result.byteLength !== expected.byteLength)
    return `has ${result.byteLength} bytes instead of ${expected.byteLength}`;
  const [mine, theirs] = [bytesOf(result), bytesOf(expected)];
  if (mine.equals(theirs)) return undefined;
  return `differs from byte ${mine.findIndex((byte, at) => byte !== theirs[at])} on`;
}

/** A sentence about the first element outside |a − b| <= atol + rtol·|b|; undefined where there is none. */
export function differentNumbers(
  result: Float32Array,
  expected: Float32Array,
  { rtol, atol }: { readonly rtol: number; readonly atol: number },
): string | undefined {
  if (result.length !== expected.length) return `has ${result.length} elements instead of ${expected.length}`;
  // Infinity is close to itself alone.
  const at = result.findIndex((value, index) => {
    const [off, wanted] = [Math.abs(value - expected[index]), expected[index]];
    return value !== wanted && !(Number.isFinite(off) && off <= atol + rtol * Math.abs(wanted));
  });
  return at < 0 ? undefined : `is ${result[at]} at element ${at} instead of ${expected[at]}`;
}

/** The check of a group whose contestants must all give what the first one gives. */
export function likeTheFirst(
  compare: (result: Result, expected: Result) => string | undefined,
): (results: ReadonlyMap<string, Result>) => Map<string, string> {
  return (results) => {
    const [first, ...others] = results;
    const problems = new Map<string, string>();
    for (const [name, result] of others) {
      const problem = compare(result, first[1]);
      if (problem !== undefined) problems.set(name, problem);
    }
    return problems;
  };
}
