/** `insitu bench`: insitu and the installed peers, interleaved in one run, as times and ratios. */
import { writeFileSync } from "node:fs";
import { InsituError } from "#insitu/base/error.js";
import { reportSvg } from "../bench/chart.js";
import { measureFirstToken } from "../bench/device/first-token.js";
import { findLoads, loadNames } from "../bench/loads.js";
import { runBench } from "../bench/run.js";
import type { GroupReport } from "../bench/report.js";
import type { Figures } from "../bench/load.js";
import { figureText, reportText, timeText } from "../bench/table.js";
import type { BackendName } from "#insitu/entry/backends.js";
import { benchServe, serveBenchOptions } from "./bench-serve.js";
import type { Arguments, Command } from "#insitu/cli/command.js";
import { toolSummaries } from "#insitu/cli/tools.js";
import { UsageError } from "#insitu/cli/usage.js";

/** Measures a load, or all of them. Fails where a result of insitu's own is wrong. */
export const bench: Command = {
  name: "bench",
  positionals: `[${[...loadNames, "serve"].join("|")}]`,
  arity: [0, 1],
  summary: toolSummaries.bench,
  options: {
    json: { describes: "the report as JSON" },
    svg: { value: "file", describes: "also draw the report" },
    only: { value: "text", describes: "only the groups whose name contains this" },
    repeats: { value: "number", describes: "rounds in which every contestant has its turn" },
    backend: { value: "name", describes: "insitu's backend; webgpu has a load of its own, device" },
    sizes: {
      value: "small|full",
      describes: "how large everything is; small is for software that stands in for a GPU",
    },
    alone: { describes: "insitu without peers" },
    threads: { value: "number", describes: "threads of every runtime; by default what the machine has" },
    quick: { describes: "small sizes and few rounds: shows that it works, measures nothing" },
    ...serveBenchOptions,
    "first-token": { value: "folder", describes: "only loads this model on webgpu and makes its first token, as JSON" },
  },
  async run({ positionals: [name], options }) {
    const { svg, backend, only } = options;
    const folder = options["first-token"];
    if (typeof folder === "string") {
      console.log(JSON.stringify(await measureFirstToken(folder, "webgpu")));
      return 0;
    }
    if (name === "serve") {
      const told = new Progress();
      return benchServe(options, (text) => told.tell(text)).finally(() => told.clear());
    }
    const chosen = chosenLoads(name, backend as BackendName | undefined);
    const progress = new Progress();
    const report = await runBench(chosen, {
      quick: options["quick"] === true,
      small: readSizes(options["sizes"]) === "small",
      repeats: readCount("repeats", options["repeats"]),
      threads: readCount("threads", options["threads"]),
      backend: backend as BackendName | undefined,
      alone: options["alone"] === true,
      only: typeof only === "string" ? only : undefined,
      onProgress: (text) => progress.tell(text),
      onGroup: (group) => progress.done(group),
      program: [process.execPath, ...process.execArgv, process.argv[1]],
      command: commandOf(name, options),
    });
    progress.clear();
    console.log(options["json"] === true ? JSON.stringify(report, null, 2) : reportText(report));
    if (typeof svg === "string") writeFileSync(svg, reportSvg(report));
    const wrong = report.loads
      .flatMap((load) => load.groups.flatMap((group) => group.contestants))
      .find(({ runtime, agrees }) => runtime === "insitu" && !agrees);
    if (wrong !== undefined) console.error(`insitu: ${wrong.name} gave a wrong result: ${wrong.problem}`);
    return wrong === undefined ? 0 : 1;
  },
};

/** The loads of that name; a name that there is not was typed wrongly. */
function chosenLoads(name: string | undefined, backend: BackendName | undefined): ReturnType<typeof findLoads> {
  try {
    return findLoads(name, backend);
  } catch (error) {
    throw error instanceof InsituError ? new UsageError(`${error.message}, serve`, error) : error;
  }
}

/** The command that measures the same again; how it was printed is left out. */
function commandOf(name: string | undefined, options: Arguments["options"]): string {
  const chosen = ["quick", "sizes", "alone", "only", "repeats", "backend", "threads"].flatMap((option) => {
    const value = options[option];
    if (value === undefined) return [];
    return value === true ? [`--${option}`] : [`--${option}`, /^[\w.-]+$/.test(String(value)) ? value : `"${value}"`];
  });
  return ["npx insitu bench", ...(name === undefined ? [] : [name]), ...chosen].join(" ");
}

function readSizes(given: string | boolean | undefined): "small" | "full" {
  if (given === undefined || given === "full") return "full";
  if (given === "small") return given;
  throw new UsageError(`insitu bench: --sizes must be small or full, got "${given}"`);
}

function readCount(option: string, given: string | boolean | undefined): number | undefined {
  if (given === undefined) return undefined;
  const count = Number(given);
  if (!Number.isInteger(count) || count < 1)
    throw new UsageError(`insitu bench: --${option} must be a whole number from 1 on, got "${given}"`);
  return count;
}

/** What is being done, on standard error once two seconds have passed: one line rewritten on a terminal, a line every few seconds elsewhere. */
class Progress {
  readonly #patienceMs = 2000;
  readonly #silenceMs = 4000;
  readonly #start = performance.now();
  readonly #terminal = process.stderr.isTTY;
  #shown = "";
  #text = "";
  #lastLine = this.#start;

  constructor() {
    setInterval(() => this.#remind(), 1000).unref();
  }

  tell(text: string): void {
    this.#text = text;
    if (performance.now() - this.#start < this.#patienceMs) return;
    if (this.#terminal) {
      process.stderr.write(`\r\x1b[K${text.slice(0, (process.stderr.columns || 80) - 1)}`);
      this.#shown = text;
      return;
    }
    const group = text.slice(0, text.lastIndexOf(": "));
    if (group !== this.#shown) this.#line(text);
    else this.#remind();
    this.#shown = group;
  }

  #line(text: string): void {
    process.stderr.write(`${text}\n`);
    this.#lastLine = performance.now();
  }

  /** Where no line can be rewritten, one more says what has been going on for some time. */
  #remind(): void {
    const now = performance.now();
    if (!this.#terminal && this.#text !== "" && now - this.#lastLine > this.#silenceMs)
      this.#line(`${Math.round((now - this.#start) / 1000)} s: ${this.#text}`);
  }

  /** A group's figures, once they are known. */
  done({ name, contestants }: GroupReport): void {
    if (performance.now() - this.#start < this.#patienceMs) return;
    this.clear();
    const figures = (of: Figures): string =>
      Object.entries(of)
        .map(([figure, value]) => `, ${figureText(value)} ${figure}`)
        .join("");
    const told = contestants
      .map((each) => `${each.name} ${timeText(each.medianMs)}${figures(each.figures)}`)
      .join("; ");
    this.#line(`${name}: ${told}`);
  }

  clear(): void {
    this.#text = "";
    if (this.#terminal && this.#shown !== "") process.stderr.write("\r\x1b[K");
  }
}
