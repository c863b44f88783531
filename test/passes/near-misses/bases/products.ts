// Products with constant weights: with a bias, quantized, several of one value, with the norm before and the residual behind.
import { float } from "../../../../src/onnx/build.js";
import { type Base, Draft, type Drawn } from "../draft.js";

const sizes = { batch: 2, sequence: 3, rows: 3 };
const dims = ["batch", "sequence", 16] as const;

function biased(
  bias: readonly number[],
  x: readonly (number | string)[] = dims,
  weight: readonly number[] = [16, 6],
): Drawn {
  const g = new Draft(sizes);
  return g.drawn(g.op("Add", [g.op("MatMul", [g.input("x", x), g.weights(...weight)]), g.weights(...bias)]));
}

const bias: Base = {
  pass: "fuse-matmul-bias",
  form: "MatMul",
  makes: "MatMulBias",
  on: ["wasm"],
  drawn: biased([6]),
  others: {
    "the bias has rows": biased([3, 6]),
    "the bias is one number": biased([1]),
    "the bias has no dimensions": biased([]),
    "the bias has two dimensions": biased([1, 6]),
    "the bias is larger": biased([2, 1, 1, 6]),
    "the operand is one row": biased([6], [16]),
    "the weight is one column": biased([3], dims, [16]),
    "the weight is one column, the bias one number": biased([1], dims, [16]),
    "the weight has a batch": biased([6], dims, [2, 16, 6]),
    "the weight has a batch of 1": biased([6], dims, [1, 16, 6]),
    "the operand has names for all": biased(
      [6],
      ["batch", "rows", "columns"].map((name) => (name === "columns" ? 16 : name)),
    ),
  },
};

interface Bits {
  readonly columns: number;
  readonly bits?: number;
  readonly block?: number;
  readonly zeros?: boolean;
  readonly bias?: boolean;
  readonly flat?: boolean;
}

/** MatMulNBits of 32 rows of weights. */
function nBits(
  g: Draft,
  x: string,
  { columns, bits = 4, block = 16, zeros = false, bias: added = false, flat = false }: Bits,
): string {
  const blocks = 32 / block;
  const scales = g.weights(...(flat ? [columns * blocks] : [columns, blocks]));
  const row = Math.ceil((blocks * bits) / 8);
  const operands = [
    x,
    g.bytes([columns, blocks, (block * bits) / 8]),
    scales,
    zeros ? g.bytes([columns, row]) : undefined,
    undefined,
    added ? g.weights(columns) : undefined,
  ];
  while (operands.at(-1) === undefined) operands.pop();
  const attributes = {
    K: 32,
    N: columns,
    bits,
    block_size: block,
  };
  return g.op("MatMulNBits", operands, attributes, "com.microsoft");
}

function several(...products: readonly Bits[]): Drawn {
  const g = new Draft(sizes);
  const x = g.input("x", ["batch", "sequence", 32]);
  return g.drawn(...products.map((each) => g.op("Tanh", [g.op("Mul", [nBits(g, x, each), g.constant(0.02)])])));
}

const shared: Base = {
  pass: "share-products",
  form: "three of one value",
  makes: "SharedProducts",
  on: ["wasm"],
  drawn: several({ columns: 8 }, { columns: 4 }, { columns: 4 }),
  others: {
    "four of one value": several({ columns: 8 }, { columns: 4 }, { columns: 4 }, { columns: 8 }),
    "one by itself": several({ columns: 8 }),
    "other blocks": several({ columns: 8 }, { columns: 4, block: 32 }),
    "other bits": several({ columns: 8 }, { columns: 4, bits: 8 }),
    "zero points in one of them": several({ columns: 8, zeros: true }, { columns: 4 }),
    "zero points in both": several({ columns: 8, zeros: true }, { columns: 4, zeros: true }),
    "a bias in one of them": several({ columns: 8 }, { columns: 4, bias: true }),
    "a bias in both": several({ columns: 8, bias: true }, { columns: 4, bias: true }),
    "flat scales in one of them": several({ columns: 8, flat: true }, { columns: 4 }),
    "8 bits": several({ columns: 8, bits: 8 }, { columns: 8, bits: 8 }),
  },
};

/** A feed-forward block: norm, gate, what it lets through, the way down, the residual. */
interface Block {
  readonly norm?: "RMSNormalization" | "SimplifiedLayerNormalization" | "LayerNormalization" | "none";
  readonly axis?: number;
  readonly scale?: readonly number[];
  readonly addend?: "x" | "constant" | "row" | "itself" | "none";
  readonly up?: number;
  readonly alpha?: boolean;
  readonly bias?: "none" | "gate" | "both";
  readonly operand?: "same" | "other";
  readonly x?: readonly (number | string)[];
}

function block(form: Block = {}): Drawn {
  const {
    norm = "RMSNormalization",
    axis = -1,
    scale = [16],
    addend = "x",
    up: columns = 12,
    bias: biases = "none",
  } = form;
  const g = new Draft(sizes);
  const x = g.input("x", form.x ?? dims);
  const y = norm === "none" ? x : g.op(norm, [x, g.weights(...scale)], { axis, epsilon: float(1e-2) });
  const product = (of: string, n: number, hasBias: boolean): string => {
    const made = g.op("MatMul", [of, g.weights(16, n)]);
    return hasBias ? g.op("Add", [made, g.weights(n)]) : made;
  };
  const gate = product(y, 12, biases !== "none");
  const up = product(form.operand === "other" ? x : y, columns, biases === "both");
  const slope = form.alpha === true ? g.op("Mul", [gate, g.constant(1.5)]) : gate;
  const opened = g.op("Mul", [g.op("Mul", [gate, g.op("Sigmoid", [slope])]), up]);
  const down = g.op("MatMul", [opened, g.weights(12, 16)]);
  if (addend === "none") return g.drawn(down);
  const other = { x, constant: g.weights(3, 16), row: g.weights(16), itself: down }[addend];
  return g.drawn(g.op("Add", [down, other]));
}

