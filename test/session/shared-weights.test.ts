// Sessions of one file on one device hold its weights once: what is read from the file is counted, and where weights lie. The last session gives them
// back; a reading that fails, a file that changed and another device are no reason to wait or to take what is not there.
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import type { ReadableFile } from "../../src/base/platform.js";
import { backends } from "../../src/entry/backends.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { nodePlatform } from "../../src/platform/node.js";
import type { ModelSource } from "../../src/session/load.js";
import { Session } from "../../src/session/session.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { moveToExternalData } from "../../tools/demo/move-external.js";
import { noWebgpu } from "../support/backends.js";
import { deviceOf, proxied } from "../support/gpu.js";

const folder = mkdtempSync(join(tmpdir(), "insitu-shared-"));
afterAll(() => rmSync(folder, { recursive: true }));
const [path, weights] = ["model.onnx", "weights.bin"].map((name) => join(folder, name));

const size = 640;
const weightBytes = size * size * 4;

/** y = x · a · b, with numbers that depend on `seed`. */
function write(seed: number): void {
  const matrix = (offset: number): Float32Array =>
    Float32Array.from({ length: size * size }, (_, at) => ((at + offset + seed) % 13) - 6);
  const model = buildModel({
    opset: { "": 21 },
    inputs: [value("x", "float32", [1, size])],
    outputs: [value("y")],
    initializers: [
      initializer("a", "float32", matrix(0), [size, size]),
      initializer("b", "float32", matrix(5), [size, size]),
    ],
    nodes: [node("MatMul", ["x", "a"], ["h"]), node("MatMul", ["h", "b"], ["y"])],
  });
  const { model: moved, pieces } = moveToExternalData(model, { location: "weights.bin" });
  writeFileSync(weights, Buffer.concat(pieces));
  writeFileSync(path, writeModel(moved));
}

/** The first result where x is all ones, as a loop has it. */
function expected(seed: number): number {
  let sum = 0;
  const at = (row: number, column: number, offset: number): number => ((row * size + column + offset + seed) % 13) - 6;
  for (let inner = 0; inner < size; inner++) {
    let h = 0;
    for (let row = 0; row < size; row++) h += at(row, inner, 0);
    sum += h * at(inner, 0, 5);
  }
  return sum;
}

/** A platform that counts the bytes that are read of weights; `fails` says of a read whether it does. */
class Counted extends Session {
  static read = 0;
  /** Weights' buffers on the GPU that are there, by their labels, and their bytes. */
  static readonly onGpu = new Map<GPUBuffer, { readonly label: string; readonly size: number }>();
  static fails: () => boolean = () => false;
  static readonly platform: typeof nodePlatform = {
    ...nodePlatform,
    gpu: deviceOf((device) =>
      proxied(device, {
        createBuffer: (descriptor: GPUBufferDescriptor) => {
          const { label = "", size } = descriptor;
          const buffer = device.createBuffer(descriptor);
          if (!label.startsWith("weight")) return buffer;
          Counted.onGpu.set(buffer, { label, size });
          const destroy = buffer.destroy.bind(buffer);
          buffer.destroy = () => {
            Counted.onGpu.delete(buffer);
            return destroy();
          };
          return buffer;
        },
      }),
    ),
    openBeside: async (...where): Promise<ReadableFile> => {
      const file = await nodePlatform.openBeside(...where);
      const read = async (offset: number, target: Uint8Array): Promise<void> => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        if (Counted.fails()) throw new Error("the disk is wet");
        Counted.read += target.length;
        await file.read(offset, target);
      };
      const { identity, version } = file;
      return { size: file.size, identity, version, isNear: true, read, close: () => file.close() };
    },
  };

  static async open(
    options: SessionOptions = { backend: "wasm", threads: 1 },
    model: ModelSource = path,
  ): Promise<Counted> {
    return new Counted(await Session.prepare(model, Counted.platform, backends, options));
  }
}

