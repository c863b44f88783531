// Rotary embedding as exporters write it out, and what must not be taken for it.
import { expect, test } from "vitest";
import { node, value } from "../../src/onnx/build.js";
import type { Model, ModelNode, ModelTensor } from "../../src/onnx/model.js";
import {
  constant,
  expectLeftAlone,
  expectSameResults,
  list,
  modelOf,
  onlyNode,
  operatorsOf,
  optimized,
  weights,
} from "./support.js";

const dims = { batch: 2, sequence: 3 };
const [heads, size] = [4, 8];
const constants: readonly ModelTensor[] = [
  weights("frequencies", 1, 1, 4),
  constant("scaling", 1.25),
  ...[-1, 0, 1, 2, 3, 4, 8].map((number) => list(`i${number}`, number)),
  list("end", 1 << 30),
  list("twice", 1, 1, 1, 2),
  list("flat", 0, 0, -1),
  list("joined", 0, 0, 0, -1),
];

/** [batch, sequence, 4] angles of positions. */
const angles: readonly ModelNode[] = [
  node("Unsqueeze", ["positions", "i2"], ["column"]),
  node("Cast", ["column"], ["wide"], { to: 1 }),
  node("Mul", ["wide", "frequencies"], ["angles"]),
];
/** Each angle twice: one half after the other, or neighbours. */
const doubled: Readonly<Record<string, readonly ModelNode[]>> = {
  halves: [node("Concat", ["angles", "angles"], ["double"], { axis: -1 })],
  neighbours: [
    node("Unsqueeze", ["angles", "i-1"], ["single"]),
    node("Expand", ["single", "twice"], ["pairs"]),
    node("Reshape", ["pairs", "flat"], ["double"]),
  ],
};
const tables = (axis: string): ModelNode[] =>
  ["Cos", "Sin"].flatMap((name) => [
    node(name, ["double"], [`${name}_raw`]),
    node("Mul", [`${name}_raw`, "scaling"], [`${name}_scaled`]),
    node("Unsqueeze", [`${name}_scaled`, axis], [name]),
  ]);

const slice = (from: string, start: string, end: string, step: string, to: string): ModelNode =>
  node("Slice", [from, start, end, "i-1", step], [to]);
/** (−x₂, x₁) of x as `turned`. */
const turned: Readonly<Record<string, (x: string) => readonly ModelNode[]>> = {
  halves: (x) => [
    slice(x, "i0", "i4", "i1", "first"),
    slice(x, "i4", "end", "i1", "second"),
    node("Neg", ["second"], ["negative"]),
    node("Concat", ["negative", "first"], ["turned"], { axis: -1 }),
  ],
  neighbours: (x) => [
    slice(x, "i0", "end", "i2", "first"),
    slice(x, "i1", "end", "i2", "second"),
    node("Neg", ["second"], ["negative"]),
    node("Unsqueeze", ["negative", "i-1"], ["left"]),
    node("Unsqueeze", ["first", "i-1"], ["right"]),
    node("Concat", ["left", "right"], ["stacked"], { axis: -1 }),
    node("Reshape", ["stacked", "joined"], ["turned"]),
  ],
};
const combined = (x: string, y: string): ModelNode[] => [
  node("Mul", [x, "Cos"], ["straight"]),
  node("Mul", ["turned", "Sin"], ["across"]),
  node("Add", ["straight", "across"], [y]),
];

const rotary = (
  nodes: readonly ModelNode[],
  { x = ["batch", heads, "sequence", size], outputs = ["y"], positions = ["batch", "sequence"] } = {} as {
    x?: readonly (string | number)[];
    outputs?: readonly string[];
    positions?: readonly (string | number)[];
  },
): Model => modelOf({ inputs: { x, positions: value("positions", "int64", positions) }, outputs, nodes, constants });

const whole = (kind: string): ModelNode[] => [
  ...angles,
  ...doubled[kind],
  ...tables("i1"),
  ...turned[kind]("x"),
  ...combined("x", "y"),
];

test("halves and neighbours: every angle once, before the cosine", async () => {
  for (const [kind, interleaved] of [
    ["halves", false],
    ["neighbours", true],
  ] as const) {
    const model = rotary(whole(kind));
    const made = onlyNode(optimized(model), "RotaryEmbedding");
    expect(made.attrs["interleaved"]).toBe(interleaved);
    expect(made.inputs[1]?.fact?.shape?.map(String)).toEqual(["batch", "sequence", "4"]);
    expect(operatorsOf(model)).toEqual(["Unsqueeze", "Cast", "Mul", "Cos", "Mul", "Sin", "Mul", "RotaryEmbedding"]);
    await expectSameResults(model, dims);
  }
});

test("a part of each head: the rest is joined on behind", async () => {
  for (const kind of ["halves", "neighbours"]) {
    const nodes = [
      slice("x", "i0", "i8", "i1", "front"),
      slice("x", "i8", "end", "i1", "back"),
      ...angles,
      ...doubled[kind],
      ...tables("i1"),
      ...turned[kind]("front"),
      ...combined("front", "rotated"),
      node("Concat", ["rotated", "back"], ["y"], { axis: -1 }),
    ];
    const model = rotary(nodes, { x: ["batch", heads, "sequence", 12] });
    expect(onlyNode(optimized(model), "RotaryEmbedding").attrs["rotary_embedding_dim"]).toBe(8);
    expect(operatorsOf(model)).not.toContain("Slice");
    await expectSameResults(model, dims);
    // The parts in another order are no embedding of the whole.
    const swapped = rotary([...nodes.slice(0, -1), node("Concat", ["back", "rotated"], ["y"], { axis: -1 })], {
      x: ["batch", heads, "sequence", 12],
    });
    expect(onlyNode(optimized(swapped), "RotaryEmbedding").attrs["rotary_embedding_dim"]).toBe(0);
    expect(operatorsOf(swapped)).toContain("Slice");
    await expectSameResults(swapped, dims);
  }
});

