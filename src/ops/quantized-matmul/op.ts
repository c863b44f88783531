/** Matrix products of quantized operands: MatMulInteger gives the integer sums, QLinearMatMul quantizes its result again. */
import { isKnown, shapeText } from "../../graph/dim.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import { type ElementType, traitsOf } from "../../tensor/element-type.js";
import { roundToEven } from "../../tensor/float.js";
import { View } from "../../tensor/view.js";
import { matmulShape, multiplyViews, matmulSteps } from "../shared/families/matmul.js";
import { broadcastShapes } from "../shared/rules/shapes.js";
import { float8s, floats } from "../shared/rules/types.js";
import { checkParameter, dequantized } from "./parameter.js";

const bytes: readonly ElementType[] = ["int8", "uint8"];

/** (A − a_zero_point) · (B − b_zero_point) in 32-bit integers. */
export const MatMulInteger = defineOp({
  name: "MatMulInteger",
  since: 10,
  types: { T1: bytes, T2: bytes },
  inputs: {
    A: tensor("T1"),
    B: tensor("T2"),
    a_zero_point: optional(tensor("T1")),
    b_zero_point: optional(tensor("T2")),
  },
  outputs: { Y: tensor("int32") },

  infer(call) {
    const { A, B, a_zero_point, b_zero_point } = call.inputs;
    const shape = matmulShape(call, A.shape, B.shape);
    checkParameter(call, "a_zero_point", a_zero_point, A.shape, "left");
    checkParameter(call, "b_zero_point", b_zero_point, B.shape, "right");
    return { Y: { shape } };
  },

  // Sums of products of 9-bit integers are exact in float64; storing them wraps to 32 bits.
  work: (call) => matmulSteps(call, call.inputs.A.shape, call.inputs.B.shape),

  reference({ inputs, outputs }) {
    if (outputs.Y.size === 0) return;
    const A = dequantized(inputs.A, "left", inputs.a_zero_point, undefined);
    const B = dequantized(inputs.B, "right", inputs.b_zero_point, undefined);
    const sums = View.allocate("float64", outputs.Y.shape);
    multiplyViews(A, B, sums);
    writeNumbers(outputs.Y, readNumbers(sums));
  },
});

/** a · b of quantized matrices, quantized with the scale and zero point of y. */
export const QLinearMatMul = defineOp({
  name: "QLinearMatMul",
  since: 10,
  types: {
    TS: floats.filter((type) => type !== "float64"),
    T1: [...bytes, ...float8s],
    T2: [...bytes, ...float8s],
    T3: [...bytes, ...float8s],
  },
  inputs: {
    a: tensor("T1"),
    a_scale: tensor("TS"),
    a_zero_point: tensor("T1"),
    b: tensor("T2"),
    b_scale: tensor("TS"),
    b_zero_point: tensor("T2"),
    y_scale: tensor("TS"),
    y_zero_point: tensor("T3"),
  },
  outputs: { y: tensor("T3") },

  infer(call) {
    const { a, b, a_scale, a_zero_point, b_scale, b_zero_point } = call.inputs;
    const shape = matmulShape(call, a.shape, b.shape);
    checkParameter(call, "a_scale", a_scale, a.shape, "left");
    checkParameter(call, "a_zero_point", a_zero_point, a.shape, "left");
    checkParameter(call, "b_scale", b_scale, b.shape, "right");
    checkParameter(call, "b_zero_point", b_zero_point, b.shape, "right");
    for (const name of ["y_scale", "y_zero_point"] as const) {
      const parameter = call.inputs[name].shape;
      if (
        shape === undefined ||
        parameter === undefined ||
        parameter.reduce<boolean>((one, dim) => one && dim === 1, true)
      )
        continue;
      const result = broadcastShapes(call, [shape, parameter])!;
      const fits =
        result.length === shape.length &&
        result.every((dim, axis) => !isKnown(dim) || !isKnown(shape[axis]) || dim === shape[axis]);
      call.check(
        fits,
        () => `${name} must be a scalar or broadcast to ${shapeText(shape)}, got ${shapeText(parameter)}`,
      );
    }
    return { y: { shape } };
  },

  work: (call) => matmulSteps(call, call.inputs.a.shape, call.inputs.b.shape),

  reference({ inputs, outputs }) {
    const { y } = outputs;
    if (y.size === 0) return;
    const product = View.allocate("float64", y.shape);
    const a = dequantized(inputs.a, "left", inputs.a_zero_point, inputs.a_scale);
    multiplyViews(a, dequantized(inputs.b, "right", inputs.b_zero_point, inputs.b_scale), product);
    const spread = (view: View): View =>
      (view.size === 1 ? new View(view.type, [], view.data, view.offset, []) : view).broadcastTo(y.shape);
    const scales = readNumbers(spread(inputs.y_scale));
    const zeros = readNumbers(spread(inputs.y_zero_point));
    const values = product.data as Float64Array;
    const { kind, signed } = traitsOf(y.type);
    const [least, greatest] = signed ? [-128, 127] : [0, 255];
    for (let i = 0; i < values.length; i++) {
      const scaled = values[i] / scales[i];
      values[i] =
        kind === "float" ? scaled + zeros[i] : Math.min(Math.max(roundToEven(scaled) + zeros[i], least), greatest);
    }
    writeNumbers(y, values, { saturate: true });
  },
});
