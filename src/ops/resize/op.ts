/** Resize and Upsample: tensors resampled along some of their axes. */
import { flag, float, floats, ints, oneOf, required } from "../../graph/attribute.js";
import { type Fact, knownSize } from "../../graph/fact.js";
import { type CallContext, defineOp, laterOp, type OutputFact, optional, tensor } from "../../graph/op.js";
import { traitsOf } from "../../tensor/element-type.js";
import { classicFloats, plainTypes } from "../shared/rules/plain-types.js";
import { type Asked, resizedShape } from "./axes.js";
import { askedOf, type ResizeChoice, simpleChoice } from "./choice.js";
import { resize } from "./reference.js";

function infer(call: CallContext, choice: ResizeChoice, asked: Asked): { readonly Y: OutputFact } {
  const { kind } = traitsOf(asked.X.type);
  call.check(
    choice.mode === "nearest" || kind === "float" || kind === "integer",
    () => `mode "${choice.mode}" computes with numbers, got ${asked.X.type}`,
    "invalid-argument",
  );
  call.check(
    choice.antialias !== true || choice.mode !== "nearest",
    'antialias goes with mode "linear" or "cubic"',
    "invalid-argument",
  );
  return { Y: { shape: resizedShape(call, asked) } };
}

/** A few taps for each element of the result; with a wider filter more. */
const workOf = (X: Fact): number => (knownSize(X) ?? Infinity) * 64;

const types = { T1: plainTypes, T2: classicFloats } as const;
const outputs = { Y: tensor("T1") } as const;
const cropped = {
  X: tensor("T1"),
  roi: optional(tensor("T2")),
  scales: optional(tensor("float32")),
  sizes: optional(tensor("int64")),
} as const;
const simpleMode = () => oneOf(["nearest", "linear", "bilinear", "cubic"], "nearest");

const resizeAttributes = {
  coordinate_transformation_mode: oneOf(
    [
      "half_pixel",
      "half_pixel_symmetric",
      "pytorch_half_pixel",
      "align_corners",
      "asymmetric",
      "tf_half_pixel_for_nn",
      "tf_crop_and_resize",
    ],
    "half_pixel",
  ),
  cubic_coeff_a: float(-0.75),
  exclude_outside: flag(false),
  extrapolation_value: float(0),
  mode: oneOf(["nearest", "linear", "cubic"], "nearest"),
  nearest_mode: oneOf(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"], "round_prefer_floor"),
} as const;

/** X made larger by the factors in `scales`. */
export const Upsample7 = defineOp({
  name: "Upsample",
  since: 7,
  types: { T1: plainTypes },
  inputs: { X: tensor("T1") },
  outputs,
  attrs: { mode: simpleMode(), scales: required(floats()) },
  infer: (call) =>
    infer(call, simpleChoice(call.attrs.mode), askedOf(simpleChoice(call.attrs.mode), call.inputs, call.attrs.scales)),
  work: ({ inputs }) => workOf(inputs.X),
  reference: (call) => resize(call, simpleChoice(call.attrs.mode), call.inputs, call.outputs.Y, call.attrs.scales),
});

/** X made larger or smaller by the factors in `scales`. */
const byFactors = <const Name extends string>(name: Name, since: number) =>
  defineOp({
    name,
    since,
    types: { T1: plainTypes },
    inputs: { X: tensor("T1"), scales: tensor("float32") },
    outputs,
    attrs: { mode: simpleMode() },
    infer: (call) => infer(call, simpleChoice(call.attrs.mode), askedOf(simpleChoice(call.attrs.mode), call.inputs)),
    work: ({ inputs }) => workOf(inputs.X),
    reference: (call) => resize(call, simpleChoice(call.attrs.mode), call.inputs, call.outputs.Y),
  });

export const Upsample9 = byFactors("Upsample", 9);
export const Resize10 = byFactors("Resize", 10);

/** X, or a region of it, resampled to `sizes` or by `scales`. */
export const Resize11 = defineOp({
  name: "Resize",
  since: 11,
  types,
  inputs: cropped,
  outputs,
  attrs: resizeAttributes,
  infer: (call) => infer(call, call.attrs, askedOf(call.attrs, call.inputs)),
  work: ({ inputs }) => workOf(inputs.X),
  reference: (call) => resize(call, call.attrs, call.inputs, call.outputs.Y),
});

/** As before, also along some axes alone, keeping proportions, and with a filter that widens where an axis shrinks. */
export const Resize18 = laterOp(Resize11, {
  since: 18,
  attrs: {
    ...resizeAttributes,
    antialias: flag(false),
    axes: ints(),
    keep_aspect_ratio_policy: oneOf(["stretch", "not_larger", "not_smaller"], "stretch"),
  },
});
