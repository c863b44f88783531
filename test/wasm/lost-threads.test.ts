// Worker threads that really end: at their start, while idle, with a part of a kernel in their hands, one or all of them, on one session
// or several. Whatever ended, a run gives its right result or an InsituError, and the next run works. Every program runs in a process of its
// own that is killed if it hangs; the package is a copy whose workers can be told to end themselves. Only the soak looks at the clock.
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { soak } from "../support/soak.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { writeModel } from "../../src/onnx/write.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const place = mkdtempSync(join(tmpdir(), "insitu-lost-"));
afterAll(() => rmSync(place, { recursive: true }));

/** A process that takes this long hangs. */
const hang = soak ? 300_000 : 240_000;

/** Milliseconds in which a run on a lost thread must have answered: in the tests only a hang is too late. */
const promptly = soak ? 3000 : 60_000;

/**
 * Three kernels. `count` adds 1 to job[part]. `hold` and `trap` raise job[2] on the thread whose scratch is job[0], where `hold` then waits
 * for job[1] and `trap` fails; on other threads they wait for job[2].
 */
const kernels =
  "AGFzbQEAAAABCAFgBH9/f38AAhIBA2VudgZtZW1vcnkCAwGAgAQDBAMAAAAHFwMFY291bnQAAARob2xkAAEEdHJhcAACCmYDEQAgACABQQJ0akEB/h4CABoL" +
  "LgAgAyAAKAIARgRAIABBAf4XAggDQCAA/hACBEUNAAsFA0AgAP4QAghFDQALCwsjACADIAAoAgBGBEAgAEEB/hcCCAAFA0AgAP4QAghFDQALCws=";

/** What goes before the worker's own script: `KILL` says how a worker ends, and in a part only once the file `ARMED` is there. */
const prelude = `
import { existsSync as isThere } from "node:fs";
import { workerData as given } from "node:worker_threads";
const { KILL = "", ARMED = "" } = process.env;
const die = () => {
  if (KILL.startsWith("exit")) process.exit(7);
  throw new Error("the worker throws");
};
if (KILL.endsWith("at start")) die();
if (KILL === "silent") await new Promise(() => setInterval(() => {}, 1000));
if (KILL.endsWith("anywhere")) {
  // One of its first steps after it has parked, before or after it: many fall between taking a part and telling that it is done.
  let left = 4 + Math.floor(Math.random() ** 2 * 60);
  for (const name of ["compareExchange", "sub", "store", "add"]) {
    const real = Atomics[name];
    Atomics[name] = (...args) => {
      if (left-- === 0) die();
      const found = real(...args);
      if (left === 0) die();
      return found;
    };
  }
}
if (KILL.endsWith("in a part") && given.number === 0) {
  const take = Atomics.compareExchange;
  Atomics.compareExchange = (...args) => {
    const found = take(...args);
    // An error inside the kernel's call would be told as the kernel's: this one is the thread's own.
    if (found === args[2] && isThere(ARMED)) die();
    return found;
  };
}
`;

beforeAll(() => {
  cpSync(join(root, "dist"), join(place, "dist"), { recursive: true });
  writeFileSync(join(place, "package.json"), readFileSync(join(root, "package.json")));
  const worker = join(place, "dist/platform/kernel-worker-node.js");
  writeFileSync(worker, prelude + readFileSync(worker, "utf8"));
  // Large enough for every product to be split among threads.
  const sizes = { ...smallSizes, layers: 1, hidden: 192, headSize: 48, intermediate: 384, vocabulary: 512 };
  writeFileSync(join(place, "decoder.onnx"), writeModel(generatedDecoder(sizes)));
});

