/** What both entries do with a model's name: whether a text is one, and which variant a backend asks for. */
import type { Platform } from "../base/platform.js";
import type { SessionOptions } from "../session/options.js";
import { backends } from "./backends.js";

/** True if options name a backend that computes on a GPU. */
export const namesDevice = (asked: SessionOptions["backend"]): boolean =>
  backends.some(({ name, isDevice }) => name === asked && isDevice === true);

/** True if a session with these options will compute on a GPU: where the choice is automatic, an adapter decides. */
export async function computesOnDevice(options: SessionOptions, platform: Platform): Promise<boolean> {
  const asked = options.backend ?? options.executionProviders?.[0];
  const name = typeof asked === "object" ? asked.name : asked;
  if (name !== "auto") return namesDevice(name as SessionOptions["backend"]);
  const gpu = await platform.gpu?.();
  if (typeof gpu !== "object") return false;
  const adapter: unknown = await (gpu as GPU).requestAdapter().catch(() => null);
  return adapter !== null;
}
