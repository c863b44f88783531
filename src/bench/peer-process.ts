/** A script in a process of its own that answers what it is asked: a contestant that fails ends its own process and nobody else's. */
import { fork } from "node:child_process";
import { InsituError } from "../base/error.js";

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

  constructor(name: string, script: string, execArgv: readonly string[] = []) {
    this.#name = name;
    this.#child = fork(script, [], { stdio: ["ignore", "ignore", "pipe", "ipc"], execArgv: [...execArgv] });
    // What it says is told where it ends: runtimes warn of much.
    this.#child.stderr?.on("data", (text: Buffer) => (this.#said = (this.#said + String(text)).slice(-2000)));
    this.#child.on("message", (message) => this.#hear(message as Answer));
    this.#child.on("exit", (code, signal) => {
      this.#ended = `its process ended with ${signal ?? code}: ${this.#said.trim().split("\n").slice(-3).join(" ")}`;
      for (const waiting of this.#waiting.values()) waiting.reject(this.#failure(this.#ended));
      this.#waiting.clear();
    });
  }

  #failure(reason: string): InsituError {
    return new InsituError("invalid-argument", `${this.#name}: ${reason}`);
  }

  #hear({ id, value, error }: Answer): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(value);
    else waiting?.reject(this.#failure(error));
  }

  ask(call: string, args: readonly unknown[]): Promise<unknown> {
    if (this.#ended !== undefined) return Promise.reject(this.#failure(this.#ended));
    const id = ++this.#asked;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child.send({ id, call, args });
    });
  }

  end(): void {
    this.#child.kill();
  }
}
