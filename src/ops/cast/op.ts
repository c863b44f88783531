/** Cast and CastLike: elements converted to another type, named by an attribute or shown by an operand. */
import { elementType, flag, oneOf, required } from "../../graph/attribute.js";
import { type Dim, isKnown } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, laterOp, tensor } from "../../graph/op.js";
import { type ElementType, traitsOf } from "../../tensor/element-type.js";
import { View } from "../../tensor/view.js";
import { combineIntegers } from "../shared/rules/integer-facts.js";
import { anyType, float8s, numeric } from "../shared/rules/types.js";
import { type Conversion, convertElements } from "./convert.js";

/** Up to opset 18; with float8, 4-bit integers and float4 up to 23; all but complex from 24 on, the 6-bit floats for Cast alone. */
const wholeBytes: readonly ElementType[] = [...numeric, "bool", "string"];
const withFloat8: readonly ElementType[] = [...wholeBytes, ...float8s, "int4", "uint4", "float4e2m1"];
const notComplex: readonly ElementType[] = anyType.filter((type) => traitsOf(type).kind !== "complex");
const withFloat6: readonly ElementType[] = [...notComplex, "float6e2m3", "float6e3m2"];

const saturate = flag(true);
const round_mode = oneOf(["up", "down", "nearest"], "up");

/** Float8 saturates unless the node says otherwise; older opsets cannot say. */
const conversion = (
  call: CallContext,
  attrs: { readonly to?: ElementType; readonly saturate?: boolean; readonly round_mode?: Conversion["roundMode"] },
): Conversion => ({
  saturate: attrs.saturate ?? true,
  roundMode: attrs.round_mode ?? "up",
  refuse: (message) => call.fail(message, "invalid-argument"),
});

/** Integers stay what they are between integer types; as bools they are 0 or 1. */
function castIntegers(input: Fact, type: ElementType): readonly Dim[] | undefined {
  const { kind } = traitsOf(type);
  if (kind !== "integer" && kind !== "bool") return undefined;
  return combineIntegers([input], type, ([x]) => (kind === "integer" ? x : isKnown(x) ? Number(x !== 0) : undefined));
}

/** Fails for a string that does not spell a value of the type. */
function checkStrings(call: CallContext, { constant }: Fact, type: ElementType): void {
  if (constant?.type === "string") convertElements(constant, View.allocate(type, constant.shape), conversion(call, {}));
}

/** Casts to the type `to`. */
export const Cast6 = defineOp({
  name: "Cast",
  since: 6,
  types: { T1: wholeBytes, T2: wholeBytes },
  inputs: { input: tensor("T1") },
  outputs: { output: tensor("T2") },
  attrs: { to: required(elementType()) },
  infer: ({ inputs, attrs }) => ({ output: { type: attrs.to, shape: inputs.input.shape } }),
  integers: ({ inputs, attrs }) => castIntegers(inputs.input, attrs.to),
  looksAt: ["input"],
  looksAtTypes: ["string"],
  validate: (call) => checkStrings(call, call.inputs.input, call.attrs.to),
  reference: (call) => convertElements(call.inputs.input, call.outputs.output, conversion(call, call.attrs)),
});

/** Casts to the type `to`; float8 saturates or not. */
export const Cast19 = laterOp(Cast6, {
  since: 19,
  types: { T1: withFloat8, T2: withFloat8 },
  attrs: { to: required(elementType()), saturate },
});

/** Casts to the type `to`; float8 saturates or not, float8e8m0 rounds as asked. */
export const Cast = laterOp(Cast19, {
  since: 24,
  types: { T1: withFloat6, T2: withFloat6 },
  attrs: { to: required(elementType()), saturate, round_mode },
});

/** Casts to the type of `target_type`. */
export const CastLike15 = defineOp({
  name: "CastLike",
  since: 15,
  types: { T1: wholeBytes, T2: wholeBytes },
  inputs: { input: tensor("T1"), target_type: tensor("T2") },
  readsOnlyShape: ["target_type"],
  outputs: { output: tensor("T2") },
  infer: ({ inputs }) => ({ output: { shape: inputs.input.shape } }),
  integers: ({ inputs }) => castIntegers(inputs.input, inputs.target_type.type),
  looksAt: ["input"],
  looksAtTypes: ["string"],
  validate: (call) => checkStrings(call, call.inputs.input, call.inputs.target_type.type),
  reference: (call) => convertElements(call.inputs.input, call.outputs.output, conversion(call, call.attrs)),
});

/** Casts to the type of `target_type`; float8 saturates or not. */
export const CastLike19 = laterOp(CastLike15, {
  since: 19,
  types: { T1: withFloat8, T2: withFloat8 },
  attrs: { saturate },
});

/** Casts to the type of `target_type`; float8 saturates or not, float8e8m0 rounds as asked. */
export const CastLike = laterOp(CastLike19, {
  since: 24,
  types: { T1: notComplex, T2: notComplex },
  attrs: { saturate, round_mode },
});
