/** Convolutions of quantized operands: ConvInteger gives the integer sums, QLinearConv quantizes its result again. */
import { int } from "../../graph/attribute.js";
import { type Dim, shapeText } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import { roundToEven } from "../../tensor/float.js";
import type { View } from "../../tensor/view.js";
import { addBias, checkBias, convolutionShape, convolve } from "../shared/families/convolution.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { unifyDims } from "../shared/rules/shapes.js";
import { windowAttributes } from "../shared/families/window.js";
import { eachWithEach } from "../shared/rules/work.js";

const bytes: readonly ElementType[] = ["int8", "uint8"];
const attrs = { ...windowAttributes, group: int(1) };

/** Fails unless the parameter is one number or, where `maps` is given, a vector with one entry a map. */
function checkParameter(call: CallContext, name: string, parameter: Fact | undefined, maps?: Dim): void {
  const shape = parameter?.shape;
  if (shape === undefined || shape.every((dim) => dim === 1)) return;
  const rule = maps === undefined ? "must be one number" : "must be one number or have one entry a map";
  call.check(maps !== undefined && shape.length === 1, () => `${name} ${rule}, got ${shapeText(shape)}`);
  unifyDims(call, shape[0], maps!, `${name} ${rule}`);
}

/** The view less its zero point, which is one number or has one entry a row of the first axis. */
function centred(view: View, zeroPoint: View | undefined): Float64Array {
  const values = readNumbers(view);
  const zeros = zeroPoint && readNumbers(zeroPoint);
  const result = float64Scratch(values.length);
  const area = view.size / (zeros?.length ?? 1);
  for (let i = 0; i < values.length; i++) result[i] = values[i] - (zeros?.[Math.floor(i / area)] ?? 0);
  return result;
}

/** The convolution of x − x_zero_point with w − w_zero_point, in 32-bit integers. */
export const ConvInteger = defineOp({
  name: "ConvInteger",
  since: 10,
  types: { T1: bytes, T2: bytes },
  inputs: {
    x: tensor("T1"),
    w: tensor("T2"),
    x_zero_point: optional(tensor("T1")),
    w_zero_point: optional(tensor("T2")),
  },
  outputs: { y: tensor("int32") },
  attrs,

  infer(call) {
    const { x, w, x_zero_point, w_zero_point } = call.inputs;
    const shape = convolutionShape(call, call.attrs, x.shape, w.shape);
    checkParameter(call, "x_zero_point", x_zero_point);
    checkParameter(call, "w_zero_point", w_zero_point, w.shape?.[0]);
    return { y: { shape } };
  },

  // Sums of products of 9-bit integers are exact in float64; storing them wraps to 32 bits.
  work: ({ inputs }) => eachWithEach(inputs.x, inputs.w),

  reference(call) {
    const { x, w, x_zero_point, w_zero_point } = call.inputs;
    const { y } = call.outputs;
    if (y.size === 0) return;
    writeNumbers(
      y,
      convolve(call, call.attrs, centred(x, x_zero_point), x.shape, centred(w, w_zero_point), w.shape, y.shape),
    );
  },
});

/** The convolution of quantized tensors plus B, quantized with the scale and zero point of y. */
export const QLinearConv = defineOp({
  name: "QLinearConv",
  since: 10,
  types: { T1: bytes, T2: bytes, T3: bytes },
  inputs: {
    x: tensor("T1"),
    x_scale: tensor("float32"),
    x_zero_point: tensor("T1"),
    w: tensor("T2"),
    w_scale: tensor("float32"),
    w_zero_point: tensor("T2"),
    y_scale: tensor("float32"),
    y_zero_point: tensor("T3"),
    B: optional(tensor("int32")),
  },
  outputs: { y: tensor("T3") },
  attrs,

  infer(call) {
    const { x, w, B } = call.inputs;
    const shape = convolutionShape(call, call.attrs, x.shape, w.shape);
    for (const name of ["x_scale", "x_zero_point", "y_scale", "y_zero_point"] as const)
      checkParameter(call, name, call.inputs[name]);
    for (const name of ["w_scale", "w_zero_point"] as const)
      checkParameter(call, name, call.inputs[name], w.shape?.[0]);
    if (w.shape !== undefined && w.shape.length > 0) checkBias(call, B, w.shape[0]);
    return { y: { shape } };
  },

  work: ({ inputs }) => eachWithEach(inputs.x, inputs.w),

  reference(call) {
    const { x, w, B, x_zero_point, w_zero_point } = call.inputs;
    const { y } = call.outputs;
    if (y.size === 0) return;
    const sums = convolve(
      call,
      call.attrs,
      centred(x, x_zero_point),
      x.shape,
      centred(w, w_zero_point),
      w.shape,
      y.shape,
    );
    addBias(sums, y.shape, B && readNumbers(B)); // the bias is in units of x_scale · w_scale
    const [xScale] = readNumbers(call.inputs.x_scale);
    const [yScale] = readNumbers(call.inputs.y_scale);
    const [zero] = readNumbers(call.inputs.y_zero_point);
    const scales = readNumbers(call.inputs.w_scale);
    const [least, greatest] = y.type === "int8" ? [-128, 127] : [0, 255];
    const maps = y.shape[1];
    const area = y.size / (y.shape[0] * maps);
    for (let i = 0; i < sums.length; i++) {
      const scale = scales.length === 1 ? scales[0] : scales[Math.floor(i / area) % maps];
      sums[i] = Math.min(Math.max(roundToEven((sums[i] * xScale * scale) / yScale) + zero, least), greatest);
    }
    writeNumbers(y, sums);
  },
});
