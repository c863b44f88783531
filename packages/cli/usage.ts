/** Mistakes in what was typed: errors of their own, in the words of the command line, whoever found them. */
import { InsituError } from "#insitu/base/error.js";
import type { Command } from "./command.js";

/** What was typed cannot be meant so; the program ends with the exit code of such mistakes. */
export class UsageError extends InsituError {
  constructor(message: string, cause?: unknown) {
    super("invalid-argument", message, { cause });
  }
}

/** An error as the person who typed the command knows its words: `option topP …` of the API is `--top-p …` here, and a mistake in what was typed. */
export function asTyped(error: unknown, { options }: Pick<Command, "options">): unknown {
  if (!(error instanceof InsituError) || error.code !== "invalid-argument") return error;
  const [told, name] = /^option (?:\w+\.)?(\w+)(?=\W)/.exec(error.message) ?? [];
  if (told === undefined || name === undefined) return error;
  const typed = typedName(name);
  if (!(typed in options)) return error;
  // `cache: "paged"` of the way out is `--cache paged`.
  const rest = error.message
    .slice(told.length)
    .replace(/\b([a-z]\w*): ("?)([\w-]+)\2/g, (text, option: string, _quote, value: string) =>
      typedName(option) in options ? `--${typedName(option)} ${value}` : text,
    );
  return new UsageError(`--${typed}${rest}`, error);
}

const typedName = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
