/**
 * Local functions in the place of their calls: by hand, and random nests of them, with onnxruntime's results beside ours where the peers
 * are installed. INSITU_SOAK=1 runs the full count, INSITU_SEED one seed.
 */
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import {
  type AttributeInput,
  buildModel,
  float,
  type FunctionParts,
  graph,
  initializer,
  type ModelParts,
  modelFunction,
  node as makeNode,
  reference,
  value,
} from "../../src/onnx/build.js";
import type { ModelFunction, ModelGraph, ModelNode } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { compareViews } from "../support/compare.js";
import { handOver, installed, openPeer, type PeerSession, takeBack } from "../rewrite/peer.js";
import { soak } from "../support/soak.js";

type Attributes = Readonly<Record<string, AttributeInput>>;
const node = (op: string, inputs: string[], outputs: string[], attributes: Attributes = {}, name = ""): ModelNode =>
  makeNode(op, inputs, outputs, attributes, { name });
const call = (
  op: string,
  inputs: string[],
  outputs: string[],
  attributes: Attributes = {},
  more: { name?: string; overload?: string; domain?: string } = {},
): ModelNode => makeNode(op, inputs, outputs, attributes, { domain: "l", ...more });
const opset = { "": 21, l: 1 };
const fn = (name: string, nodes: ModelNode[], more: Partial<FunctionParts> = {}): ModelFunction =>
  modelFunction({ domain: "l", name, inputs: ["a"], outputs: ["b"], opset, nodes, ...more });
const body = (nodes: ModelNode[], output: string, more: Partial<ModelGraph> = {}): ModelGraph =>
  graph({ name: "body", nodes, outputs: [value(output, "float32")], ...more });

const X = value("X", "float32", ["n"]);
const model = (parts: Partial<ModelParts>): Uint8Array =>
  writeModel(buildModel({ opset, inputs: [X], outputs: [value("Y", "float32", ["n"])], ...parts }));

const fed = new Tensor("float32", Float32Array.of(-2.5, -1, 0, 0.5, 3), [5]);

/** What the session makes of the feed: with every pass, and with the graph as the file has it. */
async function ours(bytes: Uint8Array): Promise<Tensor> {
  const [plain, optimized] = await Promise.all(
    (["disabled", "all"] as const).map(async (graphOptimizationLevel) => {
      const session = await InferenceSession.create(bytes, { backend: "reference", graphOptimizationLevel });
      return (await session.run({ X: fed }))["Y"];
    }),
  );
  expect(compareViews(optimized.toView(), plain.toView())).toBe("");
  return plain;
}

async function checkAgainstPeer(bytes: Uint8Array, expected: readonly number[]): Promise<void> {
  const result = await ours(bytes);
  expect([...(result.data as Float32Array)]).toEqual([...Float32Array.from(expected)]);
  if (installed) await compareWithPeer(result, await openPeer(bytes));
}

async function compareWithPeer(result: Tensor, peer: PeerSession): Promise<void> {
  const theirs = takeBack((await peer.run({ X: handOver(fed) }))["Y"]);
  expect(compareViews(result.toView(), theirs.toView(), { tolerance: 1e-6 })).toBe("");
}

const numbers = [...(fed.data as Float32Array)];

test("a function that spells out a vendor's operator gives way to it, with the function's defaults; one that means something else does not", async () => {
  const domain = "com.microsoft";
  const spelled = (name: string, defaults: Attributes): ModelFunction =>
    fn(name, [node("Neg", ["a"], ["b"])], { domain, opset: { "": 21 }, defaults });
  const file = (name: string, defaults: Attributes, more: Partial<Parameters<typeof call>[4]> = {}): Uint8Array =>
    model({
      opset: { "": 21, [domain]: 1 },
      nodes: [call(name, ["X"], ["Y"], {}, { domain, ...more })],
      functions: [{ ...spelled(name, defaults), overload: more.overload ?? "" }],
    });
  const results = async (bytes: Uint8Array): Promise<number[]> => [...((await ours(bytes)).data as Float32Array)];
  const gelu = numbers.map((x) => x / (1 + Math.exp(-3 * x)));
  for (const [at, value] of (await results(file("QuickGelu", { alpha: float(3) }))).entries())
    expect(value).toBeCloseTo(gelu[at], 5);
  const negated = numbers.map((x) => -x);
  expect(await results(file("QuickGelu", { beta: float(3) }))).toEqual(negated);
  expect(await results(file("QuickGelu", { alpha: 3 }))).toEqual(negated);
  expect(await results(file("NobodysGelu", { alpha: float(3) }))).toEqual(negated);
  expect(await results(file("QuickGelu", { alpha: float(3) }, { overload: "own" }))).toEqual(negated);
});

