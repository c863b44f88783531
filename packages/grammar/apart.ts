/** Schemas of which a value may obey one alone: whether it can be told of them that no value obeys two. */
import type { ObjectRules, ReadSchema } from "./read-schema.js";
import { hasType, isObject, types } from "./value-types.js";

/** True if no value can obey two of these: other types, or a property that must be there with other values. */
export function areApart(options: readonly ReadSchema[]): boolean {
  return options.every((one, at) => options.slice(at + 1).every((other) => twoApart(one, other)));
}

function twoApart(a: ReadSchema, b: ReadSchema): boolean {
  if (a.kind === "values" && b.kind === "values") {
    const texts = new Set(b.values.map(canonicalText));
    return a.values.every((value) => !texts.has(canonicalText(value)));
  }
  const [typesA, typesB] = [typesIn(a), typesIn(b)];
  if (typesA === undefined || typesB === undefined) return false;
  const both = [...typesA].filter((type) => typesB.has(type));
  if (both.length === 0) return true;
  if (both.some((type) => type !== "object") || a.kind !== "typed" || b.kind !== "typed") return false;
  const [inA, inB] = [requiredIn(a.object), requiredIn(b.object)];
  return [...inA].some(([name, schema]) => inB.has(name) && twoApart(schema, inB.get(name)!));
}

const requiredIn = (rules: ObjectRules): ReadonlyMap<string, ReadSchema> =>
  new Map(
    rules.kind === "open"
      ? []
      : rules.properties.flatMap(({ name, schema, isRequired }) => (isRequired ? [[name, schema] as const] : [])),
  );

/** JSON with names in order: values alike have one text. */
const canonicalText = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) =>
    isObject(each) ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1))) : each,
  );

/** The types that values may have; every integer is a number. */
function typesIn(schema: ReadSchema): ReadonlySet<string> | undefined {
  if (schema.kind === "values")
    return new Set(
      schema.values.map(
        (value) => [...types].find((type) => type !== "integer" && hasType(value, type as string)) as string,
      ),
    );
  if (schema.kind !== "typed") return undefined;
  return new Set(schema.types.map((type) => (type === "integer" ? "number" : type)));
}
