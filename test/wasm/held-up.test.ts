// Threads that are held up: the calling thread sleeps until the last part is done, or looks on where it may not sleep, and all look for work
// for a moment only while others need the processors.
import { Worker } from "node:worker_threads";
import { afterEach, expect, test, vi } from "vitest";
import { Control, spins, type WorkerStart } from "../../src/backends/wasm/control.js";
import { WasmMemory } from "../../src/backends/wasm/memory.js";
import { KernelPool } from "../../src/backends/wasm/pool.js";
import { nodePlatform } from "../../src/platform/node.js";

afterEach(() => void vi.restoreAllMocks());

/**
 * Two kernels. `count` adds 1 to job[part]. `hold`, on the thread whose scratch is job[0], raises job[2] and waits for job[1]; on every other
 * thread it waits for job[2].
 */
const holding = new WebAssembly.Module(
  Buffer.from(
    "AGFzbQEAAAABCAFgBH9/f38AAhIBA2VudgZtZW1vcnkCAwGAgAQDAwIAAAcZAwRob2xkAAAFY291bnQAAQZtZW1vcnkCAApCAi4AIAAoAgAgA0" +
      "YEQCAAQQH+FwIIA0AgAP4QAgRFDQALBQNAIAD+EAIIRQ0ACwsLEQAgACABQQJ0akEB/h4CABoL",
    "base64",
  ),
);

/** Raises a word of a memory after so many milliseconds, from a thread of its own. */
const raiseLater = (buffer: SharedArrayBuffer, address: number, milliseconds: number): Worker =>
  new Worker(
    `const { buffer, address, milliseconds } = require("node:worker_threads").workerData;
     setTimeout(() => Atomics.store(new Int32Array(buffer), address / 4, 1), milliseconds);`,
    { eval: true, workerData: { buffer, address, milliseconds } },
  );

/** A pool of two threads, and where its control words begin. */
async function heldPool(): Promise<{
  readonly pool: KernelPool;
  readonly memory: WasmMemory;
  readonly start: WorkerStart;
}> {
  const memory = new WasmMemory(1024);
  const starts: WorkerStart[] = [];
  const pool = await KernelPool.start({
    memory,
    module: holding,
    kernels: ["hold", "count"],
    threads: 2,
    startWorker(start) {
      starts.push(start);
      return nodePlatform.startKernelWorker(start);
    },
  });
  return { pool, memory, start: starts[0] };
}

for (const maySleep of [true, false])
  test(`a worker that is held up is waited for, ${maySleep ? "asleep" : "looking on where a thread may not wait"}`, async () => {
    const { pool, memory, start } = await heldPool();
    const wait = vi.spyOn(Atomics, "wait");
    if (!maySleep)
      wait.mockImplementation(() => {
        throw new TypeError("Atomics.wait cannot be called in this context");
      });
    const { control, scratch } = start;
    const words = new Int32Array(memory.buffer);
    const looks = (): number => words[control / 4 + Control.spins];
    const job = memory.take(400);
    const run = (parts: number): void => {
      words.fill(0, job / 4, job / 4 + 100);
      pool.run("count", job, parts);
      expect(words.slice(job / 4, job / 4 + parts).every((count) => count === 1)).toBe(true);
    };
    expect(looks()).toBe(spins.free);
    // Woken by the worker, and not by the clock alone; one that is done just when the clock wakes its caller does not show it.
    let [woken, slept] = [false, 0];
    for (let round = 0; round < 2 || (maySleep && !woken && round < 20); round++) {
      words.set([scratch, 0, 0], job / 4);
      wait.mockClear();
      const raiser = raiseLater(memory.buffer as SharedArrayBuffer, job + 4, 60);
      pool.run("hold", job, 2);
      expect(words[job / 4 + 1]).toBe(1);
      slept += wait.mock.calls.length;
      woken ||= wait.mock.results.some(({ value }) => value === "ok");
      expect(words[control / 4 + Control.awaited]).toBe(0);
      expect(looks()).toBe(spins.crowded);
      await raiser.terminate();
    }
    expect(woken).toBe(maySleep);
    if (!maySleep) expect(slept).toBe(1);
    // Where nobody is held up any longer, threads look for work as before. A worker that sleeps on holds nobody up.
    await expect.poll(() => words[control / 4 + Control.parked]).toBe(1);
    const notify = vi.spyOn(Atomics, "notify").mockReturnValue(0);
    for (let task = 0; task < 1000 && looks() !== spins.free; task++) run(2 + (task % 99));
    expect(looks()).toBe(spins.free);
    notify.mockRestore();
    await pool.stop();
  });

test("a worker that takes the calling thread's place when it is woken is no longer let look for work", async () => {
  const { pool, memory, start } = await heldPool();
  const words = new Int32Array(memory.buffer);
  const looks = (): number => words[start.control / 4 + Control.spins];
  const job = memory.take(400);
  const { notify, wait } = Atomics;
  // As if there were one processor: whoever wakes a worker goes on once that one is done.
  const nobody = new Int32Array(new SharedArrayBuffer(4));
  vi.spyOn(Atomics, "notify").mockImplementation((...which) => {
    const woken = notify(...which);
    wait(nobody, 0, 0, 30);
    return woken;
  });
  expect(looks()).toBe(spins.free);
  for (let round = 0; round < 100 && looks() !== spins.crowded; round++) {
    await new Promise((resolve) => setTimeout(resolve, 20)); // until it has parked
    words.fill(0, job / 4, job / 4 + 100);
    pool.run("count", job, 8);
    expect(words.slice(job / 4, job / 4 + 9)).toEqual(Int32Array.of(1, 1, 1, 1, 1, 1, 1, 1, 0));
  }
  expect(looks()).toBe(spins.crowded);
  await pool.stop();
});