const neg = fn("Neg1", [node("Neg", ["a"], ["b"])]);

const runs: readonly [what: string, parts: Partial<ModelParts>, expected: readonly number[]][] = [
  [
    "two calls of one function from another, all nodes without names",
    {
      nodes: [call("F2", ["X"], ["Y"])],
      functions: [neg, fn("F2", [call("Neg1", ["a"], ["m"]), call("Neg1", ["m"], ["b"])])],
    },
    numbers,
  ],
  [
    "three levels, each called twice, and values inside",
    {
      nodes: [call("F3", ["X"], ["Y"])],
      functions: [
        fn("F1", [node("Add", ["a", "a"], ["t"]), node("Neg", ["t"], ["b"])]),
        fn("F2", [call("F1", ["a"], ["t"]), call("F1", ["t"], ["b"])]),
        fn("F3", [call("F2", ["a"], ["t"]), call("F2", ["t"], ["b"])]),
      ],
    },
    numbers.map((x) => 16 * x),
  ],
  [
    "nodes that all have one name",
    {
      nodes: [call("F2", ["X"], ["Y"], {}, { name: "same" })],
      functions: [
        fn("F1", [node("Neg", ["a"], ["t"], {}, "same"), node("Neg", ["t"], ["b"], {}, "same")]),
        fn("F2", [
          call("F1", ["a"], ["t"], {}, { name: "same" }),
          call("F1", ["t"], ["u"], {}, { name: "same" }),
          node("Neg", ["u"], ["b"], {}, "same"),
        ]),
      ],
    },
    numbers.map((x) => -x),
  ],
  [
    "inner names equal to outer ones, and to those that expansion makes",
    {
      nodes: [
        node("Abs", ["X"], ["t"]),
        node("Abs", ["X"], ["Y/t"]),
        node("Abs", ["X"], ["Y/t_2"]),
        call("F", ["t"], ["u"]),
        call("F", ["u"], ["Y"]),
      ],
      functions: [fn("F", [node("Neg", ["a"], ["t"]), node("Add", ["t", "a"], ["X"]), node("Add", ["X", "t"], ["b"])])],
    },
    numbers.map((x) => Math.abs(x)),
  ],
  [
    "formals named like the caller's values, crossed",
    {
      nodes: [node("Neg", ["X"], ["a"]), call("F", ["X", "a"], ["Y"])],
      functions: [fn("F", [node("Sub", ["a", "X"], ["b"])], { inputs: ["a", "X"] })],
    },
    numbers.map((x) => 2 * x),
  ],
  [
    "attributes handed through two levels, defaults, and one that is left out",
    {
      nodes: [call("Outer", ["X"], ["Y"], { slope: float(0.5) })],
      functions: [
        fn("Inner", [node("LeakyRelu", ["a"], ["b"], { alpha: reference("alpha", "float") })], {
          defaults: { alpha: float(0.25) },
        }),
        fn(
          "Outer",
          [
            call("Inner", ["a"], ["given"], { alpha: reference("slope", "float") }),
            call("Inner", ["a"], ["absent"]),
            node("LeakyRelu", ["a"], ["plain"], { alpha: reference("other", "float") }),
            node("Sum", ["given", "absent", "plain"], ["b"]),
          ],
          { attributes: ["slope", "other"] },
        ),
      ],
    },
    numbers.map((x) => (x < 0 ? 0.5 * x + 0.25 * x + Math.fround(0.01) * x : 3 * x)),
  ],
  [
    "an optional input left out, in the middle and at the end",
    {
      nodes: [
        node("Constant", [], ["one"], { value: initializer("", "float32", [1], []) }),
        call("Limit", ["X", "", "one"], ["t"]),
        call("Limit", ["t"], ["Y"]),
      ],
      functions: [fn("Limit", [node("Clip", ["a", "low", "high"], ["b"])], { inputs: ["a", "low", "high"] })],
    },
    numbers.map((x) => Math.min(x, 1)),
  ],
  [
    "outputs that are left out, in the middle and at the end",
    {
      nodes: [call("F", ["X"], ["", "p"]), call("F", ["p"], ["q"]), node("Add", ["p", "q"], ["Y"])],
      functions: [
        fn("F", [node("Neg", ["a"], ["b"]), node("Add", ["a", "b"], ["c"]), node("Add", ["a", "a"], ["d"])], {
          outputs: ["b", "d", "c"],
        }),
      ],
    },
    numbers.map(() => 0),
  ],
  [
    "another opset inside than around, twice over",
    {
      opset: { "": 21, l: 1 },
      nodes: [
        call("Old", ["X"], ["t"]),
        node("Constant", [], ["axes"], { value_ints: [0] }),
        node("Squeeze", ["t", "axes"], ["Y"]),
      ],
      functions: [
        fn("Old", [node("Unsqueeze", ["a"], ["u"], { axes: [0] }), call("Older", ["u"], ["b"])], {
          opset: { "": 11, l: 1 },
        }),
        fn("Older", [node("Clip", ["a"], ["b"], { min: float(-1), max: float(1) })], { opset: { "": 10, l: 1 } }),
      ],
    },
    numbers.map((x) => Math.min(1, Math.max(-1, x))),
  ],
  [
    "overloads of one name",
    {
      irVersion: 10,
      nodes: [call("F", ["X"], ["t"], {}, { overload: "twice" }), call("F", ["t"], ["Y"], {}, { overload: "neg" })],
      functions: [
        fn("F", [node("Add", ["a", "a"], ["b"])], { overload: "twice" }),
        fn("F", [node("Neg", ["a"], ["b"])], { overload: "neg" }),
      ],
    },
    numbers.map((x) => -2 * x),
  ],
  [
    "calls inside the bodies of If and Loop",
    {
      initializers: [initializer("yes", "bool", [true], []), initializer("three", "int64", [3n], [])],
      nodes: [
        node("If", ["yes"], ["t"], {
          then_branch: body([call("Neg1", ["X"], ["q"]), call("Neg1", ["q"], ["r"])], "r"),
          else_branch: body([call("Neg1", ["X"], ["s"])], "s"),
        }),
        node("Loop", ["three", "", "t"], ["Y"], {
          body: graph({
            name: "loop",
            inputs: [value("i", "int64", []), value("c", "bool", []), value("v", "float32", ["n"])],
            outputs: [value("d", "bool", []), value("w", "float32", ["n"])],
            nodes: [node("Identity", ["c"], ["d"]), call("Twice", ["v"], ["w"])],
          }),
        }),
      ],
      functions: [neg, fn("Twice", [node("Add", ["a", "a"], ["b"])])],
    },
    numbers.map((x) => 8 * x),
  ],
  [
    "bodies inside functions that take inputs, inner values and functions from around them",
    {
      initializers: [initializer("yes", "bool", [true], [])],
      nodes: [call("Choose", ["yes", "X"], ["t"]), call("Choose", ["yes", "t"], ["Y"])],
      functions: [
        neg,
        fn(
          "Choose",
          [
            node("Add", ["a", "a"], ["inner"]),
            node("If", ["c"], ["b"], {
              then_branch: body([call("Neg1", ["a"], ["k"]), node("Add", ["k", "inner"], ["o"])], "o"),
              else_branch: body([node("Identity", ["inner"], ["o"])], "o"),
            }),
          ],
          { inputs: ["c", "a"] },
        ),
      ],
    },
    numbers,
  ],
  [
    "an attribute of the function inside a body",
    {
      initializers: [initializer("yes", "bool", [true], [])],
      nodes: [call("F", ["yes", "X"], ["Y"], { slope: float(0.5) })],
      functions: [
        fn(
          "F",
          [
            node("If", ["c"], ["b"], {
              then_branch: body([node("LeakyRelu", ["a"], ["o"], { alpha: reference("slope", "float") })], "o"),
              else_branch: body([node("Neg", ["a"], ["p"])], "p"),
            }),
          ],
          { inputs: ["c", "a"], attributes: ["slope"] },
        ),
      ],
    },
    numbers.map((x) => (x < 0 ? 0.5 * x : x)),
  ],
  [
    "an input that is an output",
    {
      nodes: [call("Both", ["X"], ["p", "q"]), node("Add", ["p", "q"], ["Y"])],
      functions: [fn("Both", [node("Neg", ["a"], ["b"])], { outputs: ["a", "b"] })],
    },
    numbers.map(() => 0),
  ],
  [
    "names of any length",
    {
      nodes: [call("F", ["X"], ["t"]), call("F", ["t"], ["Y"])],
      functions: [
        fn("F", [
          node("Neg", ["a"], [`${"long".repeat(500)}1`]),
          node("Add", ["a", `${"long".repeat(500)}1`], [`${"long".repeat(500)}2`]),
          node("Sub", [`${"long".repeat(500)}2`, `${"long".repeat(500)}1`], ["b"]),
        ]),
      ],
    },
    numbers,
  ],
];

