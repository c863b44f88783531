/**
 * `insitu bench serve --targets`: workers that run already, asked as a balancer would spread requests over them, and balancers as they do it. How much
 * of the prompts was not read again, by policy.
 */
import { InsituError } from "#insitu/base/error.js";
import { describeMachine } from "../report.js";
import { request, type Target } from "./client.js";
import { figuresOf, type ServeFigures } from "./figures.js";
import { boundedHash, roundRobin, type Route } from "./routes.js";
import { driveSessions, sessionLoads } from "./sessions.js";

/** What is measured. */
interface TargetBenchOptions {
  readonly command: string;
  /** Addresses of workers, and balancers as name=address; with a model's name after a # where it has one. */
  readonly targets: readonly string[];
  readonly concurrency: number;
  /** Sessions of each client. */
  readonly sessions: number;
  readonly only: string | undefined;
  readonly quick: boolean;
  readonly onProgress: (text: string) => void;
}

/** Blocks that the workers behind a policy brought from their store, and to it; null where nobody tells. */
interface StoreBlocks {
  readonly fetched: number;
  readonly saved: number;
}

/** One policy under one load. */
export interface PolicyRow {
  readonly load: string;
  readonly policy: string;
  readonly figures: ServeFigures;
  readonly store: StoreBlocks | null;
}

/** All that was found. */
export interface PolicyReport {
  readonly command: string;
  readonly machine: ReturnType<typeof describeMachine>;
  readonly concurrency: number;
  readonly sessions: number;
  readonly loads: readonly { readonly name: string; readonly description: string }[];
  readonly rows: readonly PolicyRow[];
}

/** A way that requests take, and the workers whose counts tell of it. */
interface Policy {
  readonly route: Route;
  readonly name: string;
  readonly workers: readonly Target[];
}

const seed = 20_262;

/** Measures. Each policy has the same prompts behind a mark of its own: what another one left in a worker helps nobody. */
export async function runTargetBench(options: TargetBenchOptions): Promise<PolicyReport> {
  const { concurrency, quick, only, onProgress } = options;
  const policies = await policiesOf(options.targets);
  const chosen = sessionLoads(seed, "", quick).filter(({ name }) => only === undefined || name.includes(only));
  if (chosen.length === 0) throw new InsituError("invalid-argument", `insitu bench serve has no load "${only}"`);
  const count = concurrency * options.sessions;
  const rows: PolicyRow[] = [];
  for (const [at, { route, name, workers }] of policies.entries())
    for (const load of sessionLoads(seed, `${at + 1}.`, quick)) {
      if (!chosen.some((each) => each.name === load.name)) continue;
      onProgress(`${load.name}: ${name}`);
      const before = await storeBlocks(workers);
      const figures = figuresOf(await driveSessions(route, load, concurrency, count, 0));
      const after = await storeBlocks(workers);
      const store =
        before === null || after === null
          ? null
          : { fetched: after.fetched - before.fetched, saved: after.saved - before.saved };
      rows.push({ load: load.name, policy: name, figures, store });
    }
  return {
    command: options.command,
    machine: describeMachine(null),
    concurrency,
    sessions: count,
    loads: chosen.map(({ name, description }) => ({ name, description })),
    rows,
  };
}

async function policiesOf(given: readonly string[]): Promise<Policy[]> {
  const targets = given.map(readTarget);
  for (const target of targets) {
    const { error } = await request(target, { prompt: "once", maxTokens: 2 });
    if (error !== undefined) throw new InsituError("invalid-argument", `${target.address}: ${error}`);
  }
  const workers = targets.filter(({ name }) => name === "");
  const balancers = targets.filter(({ name }) => name !== "");
  const more = (await storeBlocks(workers)) === null ? "" : " + store";
  const spread = workers.length === 0 ? [] : [roundRobin(workers), boundedHash(workers)];
  return [
    ...spread.map((route) => ({ route, name: route.name + more, workers })),
    ...balancers.map((target) => ({ route: roundRobin([target]), name: target.name, workers: [] })),
  ];
}

function readTarget(text: string): Target {
  const [, name = "", address, model = "embedded"] =
    /^(?:([^=:]+)=)?(https?:\/\/[^#]+?)\/?(?:#(.+))?$/.exec(text) ?? [];
  if (address === undefined || !URL.canParse(address))
    throw new InsituError(
      "invalid-argument",
      `--targets must be addresses of workers, http://host:port, or name=http://host:port for a balancer, with commas between them, got "${text}"`,
    );
  return { name, address, model, key: process.env["INSITU_BENCH_KEY"] };
}

/** What workers count of their store together; null where one has none, or does not tell. */
async function storeBlocks(workers: readonly Target[]): Promise<StoreBlocks | null> {
  if (workers.length === 0) return null;
  const pages = await Promise.all(
    workers.map(({ address }) =>
      fetch(`${address}/metrics`).then(
        (response) => response.text(),
        () => "",
      ),
    ),
  );
  const valueOf = (page: string, name: string): number =>
    Number((new RegExp(`^${name} (\\S+)`, "m").exec(page)?.[1] ?? "0").replace("Inf", "Infinity"));
  if (!pages.every((page) => valueOf(page, "insitu_store_least_tokens") > 0)) return null;
  const sum = (name: string): number => pages.reduce((all, page) => all + valueOf(page, name), 0);
  return { fetched: sum("insitu_store_hits_total"), saved: sum("insitu_store_saved_total") };
}
