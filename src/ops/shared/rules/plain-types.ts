/** The sets of element types that the operators which move elements speak of. Arithmetic's sets are in types.ts. */
import type { ElementType } from "../../../tensor/element-type.js";
import { elementTypes, traitsOf } from "../../../tensor/element-type.js";

/** Every type of whole bytes that ONNX had before the float8 family: what indexing operators serve. */
export const plainTypes: readonly ElementType[] = elementTypes.filter((type) => {
  const { bits, kind } = traitsOf(type);
  return kind === "float" ? bits >= 16 : bits === 0 || bits >= 8;
});

/** The plain types without bfloat16: what operators served before opset 13. */
export const classicTypes: readonly ElementType[] = plainTypes.filter((type) => type !== "bfloat16");

/** float16, float32, float64: the floats before bfloat16. */
export const classicFloats: readonly ElementType[] = ["float16", "float32", "float64"];
