/** What memory this process has, and had at most. */
import { readFileSync } from "node:fs";

/** Resident bytes, now and at most. On Linux by the kernel's own account: the usual figure counts what the parent had when it started this one. */
export function processMemory(): { readonly resident: number; readonly peak: number } {
  const resident = process.memoryUsage.rss();
  let peak = process.resourceUsage().maxRSS * 1024;
  try {
    peak = Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"))![1]) * 1024;
  } catch {
    // Not Linux.
  }
  return { resident, peak };
}
