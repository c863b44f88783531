// What memory a peer's process has, and had at most: on Linux by the kernel's own account, since the usual figure counts what the parent had.
import { readFileSync } from "node:fs";

export function processMemory() {
  const resident = process.memoryUsage.rss();
  let peak = process.resourceUsage().maxRSS * 1024;
  try {
    peak = Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"))[1]) * 1024;
  } catch {
    // Not Linux.
  }
  return { resident, peak };
}
