/** Attributes made by code, as a file would have them: for rewrites, and for bodies of operators that stand for several. */
import type { AttributeValue } from "./attribute.js";

/** An integer attribute. */
export const int = (value: number): AttributeValue => ({ kind: "int", value: BigInt(value) });
/** A float attribute. */
export const float = (value: number): AttributeValue => ({ kind: "float", value: Math.fround(value) });
/** An attribute of integers. */
export const ints = (value: readonly number[]): AttributeValue => ({ kind: "ints", value: value.map(BigInt) });
/** A string attribute. */
export const string = (value: string): AttributeValue => ({ kind: "string", value });
