/** The sets of element types that operator declarations speak of. */
import { type ElementType, elementTypes, traitsOf } from "../../../tensor/element-type.js";

const where = (test: (type: ElementType) => boolean): readonly ElementType[] => elementTypes.filter(test);

/** Every element type but the 6-bit floats, which only the operators that convert them speak of. */
export const anyType: readonly ElementType[] = where((type) => traitsOf(type).bits !== 6);

/** float16, bfloat16, float32, float64: the floats that arithmetic is defined on. */
export const floats: readonly ElementType[] = ["float16", "float32", "float64", "bfloat16"];

/** The float8 family, without the scale type float8e8m0. */
export const float8s: readonly ElementType[] = ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"];

/** Integers of whole bytes, signed and unsigned. */
export const integers: readonly ElementType[] = where(
  (type) => traitsOf(type).kind === "integer" && traitsOf(type).bits >= 8,
);

/** Signed integers of whole bytes. */
export const signedIntegers: readonly ElementType[] = integers.filter((type) => traitsOf(type).signed);

/** Floats and whole-byte integers. */
export const numeric: readonly ElementType[] = [...floats, ...integers];

/** int32 and int64. */
export const indexTypes: readonly ElementType[] = ["int32", "int64"];
