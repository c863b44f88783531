#!/usr/bin/env node
/** The program `insitu`: the command line of this process. */
import { runCommandLine } from "./command-line.js";

process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  // A reader that goes away early (insitu … | head) is not an error.
  if (error.code === "EPIPE") process.exit(0);
  const why = error.code === "ENOSPC" ? "there is no space left on it" : error.message;
  process.stderr.write(`insitu: standard output cannot be written: ${why}\n`, () => process.exit(1));
});

void runCommandLine(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
