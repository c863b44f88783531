/** The command line: finds the command, reads its arguments, turns errors into one clear sentence and an exit code. */
import { InsituError } from "../base/error.js";
import { insituVersion } from "../bench/report.js";
import { bench } from "./bench.js";
import { chat } from "./chat.js";
import { type Command, helpOf, readArguments } from "./command.js";
import { conformance } from "./conformance.js";
import { generate } from "./generate.js";
import { inspect } from "./inspect.js";
import { Interrupted, interruptedCode } from "./interrupt.js";
import { models } from "./models.js";
import { pages } from "./pages.js";
import { rewrite } from "./rewrite.js";
import { serve } from "./serve.js";
import { asTyped, UsageError } from "./usage.js";

const commands: readonly Command[] = [generate, chat, serve, bench, conformance, inspect, pages, rewrite, models];

const overview = (): string => {
  const width = Math.max(...commands.map(({ name }) => name.length)) + 2;
  return [
    "insitu runs ONNX decoders with KV caches that are written in place.",
    "",
    "usage: insitu <command> [options]",
    "",
    ...commands.map(({ name, summary }) => `  ${name.padEnd(width)}${summary}`),
    "",
    "insitu <command> --help tells more; insitu --version is the version.",
  ].join("\n");
};

async function run(argv: readonly string[]): Promise<number> {
  const [name, ...rest] = argv;
  if (name === undefined || name === "--help" || name === "-h" || name === "help") {
    // Who typed nothing made a mistake: what they get is no result.
    if (name === undefined) console.error(overview());
    else console.log(overview());
    return name === undefined ? usageCode : 0;
  }
  if (name === "--version" || name === "-v" || name === "-V" || name === "version") {
    console.log(insituVersion());
    return 0;
  }
  const command = commands.find((candidate) => candidate.name === name);
  if (command === undefined) {
    throw new UsageError(
      `insitu has no command "${name}"; there are ${commands.map((known) => known.name).join(", ")}`,
    );
  }
  const args = readArguments(command, rest);
  if (args.options["help"] === true) {
    console.log(helpOf(command));
    return 0;
  }
  if (args.options["version"] === true) {
    console.log(insituVersion());
    return 0;
  }
  try {
    return await command.run(args);
  } catch (error) {
    throw asTyped(error, command);
  }
}

/** The exit code after mistakes in what was typed. */
const usageCode = 2;

/** Runs the command that these arguments ask for. Resolves with the exit code; never rejects. */
export async function runCommandLine(argv: readonly string[]): Promise<number> {
  try {
    return await run(argv);
  } catch (error) {
    console.error(
      argv.includes("--debug") && error instanceof Error
        ? error.stack
        : error instanceof InsituError
          ? `insitu: ${error.message}${error.code === "invalid-argument" ? "" : ` (${error.help})`}`
          : `insitu: internal: ${String(error)}`,
    );
    return error instanceof UsageError ? usageCode : error instanceof Interrupted ? interruptedCode : 1;
  }
}