test("heads behind the length: turned side by side", async () => {
  const nodes = [...angles, ...doubled["halves"], ...tables("i2"), ...turned["halves"]("x"), ...combined("x", "y")];
  const model = rotary(nodes, { x: ["batch", "sequence", heads, size] });
  expect(onlyNode(optimized(model), "RotaryEmbedding").attrs["num_heads"]).toBe(heads);
  await expectSameResults(model, dims);
});

test("either half spelled out", async () => {
  const nodes = [
    ...angles,
    node("Unsqueeze", ["angles", "i1"], ["spread"]),
    node("Cos", ["spread"], ["c"]),
    node("Sin", ["spread"], ["s"]),
    node("Split", ["x"], ["first", "second"], { axis: -1, num_outputs: 2 }),
    node("Mul", ["first", "c"], ["first_c"]),
    node("Mul", ["s", "second"], ["second_s"]),
    node("Sub", ["first_c", "second_s"], ["left"]),
    node("Mul", ["first", "s"], ["first_s"]),
    node("Mul", ["second", "c"], ["second_c"]),
    node("Add", ["second_c", "first_s"], ["right"]),
    node("Concat", ["left", "right"], ["y"], { axis: -1 }),
  ];
  const model = rotary(nodes);
  expect(operatorsOf(model).at(-1)).toBe("RotaryEmbedding");
  await expectSameResults(model, dims);
});

test("one row of positions for the whole batch, and a table looked up", async () => {
  const single = rotary(whole("halves"), { positions: [1, "sequence"] });
  expect(operatorsOf(single)).toContain("Expand");
  expect(operatorsOf(single)).toContain("RotaryEmbedding");
  await expectSameResults(single, dims);
  const half = Array.from({ length: 32 }, (_, at) => Math.cos(at));
  const rows = Array.from({ length: 8 }, (_, row) => half.slice(row * 4, row * 4 + 4));
  const looked = modelOf({
    inputs: { x: ["batch", heads, "sequence", size], positions: value("positions", "int64", ["batch", "sequence"]) },
    outputs: ["y"],
    constants: [
      ...constants,
      constant(
        "table",
        rows.flatMap((row) => [...row, ...row]),
        [8, 8],
      ),
    ],
    nodes: [
      node("Gather", ["table", "positions"], ["row"]),
      node("Unsqueeze", ["row", "i1"], ["Cos"]),
      node("Identity", ["Cos"], ["Sin"]),
      ...turned["halves"]("x"),
      ...combined("x", "y"),
    ],
  });
  expect(operatorsOf(looked)).toEqual(["Gather", "RotaryEmbedding"]);
  await expectSameResults(looked, dims);
});

test("left alone: inner results that others need", () => {
  for (const inner of ["turned", "straight", "negative", "first"])
    expect(operatorsOf(rotary(whole("halves"), { outputs: ["y", inner] }))).not.toContain("RotaryEmbedding");
});

test("left alone: another sign, other parts, another join", () => {
  const replaced = (from: string, to: ModelNode): Model =>
    rotary(whole("halves").map((made) => (made.outputs[0] === from ? to : made)));
  expectLeftAlone(replaced("turned", node("Concat", ["first", "negative"], ["turned"], { axis: -1 })));
  expectLeftAlone(replaced("y", node("Sub", ["straight", "across"], ["y"])));
  const uneven = rotary([
    ...angles,
    ...doubled["halves"],
    ...tables("i1"),
    slice("x", "i0", "i3", "i1", "first"),
    slice("x", "i3", "end", "i1", "second"),
    node("Neg", ["second"], ["negative"]),
    node("Concat", ["negative", "first"], ["turned"], { axis: -1 }),
    ...combined("x", "y"),
  ]);
  expectLeftAlone(uneven);
});

test("left alone: angles that are not the same for both of a pair, or that differ by head", () => {
  const replaced = (from: string, ...to: readonly ModelNode[]): Model =>
    rotary(whole("halves").flatMap((made) => (made.outputs[0] === from ? to : [made])));
  expectLeftAlone(
    replaced(
      "double",
      node("Neg", ["angles"], ["minus"]),
      node("Concat", ["angles", "minus"], ["double"], { axis: -1 }),
    ),
  );
  // Pairs of halves with the angles of neighbours.
  const mixed = [...angles, ...doubled["neighbours"], ...tables("i1"), ...turned["halves"]("x"), ...combined("x", "y")];
  expectLeftAlone(rotary(mixed));
  const perHead = modelOf({
    inputs: { x: [2, heads, 3, size], Cos: [2, heads, 3, size], Sin: [2, heads, 3, size] },
    outputs: ["y"],
    constants,
    nodes: [...turned["halves"]("x"), ...combined("x", "y")],
  });
  expectLeftAlone(perHead);
});
