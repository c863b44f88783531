// What `explain({ json: true })` says of each cache: which nodes are listed, with which verdict, reason and reader.
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { readArchive } from "../../scripts/archive.mjs";
import { InferenceSession } from "../../src/entry/node.js";
import { graph, initializer, node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import type { CacheJson } from "../../packages/explain/caches.js";
import {
  append,
  appendInBranch,
  around,
  attention,
  cache,
  concat,
  flag,
  groupQueryAttention,
  zeros,
} from "./graphs.js";

type Policy = "prefer" | "require" | "never";

const load = (model: Model | Uint8Array, inPlace: Policy = "prefer"): Promise<InferenceSession> =>
  InferenceSession.create(model instanceof Uint8Array ? model : writeModel(model), { backend: "reference", inPlace });

const cachesOf = async (model: Model | Uint8Array, inPlace?: Policy): Promise<readonly CacheJson[]> =>
  (await load(model, inPlace)).explain({ json: true }).caches;

const free = "nothing else reads the old value";
const needsResult = (reader: string): string =>
  `${reader} reads the old value and needs this node's result, so it cannot come first`;

/** Under "require" the model loads if every cache is in place, and is refused with a copied one's own reason if not. */
async function expectRequireAgrees(model: Model): Promise<void> {
  const copied = (await cachesOf(model)).filter(({ inPlace }) => !inPlace);
  if (copied.length === 0) {
    expect((await cachesOf(model, "require")).every(({ inPlace }) => inPlace)).toBe(true);
    return;
  }
  const error = (await load(model, "require").catch((thrown: unknown) => thrown)) as Error & { code?: string };
  expect(error.code).toBe("not-in-place");
  const named = copied.find(({ reason }) => error.message.includes(reason));
  expect(named, error.message).toBeDefined();
  if (named?.reader !== undefined) expect(error.message).toContain(`"${named.reader}"`);
}

/** One model, and its caches as they should be told. */
async function expectCaches(model: Model, expected: readonly CacheJson[]): Promise<void> {
  expect(await cachesOf(model)).toEqual(expected);
  await expectRequireAgrees(model);
}

const scatter = { node: "append", op: "TensorScatter", input: "past", output: "present" };

test("TensorScatter on a graph input", () =>
  expectCaches(around([append("past", "present", "append")]), [{ ...scatter, inPlace: true, reason: free }]));

test("a node without a name goes by its first output's", () =>
  expectCaches(around([append("past", "present", "")]), [
    { ...scatter, node: "present", inPlace: true, reason: free },
  ]));

test("TensorScatter on an intermediate", () =>
  expectCaches(around([node("Neg", ["past"], ["negated"]), append("negated", "present", "append")]), [
    { ...scatter, input: "negated", inPlace: true, reason: free },
  ]));

test("TensorScatter on an initializer", () =>
  expectCaches(
    around([append("table", "written", "append"), node("Add", ["past", "written"], ["present"], {}, { name: "add" })], {
      initializers: [zeros("table", [1, 8, 4])],
    }),
    [
      {
        ...scatter,
        input: "table",
        output: "written",
        inPlace: false,
        reason: '"table" is an initializer, and constants are never written',
      },
    ],
  ));

test("a cache that no state holds", () =>
  expectCaches(
    around([append("past", "written", "append"), node("Neg", ["written"], ["result"], {}, { name: "negate" })], {
      outputs: [cache("result")],
    }),
    [
      {
        ...scatter,
        output: "written",
        inPlace: false,
        reason: '"past" is fed by the caller, and feeds are never written',
      },
    ],
  ));

test("ScatterND and ScatterElements count where their root is a graph input", async () => {
  const indices = value("indices", "int64", ["n", 1]);
  const rows = value("rows", "float32", ["n", "capacity", 4]);
  const write = node("ScatterND", ["past", "indices", "rows"], ["present"], {}, { name: "put" });
  await expectCaches(around([write], { inputs: [indices, rows] }), [
    { ...scatter, node: "put", op: "ScatterND", inPlace: true, reason: free },
  ]);
  const other = node("ScatterND", ["negated", "indices", "rows"], ["present"], {}, { name: "put" });
  await expectCaches(around([node("Neg", ["past"], ["negated"]), other], { inputs: [indices, rows] }), []);
  const elements = node("ScatterElements", ["past", "picks", "row"], ["present"], { axis: 1 }, { name: "put" });
  await expectCaches(around([elements], { inputs: [value("picks", "int64", ["batch", 1, 4])] }), [
    { ...scatter, node: "put", op: "ScatterElements", inPlace: true, reason: free },
  ]);
});

test("ScatterND caches as PyTorch exports a static cache: copied by the Transposes around them", async () => {
  const archive = fileURLToPath(new URL("../models/decoders.tar.br", import.meta.url));
  const files = readArchive(archive) as Map<string, Uint8Array>;
  const path = [...files.keys()].find((name) => /llama_static.*\/model\.onnx$/.test(name))!;
  const caches = await cachesOf(files.get(path)!);
  expect(caches.map(({ op, input, inPlace }) => ({ op, input, inPlace }))).toEqual(
    ["past_0", "past_1", "past_2", "past_3"].map((input) => ({ op: "ScatterND", input, inPlace: false })),
  );
  for (const { reason, reader, input } of caches)
    expect(reason).toBe(`Transpose "${reader}" copies "${input}" into another layout for each token`);
});

test("a TensorScatter between Transposes: in place in its copy, and the pair is told as well", () =>
  cachesOf(
    around(
      [
        node("Transpose", ["past"], ["turned"], { perm: [0, 2, 1] }, { name: "turn" }),
        node("TensorScatter", ["turned", "column", "at"], ["written"], { axis: 2 }, { name: "append" }),
        node("Transpose", ["written"], ["present"], { perm: [0, 2, 1] }, { name: "turn_back" }),
      ],
      { inputs: [value("column", "float32", ["batch", 4, 1])] },
    ),
  ).then((caches) =>
    expect(caches).toEqual([
      {
        node: "turn",
        op: "Transpose",
        input: "past",
        output: "present",
        inPlace: false,
        reason: 'Transpose "turn" copies "past" into another layout for each token',
        reader: "turn",
      },
      { ...scatter, input: "turned", output: "written", inPlace: true, reason: free },
    ]),
  ));

test("pairs made by Concat, also behind a view", () => {
  const joined = { op: "Concat", inPlace: false, reason: "Concat makes a new, longer tensor for each token" };
  return cachesOf(concat).then((caches) =>
    expect(caches).toEqual([
      { node: "join_k", input: "past.key", output: "present.key", ...joined },
      { node: "join_v", input: "past.value", output: "present.value", ...joined },
    ]),
  );
});

test("Attention's and GroupQueryAttention's past and present", async () => {
  for (const [model, op] of [
    [attention, "Attention"],
    [groupQueryAttention, "GroupQueryAttention"],
  ] as const) {
    await expectCaches(model, [
      { node: "attend", op, input: "past_key", output: "present_key", inPlace: true, reason: free },
      { node: "attend", op, input: "past_value", output: "present_value", inPlace: true, reason: free },
    ]);
  }
});

test("a reader after the write: ordered first where it can be, at fault where not", async () => {
  const outputs = [cache("present"), cache("result")];
  await expectCaches(
    around([append("past", "present", "append"), node("Neg", ["past"], ["result"], {}, { name: "negate" })], {
      outputs,
    }),
    [{ ...scatter, inPlace: true, reason: "its other reader comes first" }],
  );
  await expectCaches(
    around(
      [append("past", "present", "append"), node("Sub", ["present", "past"], ["result"], {}, { name: "differ" })],
      {
        outputs,
      },
    ),
    [{ ...scatter, inPlace: false, reason: needsResult('Sub "differ"'), reader: "differ" }],
  );
});

test("an output that is the old value, or a view of it", async () => {
  const reason = (name: string, what: string): string =>
    `the graph output "${name}" is ${what}, and is read when the run ends`;
  await expectCaches(around([append("past", "present", "append")], { outputs: [cache("present"), cache("past")] }), [
    { ...scatter, inPlace: false, reason: reason("past", "the old value"), reader: "past" },
  ]);
  await expectCaches(
    around([node("Identity", ["past"], ["old"], {}, { name: "keep" }), append("past", "present", "append")], {
      outputs: [cache("present"), cache("old")],
    }),
    [{ ...scatter, inPlace: false, reason: reason("old", "a view of the old value"), reader: "old" }],
  );
});

test("a chain of views before and after the write", () =>
  expectCaches(
    around(
      [
        node("Reshape", ["past", "shape"], ["flat"], {}, { name: "flatten" }),
        node("Identity", ["flat"], ["same"], {}, { name: "same" }),
        node("Reshape", ["same", "back"], ["again"], {}, { name: "unflatten" }),
        append("again", "written", "append"),
        node("Identity", ["written"], ["present"], {}, { name: "hand_on" }),
      ],
      {
        inputs: [],
        initializers: [initializer("shape", "int64", [0n, -1n], [2]), initializer("back", "int64", [0n, -1n, 4n], [3])],
      },
    ),
    [{ ...scatter, output: "written", inPlace: true, reason: "its 3 other readers come first" }],
  ));

test("two writers of one value: one buffer holds one result", () =>
  expectCaches(
    around(
      [append("past", "draft", "draft"), append("past", "present", "append"), node("Neg", ["draft"], ["result"])],
      {
        outputs: [cache("present"), cache("result")],
      },
    ),
    [
      {
        ...scatter,
        node: "draft",
        output: "draft",
        inPlace: false,
        reason: 'TensorScatter "append" already writes "past" in place, and one buffer holds one result',
        reader: "append",
      },
      { ...scatter, inPlace: true, reason: "its other reader comes first" },
    ],
  ));

test("two writers in a row: both in place, both on the same input", () =>
  expectCaches(around([append("past", "middle", "first"), append("middle", "present", "second")]), [
    { ...scatter, node: "first", output: "middle", inPlace: true, reason: free },
    { ...scatter, node: "second", inPlace: true, reason: free },
  ]));

test("captured by an If that needs the result", () =>
  expectCaches(
    around(
      [
        append("past", "present", "append"),
        node("ReduceMax", ["present"], ["largest"], { keepdims: 0 }),
        node("Cast", ["largest"], ["positive"], { to: 9 }),
        node(
          "If",
          ["positive"],
          ["result"],
          {
            then_branch: graph({ name: "then", nodes: [node("Neg", ["past"], ["n"])], outputs: [cache("n")] }),
            else_branch: graph({ name: "else", nodes: [node("Abs", ["past"], ["a"])], outputs: [cache("a")] }),
          },
          { name: "choose" },
        ),
      ],
      { outputs: [cache("present"), cache("result")] },
    ),
    [{ ...scatter, inPlace: false, reason: needsResult('If "choose"'), reader: "choose" }],
  ));

test("updates inside bodies are copied, however deep; general ones count where they start from a graph input", async () => {
  const within = (label: string, attribute: string): string =>
    `inside a body of ${label} (${attribute}), and bodies write nothing in place`;
  expect(
    await cachesOf(around([appendInBranch([append("past", "inner", "append")], "inner")], { inputs: [flag] })),
  ).toEqual([
    { ...scatter, output: "inner", inPlace: false, reason: within('If "choose"', "then_branch"), reader: "choose" },
  ]);
  const elements = (data: string): ReturnType<typeof node> =>
    node("ScatterElements", [data, "picks", "row"], ["inner"], { axis: 1 }, { name: "put" });
  const picks = value("picks", "int64", ["batch", 1, 4]);
  expect(
    (await cachesOf(around([appendInBranch([elements("past")], "inner")], { inputs: [flag, picks] }))).map(
      ({ node: name }) => name,
    ),
  ).toEqual(["put"]);
  const local = [node("Neg", ["past"], ["negated"]), elements("negated")];
  expect(await cachesOf(around([appendInBranch(local, "inner")], { inputs: [flag, picks] }))).toEqual([]);
  const deep = [
    node(
      "Loop",
      ["times", undefined, "past"],
      ["looped"],
      {
        body: graph({
          name: "body",
          inputs: [value("step", "int64", []), value("go", "bool", []), cache("carried")],
          outputs: [value("still", "bool", []), cache("appended")],
          nodes: [node("Identity", ["go"], ["still"]), append("carried", "appended", "append")],
        }),
      },
      { name: "repeat" },
    ),
  ];
  expect(
    await cachesOf(
      around([appendInBranch(deep, "looped")], {
        inputs: [flag],
        initializers: [initializer("times", "int64", [2n], [])],
      }),
    ),
  ).toEqual([
    {
      ...scatter,
      input: "carried",
      output: "appended",
      inPlace: false,
      reason: within('Loop "repeat"', "body"),
      reader: "repeat",
    },
  ]);
});

test("updates inside a Scan's body", async () => {
  const scan = node(
    "Scan",
    ["past", "rows"],
    ["present"],
    {
      num_scan_inputs: 1,
      body: graph({
        name: "body",
        inputs: [cache("carried"), value("one", "float32", ["batch", 1, 4])],
        outputs: [cache("appended")],
        nodes: [node("TensorScatter", ["carried", "one", "at"], ["appended"], { axis: 1 }, { name: "append" })],
      }),
    },
    { name: "each" },
  );
  const caches = await cachesOf(around([scan], { inputs: [value("rows", "float32", ["n", "batch", 1, 4])] }));
  expect(caches).toMatchObject([{ node: "append", input: "carried", inPlace: false, reader: "each" }]);
});

test("updates that are computed at load, or not at all, are told too", async () => {
  const caches = await cachesOf(
    around(
      [
        node("TensorScatter", ["table", "fixed"], ["known"], { axis: 1 }, { name: "folded" }),
        append("past", "unread", "dead"),
        append("past", "written", "append"),
        node("Add", ["written", "known"], ["present"], {}, { name: "add" }),
      ],
      { initializers: [zeros("table", [1, 8, 4]), zeros("fixed", [1, 1, 4])] },
    ),
  );
  expect(caches).toEqual([
    {
      ...scatter,
      output: "written",
      inPlace: false,
      reason: '"past" is fed by the caller, and feeds are never written',
    },
    {
      ...scatter,
      node: "folded",
      input: "table",
      output: "known",
      inPlace: false,
      reason: "all its operands are constants, so it is computed once, when the model is loaded",
    },
    {
      ...scatter,
      node: "dead",
      output: "unread",
      inPlace: false,
      reason: "nothing needs its result, so it is not run",
    },
  ]);
});

test('under "never" the same nodes are listed, all of them copied', async () => {
  const model = around([append("past", "middle", "first"), append("middle", "present", "second")]);
  const [prefer, never] = [await cachesOf(model), await cachesOf(model, "never")];
  expect(never.map(({ node: name, input, output }) => [name, input, output])).toEqual(
    prefer.map(({ node: name, input, output }) => [name, input, output]),
  );
  for (const { inPlace, reason } of never)
    expect({ inPlace, reason }).toEqual({ inPlace: false, reason: 'the policy is "never"' });
});
