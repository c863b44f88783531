// Every public function and option outside generation, given values of every kind: it works, or it throws an InsituError, never anything
// else, on every backend.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { InferenceSession, rewrite } from "../../src/entry/node.js";
import { ops } from "../../packages/functions/ops.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import type { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { Doors, garbage, loosely, method } from "./garbage.js";

/** A cache that is written, one that grows, and a value beside them. */
const model = writeModel(
  buildModel({
    nodes: [
      node("TensorScatter", ["past", "u", "w"], ["present"], { axis: 1 }),
      node("Concat", ["grown", "u"], ["longer"], { axis: 1 }),
      node("Add", ["u", "u"], ["y"]),
    ],
    inputs: [
      value("past", "float32", ["batch", "capacity", 2]),
      value("grown", "float32", ["batch", "rows", 2]),
      value("u", "float32", ["batch", "new", 2]),
      value("w", "int64", ["batch"]),
    ],
    outputs: [value("present"), value("longer"), value("y")],
    opset: 24,
  }),
);

const floats = (...dims: number[]): Tensor =>
  new Tensor("float32", new Float32Array(dims.reduce((all, dim) => all * dim, 1)), dims);
const integers = (values: readonly number[], dims: readonly number[] = [values.length]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), dims);
const whole = (): Record<string, Tensor> => ({
  past: floats(1, 4, 2),
  grown: floats(1, 1, 2),
  u: floats(1, 1, 2),
  w: integers([0]),
});
const fresh = (): Record<string, Tensor> => ({ u: floats(1, 1, 2) });

test("new Tensor and its methods", async () => {
  const doors = new Doors();
  const make = (...args: unknown[]): unknown => Reflect.construct(Tensor, args);
  await doors.each("new Tensor(it)", (it) => make(it));
  await doors.each("new Tensor(it, data, dims)", (it) => make(it, new Float32Array(4), [4]));
  for (const type of ["float32", "float16", "bool", "int64", "uint8", "int4", "complex64", "string"]) {
    await doors.each(`new Tensor("${type}", it)`, (it) => make(type, it));
    await doors.each(`new Tensor("${type}", it, [2])`, (it) => make(type, it, [2]));
    await doors.each(`new Tensor("${type}", [it, it])`, (it) => make(type, [it, it], [2]));
  }
  await doors.each("new Tensor(type, data, it)", (it) => make("float32", new Float32Array(4), it));
  await doors.each("new Tensor(type, data, [it])", (it) => make("float32", new Float32Array(4), [it]));
  await doors.each("new Tensor(data, it)", (it) => make(new Float32Array(4), it));
  await doors.each("reshape(it)", (it) => method(floats(4), "reshape", it));
  await doors.each("reshape([it])", (it) => method(floats(4), "reshape", [it]));
  await doors.each("getData(it)", (it) => method(floats(4), "getData", it));
  doors.check();
});

test.each(["wasm", "reference"] as const)("InferenceSession.create on %s", async (backend) => {
  const doors = new Doors();
  const create = async (...args: unknown[]): Promise<void> => {
    const session = (await method(InferenceSession, "create", ...args)) as InferenceSession;
    await session.release();
  };
  await doors.each("create(it)", (it) => create(it, { backend, threads: 1 }));
  await doors.each("create(model, it)", (it) => create(model, it));
  for (const option of [
    "backend",
    "threads",
    "intraOpNumThreads",
    "inPlace",
    "rewrite",
    "change",
    "onFallback",
    "memoryLimit",
    "wasm",
    "executionProviders",
    "graphOptimizationLevel",
    "externalData",
    "onProgress",
    "pairs",
    "logId",
  ])
    await doors.each(`create(model, { ${option}: it })`, (it) =>
      create(model, { backend: option === "executionProviders" ? undefined : backend, threads: 1, [option]: it }),
    );
  await doors.each("executionProviders: [it]", (it) => create(model, { threads: 1, executionProviders: [it] }));
  await doors.each("executionProviders: [{ name: it }]", (it) =>
    create(model, { threads: 1, executionProviders: [{ name: it }] }),
  );
  await doors.each("pairs: { past: it }", (it) => create(model, { backend, threads: 1, pairs: { past: it } }));
  await doors.each("change gives it", (it) => create(model, { backend, threads: 1, change: () => it }));
  await doors.each("externalData: [it]", (it) => create(model, { backend, threads: 1, externalData: [it] }));
  doors.check();
});

test("threads are a whole number from 0 to 64", async () => {
  for (const threads of [1e9, 65, -1, 1.5, NaN, Infinity, "2", null, [2], {}, 2n, true]) {
    for (const backend of ["wasm", "reference"])
      await expect(method(InferenceSession, "create", model, { backend, threads })).rejects.toMatchObject({
        code: "invalid-argument",
        message: expect.stringMatching(
          /^option threads must be a whole number from 0 to 64, got .+; 0 is what the machine has$/,
        ),
      });
  }
  for (const threads of [undefined, 0, 1, 2]) await (await InferenceSession.create(model, { threads })).release();
});

