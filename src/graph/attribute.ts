/** Attribute declarations: how an operator says which attributes it takes, of which kind, with which defaults. */
import { InsituError } from "../base/error.js";
import { meantName } from "../base/option-names.js";
import type { ElementType } from "../tensor/element-type.js";
import { elementTypeOfCode } from "../tensor/element-type.js";
import type { View } from "../tensor/view.js";

/** An attribute's value as a node carries it; a graph is named by its attribute and kept beside the node. */
export type AttributeValue =
  | { readonly kind: "int"; readonly value: bigint }
  | { readonly kind: "float"; readonly value: number }
  | { readonly kind: "string"; readonly value: string }
  | { readonly kind: "tensor"; readonly value: View }
  | { readonly kind: "ints"; readonly value: readonly bigint[] }
  | { readonly kind: "floats"; readonly value: readonly number[] }
  | { readonly kind: "strings"; readonly value: readonly string[] }
  | { readonly kind: "graph" }
  | { readonly kind: "other"; readonly what: string };

/** The attributes of one node by name. */
export type AttributeValues = ReadonlyMap<string, AttributeValue>;

/** One declared attribute: its ONNX kind, its default and how its value is read. */
export interface Attribute<T> {
  readonly kind: AttributeValue["kind"];
  readonly required: boolean;
  /** What an absent attribute reads as. */
  readonly absent: T;
  /** The default as text, for tables. */
  readonly defaultText: string;
  /** Turns the carried value into T; returns a sentence's end ("must be …") as an error. */
  read(value: AttributeValue): { ok: T } | { error: string };
}

const safe = (value: bigint): number | undefined => {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : undefined;
};

function declare<T>(
  kind: AttributeValue["kind"],
  absent: T,
  read: (value: AttributeValue) => { ok: NonNullable<T> } | { error: string },
): Attribute<T> {
  const defaultText = absent === undefined ? "" : typeof absent === "string" ? `"${absent}"` : JSON.stringify(absent);
  return { kind, required: false, absent, defaultText, read };
}

/** An integer. Without a default, an absent one reads as undefined. */
export function int(): Attribute<number | undefined>;
export function int(absent: number): Attribute<number>;
export function int(absent?: number): Attribute<number | undefined> {
  return declare<number | undefined>("int", absent, (value) => {
    const number = value.kind === "int" ? safe(value.value) : undefined;
    return number === undefined ? { error: "must be an integer below 2^53" } : { ok: number };
  });
}

/** A 64-bit integer that may be past 2^53. */
export function bigint(): Attribute<bigint | undefined> {
  return declare<bigint | undefined>("int", undefined, (value) =>
    value.kind === "int" ? { ok: value.value } : { error: "must be an integer" },
  );
}

/** An integer that means yes or no. */
export function flag(absent: boolean): Attribute<boolean> {
  return declare<boolean>("int", absent, (value) =>
    value.kind === "int" ? { ok: value.value !== 0n } : { error: "must be an integer, 0 or 1" },
  );
}

/** A float. */
export function float(): Attribute<number | undefined>;
export function float(absent: number): Attribute<number>;
export function float(absent?: number): Attribute<number | undefined> {
  return declare<number | undefined>("float", absent, (value) =>
    value.kind === "float" ? { ok: value.value } : { error: "must be a float" },
  );
}

/** A string. */
export function string(): Attribute<string | undefined>;
export function string(absent: string): Attribute<string>;
export function string(absent?: string): Attribute<string | undefined> {
  return declare<string | undefined>("string", absent, (value) =>
    value.kind === "string" ? { ok: value.value } : { error: "must be a string" },
  );
}

/** A string out of a closed set. */
export function oneOf<const S extends readonly string[]>(choices: S, absent: S[number]): Attribute<S[number]> {
  return declare<S[number]>("string", absent, (value) =>
    value.kind === "string" && choices.includes(value.value)
      ? { ok: value.value as NonNullable<S[number]> }
      : { error: `must be one of ${choices.map((choice) => `"${choice}"`).join(", ")}` },
  );
}