/** What every program begins with. */
const opening = (): string => `
import * as insitu from ${JSON.stringify(pathToFileURL(join(place, "dist/index.node.js")).href)};
import { existsSync, rmSync, writeFileSync } from "node:fs";
import assert from "node:assert";
const model = ${JSON.stringify(join(place, "decoder.onnx"))};
const { InferenceSession, InsituError, Tensor } = insitu;
const armed = process.env.ARMED = import.meta.url.slice(7) + ".armed";
const arm = (on) => (on ? writeFileSync(armed, "") : rmSync(armed, { force: true }));
const workers = new Set();
process.on("worker", (worker) => {
  workers.add(worker);
  worker.on("exit", () => workers.delete(worker));
});
const rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const until = async (test, what) => {
  for (const began = Date.now(); !test(); await rest(5)) if (Date.now() - began > 60_000) throw new Error("never: " + what);
};
const ids = (values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
const newState = (session) => session.createState({ dims: { batch: 1, capacity: 64 } });
const step = async (session, state, count = 1) => {
  const from = state.lengths[0];
  const at = Array.from({ length: count }, (_, index) => from + index);
  return (await session.run({ input_ids: ids(at.map((a) => (a * 37 + 11) % 512)), position_ids: ids(at) }, { state })).logits.data;
};
/** Logits of a prefill and two steps on a new state. */
const decode = async (session) => {
  const state = newState(session);
  const rows = [await step(session, state, 20), await step(session, state), await step(session, state)];
  state.release();
  return rows;
};
const same = (rows, expected) => assert.deepStrictEqual(rows.map((row) => [...row]), expected.map((row) => [...row]));
/** The code of the error that a call fails with, which comes in time. */
const codeOf = async (call, limit = ${promptly}) => {
  const began = Date.now();
  try {
    await call();
    return "none";
  } catch (error) {
    assert(error instanceof InsituError, String(error?.stack));
    // A run that had begun to write caches loses their state with the thread.
    return error.code === "state-lost" ? error.cause.code : error.code;
  } finally {
    const took = Date.now() - began;
    assert(took < limit, "took " + took + " ms");
  }
};
`;

let programs = 0;

/** Runs a program in a process of its own: what it printed, as JSON. Fails if it hangs or ends badly. */
function inProcess(program: string, flags: readonly string[] = []): Promise<unknown> {
  const path = join(place, `program-${programs++}.mjs`);
  writeFileSync(path, opening() + program);
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [...flags, path], { timeout: hang, killSignal: "SIGKILL" }, (error, stdout, stderr) => {
      if (error !== null || stderr !== "") reject(new Error(`${error?.signal ?? ""} ${stderr}`, { cause: error }));
      else resolve(JSON.parse(stdout) as unknown);
    });
  });
}

const poolOpening = `
const load = (path) => import(${JSON.stringify(pathToFileURL(join(place, "dist/")).href)} + path);
const { KernelPool } = await load("backends/wasm/pool.js");
const { WasmMemory } = await load("backends/wasm/memory.js");
const { nodePlatform } = await load("platform/node.js");
const module = new WebAssembly.Module(Buffer.from(${JSON.stringify(kernels)}, "base64"));
const makePool = async (threads, change = (handle) => handle) => {
  const memory = new WasmMemory(1024);
  const starts = [];
  const startWorker = async (start) => (starts.push(start), change(await nodePlatform.startKernelWorker(start)));
  const pool = await KernelPool.start({ memory, module, kernels: ["count", "hold", "trap"], threads, startWorker });
  const job = memory.take(4000);
  const words = new Int32Array(memory.buffer, job, 1000);
  const counts = (parts) => {
    words.fill(0);
    pool.run("count", job, parts);
    return words.every((word, part) => word === (part < parts ? 1 : 0));
  };
  return { pool, memory, starts, job, words, counts };
};
/**
 * Runs a kernel; \`act\` is called on this thread once its own part is done and the worker is inside its part. Where the machine is busy the
 * other threads may take every part before this one has any: the worker is let go of then, and the run made again.
 */
const runAnd = (made, kernel, parts, act) => {
  const { sub } = Atomics;
  const { now } = performance;
  for (let acted = false; !acted;) {
    made.words.fill(0);
    made.words[0] = made.starts[0].scratch;
    Atomics.sub = (...args) => {
      [Atomics.sub, performance.now, acted] = [sub, now, true];
      act();
      return sub(...args);
    };
    performance.now = () => {
      if (/awaitParts/.test(new Error().stack)) made.words[1] = 1;
      return now.call(performance);
    };
    try {
      made.pool.run(kernel, made.job, parts);
    } finally {
      if (!acted) [Atomics.sub, performance.now] = [sub, now];
    }
  }
};
`;

