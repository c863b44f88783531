/** A file of the hub that is read in ranges, where it lies. */
import { InsituError } from "#insitu/base/error.js";
import type { ReadableFile } from "#insitu/base/platform.js";
import type { RemoteFile } from "./download-file.js";

/** Reads what it is asked for and nothing else. */
export class HubFile implements ReadableFile {
  readonly size: number;
  readonly identity: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #signal: AbortSignal | undefined;

  constructor({ url, size }: RemoteFile, headers: Readonly<Record<string, string>>, signal: AbortSignal | undefined) {
    this.size = size;
    this.identity = url;
    this.#headers = headers;
    this.#signal = signal;
  }

  async read(offset: number, target: Uint8Array): Promise<void> {
    if (target.length === 0) return;
    const range = `bytes=${offset}-${offset + target.length - 1}`;
    const response = await fetch(this.identity, {
      headers: { ...this.#headers, Range: range },
      signal: this.#signal ?? null,
    });
    // An answer with everything would be all of the weights.
    if (response.status !== 206 && !(response.ok && target.length === this.size)) {
      await response.body?.cancel();
      const why = response.ok
        ? "sends no parts of files"
        : `answered ${response.status} ${response.statusText}`.trimEnd();
      throw new InsituError("download", `${this.identity}: the server ${why}`);
    }
    const bytes = new Uint8Array(await response.arrayBuffer());
    if (bytes.length !== target.length)
      throw new InsituError("download", `${this.identity}: ${bytes.length} bytes came for ${range}`);
    target.set(bytes);
  }

  async close(): Promise<void> {}
}
