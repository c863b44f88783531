/** The command line: finds the command, reads its arguments, turns errors into one clear sentence and an exit code. */
import { InsituError } from "#insitu/base/error.js";
import { meantName } from "#insitu/base/option-names.js";
import { chat } from "./chat.js";
import { check } from "./check.js";
import { type Command, helpOf, readArguments } from "./command.js";
import { generate } from "./generate.js";
import { inspect } from "./inspect.js";
import { Interrupted, interruptedCode } from "./interrupt.js";
import { models, pull } from "./models.js";
import { serve } from "./serve.js";
import { loadTools, type LoadTools, toolSummaries } from "./tools.js";
import { asTyped, UsageError } from "./usage.js";
import { asksForVersion, insituVersion } from "./version.js";

const commands: readonly Command[] = [generate, chat, serve, inspect, check, models, pull];

/** Every command and what it does, those that come with the tools among them. */
const summaries: Readonly<Record<string, string>> = {
  ...Object.fromEntries(commands.map(({ name, summary }) => [name, summary])),
  ...toolSummaries,
};

const overview = (): string => {
  const width = Math.max(...Object.keys(summaries).map((name) => name.length)) + 2;
  return [
    "insitu runs language models in ONNX format, with KV caches that are written in place.",
    "",
    "usage: insitu <command> [options]",
    "",
    ...Object.entries(summaries).map(([name, summary]) => `  ${name.padEnd(width)}${summary}`),
    "",
    "insitu <command> --help shows its options; insitu --version shows the version.",
  ].join("\n");
};

async function run(argv: readonly string[], tools: LoadTools): Promise<number> {
  const [name, ...rest] = argv;
  if (name === undefined || name === "--help" || name === "-h" || name === "help") {
    // Who typed nothing made a mistake: what they get is no result.
    if (name === undefined) console.error(overview());
    else console.log(overview());
    return name === undefined ? usageCode : 0;
  }
  if (asksForVersion(name)) {
    console.log(insituVersion());
    return 0;
  }
  if (!Object.hasOwn(summaries, name)) {
    const names = Object.keys(summaries);
    const meant = meantName(name, names);
    const wayOut = meant === undefined ? `there are ${names.join(", ")}` : `did you mean insitu ${meant}?`;
    throw new UsageError(`insitu has no command "${name}"; ${wayOut}`);
  }
  const own = commands.find((candidate) => candidate.name === name);
  const brought = own === undefined ? await tools(name) : undefined;
  if (brought?.runCommandLine !== undefined) return brought.runCommandLine(argv);
  const command = own ?? brought!.commands.find((candidate) => candidate.name === name)!;
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
    return await command.run(args, tools);
  } catch (error) {
    throw asTyped(error, command);
  }
}

/** The exit code after mistakes in what was typed. */
const usageCode = 2;

/** True for errors that need no page to explain them: what was typed, and who interrupted. */
const explainsItself = (error: InsituError): boolean =>
  error.code === "invalid-argument" || error instanceof Interrupted || error instanceof UsageError;

/** Runs the command that these arguments ask for. Resolves with the exit code; never rejects. */
export async function runCommandLine(argv: readonly string[], tools: LoadTools = loadTools): Promise<number> {
  try {
    return await run(argv, tools);
  } catch (error) {
    console.error(
      argv.includes("--debug") && error instanceof Error
        ? error.stack
        : error instanceof InsituError
          ? `insitu: ${error.message}${explainsItself(error) ? "" : ` (${error.help})`}`
          : `insitu: internal: ${String(error)}`,
    );
    return error instanceof UsageError ? usageCode : error instanceof Interrupted ? interruptedCode : 1;
  }
}
