// Gelu, Swish and SwiGLU as exporters write them out.
import { type Base, Draft } from "../draft.js";

const sizes = { batch: 2, sequence: 3 };

function gelu(kind: "erf" | "tanh", cube: "pow" | "product" = "pow"): Base {
  const g = new Draft(sizes);
  const x = g.input("x", ["batch", "sequence", 6]);
  const half = g.constant(0.5);
  const one = g.constant(1);
  let inner: string;
  if (kind === "erf") inner = g.op("Erf", [g.op("Div", [x, g.constant(Math.SQRT2)])]);
  else {
    const third = cube === "pow" ? g.op("Pow", [x, g.constant(3)]) : g.op("Mul", [g.op("Mul", [x, x]), x]);
    const sum = g.op("Add", [x, g.op("Mul", [third, g.constant(0.044715)])]);
    inner = g.op("Tanh", [g.op("Mul", [sum, g.constant(Math.sqrt(2 / Math.PI))])]);
  }
  const y = g.op("Mul", [g.op("Mul", [x, half]), g.op("Add", [inner, one])]);
  return { pass: "fuse-gelu", form: `${kind} ${cube}`, makes: "Gelu", drawn: g.drawn(y) };
}

function swish(alpha?: number): Base {
  const g = new Draft(sizes);
  const x = g.input("x", ["batch", "sequence", 6]);
  const other = g.input("other", ["batch", "sequence", 6]);
  const slope = alpha === undefined ? x : g.op("Mul", [x, g.constant(alpha)]);
  const y = g.op("Mul", [g.op("Sigmoid", [slope]), x]);
  return {
    pass: "fuse-swish",
    form: alpha === undefined ? "plain" : "with a slope",
    makes: "Swish",
    drawn: g.drawn(y, g.op("Relu", [other])),
  };
}

function gated(up: readonly (number | string)[] = ["batch", "sequence", 6], seed = 7): Draft & { y: string } {
  const g = new Draft({ ...sizes, rows: 3, one: 1 }, { seed });
  const [x, u] = [g.input("x", ["batch", "sequence", 6]), g.input("u", up)];
  const y = g.op("Mul", [g.op("Mul", [x, g.op("Sigmoid", [x])]), u]);
  return Object.assign(g, { y });
}

const plainGate = gated();
const others = Object.fromEntries(
  (
    [
      ["up has no batch", ["sequence", 6]],
      ["up has a batch of 1", [1, "sequence", 6]],
      ["up has another name for the sequence", ["batch", "rows", 6]],
      ["up has one row that is named", ["batch", "one", 6]],
      ["up has one column", ["batch", "sequence", 1]],
      ["up is larger", [2, 2, 3, 6]],
    ] as const
  ).map(([name, up]) => {
    const g = gated(up);
    return [name, g.drawn(g.y)];
  }),
);

export const activationBases: readonly Base[] = [
  gelu("erf"),
  gelu("tanh"),
  gelu("tanh", "product"),
  swish(),
  swish(1.702),
  { pass: "fuse-swiglu", form: "plain", makes: "SwiGLU", drawn: plainGate.drawn(plainGate.y), others },
];
