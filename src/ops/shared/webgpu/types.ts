/** Kinds of element types, as shaders tell them apart. */
import { type ElementType, traitsOf } from "../../../tensor/element-type.js";
import type { Operand } from "../../../graph/kernel.js";

/** True for floats: those that shaders read are computed in float32. */
export const isFloat = (type: ElementType): boolean => traitsOf(type).kind === "float";

/** The operand as bits without a meaning, for what only hands elements on; undefined where an element is more than a word or less than a byte. */
export function asBits(operand: Operand): Operand | undefined {
  const { bits, kind } = traitsOf(operand.type);
  if (kind === "string" || kind === "complex") return undefined;
  const type = ({ 8: "uint8", 16: "uint16", 32: "uint32" } as const)[bits];
  return type && { ...operand, type };
}
