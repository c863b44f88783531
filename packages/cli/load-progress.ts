/** Tells on a terminal how far weights are loaded and shaders compiled, once it takes longer than a person likes to wait in silence. */
import { bytesText } from "#insitu/base/bytes-text.js";
import type { LoadProgress } from "#insitu/session/load-progress.js";
import type { SessionOptions } from "#insitu/session/options.js";

const patienceMs = 2000;

type Terminal = Pick<NodeJS.WriteStream, "isTTY" | "write">;

/** What to hand to a session as `onProgress`. Writes nothing where standard error is no terminal. */
export const loadProgress = (terminal: Terminal = process.stderr): NonNullable<SessionOptions["onProgress"]> => {
  let told: LoadProgress | undefined;
  const tell = progressOn(terminal, (loaded, total) => {
    const { ready, total: all } = told?.pipelines ?? { ready: 0, total: 0 };
    const shaders = all === 0 ? "" : `, shaders: ${ready} of ${all}`;
    const doing = told?.phase === "plan" ? "planning, weights" : "loading weights";
    return `${doing}: ${bytesText(loaded)} of ${bytesText(total)}${shaders}`;
  });
  return (loaded, total, progress) => {
    told = progress;
    tell(loaded, total);
  };
};

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
