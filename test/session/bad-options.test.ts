/** Sources and options that are not what they should be: each is refused with an InsituError that names it, none gets as far as a TypeError. */
import { describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { InferenceSession, rewrite } from "../../src/entry/node.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import type { ModelTensor } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { valueText } from "../../src/base/value-text.js";

const external: ModelTensor = {
  ...initializer("w", "float32", new Float32Array(0)),
  dims: [2],
  data: undefined,
  external: { location: "w.bin", offset: 0 },
};
const plain = writeModel(
  buildModel({
    opset: 21,
    inputs: [value("x", "float32", [2])],
    outputs: [value("y", "float32", [2])],
    nodes: [node("Relu", ["x"], ["y"])],
  }),
);
const withWeights = writeModel(
  buildModel({
    opset: 21,
    inputs: [value("x", "float32", [2])],
    outputs: [value("y", "float32", [2])],
    initializers: [external],
    nodes: [node("Add", ["x", "w"], ["y"])],
  }),
);

/** Bytes whose memory was handed to somebody else. */
const detached = (): Uint8Array => {
  const bytes = plain.slice();
  structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
  return bytes;
};
const bare: unknown = Object.assign(Object.create(null) as object, { length: 1 });
const garbage: readonly unknown[] = [
  null,
  0,
  NaN,
  -1,
  Infinity,
  7n,
  true,
  "",
  "no such thing",
  Symbol("s"),
  [],
  [null],
  [undefined],
  [[]],
  {},
  bare,
  new Map(),
  new Date(NaN),
  () => 1,
  class {},
  detached(),
  detached().buffer,
  new Float32Array(3),
  new Proxy({}, {}),
];

async function refused(what: string, promise: () => Promise<unknown>): Promise<InsituError> {
  const error: unknown = await promise().then(
    () => undefined,
    (caught: unknown) => caught,
  );
  expect(error, `${what}: ${valueText(error)}`).toBeInstanceOf(InsituError);
  expect((error as InsituError).code, what).not.toBe("internal");
  return error as InsituError;
}

/** Either it is refused as it should be, or it was no garbage to begin with. */
async function settled(what: string, promise: () => Promise<unknown>): Promise<void> {
  const error: unknown = await promise().then(
    () => undefined,
    (caught: unknown) => caught,
  );
  if (error !== undefined) expect(error, `${what}: ${valueText(error)}`).toBeInstanceOf(InsituError);
}

const create = (source: unknown, options?: unknown): Promise<InferenceSession> =>
  InferenceSession.create(source as Uint8Array, options as object);

describe("sources", () => {
  garbage.forEach((source, at) => {
    test(`garbage ${at}`, async () => {
      await refused("create", () => create(source, { backend: "reference" }));
      await refused("create on wasm", () => create(source, { threads: 1 }));
      await refused("rewrite", () => rewrite(source as Uint8Array));
    });
  });
  test("nothing at all, and what is no model", async () => {
    await refused("undefined", () => create(undefined));
    await refused("text", () => create(new TextEncoder().encode("not a model")));
    await refused("a file: URL of another machine", () => create("file://elsewhere/model.onnx"));
    await refused("a NUL in a path", () => create("a\0b"));
  });
  test("bytes in every form that holds them", async () => {
    const { buffer } = plain.slice();
    for (const source of [plain, buffer, new DataView(buffer), Buffer.from(plain), new Int8Array(buffer)])
      expect((await create(source, { backend: "reference" })).inputNames).toEqual(["x"]);
  });
});

describe("externalData", () => {
  const lists: readonly unknown[] = [
    ...garbage.filter((item) => !(Array.isArray(item) && item.length === 0)),
    ...garbage.filter((item) => typeof item !== "string").map((item) => [item]),
    ...garbage.filter((item) => typeof item !== "string").map((item) => [{ path: item, data: new Uint8Array(8) }]),
    ...garbage
      .filter((item) => !ArrayBuffer.isView(item) || item.byteLength < 8)
      .map((item) => [{ path: "w.bin", data: item }]),
    new Array(3),
    [{ path: "w.bin" }],
    [{ data: new Uint8Array(8) }],
    [{ path: "w.bin", data: new Uint8Array(4) }],
    [{ path: "w.bin", data: { byteLength: 8 } }],
    ["w.bin", null],
  ];
  lists.forEach((externalData, at) => {
    test(`garbage ${at}`, async () => {
      await refused("create", () => create(withWeights, { backend: "reference", externalData }));
      await settled("a model without", () => create(plain, { backend: "reference", externalData }));
      await settled("rewrite", () => rewrite(withWeights, { externalData: externalData as [] }));
    });
  });
  test("names the entry", async () => {
    const message = async (externalData: unknown): Promise<string> =>
      (await refused("create", () => create(plain, { externalData }))).message;
    expect(await message([null])).toBe("externalData[0] must be a path or { path, data }, got null");
    expect(await message({ "w.bin": plain })).toMatch(/option externalData must be a list of files, got an object/);
    expect(await message(["a", { path: 3 }])).toMatch(/externalData\[1\]\.path must be .*got 3/);
    expect(await message([{ path: "a", data: 3 }])).toMatch(/externalData\[0\]\.data must be .*got 3/);
  });
});

describe("options", () => {
  const names = [
    "backend",
    "inPlace",
    "threads",
    "intraOpNumThreads",
    "rewrite",
    "change",
    "onFallback",
    "onProgress",
    "memoryLimit",
    "wasm",
    "executionProviders",
    "graphOptimizationLevel",
  ];
  for (const name of names) {
    test(name, async () => {
      let refusals = 0;
      for (const [at, given] of garbage.entries()) {
        if (name === "change" && typeof given === "function") continue; // a function of the caller's may do what it likes
        const error: unknown = await create(plain, {
          ...(name === "intraOpNumThreads" ? {} : { threads: 1 }),
          [name]: given,
        }).then(
          (session) => session.release(),
          (caught: unknown) => caught,
        );
        if (error === undefined) continue;
        refusals++;
        expect(error, `garbage ${at}: ${valueText(error)}`).toBeInstanceOf(InsituError);
        expect((error as InsituError).code, `garbage ${at}`).not.toBe("internal");
        expect((error as Error).message, `garbage ${at}`).toMatch(new RegExp(name));
      }
      expect(refusals).toBeGreaterThan(garbage.length / 2);
    });
  }
  test("in place of the options themselves", async () => {
    for (const [at, options] of garbage.entries()) {
      if (typeof options === "object" && options !== null && !Array.isArray(options)) continue;
      await refused(`garbage ${at}`, () => create(plain, options));
      await refused(`garbage ${at}`, () => rewrite(plain, options as object));
    }
  });
});
