/** Opens the backend that a session asks for, or the next best one where the caller allows it: never without saying so. */
import type { Backend, BackendChoice, BackendOptions, BackendSession } from "../backends/backend.js";
import { InsituError } from "../base/error.js";
import { Unavailable } from "../backends/unavailable.js";

/** A backend that is ready, and which one it came to be. */
export interface OpenedBackend {
  readonly name: string;
  /** True if it computes in memory that the host cannot read. */
  readonly isDevice: boolean;
  readonly opened: BackendSession;
  /** Operators that it may do at once. */
  readonly hasKernel: Backend["hasKernel"];
}

/** Opens a backend. `onFallback` allows one thread in place of several and the last resort in place of what is not there, and hears why. */
export async function openBackend(
  choices: readonly BackendChoice[],
  choice: BackendChoice,
  options: BackendOptions,
  onFallback: ((message: string) => void) | undefined,
): Promise<OpenedBackend> {
  const { name } = choice;
  if (options.fallback === "never" && choice.isDevice !== true && options.automatic !== true)
    throw new InsituError(
      "invalid-argument",
      `option fallback: "never" is for devices; "${name}" computes on the host's own memory, and explain tells what has no kernel`,
    );
  try {
    const backend = await choice.load();
    const opened = await backend.open(options);
    return { name, isDevice: choice.isDevice === true, opened, hasKernel: backend.hasKernel };
  } catch (error) {
    if (!(error instanceof Unavailable) || onFallback === undefined) throw error;
    if (error.what === "threads") {
      onFallback(`one thread instead of several: ${error.message}`);
      return openBackend(choices, choice, { ...options, threads: 1 }, onFallback);
    }
    const last = choices.find(({ lastResort }) => lastResort === true);
    if (last === undefined) throw error;
    onFallback(`backend "${last.name}", which is slow, instead of "${name}": ${error.message}`);
    return openBackend(choices, last, { ...options, settings: undefined }, undefined);
  }
}
