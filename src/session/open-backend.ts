/** Opens the backend that a session asks for, or the next best one where the caller allows it: never without saying so. */
import type { Backend, BackendOptions, BackendSession } from "../backends/backend.js";
import { Unavailable } from "../backends/unavailable.js";
import { InsituError } from "../base/error.js";
import type { BackendName } from "./options.js";

/** A backend that is ready, and which one it came to be. */
export interface OpenedBackend {
  readonly name: BackendName;
  readonly opened: BackendSession;
}

/** Opens a backend. `onFallback` allows one thread in place of several and the reference in place of what is not there, and hears why. */
export async function openBackend(
  backends: Readonly<Partial<Record<BackendName, Backend>>>,
  name: BackendName,
  options: BackendOptions,
  onFallback: ((message: string) => void) | undefined,
): Promise<OpenedBackend> {
  const backend = backends[name];
  if (backend === undefined) throw new InsituError("internal", `backend "${name}" is listed but not there`);
  try {
    return { name, opened: await backend.open(options) };
  } catch (error) {
    if (!(error instanceof Unavailable) || onFallback === undefined) throw error;
    if (error.what === "threads") {
      onFallback(`one thread instead of several: ${error.message}`);
      return openBackend(backends, name, { ...options, threads: 1 }, onFallback);
    }
    onFallback(`backend "reference", which is slow, instead of "${name}": ${error.message}`);
    return openBackend(backends, "reference", options, undefined);
  }
}
