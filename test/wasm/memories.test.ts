// A model spread over several small memories computes bit for bit what it computes in one: prompts, single tokens, states side by side,
// forks, rewinding, saving, growing caches and releasing, with 1, 2 and 3 threads.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { type DecoderForm, type DecoderSizes, generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { KernelPool } from "../../src/backends/wasm/pool.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { moveToExternalData } from "../../tools/demo/move-external.js";
import { concatenate } from "../../src/onnx/pieces.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";
import type { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { builtEntry } from "../support/built.js";

/** Layers of 0.6 MB each beside tables of 0.5 MB: more than the share of one memory of 4 MiB that weights may fill. */
const sizes: DecoderSizes = { ...smallSizes, layers: 8, hidden: 128, headSize: 32, intermediate: 256, vocabulary: 512 };
const memoryBytes = 2 ** 22;

const forms: Readonly<Record<string, DecoderForm>> = {
  "float32 weights": {},
  "4-bit weights, caches by heads": { weights: { bits: 4, blockSize: 32 }, caches: "heads" },
};

const integers = (values: readonly number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);

const token = (position: number): number => (position * 37 + 11) % sizes.vocabulary;

/** Opens the decoder with its weights beside it, so that each has a place of its own. */
function open(form: DecoderForm, options: SessionOptions): Promise<InferenceSession> {
  const wide = { ...sizes, hidden: 256, headSize: 64, intermediate: 512 };
  const decoder = generatedDecoder(form.weights === undefined ? sizes : wide, form);
  const { model, pieces } = moveToExternalData(decoder, { location: "weights" });
  return InferenceSession.create(writeModel(model), {
    ...options,
    externalData: [{ path: "weights", data: concatenate(pieces) }],
  });
}

async function run(session: InferenceSession, state: State, count: number): Promise<Float32Array> {
  const start = state.lengths[0];
  const positions = Array.from({ length: count }, (_, at) => start + at);
  const feeds = { input_ids: integers(positions.map(token)), position_ids: integers(positions) };
  return (await session.run(feeds, { state }))["logits"].data as Float32Array;
}

const newState = (session: InferenceSession): State => session.createState({ dims: { batch: 1, capacity: 80 } });

/** A conversation with everything that can happen to a state; the logits of every run. */
async function conversation(session: InferenceSession): Promise<Float32Array[]> {
  const logits: Float32Array[] = [];
  const [first, second] = [newState(session), newState(session)];
  const add = async (state: State, count: number): Promise<void> =>
    void logits.push((await run(session, state, count)).slice());
  await add(first, 20);
  await add(second, 3);
  for (let round = 0; round < 4; round++) {
    await add(first, 1);
    await add(second, 1);
  }
  const branch = first.fork();
  await add(branch, 2);
  await add(first, 1);
  await add(branch, 1);
  first.rewind(10);
  await add(first, 1);
  const saved = await second.save();
  await add(second, 2);
  const third = newState(session);
  await third.restore(saved);
  second.release();
  await add(third, 2);
  await add(third, 17);
  branch.release();
  await add(first, 1);
  logits.push((third.get("past.0.key").data as Float32Array).slice());
  expect(first.statistics.movedBytes + third.statistics.movedBytes).toBe(0);
  return logits;
}

const memoryLines = (session: InferenceSession): string[] =>
  session
    .explain()
    .split("\n")
    .filter((line) => /^ {2}memory \d+: \d+ bytes of weights/.test(line));

describe.each(Object.keys(forms))("%s", (name) => {
  for (const threads of [1, 2, 3]) {
    test(`with ${threads} threads: several memories compute what one computes`, async () => {
      const one = await open(forms[name], { threads });
      const expected = await conversation(one);
      expect(memoryLines(one)).toEqual([]);
      await one.release();
      const many = await open(forms[name], { threads, wasm: { memoryBytes: memoryBytes } });
      const actual = await conversation(many);
      expect(actual.length).toBe(expected.length);
      expect(actual.map((row, at) => row.findIndex((value, i) => value !== expected[at][i]))).toEqual(
        expected.map(() => -1),
      );
      expect(memoryLines(many).length).toBeGreaterThanOrEqual(2);
      expect(many.explain()).toMatch(/in memory 1 reads \S+ \(\d+ bytes from memory 0\)/);
      await many.release();
    });
  }
});

/** Attention with caches that grow, twice in a row. */
function growingModel(): Model {
  const cache = (name: string): ReturnType<typeof value> =>
    value(name, "float32", [1, 2, name.startsWith("past") ? "past" : "total", 64]);
  const layer = (q: string, at: number): ReturnType<typeof node> =>
    node(
      "Attention",
      [q, "k", "v", "", `past.${at}.key`, `past.${at}.value`],
      [`y.${at}`, `present.${at}.key`, `present.${at}.value`],
      { is_causal: 1 },
      { name: `layer.${at}` },
    );
  const caches = (when: string): ReturnType<typeof value>[] =>
    [0, 1].flatMap((at) => [cache(`${when}.${at}.key`), cache(`${when}.${at}.value`)]);
  const rows = (name: string, heads: number): ReturnType<typeof value> =>
    value(name, "float32", [1, heads, "sequence", 64]);
  return buildModel({
    opset: 24,
    inputs: [rows("q", 4), rows("k", 2), rows("v", 2), ...caches("past")],
    outputs: [value("y.1", "float32"), ...caches("present")],
    nodes: [layer("q", 0), layer("y.0", 1)],
  });
}

test("caches that outgrow their memory move together, and are computed on where they come to lie", async () => {
  const noise = (heads: number, length: number, seed: number): Tensor => {
    const data = Float32Array.from({ length: heads * length * 64 }, (_, at) => Math.sin(at * 0.37 + seed));
    return new Tensor("float32", data, [1, heads, length, 64]);
  };
  const grow = async (options: SessionOptions): Promise<{ rows: Float32Array[]; moved: number; text: string }> => {
    const session = await InferenceSession.create(writeModel(growingModel()), { threads: 2, ...options });
    const states = [session.createState(), session.createState()];
    const rows: Float32Array[] = [];
    for (let at = 0; at < 16; at++) {
      const length = at % 3 === 0 ? 1 : 120;
      const feeds = { q: noise(4, length, at), k: noise(2, length, at + 1), v: noise(2, length, at + 2) };
      for (const state of states) rows.push((await session.run(feeds, { state }))["y.1"].data as Float32Array);
    }
    const branch = states[0].fork();
    const feeds = { q: noise(4, 1, 0), k: noise(2, 1, 1), v: noise(2, 1, 2) };
    for (const state of [branch, states[0]])
      rows.push((await session.run(feeds, { state }))["y.1"].data as Float32Array);
    const moved = [...states, branch].reduce((sum, state) => sum + state.statistics.movedBytes, 0);
    const text = session.explain();
    await session.release();
    return { rows, moved, text };
  };
  const one = await grow({});
  const many = await grow({ wasm: { memoryBytes: memoryBytes } });
  expect(many.rows).toEqual(one.rows);
  expect(many.moved).toBe(one.moved);
  expect(many.text.match(/memory \d+: \d+ bytes of weights/g)?.length).toBeGreaterThan(1);
  // Keys and values never lie apart: nothing but rows is carried.
  expect(many.text).toMatch(/in memory \d+ reads y\.0/);
  expect(many.text).not.toMatch(/in memory \d+ reads .*(past|present)\.\d/);
});

test("an operand whose shape alone is asked for is not carried over bytes that took its place", async () => {
  const noise = (dims: readonly number[], seed: number): Tensor => {
    const data = Float32Array.from({ length: dims[0] * dims[1] }, (_, at) => Math.sin(at * 0.37 + seed));
    return new Tensor("float32", data, dims);
  };
  const model = buildModel({
    opset: 24,
    inputs: [value("x", "float32", [1, 64])],
    outputs: [value("y", "float32"), value("z", "float32")],
    // In this order: the first lies in one memory, the others in the next.
    initializers: [
      initializer("first", noise([64, 4096], 1)),
      initializer("second", noise([64, 8192], 2)),
      initializer("added", noise([1, 4096], 3)),
    ],
    nodes: [
      node("MatMul", ["x", "first"], ["a"]),
      node("Add", ["a", "added"], ["b"]), // in the place of a, in the other memory
      node("CastLike", ["b", "a"], ["y"]),
      node("MatMul", ["x", "second"], ["z"]),
    ],
  });
  const { model: moved, pieces } = moveToExternalData(model, { location: "weights" });
  const results: Record<string, Tensor>[] = [];
  for (const bytes of [2 ** 32, memoryBytes]) {
    const session = await InferenceSession.create(writeModel(moved), {
      threads: 1,
      graphOptimizationLevel: "disabled",
      wasm: { memoryBytes: bytes },
      externalData: [{ path: "weights", data: concatenate(pieces) }],
    });
    for (let round = 0; round < 3; round++) results.push(await session.run({ x: noise([1, 64], 4) }));
    if (bytes === memoryBytes) expect(session.explain()).toMatch(/Add .*in memory 1 reads a /);
    await session.release();
  }
  for (const { y, z } of results) {
    expect(y.data).toEqual(results[0]["y"].data);
    expect(z.data).toEqual(results[0]["z"].data);
  }
});

test("workers take part in every memory", async () => {
  const session = await open({}, { threads: 2, wasm: { memoryBytes: memoryBytes } });
  const runs = vi.spyOn(KernelPool.prototype, "run");
  const state = newState(session);
  await run(session, state, 20);
  await run(session, state, 20);
  const [pool] = new Set(runs.mock.contexts as KernelPool[]);
  const memories = new Set(runs.mock.calls.map(([, , , memory]) => memory ?? 0));
  runs.mockRestore();
  expect(memories.size).toBeGreaterThanOrEqual(2);
  for (const memory of memories) await expect.poll(() => pool.isJoined(memory)).toBe(true);
  await session.release();
});

test("a step of a known conversation allocates nothing, whatever memories it crosses", async () => {
  const session = await open({}, { threads: 2, wasm: { memoryBytes: memoryBytes } });
  const state = newState(session);
  for (let at = 0; at < 4; at++) await run(session, state, 1);
  const before = session.memory;
  const grown = vi.spyOn(WebAssembly.Memory.prototype, "grow");
  for (let at = 0; at < 40; at++) await run(session, state, 1);
  expect(session.memory).toEqual(before);
  expect(grown).not.toHaveBeenCalled();
  grown.mockRestore();
  await session.release();
});

test("sessions in turn find the memories of those before them", async () => {
  const cycle = async (): Promise<void> => {
    const session = await open({}, { threads: 2, wasm: { memoryBytes: memoryBytes } });
    await run(session, newState(session), 5);
    await session.release();
  };
  await cycle();
  const grown = vi.spyOn(WebAssembly.Memory.prototype, "grow");
  for (let round = 0; round < 5; round++) await cycle();
  expect(grown).not.toHaveBeenCalled();
  grown.mockRestore();
});

test("a process ends by itself with a session in several memories that was never released", () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-memories-"));
  const { model, pieces } = moveToExternalData(generatedDecoder(sizes), { location: "weights" });
  writeFileSync(join(folder, "decoder.onnx"), writeModel(model));
  writeFileSync(join(folder, "weights"), concatenate(pieces));
  const script = join(folder, "script.mjs");
  writeFileSync(
    script,
    `import { InferenceSession, Tensor } from ${JSON.stringify(builtEntry)};
     const ids = (...values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
     const session = await InferenceSession.create(${JSON.stringify(join(folder, "decoder.onnx"))}, { threads: 3, wasm: { memoryBytes: ${memoryBytes}} });
     const state = session.createState({ dims: { batch: 1, capacity: 80 } });
     await session.run({ input_ids: ids(1, 2, 3), position_ids: ids(0, 1, 2) }, { state });
     console.log(session.explain().match(/memory \\d+: \\d+ bytes of weights/g).length);`,
  );
  const { status, stdout, stderr, signal } = spawnSync(process.execPath, [script], {
    encoding: "utf8",
    timeout: 240_000,
  });
  rmSync(folder, { recursive: true });
  expect([status, signal, stderr]).toEqual([0, null, ""]);
  expect(Number(stdout)).toBeGreaterThan(1);
});

