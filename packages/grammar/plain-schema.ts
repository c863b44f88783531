/**
 * What a schema says by keywords of its own, beside references and alternatives, and what two such schemas say together. A value obeys what they
 * say together if and only if it obeys both. What cannot be said together is refused, with its place.
 */
import { valueText } from "#insitu/base/value-text.js";
import { limits, refusal } from "./limits.js";
import { isObject, types as allTypes } from "./value-types.js";

type Json = Readonly<Record<string, unknown>>;

/** A part of a schema and where it stands. */
export interface Located {
  readonly schema: unknown;
  readonly path: string;
}

/** What a schema says by itself; what it does not speak of is left out. */
export interface PlainSchema {
  readonly path: string;
  readonly types: readonly string[] | undefined;
  readonly values: readonly unknown[] | undefined;
  readonly patterns: readonly Located[];
  readonly formats: readonly Located[];
  readonly lengths: Span;
  readonly bounds: Readonly<Record<string, number>>;
  readonly multiples: readonly number[];
  readonly properties: ReadonlyMap<string, readonly Located[]>;
  readonly patternProperties: readonly (readonly [pattern: string, schema: Located])[];
  /** True where a list of properties is given and empty. */
  readonly listsNone: boolean;
  readonly required: ReadonlySet<string>;
  /** What other properties obey; none where nothing is said. */
  readonly additional: readonly Located[];
  readonly names: readonly Located[];
  readonly sizes: Span;
  /** Whether anything is said of objects, and of arrays. */
  readonly says: ReadonlySet<string>;
  readonly first: readonly (readonly Located[])[];
  readonly others: readonly Located[];
  readonly counts: Span;
  readonly isUnique: boolean;
  /** Which schema of each "oneOf" holds, by the place of that. */
  readonly chosen: ReadonlyMap<string, number>;
}

/** From the least to the most. */
interface Span {
  readonly least: number;
  readonly most: number;
}

/** Keywords for values of one type, and that type. */
export const typeOfKeyword: Readonly<Record<string, string>> = {
  properties: "object",
  patternProperties: "object",
  required: "object",
  additionalProperties: "object",
  unevaluatedProperties: "object",
  propertyNames: "object",
  minProperties: "object",
  maxProperties: "object",
  items: "array",
  prefixItems: "array",
  additionalItems: "array",
  unevaluatedItems: "array",
  minItems: "array",
  maxItems: "array",
  uniqueItems: "array",
  pattern: "string",
  format: "string",
  minLength: "string",
  maxLength: "string",
  minimum: "number",
  maximum: "number",
  exclusiveMinimum: "number",
  exclusiveMaximum: "number",
  multipleOf: "number",
};

/** Reads what a schema says by keywords of its own. */
export function plainSchema(given: Json, path: string): PlainSchema {
  const says = new Set(
    Object.keys(given).flatMap((key) => (Object.hasOwn(typeOfKeyword, key) ? typeOfKeyword[key] : [])),
  );
  const at = (key: string): readonly Located[] =>
    given[key] === undefined ? [] : [{ schema: given[key], path: `${path}/${key}` }];
  return {
    path,
    types: typesOf(given, path),
    values: valuesOf(given, path),
    patterns: at("pattern"),
    formats: at("format"),
    lengths: spanOf(given, "minLength", "maxLength", path),
    bounds: boundsOf(given, path),
    multiples: multiplesOf(given, path),
    properties: new Map(
      namedOf(given, "properties", path).map(([name, schema]) => [
        name,
        [{ schema, path: `${path}/properties/${name}` }],
      ]),
    ),
    patternProperties: namedOf(given, "patternProperties", path).map(([pattern, schema]) => [
      pattern,
      { schema, path: `${path}/patternProperties/${pattern}` },
    ]),
    listsNone: given["properties"] !== undefined && namedOf(given, "properties", path).length === 0,
    required: new Set(requiredOf(given, path)),
    additional: given["additionalProperties"] === undefined ? at("unevaluatedProperties") : at("additionalProperties"),
    names: at("propertyNames"),
    sizes: spanOf(given, "minProperties", "maxProperties", path),
    says,
    ...elementsOf(given, path),
    counts: spanOf(given, "minItems", "maxItems", path),
    isUnique: given["uniqueItems"] === true,
    chosen: new Map(),
  };
}