const ones = new Tensor("float32", new Float32Array(size).fill(1), [1, size]);
const answer = async (session: Session): Promise<number> => Number((await session.run({ x: ones })).y.data[0]);
const told = (session: Session): string => /weights: .* sessions/.exec(session.explain())?.[0] ?? "";

beforeEach(() => {
  write(0);
  Counted.read = 0;
  Counted.fails = () => false;
});

test("a second session reads no weights, also while the first one is loading, and the last one gives them back", async () => {
  const [first, second] = await Promise.all([Counted.open(), Counted.open()]);
  expect(Counted.read).toBe(2 * weightBytes);
  expect(told(second)).toBe(`weights: ${2 * weightBytes} bytes of one file are shared by 2 sessions`);
  const third = await Counted.open({ backend: "wasm", threads: 1, graphOptimizationLevel: "disabled" });
  expect(Counted.read).toBe(2 * weightBytes);
  expect([await answer(first), await answer(second), await answer(third)]).toEqual(Array(3).fill(expected(0)));
  await first.release();
  await third.release();
  expect(told(second)).toBe("");
  expect(await answer(second)).toBe(expected(0));
  await second.release();
  const fourth = await Counted.open();
  expect(Counted.read).toBe(4 * weightBytes);
  expect(await answer(fourth)).toBe(expected(0));
  await fourth.release();
});

test("who waits for a reading that fails reads for itself", async () => {
  let failures = 1;
  Counted.fails = () => failures-- > 0;
  const opened = await Promise.allSettled([Counted.open(), Counted.open(), Counted.open()]);
  const failed = opened.flatMap((each) => (each.status === "rejected" ? [String(each.reason)] : []));
  expect(failed).toEqual([expect.stringContaining("the disk is wet")]);
  const sessions = opened.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  for (const session of sessions) {
    expect(told(session)).toContain("by 2 sessions");
    expect(await answer(session)).toBe(expected(0));
  }
  for (const session of sessions) await session.release();
});

test("a file that has changed, other threads and bytes are not shared", async () => {
  const session = await Counted.open();
  write(1);
  appendFileSync(weights, "more");
  const changed = await Counted.open();
  const apart = await Counted.open({ backend: "wasm", threads: 2 });
  expect([session, changed, apart].map(told)).toEqual(["", "", ""]);
  expect(Counted.read).toBe(6 * weightBytes);
  expect([await answer(session), await answer(changed), await answer(apart)]).toEqual([0, 1, 1].map(expected));
  for (const each of [session, changed, apart]) await each.release();
});

test("memory is taken once, and given back with the last one", async () => {
  const backend = await backends.find(({ name }) => name === "wasm")!.load();
  const [first, second] = [0, 1].map(() => backend.open({ platform: nodePlatform, threads: 1 }));
  const [a, b] = [await first, await second];
  const one = (await a.shareBytes!("a file", [4096, 64]))!;
  const waiting = b.shareBytes!("a file", [4096, 64]);
  one.settle!(true);
  const other = (await waiting)!;
  const places = (of: typeof one): number[] => of.pieces.map(({ byteOffset }) => byteOffset);
  expect([other.settle, places(one)]).toEqual([undefined, places(other)]);
  expect(one.pieces[0].buffer).toBe(other.pieces[0].buffer);
  await a.release();
  // What is taken meanwhile lies elsewhere; what was given back is there for others.
  const c = await backend.open({ platform: nodePlatform, threads: 1 });
  expect(places(one)).not.toContain(c.allocateBytes!([4096])[0].byteOffset);
  await b.release();
  const again = (await c.shareBytes!("a file", [4096, 64]))!;
  expect([typeof again.settle, places(again)]).toEqual(["function", places(one)]);
  again.settle!(false);
  await c.release();
});