test("rewrite", async () => {
  const doors = new Doors();
  await doors.each("rewrite(it)", (it) => loosely(rewrite, it));
  await doors.each("rewrite(model, it)", (it) => loosely(rewrite, model, it));
  for (const option of ["capacity", "opset", "keepMask", "externalData", "onProgress"])
    await doors.each(`rewrite(model, { ${option}: it })`, (it) => loosely(rewrite, model, { [option]: it }));
  doors.check();
});

describe.each(["wasm", "reference"] as const)("on %s", (backend) => {
  let session: InferenceSession;
  beforeAll(async () => {
    session = await InferenceSession.create(model, { backend, threads: 1, memoryLimit: 2 ** 26 });
  });
  afterAll(() => session.release());
  const dims = { batch: 1, capacity: 4 };

  test("run", async () => {
    const doors = new Doors();
    const run = (...args: unknown[]): unknown => method(session, "run", ...args);
    await doors.each("run(it)", (it) => run(it));
    for (const input of ["past", "u", "w", "nobody"])
      await doors.each(`run({ ${input}: it })`, (it) => run({ ...whole(), [input]: it }));
    await doors.each("run(feeds, it)", (it) => run(whole(), it));
    await doors.each("run(feeds, [it])", (it) => run(whole(), [it]));
    await doors.each("run(feeds, { y: it })", (it) => run(whole(), { y: it }));
    await doors.each("run(feeds, { y: null, nobody: it })", (it) => run(whole(), { y: null, nobody: it }));
    await doors.each("run(feeds, names, it)", (it) => run(whole(), ["y"], it));
    await doors.each("run(feeds, it, options)", (it) => run(whole(), it, {}));
    await doors.each("run(feeds, { state: it })", (it) => run(fresh(), { state: it }));
    await doors.each("run(feeds, names, { state: it })", (it) => run(fresh(), ["y"], { state: it }));
    for (const option of ["tag", "logSeverityLevel", "extra"])
      await doors.each(`run(feeds, { ${option}: it })`, (it) => run(whole(), { [option]: it }));
    const state = session.createState({ dims });
    await doors.each("run({ u: it }, { state })", (it) => run({ u: it }, { state }));
    await doors.each("run(feeds, { present: it }, { state })", (it) => run(fresh(), { present: it }, { state }));
    await doors.each("explain(it)", (it) => method(session, "explain", it));
    await doors.each("explain({ json: it })", (it) => method(session, "explain", { json: it }));
    doors.check();
    // Nothing of all this did any harm.
    const { y } = await session.run({ ...whole(), u: new Tensor("float32", [1, 2], [1, 1, 2]) });
    expect(y.data).toEqual(Float32Array.of(2, 4));
  });

  test("createState", async () => {
    const doors = new Doors();
    const create = (...args: unknown[]): void => (method(session, "createState", ...args) as State).release();
    await doors.each("createState(it)", (it) => create(it));
    await doors.each("createState({ dims: it })", (it) => create({ dims: it }));
    await doors.each("createState({ pairs: it })", (it) => create({ dims, pairs: it }));
    await doors.each("createState({ pairs: { past: it } })", (it) => create({ dims, pairs: { past: it } }));
    await doors.each("createState({ shapes: it })", (it) => create({ shapes: it }));
    for (const name of ["batch", "capacity", "past", "grown", "__proto__", "nobody"]) {
      await doors.each(`dims: { ${name}: it }`, (it) =>
        create({ dims: { ...dims, ...Object.fromEntries([[name, it]]) } }),
      );
      await doors.each(`shapes: { ${name}: it }`, (it) => create({ dims, shapes: Object.fromEntries([[name, it]]) }));
    }
    await doors.each("shapes: { past: [1, it, 2] }", (it) => create({ dims, shapes: { past: [1, it, 2] } }));
    await doors.each("dims: { past: [it, 4, 2] }", (it) => create({ dims: { ...dims, past: [it, 4, 2] } }));
    doors.check();
  });

  test("the methods of a state", async () => {
    const doors = new Doors();
    const state = session.createState({ dims });
    await session.run(fresh(), { state });
    const before = await state.save();
    await doors.each("get(it)", (it) => method(state, "get", it));
    await doors.each("set(it, tensor)", (it) => method(state, "set", it, floats(1, 4, 2)));
    await doors.each("set(name, it)", (it) => method(state, "set", "past", it));
    for (const [what, it] of garbage)
      if (it !== 0) await doors.try(`rewind(${what})`, () => method(state, "rewind", it));
    for (const [what, it] of garbage)
      if (it !== 0) await doors.try(`rewind([${what}])`, () => method(state, "rewind", [it]));
    await doors.each("restore(it)", (it) => method(state, "restore", it));
    await doors.each("edit(it)", (it) => method(state, "edit", it));
    await doors.each("fork(it)", (it) => (method(state, "fork", it) as State).release());
    await doors.each("save(it)", (it) => method(state, "save", it));
    doors.check();
    expect(await state.save()).toEqual(before);
  });
});

