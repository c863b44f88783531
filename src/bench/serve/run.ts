/** `insitu bench serve`: servers in processes of their own, asked by the same clients in turn, load by load and pace by pace. */
import { type ChildProcess, spawn } from "node:child_process";
import { InsituError } from "../../base/error.js";
import { describeMachine } from "../report.js";
import { request, type Target } from "./client.js";
import { drive, type Pace } from "./drive.js";
import { figuresOf, inTime, type ServeFigures } from "./figures.js";
import { type Workload, workloads } from "./workload.js";

/** What is measured. */
interface ServeBenchOptions {
  /** The command line's own program and arguments. */
  readonly program: readonly string[];
  readonly command: string;
  readonly concurrencies: readonly number[];
  readonly rates: readonly number[];
  /** Requests for each client of a closed loop, and of an open loop as a whole. */
  readonly requests: number;
  readonly only: string | undefined;
  readonly threads: number | undefined;
  readonly alone: boolean;
  readonly quick: boolean;
  /** Servers of others: name=address, with the model's name after a comma where it has one. */
  readonly others: readonly string[];
  readonly onProgress: (text: string) => void;
}

/** One server at one pace. */
export interface ServeRow {
  readonly load: Workload["name"];
  readonly server: string;
  readonly pace: Pace;
  readonly figures: ServeFigures;
}

/** All that was found. */
export interface ServeReport {
  readonly command: string;
  readonly machine: ReturnType<typeof describeMachine>;
  readonly inTime: typeof inTime;
  readonly loads: readonly { readonly name: string; readonly description: string }[];
  readonly rows: readonly ServeRow[];
}

const seed = 20_261;

/** Measures. */
export async function runServeBench(options: ServeBenchOptions): Promise<ServeReport> {
  const { onProgress, only } = options;
  const loads = workloads(seed, options.quick).filter(({ name }) => only === undefined || name.includes(only));
  if (loads.length === 0) throw new InsituError("invalid-argument", `insitu bench serve has no load "${only}"`);
  const paces: Pace[] = [
    ...options.concurrencies.map((concurrency) => ({ concurrency })),
    ...options.rates.map((rate) => ({ rate })),
  ];
  const children: ChildProcess[] = [];
  try {
    const targets = options.others.map(otherServer);
    targets.unshift(await startServer("insitu", [], options, children));
    if (!options.alone) targets.push(await startServer("one at a time", ["--one-at-a-time"], options, children));
    const rows: ServeRow[] = [];
    let first = 0;
    for (const load of loads) {
      // What is compiled or read for the first time is not what is measured.
      for (const target of targets) await warm(target, load);
      for (const pace of paces) {
        const count = "rate" in pace ? options.requests * 4 : Math.max(options.requests, 2) * pace.concurrency;
        for (const target of targets) {
          onProgress(`${load.name}, ${paceText(pace)}: ${target.name}`);
          rows.push({
            load: load.name,
            server: target.name,
            pace,
            figures: figuresOf(await drive(target, load, pace, count, first)),
          });
        }
        first += count;
      }
    }
    return {
      command: options.command,
      machine: describeMachine(null),
      inTime,
      loads: loads.map(({ name, description }) => ({ name, description })),
      rows,
    };
  } finally {
    for (const child of children) child.kill();
  }
}

/** A pace in words. */
export const paceText = (pace: Pace): string =>
  "rate" in pace ? `${pace.rate} arrivals a second` : `${pace.concurrency} at a time`;

async function warm(target: Target, load: Workload): Promise<void> {
  const { error } = await request(target, load.ask(1_000_000));
  if (error !== undefined) throw new InsituError("invalid-argument", `${target.name} at ${target.address}: ${error}`);
}

/** A server of ours in a process of its own. */
async function startServer(
  name: string,
  more: readonly string[],
  { program: [command, ...before], threads }: ServeBenchOptions,
  children: ChildProcess[],
): Promise<Target> {
  const given = threads === undefined ? [] : ["--threads", String(threads)];
  const args = [
    ...before,
    "serve",
    "--port",
    "0",
    "--quiet",
    "--max-queue",
    "1024",
    "--max-open",
    "4096",
    ...given,
    ...more,
  ];
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  let said = "";
  for await (const chunk of child.stdout.setEncoding("utf8")) {
    said += String(chunk);
    const address = /listening on (\S+)/.exec(said)?.[1];
    if (address !== undefined) return { name, address, model: "embedded", key: undefined };
  }
  throw new InsituError("invalid-argument", `the server "${name}" ended before it listened`);
}

function otherServer(text: string): Target {
  const found = /^([^=]+)=(https?:\/\/[^,]+?)\/?(?:,(.+))?$/.exec(text);
  if (found === null)
    throw new InsituError(
      "invalid-argument",
      `--url must be name=http://host:port or name=http://host:port,model, got "${text}"`,
    );
  const [, name, address, model = "embedded"] = found;
  return { name, address, model, key: process.env["INSITU_BENCH_KEY"] };
}
