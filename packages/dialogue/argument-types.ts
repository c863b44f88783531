/** What a function's schema says of the type of one argument, and values that were written as text, as JSON of that type. */
import type { JsonSchema } from "#insitu/choice/constraint.js";

type Keywords = Readonly<Record<string, unknown>>;

/** References that are followed, one behind the other. */
const mostReferences = 16;

/** Words for values that JSON spells otherwise, in lower case. */
const words: ReadonlyMap<string, readonly [type: string, json: string]> = new Map([
  ["true", ["boolean", "true"]],
  ["false", ["boolean", "false"]],
  ["none", ["null", "null"]],
  ["null", ["null", "null"]],
]);

const isNumber = /^[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?$/;

const isKeywords = (value: unknown): value is Keywords => typeof value === "object" && value !== null;

/** A text as it stands between the quotes of a JSON string. */
export const insideString = (text: string): string => JSON.stringify(text).slice(1, -1);

/** Part of a JSON string, with line ends and other control characters as JSON wants them: models write them as they are. */
export const withoutControls = (text: string): string => text.replace(/\p{Cc}/gu, insideString);

/** The types that a function's parameters give to one of them; none where they do not say. */
export function typesOf(schema: JsonSchema, name: string): ReadonlySet<string> {
  const types = new Set<string>();
  const properties = isKeywords(schema) ? schema["properties"] : undefined;
  if (isKeywords(properties) && Object.hasOwn(properties, name)) addTypes(properties[name], schema, types, 0);
  return types;
}

/** What a schema comes to that is a reference, or one schema in `allOf`, and nothing else but words about it. */
export function resolved(schema: unknown, root: unknown): Keywords {
  for (let count = 0; isKeywords(schema) && count < mostReferences; count++) {
    const { title: _, description: __, default: ___, $ref, allOf, ...more } = schema;
    const only: unknown = Array.isArray(allOf) && allOf.length === 1 ? allOf[0] : undefined;
    if (Object.keys(more).length > 0 || ($ref === undefined) === (only === undefined)) return schema;
    schema = typeof $ref === "string" ? found($ref, root) : only;
  }
  return isKeywords(schema) ? schema : {};
}

function addTypes(schema: unknown, root: unknown, types: Set<string>, depth: number): void {
  if (!isKeywords(schema) || depth > mostReferences) return;
  const { type, enum: values, const: only, anyOf, oneOf, allOf, $ref, nullable } = schema;
  for (const each of [type].flat()) if (typeof each === "string") types.add(each);
  if (nullable === true) types.add("null");
  const listed = [
    ...(Array.isArray(values) ? (values as readonly unknown[]) : []),
    ...(only === undefined ? [] : [only]),
  ];
  if (type === undefined) for (const value of listed) types.add(typeOf(value));
  if (type === undefined && typeof $ref === "string") addTypes(found($ref, root), root, types, depth + 1);
  for (const options of [anyOf, oneOf, type === undefined ? allOf : undefined])
    if (Array.isArray(options)) for (const each of options) addTypes(each, root, types, depth + 1);
}

/** What a reference into the schema names. */
function found(reference: string, root: unknown): unknown {
  const [, path] = /^#\/(.*)$/s.exec(reference) ?? [];
  let at: unknown = reference === "#" || path !== undefined ? root : undefined;
  for (const part of path?.split("/") ?? []) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    at = isKeywords(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  }
  return at;
}

const typeOf = (value: unknown): string => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value);

const allows = (types: ReadonlySet<string>, type: string): boolean =>
  types.size === 0 || types.has(type) || (type === "number" && types.has("integer"));

/**
 * A value that stands as text, as JSON of one of these types: of any where there are none, text where it is of none of them. `loose` reads objects and
 * lists that are not quite JSON.
 */
export function jsonOf(text: string, types: ReadonlySet<string>, loose?: (text: string) => string | undefined): string {
  const trimmed = text.trim();
  if (types.size !== 1 || !types.has("string")) {
    const word = words.get(trimmed.toLowerCase());
    const isExact = trimmed !== trimmed.toUpperCase() || types.size > 0;
    if (word !== undefined && isExact && allows(types, word[0])) return word[1];
    const value = parsed(trimmed);
    // Digits stay as they are: a number may be longer than JavaScript's.
    if (typeof value === "string" || (value !== undefined && allows(types, typeOf(value)))) return trimmed;
    if (value === undefined && isNumber.test(trimmed) && types.size > 0 && allows(types, "number"))
      return String(Number(trimmed.replaceAll("_", "")));
    const written = value === undefined && /^[[{(]/.test(trimmed) ? loose?.(trimmed) : undefined;
    if (written !== undefined && types.size > 0 && allows(types, typeOf(parsed(written)))) return written;
  }
  return JSON.stringify(text);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
