/**
 * What obeys a schema not, as a schema: keyword by keyword, as far as that can be said. What comes out may allow less than all that breaks the
 * schema, never more.
 */
import { types as allTypes, hasType, isObject } from "./value-types.js";

type Json = Readonly<Record<string, unknown>>;

/** Where schemas are negated inside of each other. */
const mostDepth = 8;

/** A schema for values that break a schema; undefined where none can be said. */
export function negated(given: unknown, find: (reference: string) => unknown, depth = 0): unknown {
  if (typeof given === "boolean") return !given;
  if (!isObject(given) || depth > mostDepth) return undefined;
  const again = (schema: unknown): unknown => negated(schema, find, depth + 1);
  const options = Object.entries(given).flatMap(([keyword, value]) => optionsOf(keyword, value, given, again, find));
  return options.length === 0 ? undefined : options.length === 1 ? options[0] : { anyOf: options };
}

/** Ways to break one keyword. */
function optionsOf(
  keyword: string,
  value: unknown,
  given: Json,
  again: (schema: unknown) => unknown,
  find: (reference: string) => unknown,
): readonly unknown[] {
  const each = (list: unknown): readonly unknown[] => (Array.isArray(list) ? (list as readonly unknown[]) : []);
  const number = value as number;
  switch (keyword) {
    case "$ref":
      return [again(find(String(value)))].filter(isThere);
    case "not":
      return [value];
    case "allOf":
      return each(value).map(again).filter(isThere);
    case "anyOf":
    case "oneOf": {
      const all = each(value).map(again);
      return all.every(isThere) ? [{ allOf: all }] : [];
    }
    case "type":
      return otherTypes([value].flat());
    case "const":
      return without([value]);
    case "enum":
      return without(each(value));
    case "required":
      return each(value).map((name) => ({ type: "object", properties: { [String(name)]: false } }));
    case "properties":
      return Object.entries(isObject(value) ? value : {}).flatMap(([name, schema]) => {
        const broken = again(schema);
        return isThere(broken) ? [{ type: "object", required: [name], properties: { [name]: broken } }] : [];
      });
    case "pattern":
      return [{ type: "string", pattern: `^(?![^]*(?:${String(value)}))` }];
    case "minimum":
      return given["exclusiveMinimum"] === true ? [] : [{ type: "number", exclusiveMaximum: value }];
    case "maximum":
      return given["exclusiveMaximum"] === true ? [] : [{ type: "number", exclusiveMinimum: value }];
    case "exclusiveMinimum":
      return typeof value === "number" ? [{ type: "number", maximum: value }] : [];
    case "exclusiveMaximum":
      return typeof value === "number" ? [{ type: "number", minimum: value }] : [];
    default:
      return counts(keyword, number);
  }
}

/** Fewer than the least, more than the most. */
function counts(keyword: string, value: number): readonly unknown[] {
  const [, bound, of] = /^(min|max)(Length|Items|Properties)$/.exec(keyword) ?? [];
  if (of === undefined || !Number.isInteger(value)) return [];
  const type = { Length: "string", Items: "array", Properties: "object" }[of];
  if (bound === "max") return [{ type, [`min${of}`]: value + 1 }];
  return value === 0 ? [] : [{ type, [`max${of}`]: value - 1 }];
}

/** Values of other types: what is no integer may still be a number, which is left out. */
function otherTypes(types: readonly unknown[]): readonly unknown[] {
  const rest = [...allTypes].filter(
    (type) => type !== "integer" && !types.includes(type) && !(type === "number" && types.includes("integer")),
  );
  return rest.length === 0 ? [] : [{ type: rest }];
}

/** Values that are none of these. */
function without(values: readonly unknown[]): readonly unknown[] {
  const has = (type: string): boolean => values.some((value) => hasType(value, type));
  const other = ["string", "number", "boolean", "null", "array", "object"].filter((type) => !has(type));
  const texts = values.filter((value) => typeof value === "string").map(escaped);
  const numbers = values.filter((value) => typeof value === "number").toSorted((a, b) => a - b);
  return [
    ...(other.length === 0 ? [] : [{ type: other }]),
    ...(texts.length === 0 ? [] : [{ type: "string", pattern: `^(?!(?:${texts.join("|")})$)` }]),
    ...(numbers.length === 0
      ? []
      : [-Infinity, ...numbers].map((from, at) => ({
          type: "number",
          ...(from === -Infinity ? {} : { exclusiveMinimum: from }),
          ...(at === numbers.length ? {} : { exclusiveMaximum: numbers[at] }),
        }))),
    ...(has("boolean")
      ? [true, false].filter((value) => !values.includes(value)).map((value) => ({ const: value }))
      : []),
  ];
}

const isThere = (schema: unknown): boolean => schema !== undefined;

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
