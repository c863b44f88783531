/** Whether a value obeys a schema: what values of `enum` stay where other keywords stand beside them. Knows the keywords that are enforced. */
import { formatPattern } from "./formats.js";
import type { Matches } from "./plain-schema.js";
import { hasType, isObject } from "./value-types.js";

type Json = Readonly<Record<string, unknown>>;

/** References that are followed inside of each other. */
const mostReferences = 64;

/** What a schema is looked at with: what a reference refers to, and whether a pattern is found in a text. */
export interface SchemaTools {
  readonly find: (reference: string) => unknown;
  readonly matches: Matches;
}

/** True if a value obeys a schema. */
export function obeys(value: unknown, schema: unknown, tools: SchemaTools, depth = 0): boolean {
  if (typeof schema === "boolean") return schema;
  if (!isObject(schema) || depth > mostReferences) return false;
  const also = (each: unknown): boolean => obeys(value, each, tools, depth + 1);
  const list = (key: string): readonly unknown[] => (schema[key] ?? []) as readonly unknown[];
  const { $ref, anyOf, oneOf, type, nullable } = schema;
  if (typeof $ref === "string" && !also(tools.find($ref))) return false;
  if (!list("allOf").every(also)) return false;
  if (anyOf !== undefined && !list("anyOf").some(also)) return false;
  if (oneOf !== undefined && list("oneOf").filter(also).length !== 1) return false;
  if (schema["not"] !== undefined && also(schema["not"])) return false;
  const { if: condition, then = true, else: otherwise = true } = schema;
  if (condition !== undefined && !also(also(condition) ? then : otherwise)) return false;
  if (schema["const"] !== undefined && !isSame(value, schema["const"])) return false;
  if (schema["enum"] !== undefined && !list("enum").some((each) => isSame(value, each))) return false;
  const types = type === undefined ? undefined : ([type, nullable === true ? "null" : []].flat() as string[]);
  if (types !== undefined && !types.some((each) => hasType(value, each))) return false;
  if (typeof value === "string") return obeysString(value, schema, tools.matches);
  if (typeof value === "number") return obeysNumber(value, schema);
  const part = (each: unknown, of: unknown): boolean => obeys(each, of, tools, depth + 1);
  if (Array.isArray(value)) return obeysArray(value, schema, part);
  return !isObject(value) || obeysObject(value, schema, part, tools.matches);
}

const countIn = (count: number, given: Json, least: string, most: string): boolean =>
  count >= ((given[least] as number | undefined) ?? 0) && count <= ((given[most] as number | undefined) ?? Infinity);

function obeysString(value: string, given: Json, matches: Matches): boolean {
  const { pattern, format } = given;
  const known = typeof format === "string" ? formatPattern(format) : undefined;
  return (
    countIn(Array.from(value).length, given, "minLength", "maxLength") &&
    (typeof pattern !== "string" || matches(pattern, value)) &&
    (known === undefined || matches(known, value))
  );
}

function obeysNumber(value: number, given: Json): boolean {
  const number = (key: string): number | undefined => (typeof given[key] === "number" ? given[key] : undefined);
  const [least, most, above, below] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"].map(number);
  const multiple = number("multipleOf");
  const isOpen = (key: string): boolean => given[key] === true;
  return (
    (least === undefined || (isOpen("exclusiveMinimum") ? value > least : value >= least)) &&
    (most === undefined || (isOpen("exclusiveMaximum") ? value < most : value <= most)) &&
    (above === undefined || value > above) &&
    (below === undefined || value < below) &&
    (multiple === undefined || Math.abs(value / multiple - Math.round(value / multiple)) < 1e-9)
  );
}

type Part = (value: unknown, schema: unknown) => boolean;

function obeysArray(value: readonly unknown[], given: Json, part: Part): boolean {
  const { items, prefixItems, additionalItems, uniqueItems } = given;
  const isOld = Array.isArray(items);
  const first = ((isOld ? items : prefixItems) ?? []) as readonly unknown[];
  const others = (isOld ? additionalItems : items) ?? true;
  return (
    countIn(value.length, given, "minItems", "maxItems") &&
    value.every((each, at) => part(each, at < first.length ? first[at] : others)) &&
    (uniqueItems !== true || value.every((each, at) => !value.slice(at + 1).some((other) => isSame(each, other))))
  );
}

function obeysObject(value: Json, given: Json, part: Part, matches: Matches): boolean {
  const { propertyNames = true } = given;
  const properties = (given["properties"] ?? {}) as Json;
  const patterned = Object.entries((given["patternProperties"] ?? {}) as Json);
  const additional = given["additionalProperties"] ?? given["unevaluatedProperties"] ?? true;
  const required = Array.isArray(given["required"]) ? (given["required"] as readonly string[]) : [];
  const names = Object.keys(value);
  return (
    countIn(names.length, given, "minProperties", "maxProperties") &&
    required.every((name) => Object.hasOwn(value, name)) &&
    ["dependentRequired", "dependentSchemas", "dependencies"].every((key) =>
      Object.entries((given[key] ?? {}) as Json).every(
        ([name, needs]) =>
          !Object.hasOwn(value, name) ||
          (Array.isArray(needs) ? needs.every((each) => Object.hasOwn(value, String(each))) : part(value, needs)),
      ),
    ) &&
    names.every((name) => {
      const by = patterned.filter(([pattern]) => matches(pattern, name)).map(([, schema]) => schema);
      if (Object.hasOwn(properties, name)) by.push(properties[name]);
      return (
        part(name, propertyNames) && (by.length === 0 ? [additional] : by).every((each) => part(value[name], each))
      );
    })
  );
}

/** True for values alike, whatever the order of their properties. */
function isSame(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((each, at) => isSame(each, (b as readonly unknown[])[at]));
  if (!isObject(a) || !isObject(b)) return a === b;
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && isSame(a[name], b[name]))
  );
}
