// What says nothing: constants, repetitions, nodes that change nothing or that nobody reads, Transposes that cancel out.
import { type Base, Draft, type Drawn } from "../draft.js";

const sizes = { batch: 2, sequence: 3, rows: 2 };

function transposes(first: readonly number[], second: readonly number[], form: string): Base {
  const g = new Draft(sizes);
  const x = g.input("x", first.length === 4 ? ["batch", "sequence", 2, 4] : ["batch", "sequence", 4]);
  const inner = g.op("Transpose", [x], { perm: first });
  const y = g.op("Transpose", [g.op("Relu", [g.op("Transpose", [inner], { perm: second })])], { perm: second });
  return { pass: "cancel-transposes", form, takes: "Transpose", drawn: g.drawn(g.op("Neg", [y])) };
}

function constants(): Base {
  const g = new Draft(sizes);
  const x = g.input("x", ["batch", "sequence", 4]);
  const shape = g.op("Concat", [g.list(0, 0), g.op("Mul", [g.list(2), g.list(1)]), g.list(2)], { axis: 0 });
  const factor = g.op("Sqrt", [g.op("Add", [g.weights(4), g.constant(3)])]);
  const y = g.op("Reshape", [g.op("Mul", [x, factor]), shape]);
  return { pass: "fold-constants", form: "shapes and factors", takes: "Sqrt", drawn: g.drawn(y) };
}

function equals(): Base {
  const g = new Draft(sizes);
  const x = g.input("x", ["batch", "sequence", 4]);
  const turned = (): string => g.op("LeakyRelu", [g.op("Transpose", [x], { perm: [0, 2, 1] })], { alpha: 0.25 });
  const [a, b] = [turned(), turned()];
  const y = g.op("Mul", [g.op("Softmax", [a], { axis: 1 }), g.op("Clip", [b, g.constant(-1), g.constant(1)])]);
  return { pass: "merge-equal-nodes", form: "repeated for every layer", takes: "LeakyRelu", drawn: g.drawn(y) };
}

/** Two nodes of one value whose attribute is a number each. */
function numbers(first: number, second: number): Drawn {
  const g = new Draft(sizes);
  const x = g.input("x", ["batch", 4]);
  const shifted = g.op("Sub", [x, g.constant(0.5)]);
  const slope = (alpha: number): string => g.op("LeakyRelu", [shifted], { alpha: { kind: "float", value: alpha } });
  const quotient = (of: string): string => g.op("Atan", [g.op("Div", [g.constant(1), of])]);
  return g.drawn(g.op("Sub", [quotient(slope(first)), g.op("Neg", [quotient(slope(second))])]));
}

const attributes: Base = {
  pass: "merge-equal-nodes",
  form: "attributes",
  takes: "LeakyRelu",
  drawn: numbers(0.5, 0.5),
  // What is divided by zero has zero's sign.
  others: {
    "zeros of other signs": numbers(0, -0),
    "numbers that differ in the last bit": numbers(0.5, Math.fround(0.5 + 2 ** -24)),
  },
};

function dead(): Base {
  const g = new Draft(sizes);
  const x = g.input("x", ["batch", "sequence", 4]);
  const [parts] = [g.ops(2, "Split", [x], { axis: -1, num_outputs: 2 })];
  g.op("Neg", [g.op("Abs", [parts[1]])]);
  const y = g.op("Sigmoid", [g.op("Add", [parts[0], g.constant(1)])]);
  return {
    pass: "remove-dead-nodes",
    form: "read by nobody",
    takes: "Abs",
    drawn: g.drawn(y, g.op("Tanh", [parts[1]])),
  };
}

function noOps(form: string, takes: string, write: (g: Draft, x: string) => string): Base {
  const g = new Draft(sizes);
  const x = g.input("x", ["batch", "sequence", 4]);
  const y = g.op("Add", [write(g, g.op("Abs", [x])), g.constant(0.5)]);
  return { pass: "remove-no-ops", form, takes, drawn: g.drawn(y) };
}

export const redundantBases: readonly Base[] = [
  transposes([0, 2, 1, 3], [0, 2, 1, 3], "heads there and back"),
  transposes([0, 2, 1], [1, 0, 2], "two that are one"),
  constants(),
  equals(),
  attributes,
  dead(),
  noOps("views", "Reshape", (g, x) =>
    g.op("Squeeze", [g.op("Unsqueeze", [g.op("Reshape", [x, g.list(0, 0, 4)]), g.list(0)]), g.list(0)]),
  ),
  noOps("there and back", "Cast", (g, x) => g.op("Cast", [g.op("Cast", [x], { to: 11 })], { to: 1 })),
  noOps("slices and copies", "Slice", (g, x) => {
    const cut = g.op("Slice", [x, g.list(0), g.list(9), g.list(2), g.list(1)]);
    return g.op("Tile", [g.op("Expand", [cut, g.list(1, 1, 1)]), g.list(1, 1, 1)]);
  }),
  noOps("neutral factors", "Mul", (g, x) => g.op("Div", [g.op("Mul", [x, g.constant(1)]), g.constant(1)])),
];
