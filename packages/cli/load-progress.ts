/** Tells on a terminal how far weights are loaded and shaders compiled, once it takes longer than a person likes to wait in silence. */
import { bytesText } from "#insitu/base/bytes-text.js";

const patienceMs = 2000;

type Terminal = Pick<NodeJS.WriteStream, "isTTY" | "write">;

/** What to hand to a session as `onProgress`. Writes nothing where standard error is no terminal. */
export const loadProgress = (terminal: Terminal = process.stderr): ((loaded: number, total: number) => void) =>
  progressOn(terminal, (loaded, total) => `loading weights: ${bytesText(loaded)} of ${bytesText(total)}`);

/** What to hand to a session as `webgpu.onPipelines`, alike. */
export const pipelineProgress = (terminal: Terminal = process.stderr): ((ready: number, total: number) => void) =>
  progressOn(terminal, (ready, total) => `compiling shaders: ${ready} of ${total}`);

function progressOn(
  terminal: Terminal,
  textOf: (done: number, total: number) => string,
): (done: number, total: number) => void {
  let start: number | undefined;
  let shown = false;
  return (done, total) => {
    start ??= performance.now();
    if (!terminal.isTTY || (!shown && performance.now() - start < patienceMs)) return;
    if (done === total) {
      terminal.write("\r\x1b[K");
      [start, shown] = [undefined, false];
      return;
    }
    shown = true;
    terminal.write(`\r\x1b[K${textOf(done, total)} (${Math.floor((100 * done) / total)} %)`);
  };
}
