/** The loads by name, in the order in which they run when none is named. */
import { InsituError } from "#insitu/base/error.js";
import { attention } from "./attention.js";
import { clients } from "./clients.js";
import { decode } from "./decode.js";
import { device } from "./device/device.js";
import type { Load } from "./load.js";
import { matmul } from "./matmul.js";
import { models } from "./models/models.js";
import { pages } from "./pages.js";
import { prefill } from "./prefill.js";
import { scatter } from "./scatter.js";

/** The loads of whatever backend. */
export const loads: readonly Load[] = [scatter, attention, matmul, decode, prefill, pages, clients];

/** Those that are measured on one backend alone, in place of the others where it is asked for. */
const backendLoads: readonly Load[] = [device];

/** Those that run by their name alone: gigabytes of files, and minutes. */
const largeLoads: readonly Load[] = [models];

const allLoads: readonly Load[] = [...loads, ...largeLoads, ...backendLoads];

/** What every load is called. */
export const loadNames: readonly string[] = allLoads.map(({ name }) => name);

/** The load of that name, or all of them that a backend is measured with; throws for a name that is none. */
export function findLoads(name: string | undefined, backend?: string): readonly Load[] {
  const own = backendLoads.filter((load) => load.backend === backend);
  if (name === undefined) return own.length > 0 ? own : loads;
  const found = allLoads.filter((load) => load.name === name);
  if (found.length === 0)
    throw new InsituError(
      "invalid-argument",
      `"${name}" is no load of insitu bench; there are ${loadNames.join(", ")}`,
    );
  return found;
}
