// Weights on the host's backends: large ones are read while the model is made ready, many at a time, and tables of which only rows are read stay in
// their files. What is computed is held against numbers that the test makes by itself.
import { appendFileSync, mkdtempSync, readdirSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import type { ReadableFile } from "../../src/base/platform.js";
import { InferenceSession } from "../../src/entry/node.js";
import { backends } from "../../src/entry/backends.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import type { Model, ModelNode } from "../../src/onnx/model.js";
import { moveToExternalData } from "../../tools/demo/move-external.js";
import { writeModel } from "../../src/onnx/write.js";
import { nodePlatform } from "../../src/platform/node.js";
import { Session } from "../../src/session/session.js";
import { Tensor } from "../../src/tensor/tensor.js";

const folder = mkdtempSync(join(tmpdir(), "insitu-arriving-"));
afterAll(() => rmSync(folder, { recursive: true }));
const [path, weights] = ["model.onnx", "weights.bin"].map((name) => join(folder, name));

const [rows, width] = [2 ** 16, 64];
const tableNumbers = Float32Array.from({ length: rows * width }, (_, at) => (at % 65_521) - 30_000);
const square = Float32Array.from({ length: 512 * 512 }, (_, at) => (at % 13) - 6);

/** A model that looks rows up in a table of 16 MiB. */
function lookup(more: readonly ModelNode[] = [], outputs: readonly string[] = [], ids = "ids"): Model {
  return buildModel({
    opset: { "": 21 },
    inputs: [value("ids", "int64", ["count"]), value("x", "float32", [1, 512])],
    outputs: [value("y"), value("z"), ...outputs.map((name) => value(name))],
    initializers: [
      initializer("table", "float32", tableNumbers, [rows, width]),
      initializer("square", "float32", square, [512, 512]),
      initializer("one", "int64", BigInt64Array.of(1n), [1]),
    ],
    nodes: [...more, node("Gather", ["table", ids], ["y"]), node("MatMul", ["x", "square"], ["z"])],
  });
}

function write(model: Model): void {
  const { model: moved, pieces } = moveToExternalData(model, { location: "weights.bin" });
  writeFileSync(weights, Buffer.concat(pieces));
  writeFileSync(path, writeModel(moved));
}

const x = new Tensor(
  "float32",
  Float32Array.from({ length: 512 }, (_, at) => at % 7),
  [1, 512],
);
const product = Array.from({ length: 512 }, (_, column) =>
  square.reduce((sum, number, at) => (at % 512 === column ? sum + number * (Math.floor(at / 512) % 7) : sum), 0),
);
const idsOf = (ids: readonly number[]): Tensor => new Tensor("int64", BigInt64Array.from(ids, BigInt), [ids.length]);
const rowsOf = (ids: readonly number[]): number[] =>
  ids.flatMap((id) => [...tableNumbers.subarray((id < 0 ? id + rows : id) * width).subarray(0, width)]);

async function looked(session: Session, ids: readonly number[]): Promise<number[]> {
  const { y, z } = await session.run({ ids: idsOf(ids), x });
  expect([...(z.data as Float32Array)]).toEqual(product);
  return [...(y.data as Float32Array)];
}

const told = (session: Session): string => /"table": .*/.exec(session.explain())?.[0] ?? "";

describe.each(["wasm", "reference"] as const)("on %s", (backend) => {
  beforeEach(() => write(lookup()));

  test("rows are read when they are first asked for, and not again", async () => {
    const session = await InferenceSession.create(path, { backend, threads: 1 });
    expect(told(session)).toMatch(/^"table": 0 of 65536 rows were read/);
    for (const [ids, read] of [
      [[5, 65_535, 5], 2],
      [[5, 65_535, 5], 2],
      [[5, 6, 7], 4],
      [[-1, -65_536], 5],
    ] as const) {
      expect(await looked(session, ids)).toEqual(rowsOf(ids));
      expect(told(session)).toContain(`: ${read} of 65536 rows`);
    }
    await expect(looked(session, [65_536])).rejects.toThrow("65536");
    expect(told(session)).toContain(": 5 of 65536 rows");
    await session.release();
  });

  test("weights in the model's own file are no different", async () => {
    writeFileSync(path, writeModel(lookup()));
    const reports: number[][] = [];
    const onProgress = (done: number, total: number): number => reports.push([done, total]);
    const session = await InferenceSession.create(path, { backend, threads: 1, onProgress });
    expect(await looked(session, [3, 60_000])).toEqual(rowsOf([3, 60_000]));
    expect(told(session)).toContain(": 2 of 65536 rows");
    const total = reports[0][1];
    expect(reports.every(([done, of], at) => of === total && done >= (reports[at - 1]?.[0] ?? 0))).toBe(true);
    expect(reports.at(-1)).toEqual([total, total]);
    await session.release();
  });

  test("indices may be computed in the graph", async () => {
    write(lookup([node("Add", ["ids", "one"], ["next"])], [], "next"));
    const session = await InferenceSession.create(path, { backend, threads: 1 });
    for (const ids of [
      [0, 7],
      [8, 9],
      [8, 9],
    ])
      expect(await looked(session, ids)).toEqual(rowsOf(ids.map((id) => id + 1)));
    expect(told(session)).toContain(": 4 of 65536 rows");
    await session.release();
  });

  test("a table that something else reads too is read as a whole", async () => {
    write(lookup([node("ReduceMax", ["table"], ["most"], { keepdims: 0 })], ["most"]));
    const session = await InferenceSession.create(path, { backend, threads: 1 });
    expect(told(session)).toBe("");
    const { y, most } = await session.run({ ids: idsOf([4]), x });
    expect([[...(y.data as Float32Array)], most.data[0]]).toEqual([rowsOf([4]), 35_520]);
    await session.release();
  });

  test("a file whose name is gone is still read, one that has changed is refused", async () => {
    const session = await InferenceSession.create(path, { backend, threads: 1 });
    unlinkSync(weights);
    expect(await looked(session, [5])).toEqual(rowsOf([5]));
    await session.release();
    write(lookup());
    const second = await InferenceSession.create(path, { backend, threads: 1 });
    expect(await looked(second, [1])).toEqual(rowsOf([1]));
    appendFileSync(weights, "more");
    await expect(looked(second, [2])).rejects.toThrow(/has changed since the model was loaded/);
    expect(await looked(second, [1])).toEqual(rowsOf([1]));
    await second.release();
  });

  test.skipIf(process.platform !== "linux")("the file is closed on release", async () => {
    const open = (): number => readdirSync("/proc/self/fd").length;
    const before = open();
    const session = await InferenceSession.create(path, { backend, threads: 1 });
    expect(open()).toBeGreaterThan(before);
    await session.release();
    expect(open()).toBe(before);
  });

  /** A platform whose weight file waits before each read, and fails where `fails`. */
  function slow(fails: (offset: number) => boolean): {
    readonly platform: typeof nodePlatform;
    readonly most: () => number;
  } {
    let [underway, most] = [0, 0];
    const openBeside = async (...where: Parameters<typeof nodePlatform.openBeside>): Promise<ReadableFile> => {
      const file = await nodePlatform.openBeside(...where);
      const read = async (offset: number, target: Uint8Array): Promise<void> => {
        most = Math.max(most, ++underway);
        await new Promise((resolve) => setTimeout(resolve, 5));
        underway--;
        if (fails(offset)) throw new Error("the disk is wet");
        await file.read(offset, target);
      };
      return { size: file.size, identity: file.identity, isNear: true, read, close: () => file.close() };
    };
    return { platform: { ...nodePlatform, openBeside }, most: () => most };
  }

  class Placed extends Session {
    static async open(platform: typeof nodePlatform): Promise<Placed> {
      return new Placed(await Session.prepare(path, platform, backends, { backend, threads: 1 }));
    }
  }

  test("reads go on beside each other, and what has no lasting file is read as a whole", async () => {
    const { platform, most } = slow(() => false);
    const session = await Placed.open(platform);
    expect(most()).toBe(2);
    expect(told(session)).toBe("");
    expect(await looked(session, [77])).toEqual(rowsOf([77]));
    await session.release();
  });

  test("a read that fails names the weight", async () => {
    const { platform } = slow((offset) => offset > 0);
    await expect(Placed.open(platform)).rejects.toThrow(/tensor "(square|table)": .*cannot be read: the disk is wet/);
  });
});