/** Integers. */
export function ints(): Attribute<readonly number[] | undefined>;
export function ints(absent: readonly number[]): Attribute<readonly number[]>;
export function ints(absent?: readonly number[]): Attribute<readonly number[] | undefined> {
  return declare<readonly number[] | undefined>("ints", absent, (value) => {
    const numbers = value.kind === "ints" ? value.value.map(safe) : [undefined];
    return numbers.includes(undefined) ? { error: "must be integers below 2^53" } : { ok: numbers as number[] };
  });
}

/** 64-bit integers that may be past 2^53. */
export function bigints(): Attribute<readonly bigint[] | undefined> {
  return declare<readonly bigint[] | undefined>("ints", undefined, (value) =>
    value.kind === "ints" ? { ok: value.value } : { error: "must be integers" },
  );
}

/** Floats. */
export function floats(): Attribute<readonly number[] | undefined>;
export function floats(absent: readonly number[]): Attribute<readonly number[]>;
export function floats(absent?: readonly number[]): Attribute<readonly number[] | undefined> {
  return declare<readonly number[] | undefined>("floats", absent, (value) =>
    value.kind === "floats" ? { ok: value.value } : { error: "must be floats" },
  );
}

/** Strings. */
export function strings(): Attribute<readonly string[] | undefined> {
  return declare<readonly string[] | undefined>("strings", undefined, (value) =>
    value.kind === "strings" ? { ok: value.value } : { error: "must be strings" },
  );
}

/** A tensor held by the node itself. */
export function tensorValue(): Attribute<View | undefined> {
  return declare<View | undefined>("tensor", undefined, (value) =>
    value.kind === "tensor" ? { ok: value.value } : { error: "must be a tensor" },
  );
}

/** An element type, given by its TensorProto.DataType code. */
export function elementType(): Attribute<ElementType | undefined>;
export function elementType(absent: ElementType): Attribute<ElementType>;
export function elementType(absent?: ElementType): Attribute<ElementType | undefined> {
  return declare<ElementType | undefined>("int", absent, (value) => {
    const type = value.kind === "int" ? elementTypeOfCode(Number(value.value)) : undefined;
    return type === undefined ? { error: "must be the code of an element type" } : { ok: type };
  });
}

/** A subgraph; it reads as true and is run through the call's `run`. */
export function graph(): Attribute<true | undefined> {
  return declare<true | undefined>("graph", undefined, (value) =>
    value.kind === "graph" ? { ok: true } : { error: "must be a graph" },
  );
}

/** The attribute, without which the node is refused. */
export function required<T>(attribute: Attribute<T | undefined>): Attribute<T> {
  return { ...(attribute as Attribute<T>), required: true, defaultText: "required" };
}

/** Reads a node's attributes by an operator's declarations; throws for unknown, missing and ill-typed ones. */
export function readAttributes(
  declared: Readonly<Record<string, Attribute<unknown>>>,
  given: AttributeValues,
  label: string,
): Readonly<Record<string, unknown>> {
  const result: Record<string, unknown> = {};
  for (const name of given.keys()) {
    if (!Object.hasOwn(declared, name)) {
      const known = Object.keys(declared);
      const meant = meantName(name, known);
      throw new InsituError(
        "invalid-graph",
        `${label}: unknown attribute "${name}"; ${known.length === 0 ? "the operator has none" : `known are ${known.join(", ")}${meant === undefined ? "" : `; did you mean ${meant}?`}`}`,
      );
    }
  }
  for (const [name, attribute] of Object.entries(declared)) {
    const value = given.get(name);
    if (value === undefined) {
      if (attribute.required) throw new InsituError("invalid-graph", `${label}: attribute "${name}" is required`);
      result[name] = attribute.absent;
      continue;
    }
    const read = attribute.read(value);
    if ("error" in read) {
      const shown = "value" in value && value.kind !== "tensor" ? String(value.value).slice(0, 100) : value.kind;
      throw new InsituError("invalid-graph", `${label}: attribute "${name}" ${read.error}, got ${value.kind} ${shown}`);
    }
    result[name] = read.ok;
  }
  return result;
}
