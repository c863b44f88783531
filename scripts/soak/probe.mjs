// Inside the server of the soak (node --import): tells how much memory it takes when asked, how much of the heap is left once garbage is gone, and,
// since it was last asked, by how many milliseconds its event loop was late at most, and how many of them the processor spent in it in one turn: on a
// machine that others use too, only those are its own.
import { openSync, readSync } from "node:fs";

const tick = 10;
const buffer = Buffer.alloc(100);
const schedule = (() => {
  try {
    return openSync(`/proc/self/task/${process.pid}/schedstat`, "r");
  } catch {
    return undefined;
  }
})();
const spent = () =>
  schedule === undefined
    ? NaN
    : Number(buffer.toString("latin1", 0, readSync(schedule, buffer, 0, 100, 0)).split(" ")[0]) / 1e6;

let [late, held, last, before] = [0, 0, performance.now(), spent()];
setInterval(() => {
  const [now, cpu] = [performance.now(), spent()];
  late = Math.max(late, now - last - tick);
  held = Math.max(held, cpu - before);
  [last, before] = [now, cpu];
}, tick).unref();

process.on("message", (asked) => {
  const { rss } = process.memoryUsage();
  if (asked === "collect") globalThis.gc();
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  process.send({ rss, heapUsed, external, arrayBuffers, late, held });
  [late, held] = [0, 0];
});
process.channel.unref();
