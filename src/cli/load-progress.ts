/** Tells on a terminal how far the weights of a model are loaded, once it takes longer than a person likes to wait in silence. */
import { bytesText } from "../base/bytes-text.js";

const patienceMs = 2000;

/** What to hand to a session as `onProgress`. Writes nothing where standard error is no terminal. */
export function loadProgress(
  terminal: Pick<NodeJS.WriteStream, "isTTY" | "write"> = process.stderr,
): (loaded: number, total: number) => void {
  const start = performance.now();
  let shown = false;
  return (loaded, total) => {
    if (!terminal.isTTY || (!shown && performance.now() - start < patienceMs)) return;
    if (loaded === total) {
      terminal.write("\r\x1b[K");
      return;
    }
    shown = true;
    terminal.write(
      `\r\x1b[Kloading weights: ${bytesText(loaded)} of ${bytesText(total)} (${Math.floor((100 * loaded) / total)} %)`,
    );
  };
}