test("several memories tell of what is shared too", async () => {
  const options = { backend: "wasm", threads: 1, wasm: { memoryBytes: 2 ** 22 } } as const;
  const sessions = [await Counted.open(options), await Counted.open(options), await Counted.open(options)];
  for (const session of sessions) {
    expect(await answer(session)).toBe(expected(0));
    const lines = [...session.explain().matchAll(/memory \d: (\d+) bytes of weights/g)];
    expect(lines.length).toBe(2);
    // The model's own file, whose bytes are beside them, is each session's.
    const told = lines.reduce((sum, [, bytes]) => sum + Number(bytes), 0);
    expect(told - 2 * weightBytes).toBeLessThan(1000);
    expect(told).toBeGreaterThanOrEqual(2 * weightBytes);
  }
  expect(Counted.read).toBe(2 * weightBytes);
  for (const session of sessions) await session.release();
});

test("two sessions by path", async () => {
  const [first, second] = [await InferenceSession.create(path), await InferenceSession.create(path)];
  expect(told(second)).toContain("shared by 2 sessions");
  expect(await answer(first)).toBe(expected(0));
  await first.release();
  expect(await answer(second)).toBe(expected(0));
  await second.release();
});

describe.skipIf(noWebgpu !== undefined)(`on WebGPU${noWebgpu === undefined ? "" : ` (${noWebgpu})`}`, () => {
  const onGpu = { backend: "webgpu" } as const;
  const bytes = (): number => [...Counted.onGpu.values()].reduce((sum, { size: each }) => sum + each, 0);

  test("buffers are made and filled once, and destroyed with the last session", async () => {
    const [first, second] = await Promise.all([Counted.open(onGpu), Counted.open(onGpu)]);
    expect([await answer(first), await answer(second)]).toEqual(Array(2).fill(expected(0)));
    expect(Counted.read).toBe(2 * weightBytes);
    expect(bytes()).toBe(2 * weightBytes);
    expect(second.explain()).toContain(`weights: ${2 * weightBytes} bytes are shared with other sessions`);
    await first.release();
    expect(bytes()).toBe(2 * weightBytes);
    expect(second.explain()).not.toContain("shared with");
    const third = await Counted.open({ ...onGpu, graphOptimizationLevel: "disabled" });
    expect([await answer(second), await answer(third)]).toEqual(Array(2).fill(expected(0)));
    await second.release();
    expect(await answer(third)).toBe(expected(0));
    await third.release();
    expect(bytes()).toBe(0);
    write(1);
    const changed = await Counted.open(onGpu);
    expect(await answer(changed)).toBe(expected(1));
    await changed.release();
  });

  test("who waits for a reading that fails reads for itself", async () => {
    let failures = 1;
    Counted.fails = () => failures-- > 0;
    const [first, second] = await Promise.allSettled([Counted.open(onGpu), Counted.open(onGpu)]);
    const [failed, right] = first.status === "rejected" ? [first, second] : [second, first];
    expect(failed).toMatchObject({ reason: { message: expect.stringContaining("the disk is wet") } });
    if (right.status === "rejected") throw right.reason;
    expect(await answer(right.value)).toBe(expected(0));
    expect(bytes()).toBe(2 * weightBytes);
    await right.value.release();
    expect(bytes()).toBe(0);
  });

  test("bytes that were handed in are each session's own", async () => {
    const model = writeModel(
      buildModel({
        opset: { "": 21 },
        inputs: [value("x", "float32", [1, size])],
        outputs: [value("y")],
        initializers: [initializer("a", "float32", new Float32Array(size * size).fill(1), [size, size])],
        nodes: [node("MatMul", ["x", "a"], ["y"])],
      }),
    );
    const [first, second] = [await Counted.open(onGpu, model), await Counted.open(onGpu, model)];
    expect([await answer(first), await answer(second)]).toEqual([size, size]);
    expect(bytes()).toBe(2 * weightBytes);
    await first.release();
    await second.release();
  });
});
