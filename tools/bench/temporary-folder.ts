/** A folder for models that a benchmark makes: gigabytes, which go with the process, however it ends. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const interrupted = (): never => process.exit(130);

/** A folder of the system's temporary one, made when it is first asked for. */
export class TemporaryFolder {
  #path: string | undefined;
  readonly #leave = (): void => this.remove();

  path(): string {
    if (this.#path === undefined) {
      this.#path = mkdtempSync(join(tmpdir(), "insitu-bench-"));
      process.once("exit", this.#leave).once("SIGINT", interrupted).once("SIGTERM", interrupted);
    }
    return this.#path;
  }

  remove(): void {
    if (this.#path !== undefined) rmSync(this.#path, { recursive: true, force: true });
    this.#path = undefined;
    process.off("exit", this.#leave).off("SIGINT", interrupted).off("SIGTERM", interrupted);
  }
}
