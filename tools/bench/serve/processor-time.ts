/** How long processors worked for a process: what a clock cannot tell where others want them too. Linux tells it of any process. */
import { readFileSync } from "node:fs";

/** Ticks in a second, as the kernel tells times to programs. */
const ticks = 100;

/** Seconds that a process has used of all processors; undefined where nobody tells. */
export function processorSeconds(pid: number | undefined): number | undefined {
  if (pid === undefined) return undefined;
  try {
    // The name in parentheses may hold anything; user and system time are 11 and 12 behind it.
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)!.split(" ");
    return (Number(fields[11]) + Number(fields[12])) / ticks;
  } catch {
    return undefined;
  }
}
