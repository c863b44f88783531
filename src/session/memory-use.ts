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
  // What runs inside may be what runs with a state.
  const all = new Set([...plain, ...pairings.executables, ...edits.executables, ...kept]);
  const uses = [...all].map(({ memory }) => memory);
  const sum = (pick: (use: MemoryUse) => number): number => uses.reduce((total, use) => total + pick(use), 0);
  return {
    weightBytes,
    arenaBytes: sum(({ arenaBytes }) => arenaBytes),
    allocations: sum(({ allocations }) => allocations),
    allocatedBytes: sum(({ allocatedBytes }) => allocatedBytes),
  };
}
