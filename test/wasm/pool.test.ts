// The WASM backend's threads and memory when things go wrong or pile up: failing kernels, workers that do not start, too many threads,
// sessions side by side, in other threads, and in processes that must end by themselves. Clocks serve as guards against hangs only.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import type { WorkerHandle } from "../../src/base/platform.js";
import type { WorkerStart } from "../../src/backends/wasm/control.js";
import { WasmMemory } from "../../src/backends/wasm/memory.js";
import { KernelPool } from "../../src/backends/wasm/pool.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import type { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { nodePlatform } from "../../src/platform/node.js";
import { builtEntry } from "../support/built.js";
import { distance } from "../support/compare.js";
import { decoderSession, step, tokens } from "../support/decoding.js";
import { soak } from "../support/soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "insitu-pool-"));
afterAll(() => rmSync(scratch, { recursive: true }));
afterEach(() => void vi.restoreAllMocks().useRealTimers());

/** A run that takes this long hangs. */
const hang = 240_000;

/**
 * Two kernels. `count` adds 1 to job[part]. `trap` fails on the thread whose scratch is job[0] if job[2] is 1, on every other thread if it
 * is 0; it raises job[1] before it fails, and where it does not fail it waits for that.
 */
const testModule = new WebAssembly.Module(
  Buffer.from(
    "AGFzbQEAAAABCAFgBH9/f38AAhIBA2VudgZtZW1vcnkCAwGAgAQDAwIAAAcQAgVjb3VudAAABHRyYXAAAQo8AhEAIAAgAUECdGpBAf4eAgAaCygA" +
      "IAAoAgAgA0YgACgCCEYEQCAAQQH+FwIEAAsDQCAA/hACBEUNAAsL",
    "base64",
  ),
);

interface TestPool {
  readonly pool: KernelPool;
  readonly memory: WasmMemory;
  /** What each worker was started with. */
  readonly starts: readonly WorkerStart[];
}

async function testPool(threads: number): Promise<TestPool> {
  const memory = new WasmMemory(1024);
  const starts: WorkerStart[] = [];
  const pool = await KernelPool.start({
    memory,
    module: testModule,
    kernels: ["count", "trap"],
    threads,
    startWorker(start) {
      starts.push(start);
      return nodePlatform.startKernelWorker(start);
    },
  });
  return { pool, memory, starts };
}

/** Runs `count` once; true if every part ran exactly once. */
function counts({ pool, memory }: TestPool, job: number, parts: number): boolean {
  const words = new Int32Array(memory.buffer, job, 100);
  words.fill(0);
  pool.run("count", job, parts);
  return words.every((word, part) => word === (part < parts ? 1 : 0));
}

