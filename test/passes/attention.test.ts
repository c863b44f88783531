// Attention as exporters write it out, and what must not be taken for it.
import { expect, test } from "vitest";
import { initializer, node, value } from "../../src/onnx/build.js";
import type { Model, ModelNode, ModelTensor } from "../../src/onnx/model.js";
import { Tensor } from "../../src/tensor/tensor.js";
import {
  constant,
  expectLeftAlone,
  expectSameResults,
  list,
  modelOf,
  onlyNode,
  operatorsOf,
  optimized,
} from "./support.js";

const dims = { batch: 2, queries: 3, keys: 5 };
const heads = 4;
const inputs = {
  q: ["batch", heads, "queries", 8],
  k: ["batch", heads, "keys", 8],
  v: ["batch", heads, "keys", 6],
  seen: value("seen", "bool", ["batch", 1, "queries", "keys"]),
} as const;
const lowest = -3.4028234663852886e38;
const constants: readonly ModelTensor[] = [
  constant("scale", 0.3),
  constant("root", Math.sqrt(0.3)),
  constant("over", 2),
  constant("cap", 5),
  constant("cap_again", 5),
  constant("zero", 0),
  constant("lowest", lowest),
  initializer("minus_infinity", "float32", [-Infinity], []),
  list("axis", 1),
];

const model = (nodes: readonly ModelNode[], more: Partial<Parameters<typeof modelOf>[0]> = {}): Model =>
  modelOf({ inputs, outputs: ["y"], nodes, ...more, constants: [...constants, ...(more.constants ?? [])] });

const transposed = node("Transpose", ["k"], ["kt"], { perm: [0, 1, 3, 2] });
const scores = node("MatMul", ["q", "kt"], ["scores"]);
const scaled = node("Mul", ["scores", "scale"], ["scaled"]);
const finite = node("Where", ["seen", "zero", "lowest"], ["mask"]);
const infinite = node("Where", ["seen", "zero", "minus_infinity"], ["mask"]);
const masked = node("Add", ["scaled", "mask"], ["masked"]);
const softmax = node("Softmax", ["masked"], ["weights"], { axis: -1 });
const weighed = node("MatMul", ["weights", "v"], ["y"]);
const guard: readonly ModelNode[] = [
  node("IsNaN", ["weights"], ["spoilt"]),
  node("Where", ["spoilt", "zero", "weights"], ["guarded"]),
  node("MatMul", ["guarded", "v"], ["y"]),
];
const eager: readonly ModelNode[] = [transposed, scores, scaled, finite, masked, softmax, weighed];
const replaced = (nodes: readonly ModelNode[], output: string, ...by: readonly ModelNode[]): ModelNode[] =>
  nodes.flatMap((made) => (made.outputs[0] === output ? by : [made]));

/** A mask under which the first sample's second query sees nothing. */
const blind = new Tensor(
  "bool",
  Uint8Array.from({ length: 30 }, (_, at) => (at >= 5 && at < 10 ? 0 : at % 3 === 0 ? 0 : 1)),
  [2, 1, 3, 5],
);

test("eager: scale, a finite mask, softmax; a query that sees nothing weighs all alike in both", async () => {
  const written = model(eager);
  expect(operatorsOf(written)).toEqual(["Where", "Attention"]);
  const made = onlyNode(optimized(written), "Attention");
  expect(made.inputs.map((input) => input?.name)).toEqual(["q", "k", "v", "mask"]);
  expect(made.attrs["scale"]).toBeCloseTo(0.3);
  await expectSameResults(written, dims);
  await expectSameResults(written, dims, { feeds: { seen: blind } });
});

test("sdpa: Q and K scaled by the root, a guard against NaN, booleans behind the mask", async () => {
  const written = model([
    node("Mul", ["q", "root"], ["small_q"]),
    node("Transpose", ["k"], ["turned"], { perm: [0, 1, 3, 2] }),
    node("Mul", ["turned", "root"], ["kt"]),
    node("MatMul", ["small_q", "kt"], ["scaled"]),
    infinite,
    masked,
    softmax,
    ...guard,
  ]);
  expect(operatorsOf(written)).toEqual(["Attention"]);
  const made = onlyNode(optimized(written), "Attention");
  expect(made.inputs[3]?.name).toBe("seen");
  expect(made.attrs["scale"]).toBeCloseTo(0.3);
  await expectSameResults(written, dims, { feeds: { seen: blind } });
  const opposite = model([
    transposed,
    scores,
    scaled,
    node("Where", ["seen", "minus_infinity", "zero"], ["mask"]),
    masked,
    softmax,
    ...guard,
  ]);
  expect(operatorsOf(opposite)).toEqual(["Not", "Attention"]);
  await expectSameResults(opposite, dims, { feeds: { seen: blind } });
});

