/** What a function's schema says of the type of one argument, and text as it stands inside of a JSON string. */
import type { JsonSchema } from "#insitu/choice/constraint.js";

type Keywords = Readonly<Record<string, unknown>>;

/** References that are followed, one behind the other. */
const mostReferences = 16;

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

/** The type of a value, as schemas call it. */
export const typeOf = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