describe("what does not fit", () => {
  const created: InferenceSession[] = [];
  afterAll(async () => void (await Promise.all(created.map((session) => session.release()))));

  test("weights larger than the limit are refused with the sizes before a byte is read", async () => {
    const { model } = moveToExternalData(generatedDecoder(sizes), { location: "weights" });
    const loaded = vi.fn();
    await expect(
      InferenceSession.create(writeModel(model), {
        memoryLimit: 2 ** 20,
        onProgress: loaded,
        externalData: [{ path: "weights", data: new Uint8Array(2 ** 23) }],
      }),
    ).rejects.toMatchObject({
      code: "out-of-memory",
      message: expect.stringMatching(
        /^the model's weights take \d\.\d+ MiB \(\d+ bytes\), and 1\.00 MiB \(1048576 bytes\) of memory are available; use a model with fewer or quantized weights, or raise the option memoryLimit$/,
      ),
    });
    expect(loaded).not.toHaveBeenCalled();
  });

  test("a model larger than the machine's memory is refused by its description alone", async () => {
    const folder = mkdtempSync(join(tmpdir(), "insitu-huge-"));
    try {
      // Tensors of 2 GiB in a file of holes.
      const count = Math.ceil(totalmem() / 2 ** 31) + 1;
      const initializers = Array.from({ length: count }, (_, at) => ({
        ...initializer(`w.${at}`, "float32", new Float32Array(1), [1]),
        dims: [2 ** 29],
        data: undefined,
        external: { location: "weights", offset: at * 2 ** 31, length: 2 ** 31 },
      }));
      const outputs = initializers.map(({ name }) => value(`${name}.shape`, "int64", [1]));
      const nodes = initializers.map(({ name }) => node("Shape", [name], [`${name}.shape`]));
      writeFileSync(join(folder, "model.onnx"), writeModel(buildModel({ opset: 24, outputs, nodes, initializers })));
      writeFileSync(join(folder, "weights"), "");
      truncateSync(join(folder, "weights"), count * 2 ** 31);
      const before = process.memoryUsage().rss;
      await expect(InferenceSession.create(join(folder, "model.onnx"))).rejects.toMatchObject({
        code: "out-of-memory",
        message: expect.stringMatching(
          /^the model's weights take [\d.]+ [GT]iB \(\d+ bytes\), and [\d.]+ [GT]iB \(\d+ bytes\) of memory are available/,
        ),
      });
      expect(process.memoryUsage().rss - before).toBeLessThan(2e8);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("a state that is too large is refused with the sizes, and nothing of it stays", async () => {
    const session = await open({}, { threads: 1, wasm: { memoryBytes: memoryBytes } });
    created.push(session);
    // One cache of 64 floats a row: 32 MiB in a memory of 4.
    expect(() => session.createState({ dims: { batch: 1, capacity: 2 ** 17 } })).toThrow(
      expect.objectContaining({
        code: "out-of-memory",
        message: expect.stringMatching(
          /^the caches of this state take 512\.0 MiB \(536870912 bytes\), and there is no memory for all of them: 33554432 bytes are needed in one WebAssembly memory: one has at most 4194304; .*smaller capacity or batch$/,
        ),
      }),
    );
    const limited = await open({}, { threads: 1, memoryLimit: 2 ** 24 });
    created.push(limited);
    expect(() => limited.createState({ dims: { batch: 1, capacity: 2 ** 17 } })).toThrow(
      /^the caches of this state take 512\.0 MiB \(536870912 bytes\) beside 5\.\d+ MiB \(\d+ bytes\) of weights, and 16\.0 MiB \(16777216 bytes\) of memory are available/,
    );
    // What is there still serves.
    const expected = await run(limited, newState(limited), 7);
    expect(await run(session, newState(session), 7)).toEqual(expected);
  });

  test("states that fill all memories are refused one by one, and released ones make room", async () => {
    const session = await open({}, { threads: 1, wasm: { memoryBytes: memoryBytes } });
    created.push(session);
    const states: State[] = [];
    const fill = (): void => {
      for (;;) states.push(session.createState({ dims: { batch: 1, capacity: 2000 } }));
    };
    expect(fill).toThrow(expect.objectContaining({ code: "out-of-memory" }));
    const most = states.length;
    expect(most).toBeGreaterThan(5);
    for (const state of states.splice(0)) state.release();
    expect(fill).toThrow(expect.objectContaining({ code: "out-of-memory" }));
    expect(states.length).toBe(most);
    for (const state of states) state.release();
  });

  test("an option that makes no sense is refused", async () => {
    await expect(open({}, { wasm: { memoryBytes: 1000 } })).rejects.toMatchObject({
      code: "invalid-argument",
      message: "option wasm.memoryBytes must be a whole number from 4194304 to 4294967296, got 1000",
    });
  });
});