describe("a pool", () => {
  for (const threads of [1, 2, 3]) {
    test(`of ${threads} runs every part once, spinning and parked`, async () => {
      const made = await testPool(threads);
      const job = made.memory.take(400);
      for (let task = 0; task < 3000; task++) {
        const parts = 1 + (task % 100);
        if (!counts(made, job, parts)) expect.fail(`task ${task}: some part of ${parts} ran twice or never`);
        // Often enough for workers to have parked.
        if (task % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 20));
      }
      await made.pool.stop();
    });
  }

  for (const [where, onWorker] of [
    ["a worker", 1],
    ["the calling thread", 0],
  ] as const) {
    test(`tells of a kernel that fails on ${where}, and goes on`, async () => {
      const made = await testPool(2);
      const job = made.memory.take(400);
      for (let round = 0; round < 3; round++) {
        new Int32Array(made.memory.buffer, job, 3).set([made.starts[0].scratch, 0, onWorker]);
        expect(() => made.pool.run("trap", job, 2)).toThrow(
          expect.objectContaining({
            code: "internal",
            message: expect.stringMatching(/kernel trap failed: .*unreachable/),
          }),
        );
        expect(counts(made, job, 7)).toBe(true);
      }
      await made.pool.stop();
    });
  }

  for (const threads of [1, 2, 3]) {
    test(`of ${threads} joins memories while it works, and tells of kernels that fail in them`, async () => {
      const { pool, memory } = await testPool(threads);
      const memories = [memory];
      for (let number = 1; number <= 4; number++) {
        const further = new WasmMemory(1024, 2 ** 23);
        pool.join(further);
        memories.push(further);
        // At once, before any worker can have joined, and later.
        for (let round = 0; round < 120; round++) {
          memories.forEach((each, at) => {
            const job = each.take(400);
            const words = new Int32Array(each.buffer, job, 100);
            words.fill(0);
            pool.run("count", job, 90, at);
            if (words.some((word, part) => word !== (part < 90 ? 1 : 0))) expect.fail(`memory ${at}, round ${round}`);
            each.give(job, 400);
          });
          if (round % 60 === 30) await new Promise((resolve) => setTimeout(resolve, 20));
        }
        for (const at of memories.keys()) await expect.poll(() => pool.isJoined(at)).toBe(true);
        // Beyond the end of that memory, and of no other.
        expect(() => pool.run("count", 2 ** 23 - 4, 90, number)).toThrow(/kernel count failed: .*out of bounds/);
      }
      await pool.stop();
    });
  }

  test("tells of a memory that a worker cannot join", async () => {
    // The worker is sent something that is no memory.
    const startWorker = async (start: WorkerStart): Promise<WorkerHandle> => {
      const handle = await nodePlatform.startKernelWorker(start);
      return { ...handle, post: () => handle.post({ memory: "none", scratch: 0 }) };
    };
    const memory = new WasmMemory(1024);
    const parts = { memory, module: testModule, kernels: ["count", "trap"], threads: 2, startWorker };
    const pool = await KernelPool.start(parts);
    const further = new WasmMemory(1024, 2 ** 23);
    pool.join(further);
    while (!pool.isJoined(1)) await new Promise((resolve) => setTimeout(resolve, 1));
    const job = further.take(400_000);
    const failures: unknown[] = [];
    // The worker does not always come in time for a part, even of so many.
    for (let round = 0; round < 10_000 && failures.length === 0; round++) {
      try {
        pool.run("count", job, 100_000, 1);
      } catch (error) {
        failures.push(error);
      }
    }
    expect(failures).toEqual([
      expect.objectContaining({ code: "internal", message: expect.stringMatching(/kernel count failed: .*memory/) }),
    ]);
    expect(counts({ pool, memory, starts: [] }, memory.take(400), 7)).toBe(true);
    await pool.stop();
  });

  test("of one thread tells of a kernel that fails, and of one that is not there", async () => {
    const made = await testPool(1);
    const job = made.memory.take(400);
    expect(() => made.pool.run("trap", made.memory.buffer.byteLength, 1)).toThrow(
      /kernel trap failed: .*out of bounds/,
    );
    expect(() => made.pool.run("nothing", job, 1)).toThrow(/there is no kernel nothing/);
    expect(counts(made, job, 3)).toBe(true);
  });

  test("ends the workers it has when one does not start", async () => {
    let [running, calls] = [0, 0];
    const startWorker = async (): Promise<WorkerHandle> => {
      if (calls++ === 1) throw new Error("no more workers today");
      running++;
      return { post() {}, terminate: async () => void running-- };
    };
    const memory = new WasmMemory(1024);
    const parts = { memory, module: testModule, kernels: ["count"], threads: 4, startWorker };
    await expect(KernelPool.start(parts)).rejects.toMatchObject({
      code: "invalid-argument",
      message: "threads: 4 are not available here: a worker did not start (no more workers today); ask for threads: 1",
    });
    expect([calls, running]).toEqual([3, 0]);
  });
});

test("memory that cannot be had is told, and nothing is lost by asking", () => {
  const memory = new WasmMemory(1024);
  expect(() => memory.take(2 ** 33)).toThrow(
    expect.objectContaining({ code: "out-of-memory", message: expect.stringContaining("4294967296 are the most") }),
  );
  expect(memory.usedBytes).toBe(0);
  vi.spyOn(memory.memory, "grow").mockImplementation(() => {
    throw new RangeError("not today");
  });
  expect(() => memory.take(2 ** 20)).toThrow(/the engine refused/);
  expect(memory.usedBytes).toBe(0);
  vi.restoreAllMocks();
  const address = memory.take(2 ** 20);
  expect(memory.take(64)).toBe(address + 2 ** 20);
});