test("scales as divisions, of K before it is transposed, or none at all", async () => {
  const forms: readonly (readonly ModelNode[])[] = [
    replaced(eager, "scaled", node("Div", ["scores", "over"], ["scaled"])),
    [
      node("Mul", ["k", "root"], ["small_k"]),
      node("Transpose", ["small_k"], ["kt"], { perm: [0, 1, 3, 2] }),
      node("Div", ["q", "over"], ["small_q"]),
      node("MatMul", ["small_q", "kt"], ["scaled"]),
      ...eager.slice(3),
    ],
    [transposed, node("MatMul", ["q", "kt"], ["scaled"]), ...eager.slice(3)],
    [transposed, node("MatMul", ["q", "kt"], ["masked"]), softmax, weighed],
  ];
  for (const form of forms) {
    expect(operatorsOf(model(form)).at(-1)).toBe("Attention");
    expect(operatorsOf(model(form))).not.toContain("Mul");
    await expectSameResults(model(form), dims);
  }
});

test("a softcap before the mask", async () => {
  const capped = [
    node("Div", ["scaled", "cap"], ["divided"]),
    node("Tanh", ["divided"], ["bent"]),
    node("Mul", ["bent", "cap_again"], ["capped"]),
    node("Add", ["capped", "mask"], ["masked"]),
  ];
  const written = model(replaced(eager, "masked", ...capped));
  expect(onlyNode(optimized(written), "Attention").attrs["softcap"]).toBe(5);
  await expectSameResults(written, dims);
  const other = modelOf({
    inputs,
    outputs: ["y"],
    nodes: replaced(eager, "masked", ...capped),
    constants: [...constants.filter(({ name }) => name !== "cap_again"), constant("cap_again", 4)],
  });
  expectLeftAlone(other);
});

test("scores set to a very low number by a condition", async () => {
  const written = model(replaced(eager, "masked", node("Where", ["seen", "scaled", "lowest"], ["masked"])));
  expect(operatorsOf(written)).toEqual(["Where", "Attention"]);
  await expectSameResults(written, dims, { feeds: { seen: blind } });
  const mild = replaced(eager, "masked", node("Where", ["seen", "scaled", "over"], ["masked"]));
  expectLeftAlone(model(mild.filter(({ outputs }) => outputs[0] !== "mask")));
});

test("keys that arrive as [batch, length, heads, size], and one head for all queries", async () => {
  const swapped = model(replaced(eager, "kt", node("Transpose", ["k"], ["kt"], { perm: [0, 2, 3, 1] })), {
    inputs: { ...inputs, k: ["batch", "keys", heads, 8] },
  });
  expect(operatorsOf(swapped)).toEqual(["Where", "Transpose", "Attention"]);
  await expectSameResults(swapped, dims);
  const shared = model(eager, { inputs: { ...inputs, k: ["batch", 1, "keys", 8], v: ["batch", 1, "keys", 6] } });
  expect(operatorsOf(shared)).toEqual(["Where", "Attention"]);
  await expectSameResults(shared, dims);
});

test("batch and heads joined meanwhile, with a bias for each head (bloom's)", async () => {
  const nodes = [
    node("Shape", ["q"], ["q_shape"]),
    node("Shape", ["k"], ["k_shape"]),
    node("Shape", ["v"], ["v_shape"]),
    ...["q", "k", "v"].flatMap((name) => [
      node("Slice", [`${name}_shape`, "two", "four", "zero_axis"], [`${name}_rest`]),
      node("Concat", ["minus_one", `${name}_rest`], [`${name}_joined`], { axis: 0 }),
      node("Reshape", [name, `${name}_joined`], [`${name}3`]),
    ]),
    node("Transpose", ["k3"], ["kt"], { perm: [0, 2, 1] }),
    node("MatMul", ["q3", "kt"], ["scores"]),
    scaled,
    node("Reshape", ["slopes", "slopes_shape"], ["slopes3"]),
    node("Add", ["scaled", "slopes3"], ["tilted"]),
    node("Slice", ["q_shape", "zero_list", "three", "zero_axis"], ["leading"]),
    node("Slice", ["k_shape", "two", "three", "zero_axis"], ["length"]),
    node("Concat", ["leading", "length"], ["parted"], { axis: 0 }),
    node("Reshape", ["tilted", "parted"], ["apart"]),
    finite,
    node("Add", ["apart", "mask"], ["masked"]),
    softmax,
    node("Slice", ["q_shape", "two", "three", "zero_axis"], ["rows"]),
    node("Concat", ["minus_one", "rows", "length"], ["together"], { axis: 0 }),
    node("Reshape", ["weights", "together"], ["weights3"]),
    node("MatMul", ["weights3", "v3"], ["y3"]),
    node("Slice", ["v_shape", "three", "four", "zero_axis"], ["width"]),
    node("Concat", ["leading", "width"], ["final"], { axis: 0 }),
    node("Reshape", ["y3", "final"], ["y"]),
  ];
  const lists = [
    list("two", 2),
    list("three", 3),
    list("four", 4),
    list("zero_list", 0),
    list("zero_axis", 0),
    list("minus_one", -1),
    list("slopes_shape", 8, 1, 5),
  ];
  const table = constant(
    "slopes",
    Array.from({ length: 40 }, (_, at) => -at / 8),
    [8, 5],
  );
  const fixed = {
    q: [2, heads, "queries", 8],
    k: [2, heads, 5, 8],
    v: [2, heads, 5, 6],
    seen: value("seen", "bool", [2, 1, "queries", 5]),
  } as const;
  const written = model(nodes, { inputs: fixed, constants: [...lists, table] });
  expect(operatorsOf(written)).toContain("Attention");
  expect(operatorsOf(written)).not.toContain("Softmax");
  await expectSameResults(written, { queries: 3 });
});

