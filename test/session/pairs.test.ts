// Which output is an input's next content: found by structure and names, told, and named by the caller where that is not what is meant.
// What a state then holds is computed by hand here.
import { describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, initializer, type ModelParts, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";
import type { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { int64 } from "../support/decoding.js";

const open = (parts: Omit<ModelParts, "opset">, options: SessionOptions = {}): Promise<InferenceSession> =>
  InferenceSession.create(writeModel(buildModel({ opset: 24, ...parts })), { threads: 1, ...options });

const cache = (name: string): ReturnType<typeof value> => value(name, "float32", [1, 4, 2]);
const scatter = (past: string, present: string, rows = "rows", where = "where"): ReturnType<typeof node> =>
  node("TensorScatter", [past, rows, where], [present], { axis: 1 });
const floats = (values: readonly number[], dims: readonly number[] = [1, 4, 2]): Tensor =>
  new Tensor("float32", Float32Array.from(values), dims);
const numbersIn = (state: State, name: string): number[] => [...(state.get(name).data as Float32Array)];
const feeds = (row: readonly number[], at: number): Record<string, Tensor> => ({
  rows: floats(row, [1, 1, 2]),
  where: int64([at]),
});
const presents = (session: InferenceSession): Record<string, string> =>
  Object.fromEntries(session.explain({ json: true }).states.map(({ input, output }) => [input, output]));

const rowInputs = [value("rows", "float32", [1, 1, 2]), value("where", "int64", [1])];

/** Two outputs come from one past: the rows as they are, and the rows twice written. */
const twoPresents = (outputs: readonly string[]): Omit<ModelParts, "opset"> => ({
  inputs: [cache("past"), ...rowInputs, value("further", "int64", [1])],
  outputs: outputs.map((name) => value(name, "float32")),
  nodes: [scatter("past", "once"), scatter("once", "twice", "rows", "further")],
});

describe("what is found", () => {
  test("the first of the outputs, where names say nothing", async () => {
    expect(presents(await open(twoPresents(["once", "twice"])))).toEqual({ past: "once" });
    expect(presents(await open(twoPresents(["twice", "once"])))).toEqual({ past: "twice" });
  });

  test("the output whose name ends most like the input's", async () => {
    const session = await open({
      inputs: [cache("past.0.key"), ...rowInputs],
      outputs: ["draft", "present.1.key", "present.0.key"].map((name) => value(name, "float32")),
      nodes: ["draft", "present.1.key", "present.0.key"].map((name) => scatter("past.0.key", name)),
    });
    expect(presents(session)).toEqual({ "past.0.key": "present.0.key" });
  });

  test("of names that end alike one that keeps the shape, and never one that the input cannot become", async () => {
    const joined = (
      shape: (number | string)[],
      type: "float32" | "float64" = "float32",
    ): Omit<ModelParts, "opset"> => ({
      inputs: [value("past", type, shape), value("rows", type, [1, 1, 2]), value("where", "int64", [1])],
      outputs: ["longer", "written"].map((name) => value(name, type)),
      nodes: [node("Concat", ["past", "rows"], ["longer"], { axis: 1 }), scatter("past", "written")],
    });
    expect(presents(await open(joined([1, "capacity", 2])))).toEqual({ past: "written" });
    const rearranged = await open({
      inputs: [value("past", "float32", ["batch", "capacity", 2]), ...rowInputs],
      outputs: ["line", "written"].map((name) => value(name, "float32")),
      nodes: [
        scatter("past", "written"),
        node("Flatten", ["written"], ["flat"], { axis: 1 }),
        node("Unsqueeze", ["flat", "zero"], ["line"]),
      ],
      initializers: [initializer("zero", "int64", [0n], [1])],
    });
    expect(presents(rearranged)).toEqual({ past: "written" });
    const fixed = await open(joined([1, 4, 2]));
    expect(presents(fixed)).toEqual({ past: "written" });
    expect(fixed.explain({ json: true }).states[0].others).toBeUndefined();
  });

  test("how much is rewritten does not change it", async () => {
    // Two Transposes that undo each other: without them another output comes from the past, and it is listed first.
    const parts: Omit<ModelParts, "opset"> = {
      inputs: [cache("past"), ...rowInputs],
      outputs: ["through", "plain"].map((name) => value(name, "float32")),
      nodes: [
        node("Transpose", ["past"], ["turned"], { perm: [0, 2, 1] }),
        node("Transpose", ["turned"], ["back"], { perm: [0, 2, 1] }),
        scatter("back", "through"),
        scatter("past", "plain"),
      ],
    };
    for (const graphOptimizationLevel of ["disabled", "basic", "all"] as const)
      expect(presents(await open(parts, { graphOptimizationLevel }))).toEqual({ past: "plain" });
  });

  test("a session lists what its states hold, as it is explained and for as long as the object lives", async () => {
    const parts: Omit<ModelParts, "opset"> = {
      inputs: [
        cache("past"),
        value("list", "float32", [1, "rows so far", 2]),
        value("sum", "float32", [2]),
        ...rowInputs,
      ],
      outputs: [value("sums", "float32"), value("longer", "float32"), value("other", "float32"), value("p", "float32")],
      nodes: [
        scatter("past", "p"),
        node("Concat", ["list", "rows"], ["longer"], { axis: 1 }),
        node("Add", ["sum", "rows"], ["other"]),
        node("Add", ["sum", "sum"], ["sums"]),
      ],
    };
    const found = await open(parts);
    expect(found.heldInputs).toEqual([
      { input: "past", output: "p", kind: "update", axis: 1 },
      { input: "list", output: "longer", kind: "append", axis: 1 },
    ]);
    const named = await open(parts, { pairs: { sum: "sums" } });
    for (const session of [found, named]) {
      const { states } = session.explain({ json: true });
      expect(session.heldInputs).toMatchObject(states.map(({ input, output, kind }) => ({ input, output, kind })));
      // What is held cannot be fed, and all else can.
      const state = session.createState();
      const held = session.heldInputs.map(({ input }) => input);
      expect([...state.names].sort()).toEqual([...held].sort());
      const all = { ...feeds([1, 2], 0), sum: floats([1, 2], [2]) };
      const fed = Object.fromEntries(Object.entries(all).filter(([name]) => !held.includes(name)));
      const results = await session.run(fed, { state });
      const kept = new Set(session.heldInputs.map(({ output }) => output));
      expect(Object.keys(results)).toEqual(session.outputNames.filter((name) => !kept.has(name)));
    }
    expect(named.heldInputs).toContainEqual({ input: "sum", output: "sums", kind: "update", axis: undefined });
    await named.release();
    expect(named.heldInputs.length).toBe(3);
  });

  test("both forms of the explanation tell of a choice", async () => {
    const session = await open(twoPresents(["once", "twice"]));
    expect(session.explain({ json: true }).states).toMatchObject([
      { input: "past", output: "once", others: ["twice"] },
    ]);
    expect(session.explain()).toContain(
      'presents to choose from\n  past  becomes once; could become twice: pairs: { "past": "twice" } says so\n',
    );
    const named = await open(twoPresents(["once", "twice"]), { pairs: { past: "twice" } });
    expect(named.explain({ json: true }).states).toMatchObject([{ input: "past", output: "twice", others: ["once"] }]);
    const plain = await open({
      inputs: [cache("past"), ...rowInputs],
      outputs: [cache("p")],
      nodes: [scatter("past", "p")],
    });
    expect(plain.explain()).not.toContain("presents to choose from");
    expect(plain.explain({ json: true }).states[0]).not.toHaveProperty("others");
  });
});

const variants: SessionOptions[] = (["wasm", "reference"] as const).flatMap((backend) =>
  (["prefer", "never"] as const).map((inPlace) => ({ backend, inPlace })),
);

describe.each(variants)("what is named: $backend, $inPlace", (options) => {
  test("states of one session each with pairs of their own", async () => {
    const session = await open(twoPresents(["once", "twice"]), options);
    const [found, named, again] = [
      session.createState(),
      session.createState({ pairs: { past: "twice" } }),
      session.createState({ pairs: { past: "once" } }),
    ];
    const run = (state: State, at: number): Promise<Record<string, Tensor>> =>
      session.run({ ...feeds([at + 1, at + 5], at), further: int64([3]) }, { state });
    for (const at of [0, 1]) {
      // An output that the state does not keep is a result.
      expect(Object.keys(await run(found, at))).toEqual(["twice"]);
      expect(Object.keys(await run(named, at))).toEqual(["once"]);
      await run(again, at);
    }
    expect(numbersIn(found, "past")).toEqual([1, 5, 2, 6, 0, 0, 0, 0]);
    expect(numbersIn(named, "past")).toEqual([1, 5, 2, 6, 0, 0, 2, 6]);
    expect(numbersIn(again, "past")).toEqual(numbersIn(found, "past"));
    const branch = named.fork();
    await run(branch, 2);
    expect(numbersIn(branch, "past")).toEqual([1, 5, 2, 6, 3, 7, 3, 7]);
    expect(numbersIn(named, "past")).toEqual([1, 5, 2, 6, 0, 0, 2, 6]);
    const restored = session.createState({ pairs: { past: "twice" } });
    await restored.restore(await named.save());
    await run(restored, 2);
    expect(numbersIn(restored, "past")).toEqual(numbersIn(branch, "past"));
    const { allocations } = session.memory;
    session.createState({ pairs: { past: "twice" } }).release();
    await run(named, 2);
    if (options.backend === "wasm") expect(session.memory.allocations - allocations).toBeLessThanOrEqual(2);
  });

  test("a session that was told, and a state that says otherwise", async () => {
    const session = await open(twoPresents(["once", "twice"]), { ...options, pairs: { past: "twice" } });
    expect(presents(session)).toEqual({ past: "twice" });
    const [told, otherwise] = [session.createState(), session.createState({ pairs: { past: "once" } })];
    for (const state of [told, otherwise]) await session.run({ ...feeds([8, 9], 1), further: int64([2]) }, { state });
    expect(numbersIn(told, "past")).toEqual([0, 0, 8, 9, 8, 9, 0, 0]);
    expect(numbersIn(otherwise, "past")).toEqual([0, 0, 8, 9, 0, 0, 0, 0]);
  });

  test("an output that nothing but its name makes the present: values that are carried, and two that change places", async () => {
    const session = await open(
      {
        inputs: [
          value("h", "float32", [2]),
          value("a", "float32", [2]),
          value("b", "float32", [2]),
          value("x", "float32", [2]),
        ],
        outputs: ["next", "was_a", "was_b"].map((name) => value(name, "float32")),
        nodes: [
          node("Add", ["h", "x"], ["next"]),
          node("Identity", ["a"], ["was_a"]),
          node("Identity", ["b"], ["was_b"]),
        ],
      },
      options,
    );
    expect(() => session.createState()).toThrow(/no past → present pair.*pairs: \{ input: output \} names one/);
    const state = session.createState({ pairs: { h: "next", a: "was_b", b: "was_a" } });
    state.set("a", floats([1, 2], [2]));
    state.set("b", floats([3, 4], [2]));
    for (let step = 1; step <= 3; step++) {
      const results = await session.run({ x: floats([step, 10 * step], [2]) }, ["was_a"], { state });
      expect([...(results["was_a"].data as Float32Array)]).toEqual(step % 2 === 1 ? [1, 2] : [3, 4]);
    }
    expect(numbersIn(state, "h")).toEqual([6, 60]);
    expect(numbersIn(state, "a")).toEqual([3, 4]);
    expect(numbersIn(state, "b")).toEqual([1, 2]);
    const told = await open(
      {
        inputs: [value("h", "float32", [2])],
        outputs: [value("next", "float32")],
        nodes: [node("Neg", ["h"], ["next"])],
      },
      { ...options, pairs: { h: "next" } },
    );
    expect(told.explain({ json: true }).caches).toMatchObject([
      {
        input: "h",
        output: "next",
        inPlace: false,
        reason: '"next" is computed elsewhere and copied into "h" after each run',
      },
    ]);
  });

  test("a present that turns out to be none is refused, and the caches stay as they were", async () => {
    const session = await open(
      {
        inputs: [cache("a"), value("h", "float32", [3]), value("flags", "bool", [3]), ...rowInputs],
        outputs: [value("a2", "float32"), value("some", "float32"), value("old", "float32")],
        nodes: [
          scatter("a", "a2"),
          node("Compress", ["h", "flags"], ["some"], { axis: 0 }),
          node("Identity", ["a"], ["old"]),
        ],
      },
      options,
    );
    const state = session.createState({ pairs: { h: "some" } });
    state.set("h", floats([1, 2, 3], [3]));
    const run = (flags: boolean[]): Promise<unknown> =>
      session.run({ ...feeds([5, 5], 0), flags: new Tensor("bool", flags, [3]) }, { state });
    await run([true, true, true]);
    await expect(run([true, false, true])).rejects.toMatchObject({
      code: "invalid-state",
      message: expect.stringMatching(
        /cache "h" is float32\[3\], which its present "some" of shape \[2\] cannot become/,
      ) as string,
    });
    expect(numbersIn(state, "h")).toEqual([1, 2, 3]);
    expect(numbersIn(state, "a")).toEqual([5, 5, 0, 0, 0, 0, 0, 0]);
  });
});

test("under require, what cannot be in place is refused by name", async () => {
  const parts = twoPresents(["once", "twice"]);
  await expect(open(parts, { inPlace: "require" })).rejects.toMatchObject({ code: "not-in-place" });
  const both = await open(
    {
      ...parts,
      outputs: [cache("twice"), cache("again")],
      nodes: [...parts.nodes!, node("Neg", ["twice"], ["again"])],
    },
    { inPlace: "require" },
  );
  expect(() => both.createState({ pairs: { past: "again" } })).toThrow(
    /"past" cannot be updated in place: "again" is computed elsewhere and copied into it after each run; load with inPlace: "prefer"/,
  );
  expect(both.createState().names).toEqual(["past"]);
});

describe("what is refused", () => {
  const session = open({
    inputs: [
      cache("a"),
      cache("b"),
      value("c", "float64", [1, 4, 2]),
      value("d", "float32", [4]),
      cache("e"),
      ...rowInputs,
    ],
    outputs: ["a2", "b2"].map((name) => value(name, "float32")),
    nodes: [scatter("a", "a2"), node("Add", ["b", "e"], ["b2"])],
    initializers: [initializer("e", "float32", new Float32Array(8), [1, 4, 2])],
  });
  const cases: [string, unknown, RegExp][] = [
    [
      "an unknown input",
      { past: "a2" },
      /pairs: "past" is no input of the model; its inputs are a, b, c, d, e, rows, where/,
    ],
    ["an unknown output", { a: "b" }, /pairs: "b", named for "a", is no output of the model; its outputs are a2, b2/],
    [
      "another type",
      { c: "b2" },
      /pairs: "b2" is float32\[1,4,2\] and "c" is float64\[1,4,2\]: a present must have its past's type and shape/,
    ],
    [
      "another shape",
      { d: "b2" },
      /pairs: "b2" is float32\[1,4,2\] and "d" is float32\[4\]: a present must have its past's type and shape/,
    ],
    [
      "one output for two inputs",
      { a: "b2", b: "b2" },
      /pairs: "a" and "b" both name "b2", and an output becomes the content of one input/,
    ],
    [
      "an input with a default",
      { e: "b2" },
      /pairs: "e" has a default, and an input with a default is fed or constant, never held/,
    ],
    ["no name", { a: null }, /pairs: "a" must name an output, got object/],
    ["no object", "a=a2", /pairs: must be an object of output names by input name, got string/],
    ["null", null, /pairs: must be an object of output names by input name, got null/],
    ["a list", ["a"], /pairs: must be an object of output names by input name, got an array/],
  ];
  test.each(cases)("%s", async (_, pairs, message) => {
    const create = async (): Promise<unknown> =>
      (await session).createState({ pairs: pairs as Record<string, string> });
    await expect(create()).rejects.toThrow(message);
    await expect(create()).rejects.toBeInstanceOf(InsituError);
    await expect(create()).rejects.toMatchObject({ code: "invalid-argument" });
  });

  test("an input whose present was named for another is fed again", async () => {
    const loaded = await session;
    const state = loaded.createState({ pairs: { b: "a2" } });
    expect(state.names).toEqual(["b"]);
    const { b2 } = await loaded.run(
      {
        ...feeds([1, 2], 3),
        a: floats([1, 1, 1, 1, 1, 1, 1, 1]),
        c: new Tensor("float64", new Float64Array(8), [1, 4, 2]),
        d: floats([0, 0, 0, 0], [4]),
      },
      { state },
    );
    expect([...(b2.data as Float32Array)]).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
    expect(numbersIn(state, "b")).toEqual([1, 1, 1, 1, 1, 1, 1, 2]);
  });
});