/** Logits after a prefill and a few steps. */
async function decode(session: InferenceSession): Promise<Float32Array> {
  const state = session.createState({ dims: { batch: 1, capacity: 64 } });
  await step(session, state, tokens(0, 20));
  let logits: Float32Array = new Float32Array();
  for (let at = 20; at < 28; at++) logits = await step(session, state, tokens(at, at + 1));
  return logits;
}

describe("sessions", () => {
  test("compute the same bits each time with the same number of threads", async () => {
    for (const threads of [1, 2, 3]) {
      const rows: Float32Array[] = [];
      for (let round = 0; round < 4; round++) {
        const session = await decoderSession({ threads });
        rows.push(await decode(session));
        await session.release();
      }
      for (const row of rows) expect(row).toEqual(rows[0]);
    }
  });

  test("with threads: 1 start no worker", async () => {
    const started = vi.spyOn(nodePlatform, "startKernelWorker");
    const session = await decoderSession({ threads: 1, wasm: { relaxedSimd: false } });
    await decode(session);
    await session.release();
    expect(started).not.toHaveBeenCalled();
  });

  test("with threads: 64 compute what one thread computes; far too many are refused", async () => {
    const [one, many] = [await decoderSession({ threads: 1 }), await decoderSession({ threads: 64 })];
    const expected = await decode(one);
    const actual = await decode(many);
    expect(distance(actual, expected)).toBeLessThan(1e-4);
    await Promise.all([one.release(), many.release()]);
    await expect(decoderSession({ threads: 100_000 })).rejects.toMatchObject({
      code: "invalid-argument",
      message: "option threads must be a whole number from 0 to 64, got 100000; 0 is what the machine has",
    });
  });

  test("with different numbers of threads work side by side", async () => {
    const sessions = await Promise.all([1, 2, 3, 2].map((threads) => decoderSession({ threads })));
    const states = sessions.map((session) => session.createState({ dims: { batch: 1, capacity: 64 } }));
    for (let at = 0; at < 20; at++) {
      const logits = await Promise.all(
        sessions.map((session, index) => step(session, states[index], tokens(at, at + 1))),
      );
      for (const other of logits) expect(distance(other, logits[0])).toBeLessThan(1e-4);
    }
    await Promise.all(sessions.map((session) => session.release()));
  });

  test("give their memory back: many of them take no more than one", async () => {
    const started = vi.spyOn(nodePlatform, "startKernelWorker");
    const cycle = async (): Promise<void> => {
      const session = await decoderSession({ threads: 2 });
      await decode(session);
      await session.release();
      await session.release();
    };
    // Threads wait a moment for the next session: one that does not end, however slow the machine is.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    await cycle();
    started.mockClear();
    const grown = vi.spyOn(WebAssembly.Memory.prototype, "grow");
    const rounds = soak ? 200 : 20;
    for (let round = 0; round < rounds; round++) await cycle();
    vi.useRealTimers();
    expect(grown).not.toHaveBeenCalled();
    expect(started).not.toHaveBeenCalled();
  });
});

writeFileSync(join(scratch, "decoder.onnx"), writeModel(generatedDecoder(smallSizes)));

/** Runs a script on the built package in a process of its own. `insitu` and `model` are there; the package may be another copy. */
function inProcess(script: string, { package: place = builtEntry, flags = [] as string[] } = {}): string {
  const path = join(scratch, `script-${Math.random().toString(36).slice(2)}.mjs`);
  writeFileSync(
    path,
    `import * as insitu from ${JSON.stringify(place)};
     const model = ${JSON.stringify(join(scratch, "decoder.onnx"))};
     const ids = (...values) => new insitu.Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
     const decode = async (session) => {
       const state = session.createState({ dims: { batch: 1, capacity: 64 } });
       await session.run({ input_ids: ids(1, 2, 3), position_ids: ids(0, 1, 2) }, { state });
       return (await session.run({ input_ids: ids(4), position_ids: ids(3) }, { state })).logits.data;
     };
     ${script}`,
  );
  const { status, stdout, stderr, signal } = spawnSync(process.execPath, [...flags, path], {
    encoding: "utf8",
    timeout: hang,
  });
  expect([status, signal, stderr]).toEqual([0, null, ""]);
  return stdout.trim();
}