/** What onnxruntime refuses although ONNX's text allows it, and why. */
const notInPeer: Readonly<Record<string, string>> = {
  "nodes that all have one name": "it wants node names to be unique once functions are inlined",
  "outputs that are left out, in the middle and at the end": "it infers all outputs of a function, named or not",
  "an input that is an output": "it finds no name for the output",
  "another opset inside than around, twice over": "it looks a function's operators up in the model's own opset",
};

describe("local functions", () => {
  for (const [what, parts, expected] of runs) {
    test(what, async () => {
      const bytes = model(parts);
      if (what in notInPeer) expect([...((await ours(bytes)).data as Float32Array)]).toEqual(expected);
      else await checkAgainstPeer(bytes, expected);
    });
  }

  const refused: readonly [string, Partial<ModelParts>, RegExp][] = [
    [
      "two functions that call each other",
      {
        nodes: [call("F", ["X"], ["Y"])],
        functions: [fn("F", [call("G", ["a"], ["b"])]), fn("G", [call("F", ["a"], ["b"])])],
      },
      /function l::F calls itself: l::F → l::G → l::F/,
    ],
    [
      "a function that calls itself from a body",
      {
        nodes: [call("F", ["X", "X"], ["Y"])],
        functions: [
          fn(
            "F",
            [
              node("If", ["c"], ["b"], {
                then_branch: body([call("F", ["c", "a"], ["o"])], "o"),
                else_branch: body([node("Neg", ["a"], ["p"])], "p"),
              }),
            ],
            { inputs: ["c", "a"] },
          ),
        ],
      },
      /function l::F calls itself: l::F → l::F/,
    ],
    [
      "more inputs than there are",
      { nodes: [call("Neg1", ["X", "X"], ["Y"])], functions: [neg] },
      /function l::Neg1 takes 1 inputs, got 2/,
    ],
    [
      "an attribute that there is not",
      { nodes: [call("Neg1", ["X"], ["Y"], { slope: 1 })], functions: [neg] },
      /function l::Neg1 has no attribute "slope"/,
    ],
    ["one function twice", { nodes: [call("Neg1", ["X"], ["Y"])], functions: [neg, neg] }, /l::Neg1 is defined twice/],
    [
      "more nodes than a file of that size may ask for",
      {
        nodes: [call("F0", ["X"], ["Y"])],
        functions: Array.from({ length: 30 }, (_, level) =>
          fn(
            `F${level}`,
            level === 29
              ? [node("Neg", ["a"], ["b"])]
              : [call(`F${level + 1}`, ["a"], ["m"]), call(`F${level + 1}`, ["m"], ["b"])],
          ),
        ),
      },
      /function l::F0: functions expand to more than \d+ parts/,
    ],
  ];
  for (const [what, parts, message] of refused) {
    test(`refused: ${what}`, async () => {
      await expect(InferenceSession.create(model(parts))).rejects.toThrow(message);
    });
  }
});

