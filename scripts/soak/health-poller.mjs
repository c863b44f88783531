// Asks a server for its health every 50 ms, in a process of its own: told to end, it says how long the answers took, and how late its own clock was.
import { Agent, get } from "node:http";
import { monitorEventLoopDelay } from "node:perf_hooks";

const [address] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true, maxSockets: 64 });
const own = monitorEventLoopDelay({ resolution: 10 });
own.enable();
const took = [];
let failed = 0;

setInterval(() => {
  const began = performance.now();
  const asked = get(`${address}/health`, { agent }, (response) => {
    response.resume();
    response.on("end", () => {
      took.push(performance.now() - began);
      if (response.statusCode !== 200) failed++;
    });
  });
  asked.on("error", () => failed++);
}, 50);

process.on("message", () => {
  const sorted = took.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Infinity;
  const late = sorted.filter((milliseconds) => milliseconds > 250).length;
  process.send(
    { polls: sorted.length, failed, median: at(0.5), p99: at(0.99), max: at(1), late, own: own.max / 1e6 },
    () => process.exit(),
  );
});
