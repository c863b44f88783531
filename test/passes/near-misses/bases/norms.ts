// Normalisations as exporters write them out, and residuals before them.
import { float } from "../../../../src/onnx/build.js";
import { type Base, Draft } from "../draft.js";

const sizes = { batch: 2, sequence: 3 };
const width = 8;

interface NormForm {
  readonly weight?: readonly number[] | undefined;
  readonly bias?: readonly number[] | undefined;
  readonly axes?: readonly number[];
  readonly centerAxes?: readonly number[];
  readonly dims?: readonly (number | string)[];
  readonly inverse?: "div" | "reciprocal" | "pow";
  readonly opset?: number;
  readonly weightAsInput?: boolean;
}

function norm(layer: boolean, form: NormForm): ReturnType<Draft["drawn"]> {
  const { weight, bias, axes = [-1], centerAxes = axes, dims = ["batch", "sequence", width], inverse = "div" } = form;
  const g = new Draft({ ...sizes, rows: 3 }, { opset: form.opset ?? 24 });
  const x = g.input("x", dims);
  const mean = (of: string, over: readonly number[]): string =>
    form.opset === 17
      ? g.op("ReduceMean", [of], { axes: over, keepdims: 1 })
      : g.op("ReduceMean", [of, g.list(...over)], { keepdims: 1 });
  const centered = layer ? g.op("Sub", [x, mean(x, centerAxes)]) : x;
  const squares = inverse === "pow" ? g.op("Mul", [centered, centered]) : g.op("Pow", [centered, g.constant(2)]);
  const shifted = g.op("Add", [mean(squares, axes), g.constant(1e-2)]);
  let y: string;
  if (inverse === "pow") y = g.op("Mul", [centered, g.op("Pow", [shifted, g.constant(-0.5)])]);
  else {
    const root = g.op("Sqrt", [shifted]);
    y = inverse === "div" ? g.op("Div", [centered, root]) : g.op("Mul", [centered, g.op("Reciprocal", [root])]);
  }
  if (weight !== undefined)
    y = g.op("Mul", [y, form.weightAsInput === true ? g.input("w", weight) : g.weights(...weight)]);
  if (bias !== undefined) y = g.op("Add", [y, g.weights(...bias)]);
  return g.drawn(y);
}

const misses = (layer: boolean): Record<string, ReturnType<Draft["drawn"]>> => ({
  "the weight is an input": norm(layer, { weight: [width], weightAsInput: true }),
  "the weight has rows": norm(layer, { weight: [3, width], dims: ["batch", 3, width] }),
  "the weight is one number": norm(layer, { weight: [1] }),
  "the weight is for rows": norm(layer, { weight: [3, 1], dims: ["batch", 3, width] }),
  "the axis is another": norm(layer, { weight: [width], axes: [1] }),
  "the axis is the first": norm(layer, { weight: [width], axes: [0] }),
  "two axes, a weight for one": norm(layer, { weight: [width], axes: [1, 2] }),
  "two axes, a weight for both": norm(layer, { weight: [3, width], axes: [-2, -1], dims: ["batch", 3, width] }),
  "two axes that are not the last": norm(layer, { weight: [width], axes: [0, 2] }),
  "the mean is over another axis": norm(layer, { weight: [width], centerAxes: [1] }),
  "the mean is over more axes": norm(layer, { weight: [width], centerAxes: [1, 2] }),
  "rows alone": norm(layer, { weight: [width], dims: [width] }),
  "a bias with rows": norm(layer, { weight: [width], bias: [3, width], dims: ["batch", 3, width] }),
  "a bias of one number": norm(layer, { weight: [width], bias: [1] }),
  "a bias that is larger": norm(layer, { weight: [width], bias: [2, 1, 1, width] }),
});

function residual(
  op: "RMSNormalization" | "LayerNormalization",
  other: readonly (number | string)[] = ["batch", "sequence", width],
  {
    weight = [width],
    axis = -1,
    bias = op === "LayerNormalization",
  }: { weight?: number[]; axis?: number; bias?: boolean } = {},
): ReturnType<Draft["drawn"]> {
  const g = new Draft({ ...sizes, rows: 3 });
  const sum = g.op("Add", [g.input("x", ["batch", "sequence", width]), g.input("y", other)]);
  const z = g.op(op, [sum, g.weights(...weight), ...(bias ? [g.weights(...weight)] : [])], {
    axis,
    epsilon: float(1e-2),
  });
  return g.drawn(sum, z);
}

/** A sum of large numbers in float16, which rounds it to whole ones. */
function roundedSum(op: "RMSNormalization" | "LayerNormalization"): ReturnType<Draft["drawn"]> {
  const g = new Draft(sizes);
  const numbers = (at: (index: number) => number): number[] =>
    Array.from({ length: 2 * width }, (_, index) => at(index));
  const x = g.input(
    "x",
    [2, width],
    "float16",
    numbers((at) => 1024 + (at % 2)),
  );
  const y = g.input(
    "y",
    [2, width],
    "float16",
    numbers((at) => ((at * 5) % 7) / 16),
  );
  const weight = (): string => g.constant(numbers((at) => 1 + at / 16).slice(0, width), [width], "float16");
  const sum = g.op("Add", [x, y]);
  return g.drawn(g.op(op, [sum, weight(), ...(op === "LayerNormalization" ? [weight()] : [])], { axis: -1 }));
}

const residuals = (op: "RMSNormalization" | "LayerNormalization"): Base => ({
  pass: "fuse-skip-normalization",
  form: op,
  makes: op === "RMSNormalization" ? "SkipSimplifiedLayerNormalization" : "SkipLayerNormalization",
  drawn: residual(op),
  others: {
    "the other summand has no batch": residual(op, ["sequence", width]),
    "the other summand has a batch of 1": residual(op, [1, "sequence", width]),
    "the other summand has another name for rows": residual(op, ["batch", "rows", width]),
    "the other summand is one row": residual(op, [width]),
    "the other summand is one number": residual(op, [1]),
    "the weight is one number": residual(op, undefined, { weight: [1] }),
    "the weight has two dimensions": residual(op, undefined, { weight: [1, width] }),
    "the weight is for rows": residual(op, undefined, { weight: [3, 1] }),
    "over two axes": residual(op, undefined, { weight: [3, width], axis: 1 }),
    "over two axes, one weight": residual(op, undefined, { axis: 1 }),
    "the last axis counted from the front": residual(op, undefined, { axis: 2 }),
    "without a bias": residual(op, undefined, { bias: false }),
    "a sum that float16 rounds": roundedSum(op),
  },
});

const base = (pass: string, makes: string, form: string, layer: boolean, norms: NormForm): Base => ({
  pass,
  form,
  makes,
  drawn: norm(layer, norms),
  ...(form === "Div" ? { others: misses(layer) } : {}),
});

export const normBases: readonly Base[] = [
  base("fuse-rms-normalization", "RMSNormalization", "Div", false, { weight: [width] }),
  base("fuse-rms-normalization", "RMSNormalization", "Reciprocal, opset 17", false, {
    weight: [width],
    inverse: "reciprocal",
    opset: 17,
  }),
  base("fuse-rms-normalization", "RMSNormalization", "Pow, no weight", false, { inverse: "pow" }),
  base("fuse-layer-normalization", "LayerNormalization", "Div", true, { weight: [width], bias: [width] }),
  base("fuse-layer-normalization", "LayerNormalization", "Pow, no bias", true, { weight: [width], inverse: "pow" }),
  residuals("RMSNormalization"),
  residuals("LayerNormalization"),
];