/** Calls of the functions that are right, to be made wrong in one place. */
const calls: Readonly<
  Record<keyof typeof ops, () => readonly [Record<string, unknown> | Tensor, Record<string, unknown>]>
> = {
  tensorScatter: () => [
    { pastCache: floats(1, 4, 2), update: floats(1, 1, 2), writeIndices: integers([1]) },
    { axis: 1, mode: "linear", inPlace: true, opset: 24 },
  ],
  attention: () => [
    {
      q: floats(1, 2, 1, 4),
      k: floats(1, 2, 1, 4),
      v: floats(1, 2, 1, 4),
      attnMask: floats(1, 3),
      pastKey: floats(1, 2, 2, 4),
      pastValue: floats(1, 2, 2, 4),
      nonpadKvSeqlen: undefined,
    },
    { isCausal: true, scale: 1, softcap: 0, qkMatmulOutputMode: 0, softmaxPrecision: "float32", qNumHeads: undefined },
  ],
  scatterPaKvCache: () => [
    {
      key: floats(1, 2, 8),
      keyCache: floats(2, 4, 2, 8),
      slotMapping: integers([1]),
      value: floats(1, 2, 8),
      valueCache: floats(2, 4, 2, 8),
    },
    { cacheMode: "Norm", scatterMode: "None", check: true, hifloat8: false, inPlace: true, strides: undefined },
  ],
  gatherPaKvCache: () => [
    {
      keyCache: floats(2, 4, 2, 8),
      blockTables: integers([0], [1, 1]),
      seqLens: integers([2]),
      seqOffset: integers([0]),
    },
    { cacheMode: "Norm", isSeqLensCumsum: false },
  ],
  slotMapping: () => [
    { blockTables: integers([1, 2], [1, 2]), positions: integers([5]), seqLens: integers([1]) },
    { blockSize: 4 },
  ],
  convertPagedLayout: () => [floats(2, 4, 2, 8), { from: "Norm", to: "PA_NZ", heads: 2 }],
  pagedAttention: () => [
    {
      query: floats(1, 2, 1, 8),
      keyCache: floats(2, 4, 2, 8),
      valueCache: floats(2, 4, 2, 8),
      blockTables: integers([0], [1, 1]),
      seqLens: integers([2]),
    },
    { cacheMode: "Norm", isCausal: true, scale: 1, attentionSums: true, leftWindowSize: 2 },
  ],
  quantizedScatterPaKvCache: () => [
    {
      key: floats(1, 2, 8),
      keyCache: new Tensor("int8", new Int8Array(128), [2, 4, 2, 8]),
      keyScale: floats(2, 4, 2),
      slotMapping: integers([1]),
      value: floats(1, 2, 8),
      valueCache: new Tensor("int8", new Int8Array(128), [2, 4, 2, 8]),
      valueScale: floats(2, 4, 2),
    },
    { cacheMode: "Norm", inPlace: true },
  ],
  repackCache: () => [
    { cache: floats(1, 4, 2), rows: integers([1, 0], [1, 2]) },
    { axis: 1, cacheMode: undefined, inPlace: true },
  ],
};

test.each(Object.keys(calls) as (keyof typeof ops)[])("ops.%s", async (name) => {
  const doors = new Doors();
  const call = (...args: unknown[]): unknown => loosely(ops[name], ...args);
  // Right as it stands.
  call(...calls[name]());
  await doors.each(`${name}(it)`, (it) => call(it));
  await doors.each(`${name}(it, options)`, (it) => call(it, calls[name]()[1]));
  await doors.each(`${name}(inputs, it)`, (it) => call(calls[name]()[0], it));
  const [inputs, options] = calls[name]();
  if (!(inputs instanceof Tensor))
    for (const input of Object.keys(inputs))
      await doors.each(`${name}({ ${input}: it })`, (it) => {
        const [right, also] = calls[name]();
        return call({ ...(right as Record<string, unknown>), [input]: it }, also);
      });
  for (const option of [...Object.keys(options), "nobody", "__proto__"])
    await doors.each(`${name}(inputs, { ${option}: it })`, (it) => {
      const [right, also] = calls[name]();
      return call(right, { ...also, ...Object.fromEntries([[option, it]]) });
    });
  doors.check();
});