test("float16 with softmax in float32", async () => {
  const narrow = (name: string, shape: readonly (string | number)[]): ReturnType<typeof value> =>
    value(name, "float16", shape);
  const written = modelOf({
    inputs: { q: narrow("q", inputs.q), k: narrow("k", inputs.k), v: narrow("v", inputs.v) },
    outputs: ["y"],
    constants: [initializer("scale", "float16", [0.25], [])],
    nodes: [
      transposed,
      scores,
      node("Mul", ["scores", "scale"], ["narrow"]),
      node("Cast", ["narrow"], ["masked"], { to: 1 }),
      softmax,
      node("Cast", ["weights"], ["back"], { to: 10 }),
      node("MatMul", ["back", "v"], ["y"]),
    ],
  });
  expect(operatorsOf(written)).toEqual(["Attention"]);
  expect(onlyNode(optimized(written), "Attention").attrs["softmax_precision"]).toBe("float32");
  await expectSameResults(written, dims, { tolerance: 1e-2 });
});

test("left alone: weights or scores that others need", () => {
  for (const inner of ["scores", "scaled", "masked", "weights"])
    expectLeftAlone(model(eager, { outputs: ["y", inner] }));
});

test("left alone: another axis, another transposition", () => {
  const square = {
    ...inputs,
    q: ["batch", heads, 8, 8],
    k: ["batch", heads, 8, 8],
    v: ["batch", heads, 8, 6],
  } as const;
  const fixed = { ...square, seen: value("seen", "bool", ["batch", 1, 8, 8]) };
  expectLeftAlone(
    model(replaced(eager, "weights", node("Softmax", ["masked"], ["weights"], { axis: 2 })), { inputs: fixed }),
  );
  expectLeftAlone(model(replaced(eager, "kt", node("Neg", ["k"], ["kt"])), { inputs: fixed }));
});

test("left alone: masks of odd shapes", () => {
  const withMask = (...shape: readonly (string | number)[]): Model =>
    model(replaced(eager, "mask", node("Where", ["seen", "zero", "lowest"], ["mask"])), {
      inputs: { ...inputs, seen: value("seen", "bool", shape) },
    });
  // Add repeats a mask of one key for all, Attention would hide the others.
  expectLeftAlone(withMask("batch", 1, "queries", 1));
  // A mask of more rows than there are queries would make more rows.
  expectLeftAlone(withMask("batch", 1, "rows", "keys"));
  expectLeftAlone(withMask("batch", 1, "queries", "others"));
  expectLeftAlone(withMask("samples", 1, "queries", "keys"));
  expectLeftAlone(withMask(2, "batch", heads, "queries", "keys"));
  for (const fits of [["keys"], ["queries", "keys"], [1, 1, 1, "keys"], [heads, 1, "keys"]])
    expect(operatorsOf(withMask(...fits))).toContain("Attention");
});

test("left alone: a mask that may hide every key, without a guard: its rows are NaN", async () => {
  const open = model(replaced(eager, "mask", infinite));
  expectLeftAlone(open);
  await expectSameResults(open, dims, { feeds: { seen: blind } });
  const { seen: _, ...others } = inputs;
  const fed = model(
    eager.filter(({ outputs }) => outputs[0] !== "mask"),
    { inputs: { ...others, mask: ["batch", 1, "queries", "keys"] } },
  );
  expectLeftAlone(fed);
  // Two masks that are finite each, and not together.
  const twice = model([
    transposed,
    scores,
    scaled,
    finite,
    node("Add", ["mask", "mask"], ["both"]),
    node("Add", ["scaled", "both"], ["masked"]),
    softmax,
    weighed,
  ]);
  expectLeftAlone(twice);
  await expectSameResults(twice, dims, { feeds: { seen: blind } });
});
