/** Schemas of which a value may obey one alone: whether it can be told of them that no value obeys two. */
import type { ObjectRules, ReadSchema } from "./read-schema.js";
import { hasType, isObject, types } from "./value-types.js";

/**
 * True if what is made by one of these obeys none of the others: other types, properties that only one has, or others by their values. Each is a list
 * of schemas of which one holds.
 */
export function areApart(options: readonly (readonly ReadSchema[])[]): boolean {
  return options.every((one, at) =>
    options.every(
      (other, beside) => at === beside || one.every((made) => other.every((schema) => escapes(made, schema))),
    ),
  );
}

/** Properties inside of properties that are looked into. */
const mostDepth = 8;

/** True if no value that is made by one schema obeys another. */
function escapes(made: ReadSchema, other: ReadSchema, depth = 0): boolean {
  if (depth > mostDepth) return false;
  const [a, b] = [followed(made), followed(other)];
  if (a.kind === "choice") return a.options.every((each) => escapes(each, b, depth + 1));
  if (b.kind === "choice") return b.options.every((each) => escapes(a, each, depth + 1));
  if (a.kind === "values" && b.kind === "values") {
    const texts = new Set(b.values.map(canonicalText));
    return a.values.every((value) => !texts.has(canonicalText(value)));
  }
  const [typesA, typesB] = [typesIn(a), typesIn(b)];
  if (typesA === undefined || typesB === undefined) return false;
  const both = [...typesA].filter((type) => typesB.has(type));
  if (both.length === 0) return true;
  if (both.some((type) => type !== "object") || a.kind !== "typed" || b.kind !== "typed") return false;
  return objectEscapes(a.object, b.object, depth);
}

/** The same of objects. What is made has no properties beside those that are listed. */
function objectEscapes(a: ObjectRules, b: ObjectRules, depth: number): boolean {
  if (a.kind === "open" || b.kind === "open") return false;
  const inA = new Map(a.properties.map((each) => [each.name, each]));
  if (b.properties.some(({ name, isRequired }) => isRequired && !inA.has(name))) return true;
  return b.properties.some(({ name, schema }) => {
    const mine = inA.get(name);
    return mine?.isRequired === true && escapes(mine.schema, schema, depth + 1);
  });
}

/** What a reference refers to. */
const followed = (schema: ReadSchema): ReadSchema =>
  schema.kind === "reference" ? (schema.to.schema ?? schema) : schema;

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