test("a worker that is terminated inside a part is told of, and the others go on", async () => {
  const told = await inProcess(`${poolOpening}
    const codes = [];
    for (const threads of [2, 3, 4]) {
      const made = await makePool(threads);
      const [first] = workers;
      codes.push(await codeOf(() => runAnd(made, "hold", threads, () => void first.terminate())));
      for (let round = 0; round < 200; round++) assert(made.counts(1 + round * 5));
      codes.push(made.pool.describe()[0]);
      // The others too, and then this thread alone.
      await Promise.all([...workers].map((worker) => worker.terminate()));
      for (let round = 0; round < 20; round++) assert(made.counts(1 + round * 5));
      codes.push(made.pool.describe()[0]);
      await made.pool.stop();
    }
    console.log(JSON.stringify(codes));`);
  expect(told).toEqual(
    [2, 3, 4].flatMap((threads) => [
      "thread-lost",
      `threads: ${threads - 1} of ${threads}, the others have ended`,
      `threads: 1 of ${threads}, the others have ended`,
    ]),
  );
});

test("where nobody can tell whether a worker still runs, patience ends, and the threads are given up", async () => {
  const told = await inProcess(`${poolOpening}
    const made = await makePool(3, ({ post, terminate }) => ({ post, terminate }));
    for (let round = 0; round < 20; round++) assert(made.counts(1 + round * 5));
    const [first] = workers;
    // A part that takes its time is no reason. The clock is the test's: 40 looks go by, then it stands until the part is done.
    const { now } = performance;
    let looks = 0;
    runAnd(made, "hold", 3, () => {
      let time = now.call(performance);
      performance.now = () => {
        if (++looks < 40) time += 20;
        else Atomics.store(made.words, 1, 1);
        return time;
      };
    });
    performance.now = now;
    assert(looks >= 40, looks + " looks");
    const codes = [made.pool.isWhole];
    // Where the calling thread had no part of its own there is nothing to go by, and patience is longer.
    codes.push(await codeOf(() => runAnd(made, "hold", 3, () => void first.terminate()), ${soak ? 20_000 : 120_000}));
    codes.push(await codeOf(() => made.counts(1)), await codeOf(() => made.counts(50)), made.pool.isWhole);
    await made.pool.stop();
    console.log(JSON.stringify(codes));`);
  expect(told).toEqual([true, "thread-lost", "thread-lost", "thread-lost", false]);
});

test("a kernel that traps on a worker ends no thread", async () => {
  const told = await inProcess(`${poolOpening}
    const made = await makePool(3);
    const codes = [];
    for (let round = 0; round < 3; round++) {
      codes.push(await codeOf(() => runAnd(made, "trap", 3, () => {})));
      assert(made.counts(50));
    }
    codes.push(made.pool.isWhole, workers.size);
    await made.pool.stop();
    console.log(JSON.stringify(codes));`);
  expect(told).toEqual(["internal", "internal", "internal", true, 2]);
});

