/** The loads by name, in the order in which they run when none is named. */
import { InsituError } from "../base/error.js";
import { attention } from "./attention.js";
import { decode } from "./decode.js";
import type { Load } from "./load.js";
import { matmul } from "./matmul.js";
import { pages } from "./pages.js";
import { prefill } from "./prefill.js";
import { scatter } from "./scatter.js";

/** Every load. */
export const loads: readonly Load[] = [scatter, attention, matmul, decode, prefill, pages];

/** The load of that name, or all of them; throws for a name that is none. */
export function findLoads(name: string | undefined): readonly Load[] {
  if (name === undefined) return loads;
  const found = loads.filter((load) => load.name === name);
  if (found.length === 0)
    throw new InsituError(
      "invalid-argument",
      `"${name}" is no load of insitu bench; there are ${loads.map((load) => load.name).join(", ")}`,
    );
  return found;
}
