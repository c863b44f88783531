/** Opens the backend that a session asks for, and says which one comes after it: where the caller allows that, never without saying so. */
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

/** What may stand in for a backend, best first: those that are chosen by themselves after it, then the last resort. */
export function nextBest(
  choices: readonly BackendChoice[],
  { automatic = -1, lastResort }: BackendChoice,
): BackendChoice[] {
  if (lastResort === true) return [];
  const after = choices.filter((each) => each.automatic !== undefined && each.automatic > automatic);
  return [
    ...after.toSorted((a, b) => a.automatic! - b.automatic!),
    ...choices.filter((each) => each.lastResort === true),
  ];
}

/** Opens a backend. `onFallback` allows one thread in place of several, and hears why. */
export async function openBackend(
  choice: BackendChoice,
  options: BackendOptions,
  onFallback: ((message: string) => void) | undefined,
): Promise<OpenedBackend> {
  const { name } = choice;
  if (options.fallback === "never" && choice.isDevice !== true && options.automatic !== true)
    throw new InsituError(
      "invalid-argument",
      `option fallback: "never" is for devices; "${name}" computes on the host's own memory, and explain shows what has no kernel`,
    );
  try {
    const backend = await choice.load();
    const opened = await backend.open(options);
    return { name, isDevice: choice.isDevice === true, opened, hasKernel: backend.hasKernel };
  } catch (error) {
    if (!(error instanceof Unavailable) || error.what !== "threads" || onFallback === undefined) throw error;
    onFallback(`one thread instead of several: ${error.message}`);
    return openBackend(choice, { ...options, threads: 1 }, onFallback);
  }
}
