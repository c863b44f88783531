/** What a command of the command line is, and how its options are read: unknown ones are refused, every command has --help. */
import { parseArgs } from "node:util";
import { meantName } from "#insitu/base/option-names.js";
import type { LoadTools } from "./tools.js";
import { UsageError } from "./usage.js";

/** One option: a flag, or a value with a placeholder for the help text. */
export interface CommandOption {
  readonly value?: string;
  readonly short?: string;
  /** True for one that may be given several times. */
  readonly several?: boolean;
  readonly describes: string;
}

/** Arguments of a call, read by a command's declarations. */
export interface Arguments {
  readonly positionals: readonly string[];
  readonly options: Readonly<Record<string, string | boolean | undefined>>;
  /** All values of those that may be given several times. */
  readonly lists?: Readonly<Record<string, readonly string[]>>;
}

/** One command. */
export interface Command {
  readonly name: string;
  /** Positional arguments as the help shows them, such as `<dir>`. */
  readonly positionals: string;
  /** How many positional arguments there may be. */
  readonly arity: readonly [least: number, most: number];
  readonly summary: string;
  readonly options: Readonly<Record<string, CommandOption>>;
  /** Returns the exit code. */
  run(args: Arguments, tools?: LoadTools): Promise<number>;
}

/** Options that every command has. */
const common: Readonly<Record<string, CommandOption>> = {
  help: { short: "h", describes: "show this text" },
  version: { describes: "show insitu's version" },
  debug: { describes: "show a stack with errors" },
};

/** The help text of one command. */
export function helpOf(command: Command): string {
  const rows = Object.entries({ ...command.options, ...common }).map(([name, { value, short, describes }]) => [
    `  ${short === undefined ? "    " : `-${short}, `}--${name}${value === undefined ? "" : ` <${value}>`}`,
    describes,
  ]);
  const width = Math.max(...rows.map(([left]) => left.length)) + 2;
  const usage = `usage: insitu ${command.name} ${command.positionals} [options]`.replace(/ {2,}/g, " ");
  return [command.summary, "", usage, "", ...rows.map(([left, right]) => left.padEnd(width) + right)].join("\n");
}

/** Reads the arguments of a command; throws UsageError for anything it does not know. */
export function readArguments(command: Command, argv: readonly string[]): Arguments {
  const declared = Object.fromEntries(
    Object.entries({ ...command.options, ...common }).map(([name, { value, short, several = false }]) => [
      name,
      {
        type: value === undefined ? ("boolean" as const) : ("string" as const),
        multiple: several,
        ...(short === undefined ? {} : { short }),
      },
    ]),
  );
  const unknown = unknownOption(argv, declared);
  const refuse = (message: string, cause?: unknown): never => {
    const see = message.endsWith("?") ? " See" : "; see";
    throw new UsageError(`insitu ${command.name}: ${message}${see} insitu ${command.name} --help`, cause);
  };
  try {
    const { values, positionals } = parseArgs({
      args: withNegativeNumbers(argv, declared),
      options: declared,
      allowPositionals: true,
      strict: true,
    });
    const [least, most] = command.arity;
    if (values["help"] !== true && (positionals.length < least || positionals.length > most)) {
      refuse(
        `takes ${least === most ? least : `${least} to ${most}`} argument${most === 1 ? "" : "s"} (${command.positionals}), got ${positionals.length}`,
      );
    }
    return { positionals, ...withLists(values) };
  } catch (error) {
    if (error instanceof UsageError) throw error;
    if (unknown !== undefined) return refuse(unknown, error);
    return refuse(
      String((error as Error).message)
        .split(/\.\s/)[0]
        .replace(/\.$/, ""),
      error,
    );
  }
}

/** Options that were given several times as lists, and the last of each beside the others. */
function withLists(values: Readonly<Record<string, unknown>>): Pick<Arguments, "options" | "lists"> {
  const lists = Object.entries(values).filter((entry): entry is [string, string[]] => Array.isArray(entry[1]));
  const last = lists.map(([name, list]) => [name, list.at(-1)]);
  const options = { ...values, ...Object.fromEntries(last) } as Arguments["options"];
  return { options, lists: Object.fromEntries(lists) };
}

/** What is said of the first option that there is not, with the one that was meant. */
function unknownOption(argv: readonly string[], declared: Readonly<Record<string, unknown>>): string | undefined {
  const end = argv.indexOf("--");
  const names = (end < 0 ? argv : argv.slice(0, end)).flatMap((each) => /^--([^=]+)/.exec(each)?.[1] ?? []);
  const name = names.find((each) => !Object.hasOwn(declared, each));
  if (name === undefined) return undefined;
  const meant = meantName(name, Object.keys(declared));
  return `unknown option --${name}${meant === undefined ? "" : `; did you mean --${meant.split(" ")[0]}?`}`;
}

/** `--option -1` as `--option=-1`: what looks like an option is a number where one is wanted. */
const withNegativeNumbers = (
  argv: readonly string[],
  declared: Readonly<Record<string, { readonly type: "boolean" | "string" }>>,
): string[] =>
  argv.reduce<string[]>((args, argument) => {
    const before = args.at(-1) ?? "";
    const wanted = before.startsWith("--") && declared[before.slice(2)]?.type === "string";
    return wanted && /^-\.?\d/.test(argument) ? [...args.slice(0, -1), `${before}=${argument}`] : [...args, argument];
  }, []);
