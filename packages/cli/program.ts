/** The command line as a process: its arguments, its exit code, and a reader that goes away. */
import { runCommandLine } from "./command-line.js";
import type { LoadTools } from "./tools.js";

/** Runs what this process was started with. */
export function runProgram(tools?: LoadTools): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    // A reader that goes away early (insitu … | head) is not an error.
    if (error.code === "EPIPE") process.exit(0);
    const why = error.code === "ENOSPC" ? "there is no space left on it" : error.message;
    process.stderr.write(`insitu: standard output cannot be written: ${why}\n`, () => process.exit(1));
  });
  void runCommandLine(process.argv.slice(2), tools).then((code) => {
    process.exitCode = code;
  });
}
