/** What is being fetched, on standard error: how much before it begins, then a bar that fills on a terminal, one line a file elsewhere. */
import { bytesText } from "#insitu/base/bytes-text.js";
import type { DownloadPlan, DownloadProgress } from "#insitu/hub/models-api.js";

/** Tells of one download after the other. */
export class FetchProgress {
  #file = "";
  /** True while a line of the terminal is unfinished. */
  #open = false;

  /** Says what is about to come. */
  plan({ name, variant, bytes, bytesHere, place }: DownloadPlan): void {
    const which = variant === undefined ? name : `${name}, ${variant}`;
    const here = bytesHere === 0 ? "" : ` (${bytesText(bytesHere)} of it are here)`;
    process.stderr.write(`fetching ${which}: ${bytesText(bytes)}${here} into ${place}\n`);
  }

  tell({ file, bytes, size, loaded, total }: DownloadProgress): void {
    const { stderr } = process;
    if (!stderr.isTTY) {
      if (file !== this.#file) stderr.write(`fetching ${file}, ${bytesText(size)}\n`);
      this.#file = file;
      return;
    }
    const cells = 30;
    const full = total === 0 ? cells : Math.floor((loaded / total) * cells);
    const bar = `${"█".repeat(full)}${"░".repeat(cells - full)} ${bytesText(loaded)} of ${bytesText(total)}  ${file}`;
    this.#open = bytes < size;
    stderr.write(`\r\x1b[K${bar.slice(0, (stderr.columns || 80) - 1)}${this.#open ? "" : "\n"}`);
  }

  /** What comes next begins a line. */
  close(): void {
    if (this.#open) process.stderr.write("\n");
    this.#open = false;
  }
}