/** A random nest: functions that call functions, from bodies too, with names out of a small set so that they meet. */
function randomNest(random: () => number): Partial<ModelParts> {
  const below = (limit: number): number => Math.floor(random() * limit);
  const pick = <T>(items: readonly T[]): T => items[below(items.length)];
  const functions: ModelFunction[] = [];
  const depth = 1 + below(4);
  let count = 0;
  const names = ["t", "u", "X", "Y", "b", "Y/t", "Y/u", "t/t"];
  for (let level = 0; level < depth; level++) {
    const inputs = ["a", "c", "k"].slice(0, 1 + below(3));
    const nodes: ModelNode[] = [];
    const known = [...inputs];
    const own = names.filter((name) => !inputs.includes(name) && name !== "b");
    const work = (name: string, from: readonly string[], inner: boolean): ModelNode => {
      const choice = below(inner ? 5 : 6);
      const named = random() < 0.3 ? `n${count++}` : "";
      if (choice < 2 && functions.length > 0) {
        const target = pick(functions);
        const attributes: Attributes = random() < 0.5 ? { alpha: reference("alpha", "float") } : {};
        return call(
          target.name,
          target.inputs.map(() => pick(from)),
          [name],
          attributes,
          { name: named },
        );
      }
      if (choice === 2) return node("LeakyRelu", [pick(from)], [name], { alpha: reference("alpha", "float") }, named);
      if (choice === 5) {
        const branch = (): ModelGraph => {
          const last = pick(["o", "p"]);
          return body([work(last, from, true)], last);
        };
        nodes.push(node("ReduceMax", [pick(from)], [`${name}.max`], { keepdims: 0 }));
        nodes.push(node("Less", [`${name}.max`, `${name}.max`], [`${name}.is`]));
        return node("If", [`${name}.is`], [name], { then_branch: branch(), else_branch: branch() }, named);
      }
      return node(pick(["Add", "Sub", "Max"]), [pick(from), pick(from)], [name], {}, named);
    };
    for (const name of own.slice(0, 1 + below(4))) {
      nodes.push(work(name, known, false));
      known.push(name);
    }
    nodes.push(work("b", known, false));
    functions.push(fn(`F${level}`, nodes, { inputs, defaults: { alpha: float(0.25 + below(3) / 4) } }));
  }
  const last = functions.at(-1)!;
  return {
    functions,
    nodes: [
      node("Abs", ["X"], ["t"]),
      node("Add", ["t", "X"], ["Y/t"]),
      call(
        last.name,
        last.inputs.map(() => pick(["X", "t", "Y/t"])),
        ["u"],
      ),
      call(
        last.name,
        last.inputs.map(() => pick(["X", "t", "u"])),
        ["w"],
        { alpha: float(0.125) },
      ),
      node("Add", ["u", "w"], ["Y"]),
    ],
  };
}

describe("random nests of functions", () => {
  const count = soak ? 2_000 : 60;
  const given = process.env["INSITU_SEED"];
  const first = given === undefined ? 1 : Number(given);
  test.skipIf(!installed)(`${count} from seed ${first}: as onnxruntime has them`, async () => {
    const last = given === undefined ? first + count : first + 1;
    let compared = 0;
    for (let seed = first; seed < last; seed++) {
      const bytes = model(randomNest(seededRandom(seed)));
      try {
        const result = await ours(bytes);
        // Its own names for inlined values meet now and then, and it takes the graph for a circle.
        const peer = await openPeer(bytes).catch((error: unknown) => {
          if (!/not acyclic/.test(String(error))) throw error;
        });
        if (peer === undefined) continue;
        await compareWithPeer(result, peer);
        compared++;
      } catch (error) {
        throw new Error(`seed ${seed}: ${String(error)}`, { cause: error });
      }
    }
    expect(compared).toBeGreaterThanOrEqual((last - first) * 0.95);
  });
});
