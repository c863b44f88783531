/** onnxruntime's products of 8-bit matrices with a float result: of quantized operands, or of floats that are quantized on the way. */
import { isKnown, type Shape, shapeText } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { type Numbers, readNumbers, writeNumbers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import { roundToEven } from "../../tensor/float.js";
import { View } from "../../tensor/view.js";
import { matmulShape, multiplyViews, matmulSteps } from "../shared/families/matmul.js";
import { checkParameter, dequantized } from "../quantized-matmul/parameter.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { broadcastShapes, checkRank, unifyDims } from "../shared/rules/shapes.js";

const domain = "com.microsoft";
const bytes: readonly ElementType[] = ["int8", "uint8"];

function checkBias(call: CallContext, bias: Fact | undefined, b: Shape | undefined): void {
  checkRank(call, "bias", bias, 1);
  if (bias?.shape !== undefined && b !== undefined && b.length > 1)
    unifyDims(call, bias.shape[0], b.at(-1)!, "bias must have the length of B's last dimension");
}

/** Fails unless the scale broadcasts to the product without changing its shape. */
function checkScale(call: CallContext, name: string, scale: Fact, product: Shape | undefined): void {
  if (scale.shape === undefined || product === undefined || scale.shape.every((dim) => dim === 1)) return;
  const result = broadcastShapes(call, [product, scale.shape])!;
  const fits =
    result.length === product.length &&
    result.every((dim, axis) => !isKnown(dim) || !isKnown(product[axis]) || dim === product[axis]);
  call.check(fits, () => `${name} must broadcast to the product ${shapeText(product)}, got ${shapeText(scale.shape)}`);
}

/** Integer products times scales that broadcast to them, plus a bias over the last dimension, into `out`. */
function scaleAndStore(products: View, scales: readonly View[], bias: View | undefined, out: View): void {
  const values = products.data as Float64Array;
  const width = out.shape.at(-1) ?? 1;
  for (const scale of scales) {
    const single = scale.size === 1 ? new View(scale.type, [], scale.data, scale.offset, []) : scale;
    const factors = readNumbers(single.broadcastTo(out.shape));
    for (let i = 0; i < values.length; i++) values[i] *= factors[i];
  }
  if (bias !== undefined) {
    const added = readNumbers(bias);
    for (let i = 0; i < values.length; i++) values[i] += added[i % width];
  }
  writeNumbers(out, values);
}

/** (A − a_zero_point) · (B − b_zero_point) · a_scale · b_scale + bias. */
export const MatMulIntegerToFloat = defineOp({
  name: "MatMulIntegerToFloat",
  domain,
  since: 1,
  types: { T1: bytes, T2: bytes, T3: ["float32", "float16"] },
  inputs: {
    A: tensor("T1"),
    B: tensor("T2"),
    a_scale: tensor("T3"),
    b_scale: tensor("T3"),
    a_zero_point: optional(tensor("T1")),
    b_zero_point: optional(tensor("T2")),
    bias: optional(tensor("T3")),
  },
  outputs: { Y: tensor("T3") },

  infer(call) {
    const { A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias } = call.inputs;
    const shape = matmulShape(call, A.shape, B.shape);
    checkScale(call, "a_scale", a_scale, shape);
    checkScale(call, "b_scale", b_scale, shape);
    checkParameter(call, "a_zero_point", a_zero_point, A.shape, "left");
    checkParameter(call, "b_zero_point", b_zero_point, B.shape, "right");
    checkBias(call, bias, B.shape);
    return { Y: { shape } };
  },

  work: (call) => matmulSteps(call, call.inputs.A.shape, call.inputs.B.shape),

  reference({ inputs, outputs: { Y } }) {
    if (Y.size === 0) return;
    const products = View.allocate("float64", Y.shape);
    multiplyViews(
      dequantized(inputs.A, "left", inputs.a_zero_point, undefined),
      dequantized(inputs.B, "right", inputs.b_zero_point, undefined),
      products,
    );
    scaleAndStore(products, [inputs.a_scale, inputs.b_scale], inputs.bias, Y);
  },
});

/** The scale and zero point that DynamicQuantizeLinear gives a tensor, in float32 as it is defined. */
function dynamicParameters(values: Numbers): { scale: number; zero: number } {
  let [least, greatest] = [0, 0];
  for (const value of values) {
    least = Math.min(least, value);
    greatest = Math.max(greatest, value);
  }
  if (least === greatest) return { scale: 1, zero: 0 };
  const scale = Math.fround(Math.fround(greatest - least) / 255);
  return { scale, zero: Math.min(255, Math.max(0, roundToEven(Math.fround(-least / scale)))) };
}

/** A quantized to unsigned 8 bits by its own range, times the quantized B, plus bias. */
export const DynamicQuantizeMatMul = defineOp({
  name: "DynamicQuantizeMatMul",
  domain,
  since: 1,
  types: { T1: ["float32"], T2: bytes },
  inputs: {
    A: tensor("T1"),
    B: tensor("T2"),
    b_scale: tensor("T1"),
    b_zero_point: optional(tensor("T2")),
    bias: optional(tensor("T1")),
  },
  outputs: { Y: tensor("T1") },

  infer(call) {
    const { A, B, b_scale, b_zero_point, bias } = call.inputs;
    const shape = matmulShape(call, A.shape, B.shape);
    checkScale(call, "b_scale", b_scale, shape);
    checkParameter(call, "b_zero_point", b_zero_point, B.shape, "right");
    checkBias(call, bias, B.shape);
    return { Y: { shape } };
  },

  work: (call) => matmulSteps(call, call.inputs.A.shape, call.inputs.B.shape),

  reference({ inputs, outputs: { Y } }) {
    if (Y.size === 0) return;
    const values = readNumbers(inputs.A);
    const { scale, zero } = dynamicParameters(values);
    const quantized = float64Scratch(values.length);
    for (let i = 0; i < values.length; i++) {
      quantized[i] = Math.min(255, Math.max(0, roundToEven(Math.fround(values[i] / scale)) + zero)) - zero;
    }
    const products = View.allocate("float64", Y.shape);
    const b = dequantized(inputs.B, "right", inputs.b_zero_point, undefined);
    multiplyViews(new View("float64", inputs.A.shape, quantized), b, products);
    const aScale = new View("float64", [], new Float64Array([scale]));
    scaleAndStore(products, [aScale, inputs.b_scale], inputs.bias, Y);
  },
});
