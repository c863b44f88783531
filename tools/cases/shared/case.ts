/** Small cases that stand beside an operator (cases.ts): one call, its answer or its refusal. Run on every backend by the tests. */
import { arrayConstructorOf, type ElementType, traitsOf } from "#insitu/tensor/element-type.js";
import { writeBigInts, writeNumbers, writeStrings, isWide } from "#insitu/tensor/access.js";
import { unreachable } from "#insitu/base/error.js";
import { View } from "#insitu/tensor/view.js";
import type { AttributeValue, AttributeValues } from "#insitu/graph/attribute.js";

/** An attribute as cases write it: integers are int, other numbers need `{ float }`. */
export type CaseAttribute =
  | number
  | string
  | View
  | readonly number[]
  | readonly string[]
  | { readonly float: number }
  | { readonly floats: readonly number[] };

/** One call of an operator, and what must come of it. */
export interface OpCase {
  readonly op: string;
  readonly domain?: string;
  readonly opset: number;
  /** What the case shows; printed when it fails. */
  readonly shows: string;
  readonly attrs?: Readonly<Record<string, CaseAttribute>>;
  /** Operands in order; undefined for a left-out one. */
  readonly inputs: readonly (View | undefined)[];
  /** Expected outputs in order; undefined for one that is not asked for. */
  readonly outputs?: readonly (View | undefined)[];
  /** Instead of outputs: the error must match this. */
  readonly throws?: RegExp;
  /** Relative to max(1, |expected|); 0 asks for equal bits. */
  readonly tolerance?: number;
}

/** A view from literals: `of("float32", [2, 2], [1, 2, 3, 4])`. Complex values are interleaved pairs. */
export function of(
  type: ElementType,
  shape: readonly number[],
  values: readonly (number | bigint | string | boolean)[],
): View {
  const view = View.allocate(type, shape);
  const count = traitsOf(type).kind === "complex" ? view.size * 2 : view.size;
  if (values.length !== count) unreachable(`a case gives ${values.length} values for ${view}`);
  if (type === "string") writeStrings(view, values as readonly string[]);
  else if (isWide(type))
    writeBigInts(
      view,
      values.map((value) => BigInt(value as number)),
    );
  else if (traitsOf(type).kind === "complex")
    return new View(
      type,
      shape,
      Object.assign(new (arrayConstructorOf(type as "complex64"))(count), values.map(Number)),
    );
  else writeNumbers(view, values.map(Number));
  return view;
}

/** Attribute values as a node carries them, from a case's literals. */
export function caseAttributes(attrs: Readonly<Record<string, CaseAttribute>> = {}): AttributeValues {
  const result = new Map<string, AttributeValue>();
  for (const [name, given] of Object.entries(attrs)) result.set(name, attributeValue(given));
  return result;
}

function attributeValue(given: CaseAttribute): AttributeValue {
  if (typeof given === "number") return { kind: "int", value: BigInt(given) };
  if (typeof given === "string") return { kind: "string", value: given };
  if (given instanceof View) return { kind: "tensor", value: given };
  if ("float" in given) return { kind: "float", value: Math.fround(given.float) };
  if ("floats" in given) return { kind: "floats", value: given.floats.map(Math.fround) };
  if (given.length > 0 && typeof given[0] === "string") return { kind: "strings", value: given as readonly string[] };
  return { kind: "ints", value: (given as readonly number[]).map(BigInt) };
}