test("a worker that ended before it joined a memory keeps nobody from it", async () => {
  const told = await inProcess(`${poolOpening}
    const made = await makePool(3);
    const further = new WasmMemory(1024, 2 ** 23);
    const [first] = workers;
    void first.terminate();
    made.pool.join(further);
    await until(() => made.pool.isJoined(1), "joined");
    const job = further.take(400);
    const words = new Int32Array(further.buffer, job, 100);
    for (let round = 0; round < 100; round++) made.pool.run("count", job, 100, 1);
    assert(words.every((word) => word === 100));
    await until(() => workers.size === 1, "the end is heard of");
    console.log(JSON.stringify(made.pool.describe()));
    await made.pool.stop();`);
  expect(told).toEqual(["threads: 2 of 3, the others have ended"]);
});

test("a session whose worker ends itself inside a part goes on, and so do its neighbours", async () => {
  const told = await inProcess(`
    const expected = await decode(await InferenceSession.create(model, { threads: 3, wasm: { relaxedSimd: false } }));
    const codes = {};
    for (const how of ["exit in a part", "throw in a part"]) {
      process.env.KILL = how;
      const [one, other] = await Promise.all([1, 2].map(() => InferenceSession.create(model, { threads: 3 })));
      const rows = await decode(one);
      const state = newState(other);
      await step(other, state, 5);
      const before = [...state.lengths];
      arm(true);
      const saved = (await state.save());
      // The worker need not come in time for a part of the first runs.
      const found = new Set();
      for (let round = 0; round < 2000 && !found.has("thread-lost"); round++)
        found.add(await codeOf(async () => {
          const length = state.lengths[0];
          await step(other, state, 20);
          state.rewind(length);
        }));
      arm(false);
      codes[how] = [...found].sort().at(-1);
      assert.deepStrictEqual([...state.lengths], before);
      await state.restore(saved);
      await step(other, state);
      delete process.env.KILL;
      same(await decode(one), rows);
      same(await decode(other), rows);
      // A new session has all its threads again.
      const fresh = await InferenceSession.create(model, { threads: 3 });
      assert(!/threads:/.test(fresh.explain()) && /threads: 2 of 3/.test(one.explain()));
      same(await decode(fresh), rows);
      await Promise.all([one, other, fresh].map((session) => session.release()));
      await until(() => workers.size === 2, "the workers of released sessions end");
    }
    console.log(JSON.stringify(codes));`);
  expect(told).toEqual({
    "exit in a part": "thread-lost",
    "throw in a part": "thread-lost",
  });
});

test("workers that end at any step of their work never make a wrong result", async () => {
  const told = (await inProcess(`
    const session = await InferenceSession.create(model, { threads: 3 });
    const expected = await decode(session);
    await session.release();
    const codes = { none: 0 };
    for (let round = 0; round < ${soak ? 150 : 4}; round++) {
      process.env.KILL = round % 2 === 0 ? "exit anywhere" : "throw anywhere";
      // Another number of bytes: threads that no session shares.
      const session = await InferenceSession.create(model, { threads: 3, wasm: { memoryBytes: 2 ** 25 - 65536 * round } });
      let found = "none";
      for (let run = 0; run < 50 && found === "none"; run++)
        found = await codeOf(async () => same(await decode(session), expected));
      codes[found] = (codes[found] ?? 0) + 1;
      // Each of the two workers may end, at once or in a later run, and costs one run at most.
      let ended = found === "none" ? 0 : 1;
      for (let next = "unknown"; next !== "none"; ) {
        next = await codeOf(async () => same(await decode(session), expected));
        if (next !== "none") assert.equal(next, "thread-lost", String(ended++));
        assert(ended <= 2, ended + " runs lost to two workers");
      }
      await session.release();
    }
    await until(() => workers.size === 0, "no worker is left");
    console.log(JSON.stringify(codes));`)) as Record<string, number>;
  // On a busy machine all workers may come too late for a part.
  for (const code of Object.keys(told)) expect(["none", "thread-lost"]).toContain(code);
  if (soak) expect(told["thread-lost"]).toBeGreaterThan(0);
});

