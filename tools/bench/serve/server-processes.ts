/** Servers that a benchmark starts, each in a process of its own. They end with what measures them, however that ends. */
import { type ChildProcess, spawn } from "node:child_process";
import { InsituError } from "#insitu/base/error.js";
import type { Target } from "./client.js";

const interrupted = (): never => process.exit(130);

/** Characters that are kept of what a server says before it listens. */
const mostSaid = 4000;

/** The servers of one run. */
export class ServerProcesses {
  readonly #children: ChildProcess[] = [];
  readonly #end = (): void => this.#children.forEach((child) => void child.kill());

  constructor() {
    process.once("exit", this.#end).once("SIGINT", interrupted).once("SIGTERM", interrupted);
  }

  /** Starts a command; the server, once it says where it listens. Prompts are given to it in tokens. */
  start(name: string, [file, ...args]: readonly string[], model = "embedded"): Promise<Target> {
    return this.add(name, spawn(file, args, { stdio: ["ignore", "pipe", "inherit"] }), model);
  }

  /** A process that was started, with its standard output and perhaps its standard error piped: the server, once it says where it listens. */
  async add(name: string, child: ChildProcess, model = "embedded"): Promise<Target> {
    this.#children.push(child);
    let complained = "";
    child.stderr?.on("data", (text: Buffer) => (complained = (complained + String(text)).slice(-mostSaid)));
    let said = "";
    for await (const chunk of child.stdout!.setEncoding("utf8")) {
      said += String(chunk);
      const address = /listening on (\S+)/.exec(said)?.[1];
      if (address !== undefined) return { name, address, model, key: undefined, takesTokens: true, pid: child.pid };
    }
    const reason = /^\w*Error: (.+)$/m.exec(complained)?.[1];
    throw new InsituError(
      "invalid-argument",
      `the server "${name}" ended before it listened${reason === undefined ? "" : `: ${reason}`}`,
    );
  }

  /** Ends them all. */
  end(): void {
    process.off("exit", this.#end).off("SIGINT", interrupted).off("SIGTERM", interrupted);
    this.#end();
  }
}

/** The command of a server of ours: `program` starts insitu's command line. */
export const serveCommand = (program: readonly string[], more: readonly string[]): readonly string[] => [
  ...program,
  "serve",
  ..."--port 0 --quiet --max-queue 1024 --max-open 4096".split(" "),
  ...more,
];
