/** The attributes of Resize and Upsample, brought to one form. */
import type { Fact } from "../../graph/fact.js";
import type { Asked } from "./axes.js";
import type { Filter } from "./taps.js";

/** Attributes as Resize has them from opset 11 on; those that came later have their defaults before. */
export interface ResizeChoice {
  readonly mode: Filter["mode"];
  readonly coordinate_transformation_mode: Filter["coordinates"];
  readonly nearest_mode: Filter["nearest"];
  readonly cubic_coeff_a: number;
  readonly exclude_outside: boolean;
  readonly extrapolation_value: number;
  readonly antialias?: boolean;
  readonly axes?: readonly number[] | undefined;
  readonly keep_aspect_ratio_policy?: Asked["policy"];
}

/** What Upsample, and Resize before opset 11, say of the same. */
export const simpleChoice = (mode: "nearest" | "linear" | "bilinear" | "cubic"): ResizeChoice => ({
  mode: mode === "bilinear" ? "linear" : mode,
  coordinate_transformation_mode: "asymmetric",
  nearest_mode: "simple",
  cubic_coeff_a: -0.75,
  exclude_outside: false,
  extrapolation_value: 0,
});

/** The filter of a call. */
export const filterOf = (choice: ResizeChoice): Filter => ({
  mode: choice.mode,
  nearest: choice.nearest_mode,
  coordinates: choice.coordinate_transformation_mode,
  antialias: choice.antialias ?? false,
  cubic: choice.cubic_coeff_a,
  excludeOutside: choice.exclude_outside,
});

/** The operands, as facts or as views. */
export interface Operands<T> {
  readonly X: T;
  readonly roi?: T | undefined;
  readonly scales?: T | undefined;
  readonly sizes?: T | undefined;
}

/** What a call asks for. */
export const askedOf = (choice: ResizeChoice, operands: Operands<Fact>, given?: readonly number[]): Asked => ({
  ...operands,
  given,
  axes: choice.axes,
  policy: choice.keep_aspect_ratio_policy ?? "stretch",
  crops: choice.coordinate_transformation_mode === "tf_crop_and_resize",
});