describe("a process", () => {
  test("ends by itself with sessions that were never released, threads parked or not", () => {
    const out = inProcess(`
      const session = await insitu.InferenceSession.create(model, { threads: 3 });
      await decode(session);
      await new Promise((resolve) => setTimeout(resolve, 200));
      await decode(session);
      console.log("done");`);
    expect(out).toBe("done");
  });

  test("may hold sessions in worker threads, and end those threads", () => {
    writeFileSync(
      join(scratch, "thread.mjs"),
      `import { parentPort, workerData } from "node:worker_threads";
       const { InferenceSession, Tensor } = await import(workerData.entry);
       const ids = (...values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
       const session = await InferenceSession.create(workerData.model, { threads: workerData.threads });
       const state = session.createState({ dims: { batch: 1, capacity: 64 } });
       await session.run({ input_ids: ids(1, 2, 3), position_ids: ids(0, 1, 2) }, { state });
       parentPort.postMessage((await session.run({ input_ids: ids(4), position_ids: ids(3) }, { state })).logits.data);
       if (workerData.stays) setInterval(() => {}, 1000);`,
    );
    const out = inProcess(`
      import { Worker } from "node:worker_threads";
      import { once } from "node:events";
      const thread = (threads, stays) => {
        const workerData = { entry: ${JSON.stringify(builtEntry)}, model, threads, stays };
        return new Worker(new URL("./thread.mjs", import.meta.url), { workerData });
      };
      const expected = await decode(await insitu.InferenceSession.create(model, { threads: 1 }));
      const workers = [thread(1, false), thread(2, false), thread(3, true)];
      const exits = workers.map((worker) => once(worker, "exit"));
      const logits = await Promise.all(workers.map(async (worker) => (await once(worker, "message"))[0]));
      console.log(logits.every((row) => row.every((value, at) => Math.abs(value - expected[at]) < 1e-4)));
      await Promise.all(exits.slice(0, 2));
      console.log(await workers[2].terminate());`);
    expect(out).toBe("true\n1");
  });

  test("gets a large memory back when its last session is released", () => {
    const out = inProcess(
      `
      const most = [];
      for (let round = 0; round < 4; round++) {
        const session = await insitu.InferenceSession.create(model, { threads: 2 });
        // 4 caches of 16 floats a row: 256 MiB, all of it touched.
        session.createState({ dims: { batch: 1, capacity: 2 ** 20 } });
        await decode(session);
        await session.release();
        // The workers hold it until they have ended.
        for (let wait = 0; wait < 300 && (wait === 0 || most.at(-1) > 900); wait++) {
          await new Promise((resolve) => setTimeout(resolve, 100));
          for (let pass = 0; pass < 3; pass++) globalThis.gc();
          most[round] = Math.round(process.memoryUsage().rss / 2 ** 20);
        }
      }
      console.log(Math.max(...most.slice(1)));`,
      { flags: ["--expose-gc"] },
    );
    // One such memory still waiting to be collected is fine; four are not.
    expect(Number(out)).toBeLessThan(900);
  });

  test("is told clearly where the worker's script is missing, and may go on with one thread", () => {
    const copy = join(scratch, "copy");
    mkdirSync(copy);
    cpSync(join(root, "dist"), join(copy, "dist"), { recursive: true });
    writeFileSync(join(copy, "package.json"), readFileSync(join(root, "package.json")));
    rmSync(join(copy, "dist/platform/kernel-worker-node.js"));
    const out = inProcess(
      `
      for (const threads of [2, 2, 1]) {
        try {
          const session = await insitu.InferenceSession.create(model, { threads });
          console.log((await decode(session)).length);
        } catch (error) {
          console.log(error.code, error.message);
        }
      }`,
      { package: pathToFileURL(join(copy, "dist/index.node.js")).href },
    ).split("\n");
    const message =
      /^invalid-argument threads: 2 are not available here: a worker did not start \(.*kernel-worker-node\.js.*\); ask for threads: 1$/;
    expect(out).toEqual([expect.stringMatching(message), expect.stringMatching(message), "128"]);
  });
});
