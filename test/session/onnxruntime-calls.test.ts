// Calls as they are written for onnxruntime's InferenceSession: the forms it takes are taken, and what it throws a TypeError or a RangeError
// for is one here too, still with insitu's code and class.
import { describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { Unavailable } from "../../src/backends/unavailable.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";

const model = writeModel(
  buildModel({
    opset: 21,
    inputs: [value("x", "float32", ["n"])],
    outputs: [value("y", "float32", ["n"])],
    nodes: [node("Neg", ["x"], ["y"])],
  }),
);
const feeds = { x: new Tensor("float32", [1, 2], [2]) };
const create = (...given: unknown[]): Promise<InferenceSession> => InferenceSession.create(...(given as [Uint8Array]));
const run = (session: InferenceSession, ...given: unknown[]): Promise<Record<string, Tensor>> =>
  session.run(...(given as [typeof feeds]));

/** Expects an error that is of insitu's class and of one of JavaScript's. */
async function expectThrown(call: () => unknown, kind: typeof TypeError | typeof RangeError, message: RegExp) {
  const error: unknown = await Promise.resolve()
    .then(call)
    .then(
      () => undefined,
      (caught: unknown) => caught,
    );
  expect(error).toBeInstanceOf(InsituError);
  expect(error).toBeInstanceOf(kind);
  expect(error).toMatchObject({ name: kind.name, message: expect.stringMatching(message) });
  expect(["invalid-argument", "invalid-feed"]).toContain((error as InsituError).code);
}

test("an error is of both classes where it says so, and of no other", () => {
  const plain = new InsituError("invalid-argument", "a");
  expect(plain.name).toBe("InsituError");
  expect(plain).not.toBeInstanceOf(TypeError);
  const typed = new InsituError("invalid-argument", "b", { as: "TypeError", cause: plain });
  expect(typed).toBeInstanceOf(Error);
  expect(typed).toBeInstanceOf(TypeError);
  expect(typed).not.toBeInstanceOf(RangeError);
  expect(typed).toBeInstanceOf(InsituError);
  expect(typed).not.toBeInstanceOf(Unavailable);
  expect([typed.code, typed.message, typed.cause, typed.constructor]).toEqual([
    "invalid-argument",
    "b",
    plain,
    InsituError,
  ]);
  expect(new Unavailable("backend", "invalid-argument", "c")).toBeInstanceOf(InsituError);
  for (const other of [null, undefined, 7, {}, new TypeError("d"), Object.create(InsituError.prototype)])
    expect(other instanceof InsituError).toBe(false);
});

describe("create", () => {
  test("a model that is a part of a buffer", async () => {
    const padded = new Uint8Array(model.length + 7);
    padded.set(model, 3);
    const ways = [
      [padded.buffer, 3, model.length],
      [padded.buffer, 3, model.length, { threads: 1 }],
      [padded.slice(3, 3 + model.length).buffer, 0],
      [padded.slice(0, 3 + model.length).buffer, 3],
      [model.slice().buffer, { threads: 1 }],
    ];
    for (const given of ways) {
      const session = await create(...given);
      expect(session.inputNames).toEqual(["x"]);
      await session.release();
    }
  });

  test("a part that is none, a model that is none, options that are none", async () => {
    const buffer = model.slice().buffer;
    await expectThrown(() => create(), TypeError, /argument\[0\]/);
    for (const offset of [-1, 1.5, buffer.byteLength, NaN])
      await expectThrown(() => create(buffer, offset), RangeError, /'byteOffset' .*must be a whole number from 0 to/);
    for (const length of [-1, 0, 1.5, buffer.byteLength])
      await expectThrown(
        () => create(buffer, 1, length),
        RangeError,
        /'byteLength' .*must be a whole number from 1 to/,
      );
    await expectThrown(() => create(buffer, 0, "7"), TypeError, /'byteLength'/);
    await expectThrown(() => create(buffer, 0, buffer.byteLength, "cpu"), TypeError, /'options'/);
    await expectThrown(() => create(model, "cpu"), TypeError, /'options'/);
    await expectThrown(() => create("model.onnx", 7), TypeError, /'options'/);
  });

  test("options that say nothing to insitu are checked, and let be", async () => {
    const options = {
      interOpNumThreads: 1,
      enableCpuMemArena: true,
      enableMemPattern: false,
      executionMode: "sequential",
      freeDimensionOverrides: { n: 2 },
      optimizedModelFilePath: "there.onnx",
      enableProfiling: false,
      profileFilePrefix: "a",
      logId: "b",
      logSeverityLevel: 3,
      logVerbosityLevel: 0,
      preferredOutputLocation: { y: "cpu" },
      enableGraphCapture: false,
      extra: { session: { set_denormal_as_zero: "1" } },
    };
    const session = await create(model, options);
    expect((await session.run(feeds))["y"].data).toEqual(Float32Array.of(-1, -2));
    session.startProfiling();
    session.endProfiling();
    await session.release();
    for (const [name, given, kind] of [
      ["intraOpNumThreads", "1", TypeError],
      ["intraOpNumThreads", 1.5, RangeError],
      ["interOpNumThreads", "1", TypeError],
      ["interOpNumThreads", -1, RangeError],
      ["preferredOutputLocation", "texture", RangeError],
      ["preferredOutputLocation", 7, TypeError],
      ["graphOptimizationLevel", 0, TypeError],
      ["graphOptimizationLevel", "most", TypeError],
      ["enableCpuMemArena", 0, TypeError],
      ["enableMemPattern", "yes", TypeError],
      ["executionMode", "both", TypeError],
      ["logSeverityLevel", "error", TypeError],
      ["logSeverityLevel", 8, RangeError],
      ["logId", 7, TypeError],
      ["executionProviders", "cpu", TypeError],
    ] as const)
      await expectThrown(() => create(model, { [name]: given }), kind, new RegExp(`option ${name} must be`));
  });

  test("execution providers are tried in order; those that are unknown need a known one", async () => {
    for (const [executionProviders, backend] of [
      [[], "wasm"],
      [["cpu"], "wasm"],
      [[{ name: "cpu" }], "wasm"],
      [["cuda", { name: "reference" }, "wasm"], "reference"],
      [["coreml", "cpu", "cpu"], "wasm"],
    ] as const) {
      const session = await InferenceSession.create(model, { executionProviders });
      expect(session.backend).toBe(backend);
      await session.release();
    }
    const refused = InferenceSession.create(model, { executionProviders: ["cuda", { name: "dml", deviceId: 0 }] });
    await expect(refused).rejects.toThrow(
      'option executionProviders: none of ["cuda","dml"] is here; there are "cpu", "wasm", "webgpu", "reference"',
    );
  });
});

describe("run", () => {
  test("feeds that the model has no input for are let be", async () => {
    const session = await InferenceSession.create(model);
    const { y } = await run(session, { ...feeds, other: new Tensor("int8", [1]), nothing: null, more: "text" });
    expect(y.data).toEqual(Float32Array.of(-1, -2));
    await session.release();
  });

  test("arguments that are none", async () => {
    const session = await InferenceSession.create(model);
    for (const odd of [null, undefined, 7, feeds.x, [feeds.x]])
      await expectThrown(() => run(session, odd), TypeError, /^'feeds' must be an object/);
    for (const odd of [null, 7, "y", feeds.x])
      await expectThrown(() => run(session, feeds, odd), TypeError, /^argument\[1\] of run must be 'fetches'/);
    await expectThrown(() => run(session, feeds, []), TypeError, /'fetches' must name at least one/);
    await expectThrown(() => run(session, feeds, [1]), TypeError, /'fetches': 1 is no output/);
    await expectThrown(() => run(session, feeds, ["w"]), RangeError, /'fetches': "w" is no output/);
    await expectThrown(() => run(session, feeds, ["y"], 1), TypeError, /'options' of a run must be an object/);
    await expectThrown(() => run(session, feeds, { logSeverityLevel: "error" }), TypeError, /logSeverityLevel/);
    await expectThrown(() => run(session, feeds, { logSeverityLevel: 8 }), RangeError, /logSeverityLevel/);
    await expectThrown(() => run(session, feeds, { tag: 8 }), TypeError, /option tag must be text/);
    await expect(run(session, feeds, { terminate: true })).rejects.toThrow("option terminate is true");
    const options = { tag: "a", logSeverityLevel: 4, logVerbosityLevel: 0, terminate: false, extra: {} };
    for (const given of [[options], [["y"], options], [{ y: null }, options]])
      expect((await run(session, feeds, ...given))["y"].data).toEqual(Float32Array.of(-1, -2));
    await session.release();
  });
});

describe("new Tensor", () => {
  const make = (...given: unknown[]): unknown => Reflect.construct(Tensor, given);
  test.each([
    [["float32", new Float32Array(2), {}], TypeError, /must be a number array/],
    [["float32", new Float32Array(2), [1, ""]], TypeError, /dims\[1\] must be an integer/],
    [["float32", new Float32Array(2), [1, 1.5]], TypeError, /dims\[1\] must be an integer/],
    [["float32", new Float32Array(2), [2, -1]], RangeError, /dims\[1\] must be a non-negative integer/],
    [["float7", [1]], TypeError, /not an element type/],
    [["float32", {}, [2]], TypeError, /must be a Float32Array/],
    [["string", new Uint8Array(2)], TypeError, /array of strings/],
    [[[]], TypeError, /needs its type/],
    [[[1]], TypeError, /needs its type/],
    [[{}], TypeError, /must be a typed array/],
  ] as const)("%j", (given, kind, message) => expectThrown(() => make(...given), kind, message));
});