/** Whether a pattern is found in a text. */
export type Matches = (pattern: string, text: string) => boolean;

/** What two schemas say together; undefined where no value can obey both. */
export function both(a: PlainSchema, b: PlainSchema, matches: Matches): PlainSchema | undefined {
  const types = a.types === undefined ? b.types : b.types === undefined ? a.types : commonTypes(a.types, b.types);
  const [lengths, sizes, counts] = [a.lengths, a.sizes, a.counts].map((span, at) => {
    const other = [b.lengths, b.sizes, b.counts][at];
    return { least: Math.max(span.least, other.least), most: Math.min(span.most, other.most) };
  });
  if (types?.length === 0) return undefined;
  // Of one "oneOf" two never hold.
  if ([...a.chosen].some(([path, at]) => (b.chosen.get(path) ?? at) !== at)) return undefined;
  const first = Array.from({ length: Math.max(a.first.length, b.first.length) }, (_, at) => [
    ...(a.first[at] ?? a.others),
    ...(b.first[at] ?? b.others),
  ]);
  return {
    path: a.path,
    types,
    values: a.values === undefined ? b.values : a.values,
    patterns: [...a.patterns, ...b.patterns],
    formats: [...a.formats, ...b.formats],
    lengths,
    bounds: tighter(a.bounds, b.bounds),
    multiples: [...a.multiples, ...b.multiples],
    properties: bothProperties(a, b, matches),
    patternProperties: [...a.patternProperties, ...b.patternProperties],
    listsNone: a.listsNone || b.listsNone,
    required: new Set([...a.required, ...b.required]),
    additional: bothAdditional(a, b),
    names: [...a.names, ...b.names],
    sizes,
    says: new Set([...a.says, ...b.says]),
    first,
    others: [...a.others, ...b.others],
    counts,
    isUnique: a.isUnique || b.isUnique,
    chosen: new Map([...a.chosen, ...b.chosen]),
  };
}

/** Properties of either; what one lists alone is what the other says of properties that it does not list. */
function bothProperties(a: PlainSchema, b: PlainSchema, matches: Matches): ReadonlyMap<string, readonly Located[]> {
  const names = new Set([...a.properties.keys(), ...b.properties.keys()]);
  return new Map(Array.from(names, (name) => [name, [...ruleOf(a, name, matches), ...ruleOf(b, name, matches)]]));
}

/** What a schema says of a property by its name; patterns are looked at when all is put together. */
function ruleOf(of: PlainSchema, name: string, matches: Matches): readonly Located[] {
  const { properties, patternProperties, additional } = of;
  const listed = properties.get(name);
  if (listed !== undefined) return listed;
  return patternProperties.some(([pattern]) => matches(pattern, name)) ? [] : additional;
}

/** What both say of properties that neither lists. Where names that one has a pattern for are others to the other, that cannot be said. */
function bothAdditional(a: PlainSchema, b: PlainSchema): readonly Located[] {
  for (const [one, other] of [
    [a, b],
    [b, a],
  ])
    if (one.patternProperties.length > 0 && other.additional.length > 0)
      throw refusal(other.path, 'has "additionalProperties" beside another schema with "patternProperties"');
  return [...a.additional, ...b.additional];
}

function tighter(a: Readonly<Record<string, number>>, b: Readonly<Record<string, number>>): Record<string, number> {
  const out: Record<string, number> = { ...a };
  for (const [key, value] of Object.entries(b)) {
    const choose = key.endsWith("inimum") ? Math.max : Math.min;
    out[key] = out[key] === undefined ? value : choose(out[key], value);
  }
  return out;
}

/** Types of both; an integer is a number. */
function commonTypes(a: readonly string[], b: readonly string[]): readonly string[] {
  const has = (list: readonly string[], type: string): boolean =>
    list.includes(type) || (type === "integer" && list.includes("number"));
  return [...new Set([...a, ...b])].filter((type) => has(a, type) && has(b, type));
}

