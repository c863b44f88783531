/** A script in a process of its own that answers what it is asked: a contestant that fails ends its own process and nobody else's. */
import { fork } from "node:child_process";
import { InsituError } from "#insitu/base/error.js";

/** Milliseconds within which one on a GPU must answer: a driver that hangs does not come back, and others wait. */
export const gpuLimitMs = 120_000;

interface Answer {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: string;
}

/** A script that answers. */
export class PeerProcess {
  readonly #name: string;
  readonly #child: ReturnType<typeof fork>;
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  #asked = 0;
  #said = "";
  #ended: string | undefined;
  readonly #over: Promise<void>;

  constructor(name: string, script: string, execArgv: readonly string[] = []) {
    this.#name = name;
    this.#child = fork(script, [], { stdio: ["ignore", "ignore", "pipe", "ipc"], execArgv: [...execArgv] });
    // What it says is told where it ends: runtimes warn of much.
    this.#child.stderr?.on("data", (text: Buffer) => (this.#said = (this.#said + String(text)).slice(-2000)));
    this.#child.on("message", (message) => this.#hear(message as Answer));
    this.#over = new Promise((resolve) => {
      this.#child.on("exit", (code, signal) => {
        this.#ended ??= `its process ended with ${signal ?? code}: ${this.#said.trim().split("\n").slice(-3).join(" ")}`;
        this.#rejectAll(this.#ended);
        resolve();
      });
    });
  }

  #failure(reason: string): InsituError {
    return new InsituError("invalid-argument", `${this.#name}: ${reason}`);
  }

  #rejectAll(reason: string): void {
    for (const waiting of this.#waiting.values()) waiting.reject(this.#failure(reason));
    this.#waiting.clear();
  }

  #hear({ id, value, error }: Answer): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(value);
    else waiting?.reject(this.#failure(error));
  }

  /** Calls something there. One who does not answer within `limitMs` milliseconds is ended, and asked no more. */
  ask(call: string, args: readonly unknown[], limitMs?: number): Promise<unknown> {
    if (this.#ended !== undefined) return Promise.reject(this.#failure(this.#ended));
    const id = ++this.#asked;
    const answer = new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child.send({ id, call, args });
    });
    if (limitMs === undefined) return answer;
    const timer = setTimeout(() => {
      this.#ended = `it did not answer "${call}" within ${limitMs / 1000} s and was ended`;
      this.#rejectAll(this.#ended);
      this.#child.kill("SIGKILL");
    }, limitMs);
    return answer.finally(() => clearTimeout(timer));
  }

  /** Ends the process; done when it is gone, with all that it held. */
  end(): Promise<void> {
    this.#child.kill();
    return this.#over;
  }
}
