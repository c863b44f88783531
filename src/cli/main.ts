#!/usr/bin/env node
/** The program `insitu`: the command line of this process. */
import { runCommandLine } from "./command-line.js";

// A reader that goes away early (insitu … | head) is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

void runCommandLine(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
