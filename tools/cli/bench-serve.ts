/** `insitu bench serve`: its options, and what is printed. */
import { writeFileSync } from "node:fs";
import { serveSvg, serveText } from "../bench/serve/print.js";
import { policiesSvg, policiesText } from "../bench/serve/policies-print.js";
import { runServeBench } from "../bench/serve/run.js";
import { runTargetBench } from "../bench/serve/targets.js";
import { benchServeDevice, serveDeviceOptions } from "./bench-serve-device.js";
import type { Arguments, CommandOption } from "#insitu/cli/command.js";
import { UsageError } from "#insitu/cli/usage.js";

/** The options that this load has beside those of all. */
export const serveBenchOptions: Readonly<Record<string, CommandOption>> = {
  concurrency: { value: "list", describes: "serve: concurrent clients (default: 1,4,16,64)" },
  rate: { value: "list", describes: "serve: arrivals a second, whatever the server does (default: none)" },
  requests: {
    value: "number",
    describes: "serve: requests of each client (4); an open loop has four times as many in all",
  },
  url: {
    value: "name=url",
    describes: "serve: another server to measure beside, such as llama.cpp=http://host:port,model",
  },
  targets: {
    value: "list",
    describes:
      "serve: workers that run already, asked round-robin and by a hash; name=http://host:port is a balancer that decides itself",
  },
  ...serveDeviceOptions,
};

/** Measures servers. */
export async function benchServe(options: Arguments["options"], onProgress: (text: string) => void): Promise<number> {
  const backend = options["backend"] ?? "wasm";
  if (backend === "webgpu") return benchServeDevice(options, onProgress);
  if (backend !== "wasm")
    throw new UsageError(`insitu bench serve: --backend must be wasm or webgpu, got "${backend}"`);
  const foreign = Object.keys(serveDeviceOptions).find((name) => options[name] !== undefined);
  if (foreign !== undefined)
    throw new UsageError(
      `insitu bench serve: --${foreign} needs --backend webgpu: without a GPU the embedded model is measured, as it is`,
    );
  if (options["targets"] !== undefined) return benchTargets(options, onProgress);
  const quick = options["quick"] === true;
  const text = (name: string): string | undefined => {
    const value = options[name];
    return typeof value === "string" ? value : undefined;
  };
  const list = (name: string, otherwise: readonly number[]): readonly number[] =>
    text(name) === undefined
      ? otherwise
      : text(name)!
          .split(",")
          .map((each) => positive(name, each));
  const report = await runServeBench({
    program: [process.execPath, ...process.execArgv, process.argv[1]],
    command: commandOf(options),
    concurrencies: list("concurrency", quick ? [1, 2] : [1, 4, 16, 64]),
    rates: list("rate", quick ? [20] : []),
    requests: Math.ceil(positive("requests", text("requests") ?? (quick ? "1" : "4"))),
    only: text("only"),
    threads: text("threads") === undefined ? undefined : Math.ceil(positive("threads", text("threads")!)),
    alone: options["alone"] === true,
    quick,
    others: text("url") === undefined ? [] : [text("url")!],
    onProgress,
  });
  console.log(options["json"] === true ? JSON.stringify(report, null, 2) : serveText(report));
  const svg = text("svg");
  if (svg !== undefined) writeFileSync(svg, serveSvg(report));
  const failed = report.rows.find(({ server, figures }) => server === "insitu" && figures.errors > 0);
  if (failed !== undefined) console.error(`insitu: requests failed: ${failed.figures.firstError}`);
  return failed === undefined ? 0 : 1;
}

/** Measures workers that somebody else started. */
async function benchTargets(options: Arguments["options"], onProgress: (text: string) => void): Promise<number> {
  const quick = options["quick"] === true;
  const count = (name: string, otherwise: number): number =>
    typeof options[name] === "string" ? Math.ceil(positive(name, options[name])) : otherwise;
  const only = options["only"];
  const report = await runTargetBench({
    command: commandOf(options),
    targets: String(options["targets"]).split(","),
    concurrency: count("concurrency", quick ? 2 : 4),
    sessions: count("requests", quick ? 2 : 6),
    only: typeof only === "string" ? only : undefined,
    quick,
    onProgress,
  });
  console.log(options["json"] === true ? JSON.stringify(report, null, 2) : policiesText(report));
  if (typeof options["svg"] === "string") writeFileSync(options["svg"], policiesSvg(report));
  const failed = report.rows.find(({ figures }) => figures.errors > 0);
  if (failed !== undefined) console.error(`insitu: requests failed: ${failed.figures.firstError}`);
  return failed === undefined ? 0 : 1;
}

function positive(option: string, text: string): number {
  const number = Number(text);
  if (!(number > 0 && number < 1e6))
    throw new UsageError(`insitu bench serve: --${option} must hold numbers above 0, got "${text}"`);
  return number;
}

const commandOf = (options: Arguments["options"]): string =>
  [
    "npx insitu bench serve",
    ...["backend", "concurrency", "rate", "requests", "url", "targets", "only", "threads", "alone", "quick"].flatMap(
      (name) => {
        const value = options[name];
        return value === undefined ? [] : value === true ? [`--${name}`] : [`--${name}`, String(value)];
      },
    ),
  ].join(" ");