function typesOf(given: Json, path: string): readonly string[] | undefined {
  const { type, nullable } = given;
  if (type === undefined) return undefined;
  const listed: readonly unknown[] = Array.isArray(type) ? type : [type];
  const wrong = listed.find((each) => !allTypes.has(each));
  if (listed.length === 0 || wrong !== undefined) throw refusal(path, `has the unknown type ${valueText(type)}`);
  return (nullable === true && !listed.includes("null") ? [...listed, "null"] : listed) as readonly string[];
}

function valuesOf(given: Json, path: string): readonly unknown[] | undefined {
  if (given["const"] !== undefined) return [given["const"]];
  if (given["enum"] === undefined) return undefined;
  if (!Array.isArray(given["enum"])) throw refusal(path, `has "enum" that is no list`);
  return given["enum"] as readonly unknown[];
}

function namedOf(given: Json, key: string, path: string): readonly (readonly [string, unknown])[] {
  const value = given[key];
  if (value === undefined) return [];
  if (!isObject(value)) throw refusal(`${path}/${key}`, `must hold schemas by name, got ${valueText(value)}`);
  return Object.entries(value);
}

function requiredOf({ required = [] }: Json, path: string): readonly string[] {
  // Of a single property, as OpenAPI and the third draft have it.
  if (typeof required === "boolean") return [];
  if (!Array.isArray(required) || !required.every((name) => typeof name === "string"))
    throw refusal(`${path}/required`, `must be a list of names, got ${valueText(required)}`);
  return required as readonly string[];
}

/** Elements by their places, and the others: `items` with a list are the first ones, as drafts up to the seventh have it. */
function elementsOf(given: Json, path: string): Pick<PlainSchema, "first" | "others"> {
  const { items, prefixItems, additionalItems, unevaluatedItems } = given;
  const isOld = Array.isArray(items);
  const listed = isOld ? items : prefixItems;
  const key = isOld ? "items" : "prefixItems";
  if (listed !== undefined && (!Array.isArray(listed) || (listed.length === 0 && !isOld)))
    throw refusal(`${path}/${key}`, `must be a list of schemas, got ${valueText(listed)}`);
  const [name, rest] = isOld
    ? ["additionalItems", additionalItems]
    : items === undefined
      ? ["unevaluatedItems", unevaluatedItems]
      : ["items", items];
  return {
    first: ((listed ?? []) as readonly unknown[]).map((schema, at) => [{ schema, path: `${path}/${key}/${at}` }]),
    others: rest === undefined ? [] : [{ schema: rest, path: `${path}/${name}` }],
  };
}

function spanOf(given: Json, least: string, most: string, path: string): Span {
  return {
    least: countOf(given, least, limits.count, path) ?? 0,
    most: countOf(given, most, limits.most, path) ?? Infinity,
  };
}

function countOf(given: Json, key: string, limit: number, path: string): number | undefined {
  const value = given[key];
  if (value === undefined) return undefined;
  if (Number.isInteger(value) && (value as number) >= 0 && (value as number) <= limit) return value as number;
  throw refusal(path, `has "${key}" that is no whole number from 0 to ${limit}: ${valueText(value)}`);
}

function boundsOf(given: Json, path: string): Readonly<Record<string, number>> {
  const bounds: Record<string, number> = {};
  for (const key of ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]) {
    const value = given[key];
    // In the fourth draft it says of the other bound whether that is inside.
    if (value === undefined || typeof value === "boolean") continue;
    if (typeof value !== "number" || !(Math.abs(value) <= 2 ** 53))
      throw refusal(path, `has "${key}" that is no number to 2^53: ${valueText(value)}`);
    const exclusive = `exclusive${key[0].toUpperCase()}${key.slice(1)}`;
    bounds[given[exclusive] === true ? exclusive : key] = value;
  }
  return bounds;
}

function multiplesOf({ multipleOf }: Json, path: string): readonly number[] {
  if (multipleOf === undefined) return [];
  if (typeof multipleOf !== "number" || !(multipleOf > 0 && multipleOf <= 2 ** 53))
    throw refusal(path, `has "multipleOf" that is no number above 0: ${valueText(multipleOf)}`);
  return [multipleOf];
}
