/**
 * `insitu bench serve`: servers in processes of their own, asked by the same clients in turn, load by load and pace by pace. Ours and llama.cpp's
 * are given prompts in tokens, which are the same for both.
 */
import { InsituError } from "#insitu/base/error.js";
import { describeMachine } from "../report.js";
import { request, type Target } from "./client.js";
import { drive, type Pace } from "./drive.js";
import { figuresOf, inTime, type ServeFigures } from "./figures.js";
import { howToInstallLlama, llamaVersion, startLlama } from "./llama-server.js";
import { processorSeconds } from "./processor-time.js";
import { serveCommand, ServerProcesses } from "./server-processes.js";
import { type Ask, type Workload, workloads } from "./workload.js";

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
  /** Milliseconds that processors worked for the server for each new token, prompts included; null where nobody tells. */
  readonly processorPerToken: number | null;
}

/** All that was found. */
export interface ServeReport {
  readonly command: string;
  readonly machine: ReturnType<typeof describeMachine>;
  readonly inTime: typeof inTime;
  readonly loads: readonly { readonly name: string; readonly description: string }[];
  readonly rows: readonly ServeRow[];
  /** Of llama.cpp's package; null where it was not measured. */
  readonly llama: {
    readonly version: string;
    /** How many texts were compared with ours, and of how many all tokens are the same. */
    readonly compared: number;
    readonly same: number;
  } | null;
  /** Peers that are not installed. */
  readonly missing: readonly { readonly name: string; readonly install: string }[];
}

/** Texts that servers of the same weights are compared by. */
const compared = 4;

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
  const version = options.alone ? undefined : llamaVersion();
  const others = options.others.map(otherServer);
  const servers = new ServerProcesses();
  const threads = options.threads === undefined ? [] : ["--threads", String(options.threads)];
  const start = (name: string, ...more: readonly string[]): Promise<Target> =>
    servers.start(name, serveCommand(options.program, [...threads, ...more]));
  try {
    const ours = await start("insitu");
    const targets = [ours, ...others];
    if (!options.alone) targets.push(await start("one at a time", "--one-at-a-time"));
    if (version !== undefined) {
      const child = startLlama(
        Math.max(1, ...options.concurrencies.filter((count) => count <= mostTexts)),
        options.threads,
      );
      targets.push(await servers.add("node-llama-cpp", child));
    }
    const rows: ServeRow[] = [];
    let same = 0;
    let first = 0;
    for (const load of loads) {
      // What is compiled or read for the first time is not what is measured.
      for (const target of targets) await warm(target, await inTokens(ours, load.ask(1_000_000)));
      if (version !== undefined) same += await sameTexts(ours, targets.at(-1)!, load);
      for (const pace of paces) {
        const count = "rate" in pace ? options.requests * 4 : Math.max(options.requests, 2) * pace.concurrency;
        const asks: Ask[] = [];
        for (let at = 0; at < count; at++) asks.push(await inTokens(ours, load.ask(first + at)));
        for (const target of targets) {
          onProgress(`${load.name}, ${paceText(pace)}: ${target.name}`);
          const before = processorSeconds(target.pid);
          const driven = await drive(target, { ...load, ask: (number) => asks[number] }, pace, count);
          const after = processorSeconds(target.pid);
          const figures = figuresOf(driven);
          const processorPerToken =
            before === undefined || after === undefined
              ? null
              : ((after - before) * 1000) / (figures.tokensPerSecond * figures.seconds);
          rows.push({ load: load.name, server: target.name, pace, figures, processorPerToken });
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
      llama: version === undefined ? null : { version, compared: compared * loads.length, same },
      missing: version === undefined && !options.alone ? [{ name: "node-llama-cpp", install: howToInstallLlama }] : [],
    };
  } finally {
    servers.end();
  }
}

/** Texts that llama.cpp is given room for at most: others wait for one to end, as ours do. */
const mostTexts = 16;

/** An ask with its tokens, as our own server makes them. */
async function inTokens({ address }: Target, ask: Ask): Promise<Ask> {
  const { tokens } = (await posted(address, "/tokenize", { prompt: ask.prompt })) as { tokens: readonly number[] };
  return { ...ask, tokens };
}

/** How many of some texts come out of both alike, to the last token. */
async function sameTexts(ours: Target, theirs: Target, load: Workload): Promise<number> {
  let same = 0;
  for (let at = 0; at < compared; at++) {
    const ask = await inTokens(ours, load.ask(2_000_000 + at));
    const [own, other] = [await request(ours, ask), await request(theirs, ask)];
    // Theirs is a list of tokens.
    const tokens = other.text.trim().split(" ").map(Number);
    const { prompt: text } = (await posted(ours.address, "/detokenize", { tokens })) as { readonly prompt: string };
    if (text.trim() === own.text.trim()) same++;
  }
  return same;
}

async function posted(address: string, path: string, body: object): Promise<unknown> {
  const response = await fetch(address + path, { method: "POST", body: JSON.stringify(body) });
  return response.json();
}

/** A pace in words. */
export const paceText = (pace: Pace): string =>
  "rate" in pace ? `${pace.rate} arrivals a second` : `${pace.concurrency} at a time`;

async function warm(target: Target, ask: Ask): Promise<void> {
  const { error } = await request(target, ask);
  if (error !== undefined) throw new InsituError("invalid-argument", `${target.name} at ${target.address}: ${error}`);
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
