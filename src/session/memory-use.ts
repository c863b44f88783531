/** What a session takes, over all that runs for it. */
import type { MemoryUse } from "../backends/backend.js";
import { KeptPresents } from "./kept-presents.js";
import type { Parts } from "./session.js";

/** Bytes of the weights, of arenas, and of every tensor buffer that runs allocated. */
export interface SessionMemoryUse extends MemoryUse {
  readonly weightBytes: number;
}

/** The sum over all plans of a session. */
export function memoryOf({ functional, apart, pairings, edits, weightBytes, presents }: Parts): SessionMemoryUse {
  const kept = presents instanceof KeptPresents ? presents.executables : [];
  const plain = [functional, ...(apart?.executables ?? [])];
  const uses = [...plain, ...pairings.executables, ...edits.executables, ...kept].map(({ memory }) => memory);
  const sum = (pick: (use: MemoryUse) => number): number => uses.reduce((total, use) => total + pick(use), 0);
  return {
    weightBytes,
    arenaBytes: sum(({ arenaBytes }) => arenaBytes),
    allocations: sum(({ allocations }) => allocations),
    allocatedBytes: sum(({ allocatedBytes }) => allocatedBytes),
  };
}