const projections: Base = {
  pass: "fuse-projection",
  form: "feed-forward block",
  makes: "Projection",
  on: ["webgpu"],
  drawn: block(),
  others: {
    "the norm is of the layer": block({ norm: "LayerNormalization" }),
    "the norm is onnxruntime's": block({ norm: "SimplifiedLayerNormalization" }),
    "there is no norm": block({ norm: "none" }),
    "the norm is over two axes": block({ axis: 1 }),
    "the norm has one weight": block({ scale: [1] }),
    "the norm has weights for rows": block({ scale: [3, 1] }),
    "the norm has weights of two dimensions": block({ scale: [1, 16] }),
    "a constant is added": block({ addend: "constant" }),
    "a row is added": block({ addend: "row" }),
    "the product is added to itself": block({ addend: "itself" }),
    "nothing is added": block({ addend: "none" }),
    "what is let through has one column": block({ up: 1 }),
    "the gate has a slope": block({ alpha: true }),
    "a bias in the gate alone": block({ bias: "gate" }),
    "a bias in both": block({ bias: "both" }),
    "what is let through is of another value": block({ operand: "other" }),
    "rows of two dimensions": block({ x: ["rows", 16] }),
    "rows of four dimensions": block({ x: ["batch", 2, "rows", 16] }),
    "a batch of 1": block({ x: [1, 1, 16] }),
  },
};

function quantizedBlock(zeros: boolean, flat = false): Drawn {
  const g = new Draft(sizes);
  const x = g.input("x", ["batch", "sequence", 32]);
  const y = g.op("SimplifiedLayerNormalization", [x, g.weights(32)], { axis: -1, epsilon: float(1e-2) });
  const gate = g.op("Mul", [nBits(g, y, { columns: 8, zeros, flat }), g.constant(1)]);
  const up = nBits(g, y, { columns: 8, zeros });
  return g.drawn(g.op("Mul", [g.op("Tanh", [g.op("Mul", [up, g.constant(0.02)])]), g.op("Sigmoid", [gate])]));
}

const quantizedProjections: Base = {
  pass: "fuse-projection",
  form: "weights of 4 bits",
  makes: "Projection",
  on: ["webgpu"],
  drawn: quantizedBlock(true),
  others: { "flat scales": quantizedBlock(false, true), "no zero points": quantizedBlock(false) },
};

interface Quantized {
  readonly type?: "int8" | "uint8" | "int4" | "uint4";
  readonly scales?: readonly number[];
  readonly zeros?: boolean;
  readonly axis?: number;
  readonly block?: number;
  readonly turned?: boolean;
  readonly square?: boolean;
}

function dequantized({
  type = "int8",
  scales = [64],
  zeros = true,
  axis = 1,
  block: size,
  turned = false,
  square = false,
}: Quantized = {}): Drawn {
  const g = new Draft(sizes);
  const rows = square ? 208 : 640; // smaller weights are folded
  const columns = square ? rows : 64;
  const [most, least] =
    type === "int8" ? [256, -128] : type === "uint8" ? [256, 0] : type === "int4" ? [16, -8] : [16, 0];
  const weight = g.bytes([rows, columns], type, most, least);
  const operands = [weight, g.weights(...scales), ...(zeros ? [g.bytes(scales, type, most / 2, 0)] : [])];
  const floats = g.op("DequantizeLinear", operands, { axis, ...(size === undefined ? {} : { block_size: size }) });
  const right = turned ? g.op("Transpose", [floats], { perm: [1, 0] }) : floats;
  return g.drawn(g.op("Mul", [g.op("MatMul", [g.input("x", ["batch", "sequence", rows]), right]), g.constant(0.001)]));
}

const quantized: Base = {
  pass: "keep-quantized-weights",
  form: "columns of 8 bits",
  makes: "DequantizeMatMul",
  on: ["wasm"],
  drawn: dequantized(),
  others: {
    "rows of 8 bits": dequantized({ axis: 0, scales: [640] }),
    "one scale": dequantized({ scales: [] }),
    "one scale in a list": dequantized({ scales: [1] }),
    "no zero points": dequantized({ zeros: false }),
    "bytes without a sign": dequantized({ type: "uint8" }),
    "4 bits": dequantized({ type: "int4" }),
    "4 bits without a sign": dequantized({ type: "uint4", zeros: false }),
    "blocks along rows": dequantized({ axis: 0, scales: [20, 64], block: 32 }),
    "blocks along columns": dequantized({ axis: 1, scales: [640, 2], block: 32 }),
    "the last axis": dequantized({ axis: -1 }),
    "the first axis, from behind": dequantized({ axis: -2, scales: [640] }),
    turned: dequantized({ turned: true, square: true, scales: [208] }),
    "square, columns": dequantized({ square: true, scales: [208] }),
    "square, rows": dequantized({ square: true, scales: [208], axis: 0 }),
  },
};

export const productBases: readonly Base[] = [bias, shared, projections, quantizedProjections, quantized];