test("a worker that ends at its start or says nothing is told of in time", async () => {
  const told = await inProcess(`
    const codes = {};
    for (const how of ["exit at start", "throw at start", "silent"]) {
      process.env.KILL = how;
      codes[how] = await codeOf(() => InferenceSession.create(model, { threads: 3 }));
      await until(() => workers.size === 0, "no worker is left");
      if (how === "silent") continue;
      let heard;
      const session = await InferenceSession.create(model, { threads: 2, onFallback: (message) => (heard = message) });
      assert(/one thread instead of several: .*a worker did not start/.test(heard), heard);
      await decode(session);
      await session.release();
      delete process.env.KILL;
      const whole = await InferenceSession.create(model, { threads: 3 });
      await decode(whole);
      await whole.release();
      await until(() => workers.size === 0, "no worker is left");
    }
    console.log(JSON.stringify(codes));`);
  expect(told).toEqual({
    "exit at start": "invalid-argument",
    "throw at start": "invalid-argument",
    silent: "invalid-argument",
  });
});

test("idle workers that are terminated cost a session nothing but their help", async () => {
  const told = await inProcess(`
    const [one, other] = await Promise.all([1, 2].map(() => InferenceSession.create(model, { threads: 3 })));
    const expected = await decode(one);
    const state = newState(other);
    await step(other, state, 3);
    const said = [];
    for (const pause of [0, 50, 0]) {
      const [worker] = workers;
      if (pause === 0) void worker?.terminate();
      else await worker?.terminate();
      await rest(pause);
      same(await decode(one), expected);
      await step(other, state);
      said.push(/threads: .*/.exec(one.explain())?.[0] ?? "whole");
      await rest(50);
    }
    said.push(/threads: .*/.exec(other.explain())?.[0]);
    await Promise.all([one.release(), other.release()]);
    console.log(JSON.stringify([said.at(-1), state.lengths]));`);
  expect(told).toEqual(["threads: 1 of 3, the others have ended", [6]]);
});

test("threads end after the last release, and sessions come and go without a trace", async () => {
  const rounds = soak ? 200 : 10;
  const told = await inProcess(
    `
    const peak = [];
    const listeners = () => process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
    const before = [listeners(), process.getActiveResourcesInfo().length];
    const cycle = async (pause) => {
      const sessions = await Promise.all([1, 2].map(() => InferenceSession.create(model, { threads: 2 })));
      const state = newState(sessions[0]);
      await step(sessions[0], state, 5);
      await Promise.all(sessions.map((session) => session.release()));
      await rest(pause);
    };
    for (let round = 0; round < 10; round++) await cycle(0);
    const collect = async () => {
      for (let pass = 0; pass < 4; pass++) await rest(30).then(() => globalThis.gc());
    };
    await collect();
    const early = process.memoryUsage();
    // Most come at once, some when the threads of the one before have ended.
    for (let round = 0; round < ${rounds}; round++) {
      await cycle(round % 10 === 9 ? 200 : 0);
      peak.push(workers.size);
    }
    await until(() => workers.size === 0, "no worker is left");
    await collect();
    const late = process.memoryUsage();
    assert(late.heapUsed - early.heapUsed < 4e6, "heap grew by " + (late.heapUsed - early.heapUsed));
    assert(late.rss - early.rss < 1e8, "memory grew by " + (late.rss - early.rss));
    assert.deepStrictEqual([listeners(), process.getActiveResourcesInfo().length], before);
    // At once, while the threads of the last one are about to end.
    const session = await InferenceSession.create(model, { threads: 2 });
    await session.release();
    const next = await InferenceSession.create(model, { threads: 2 });
    await rest(300);
    same(await decode(next), await decode(next));
    await next.release();
    await until(() => workers.size === 0, "no worker is left");
    console.log(Math.max(...peak));`,
    ["--expose-gc"],
  );
  // One at a time; on a slow machine the next may start while the last ones end.
  expect(told).toBeLessThanOrEqual(soak ? 1 : 4);
});
