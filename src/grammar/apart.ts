/** Schemas of which a value may obey one alone: whether it can be told of them that no value obeys two. */
import type { ObjectRules, ReadSchema } from "./read-schema.js";
import { hasType, isObject, types } from "./value-types.js";

/** True if no value can obey two of these: other types, or a property that must be there with other values. */
export function areApart(options: readonly ReadSchema[]): boolean {
  return options.every((one, at) => options.slice(at + 1).every((other) => twoApart(one, other)));
}

/** Properties inside of properties that are looked into. */
const mostDepth = 8;

function twoApart(first: ReadSchema, second: ReadSchema, depth = 0): boolean {
  if (depth > mostDepth) return false;
  const [a, b] = [followed(first), followed(second)];
  if (a.kind === "choice") return a.options.every((each) => twoApart(each, b, depth + 1));
  if (b.kind === "choice") return twoApart(b, a, depth + 1);
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
  return [...inA].some(([name, schema]) => inB.has(name) && twoApart(schema, inB.get(name)!, depth + 1));
}

/** What a reference refers to. */
const followed = (schema: ReadSchema): ReadSchema => (schema.kind === "reference" ? (schema.to.schema ?? schema) : schema);

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
