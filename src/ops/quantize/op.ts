/** QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear: floats to few bits and back, by a scale and a zero point. */
import { flag, int } from "../../graph/attribute.js";
import { defineOp, laterOp, optional, tensor } from "../../graph/op.js";
import { writeNumbers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import { float8s } from "../shared/rules/types.js";
import { dequantize, inferDequantize } from "./dequantize.js";
import { dynamicLevels, writeLevels } from "./dynamic.js";
import { inferQuantize, quantize } from "./quantize.js";

const bytes: readonly ElementType[] = ["int8", "uint8"];
const bytesAndFloat8: readonly ElementType[] = [...bytes, ...float8s];
const upTo16Bits: readonly ElementType[] = [...bytesAndFloat8, "int16", "uint16", "int4", "uint4"];
const everyWidth: readonly ElementType[] = [...upTo16Bits, "float4e2m1", "float6e2m3", "float6e3m2", "int2", "uint2"];
const dividends: readonly ElementType[] = ["float32", "float16", "bfloat16", "int32"];
const products: readonly ElementType[] = ["float32", "float16", "bfloat16"];

/** Attributes of any version, as the rules read them: those that a version lacks have their defaults. */
const optionsOf = (attrs: object): Parameters<typeof quantize>[5] & Parameters<typeof dequantize>[5] => ({
  ...attrs,
  ...("block_size" in attrs ? { blockSize: attrs.block_size as number } : {}),
});

/** One scale for the tensor. */
export const QuantizeLinear10 = defineOp({
  name: "QuantizeLinear",
  since: 10,
  types: { T1: ["float32", "int32"], T2: bytes },
  inputs: { x: tensor("T1"), y_scale: tensor("float32"), y_zero_point: optional(tensor("T2")) },
  outputs: { y: tensor("T2") },
  infer(call) {
    const { x, y_scale, y_zero_point } = call.inputs;
    return { y: inferQuantize(call, x, y_scale, y_zero_point, optionsOf(call.attrs)) };
  },
  reference(call) {
    const { x, y_scale, y_zero_point } = call.inputs;
    quantize(call, x, y_scale, y_zero_point, call.outputs.y, optionsOf(call.attrs));
  },
});

/** One scale for the tensor, or one for each index along an axis. */
export const QuantizeLinear13 = laterOp(QuantizeLinear10, { since: 13, attrs: { axis: int(1) } });

/** Also to float8, saturated or not. */
export const QuantizeLinear19 = laterOp(QuantizeLinear13, {
  since: 19,
  types: { T1: dividends, T2: bytesAndFloat8 },
  inputs: { x: tensor("T1"), y_scale: tensor("T1"), y_zero_point: optional(tensor("T2")) },
  attrs: { axis: int(1), saturate: flag(true) },
});

/** Also one scale for each block along the axis, and to a type that an attribute names. */
export const QuantizeLinear21 = laterOp(QuantizeLinear19, {
  since: 21,
  types: { T1: dividends, T2: upTo16Bits },
  attrs: { axis: int(1), saturate: flag(true), block_size: int(0), output_dtype: int(0) },
});

/** Also with a scale of another type than x, which gives the precision of the division unless an attribute does. */
export const QuantizeLinear = laterOp(QuantizeLinear21, {
  since: 23,
  types: { T1: dividends, T2: [...dividends, "float8e8m0"], T3: everyWidth },
  inputs: { x: tensor("T1"), y_scale: tensor("T2"), y_zero_point: optional(tensor("T3")) },
  outputs: { y: tensor("T3") },
  attrs: { axis: int(1), saturate: flag(true), block_size: int(0), output_dtype: int(0), precision: int(0) },
});

/** One scale for the tensor. */
export const DequantizeLinear10 = defineOp({
  name: "DequantizeLinear",
  since: 10,
  types: { T: [...bytes, "int32"] },
  inputs: { x: tensor("T"), x_scale: tensor("float32"), x_zero_point: optional(tensor("T")) },
  outputs: { y: tensor("float32") },
  infer(call) {
    const { x, x_scale, x_zero_point } = call.inputs;
    return { y: inferDequantize(call, x, x_scale, x_zero_point, optionsOf(call.attrs)) };
  },
  reference(call) {
    const { x, x_scale, x_zero_point } = call.inputs;
    dequantize(call, x, x_scale, x_zero_point, call.outputs.y, optionsOf(call.attrs));
  },
});

/** One scale for the tensor, or one for each index along an axis. */
export const DequantizeLinear13 = laterOp(DequantizeLinear10, { since: 13, attrs: { axis: int(1) } });

/** Also from float8, and to the type of the scale. */
export const DequantizeLinear19 = laterOp(DequantizeLinear13, {
  since: 19,
  types: { T1: [...bytesAndFloat8, "int32"], T2: products },
  inputs: { x: tensor("T1"), x_scale: tensor("T2"), x_zero_point: optional(tensor("T1")) },
  outputs: { y: tensor("T2") },
});

/** Also one scale for each block along the axis. */
export const DequantizeLinear21 = laterOp(DequantizeLinear19, {
  since: 21,
  types: { T1: [...upTo16Bits, "int32"], T2: products },
  attrs: { axis: int(1), block_size: int(0) },
});

/** Also to a type that an attribute names. */
export const DequantizeLinear = laterOp(DequantizeLinear21, {
  since: 23,
  types: { T1: [...everyWidth, "int32"], T2: [...products, "float8e8m0"], T3: products },
  outputs: { y: tensor("T3") },
  attrs: { axis: int(1), block_size: int(0), output_dtype: int(0) },
});

/** Quantizes to uint8 by the range of the data themselves. */
export const DynamicQuantizeLinear = defineOp({
  name: "DynamicQuantizeLinear",
  since: 11,
  types: { T1: ["float32"], T2: ["uint8"] },
  inputs: { x: tensor("T1") },
  outputs: { y: tensor("T2"), y_scale: tensor("float32"), y_zero_point: tensor("T2") },
  infer: ({ inputs }) => ({
    y: { type: "uint8", shape: inputs.x.shape },
    y_scale: { shape: [] },
    y_zero_point: { type: "uint8", shape: [] },
  }),
  reference(call) {
    const { inputs, outputs } = call;
    const levels = dynamicLevels(inputs.x);
    if (call.wants("y")) writeLevels(inputs.x, outputs.y, levels);
    if (call.wants("y_scale")) writeNumbers(outputs.y_scale, [levels.scale]);
    if (call.wants("y_zero_point")) writeNumbers(outputs.y_zero_point, [levels.zeroPoint]);
  },
});
