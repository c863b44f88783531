/**
 * Which JSON Schemas can be enforced to the letter: what is not known here is refused, with the place and the keyword, and what would allow texts
 * that cannot be told from wrong ones is read more narrowly. A value that obeys what comes out obeys what went in.
 */
import { valueText } from "#insitu/base/value-text.js";
import type { JsonSchema } from "#insitu/engine/constraint.js";
import { areApart } from "./apart.js";
import { requireEnds } from "./endless.js";
import { formatPattern, isNamedPattern } from "./formats.js";
import { limits, refusal } from "./limits.js";
import type { ArrayRules, ObjectRules, ReadSchema, StringRules, Target } from "./read-schema.js";
import { hasType, isObject, types } from "./value-types.js";

type Json = Readonly<Record<string, unknown>>;

/** Keywords that restrict nothing. */
const annotations: ReadonlySet<string> = new Set(
  "title description default examples deprecated readOnly writeOnly $schema $id $comment $anchor contentEncoding contentMediaType".split(
    " ",
  ),
);

/** Keywords that hold other schemas by name, for references. */
const definitions: ReadonlySet<string> = new Set(["$defs", "definitions"]);

/** Keywords for values of one type, and that type. */
const typeOfKeyword: Readonly<Record<string, string>> = {
  properties: "object",
  required: "object",
  additionalProperties: "object",
  unevaluatedProperties: "object",
  propertyNames: "object",
  minProperties: "object",
  maxProperties: "object",
  items: "array",
  prefixItems: "array",
  minItems: "array",
  maxItems: "array",
  pattern: "string",
  format: "string",
  minLength: "string",
  maxLength: "string",
  minimum: "number",
  maximum: "number",
  exclusiveMinimum: "number",
  exclusiveMaximum: "number",
};

/** Keywords that stand for all that a schema says: beside them only annotations may stand. */
const whole: ReadonlySet<string> = new Set(["$ref", "anyOf", "oneOf", "allOf", "enum", "const"]);

const allowed: ReadonlySet<string> = new Set([...Object.keys(typeOfKeyword), ...whole, ...definitions, "type"]);

const any: ReadSchema = { kind: "any" };

/** Reads a schema; throws for one that cannot be enforced. */
export function readSchema(schema: JsonSchema): ReadSchema {
  const read = new SchemaReader(schema).all();
  requireEnds(read);
  return read;
}

/** Throws for a value whose arrays and objects are nested too deep, or whose JSON is too long. Goes down without calling itself. */
export function checkSize(value: unknown): void {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > limits.nesting) throw refusal("", `nests more than ${limits.nesting} arrays and objects`);
    level = level.flatMap((each) =>
      typeof each === "object" && each !== null ? (Object.values(each) as unknown[]) : [],
    );
  }
  const bytes = (JSON.stringify(value) ?? "").length;
  if (bytes > limits.bytes) throw refusal("", `may be ${limits.bytes} characters long, has ${bytes}`);
}

class SchemaReader {
  readonly #root: unknown;
  /** What is referred to, by where it stands. */
  readonly #targets = new Map<unknown, Target>();
  /** What was read already, by the same. */
  readonly #done = new Map<unknown, ReadSchema>();
  #schemas = 0;
  #values = 0;

  constructor(root: unknown) {
    this.#root = root;
  }

  all(): ReadSchema {
    const read = this.read(this.#root, "", 0);
    // Reading one may find others.
    for (const [at, target] of this.#targets) target.schema = this.#done.get(at) ?? this.read(at, target.path, 0);
    return read;
  }

  read(given: unknown, path: string, depth: number): ReadSchema {
    const read = this.#read(given, path, depth);
    this.#done.set(given, read);
    return read;
  }

  #read(given: unknown, path: string, depth: number): ReadSchema {
    if (given === true) return any;
    if (!isObject(given)) throw refusal(path, `must be an object of keywords or true, got ${valueText(given)}`);
    if (depth > limits.depth) throw refusal(path, `is nested more than ${limits.depth} deep`);
    if (++this.#schemas > limits.schemas) throw refusal(path, `has more than ${limits.schemas} parts`);
    const keys = Object.keys(given).filter((key) => !annotations.has(key));
    const unknown = keys.find((key) => !allowed.has(key) && !(key === "uniqueItems" && given[key] === false));
    if (unknown !== undefined) throw refusal(path, `has "${unknown}", which is not supported`);
    for (const key of definitions) if (given[key] !== undefined) this.#readNamed(given[key], `${path}/${key}`, depth);
    const rest = keys.filter((key) => !definitions.has(key) && key !== "uniqueItems");
    const single = rest.find((key) => whole.has(key));
    if (single === undefined) return this.#typed(given, rest, path, depth);
    const beside = rest.find((key) => key !== single && !(key === "type" && (single === "enum" || single === "const")));
    if (beside !== undefined) throw refusal(path, `has "${beside}" beside "${single}", of which only one would count`);
    return this.#single(given, single, path, depth);
  }

  #readNamed(given: unknown, path: string, depth: number): readonly (readonly [string, ReadSchema])[] {
    if (!isObject(given)) throw refusal(path, `must hold schemas by name, got ${valueText(given)}`);
    return Object.entries(given).map(([name, schema]) => [name, this.read(schema, `${path}/${name}`, depth + 1)]);
  }

  #list(given: unknown, path: string, depth: number): readonly ReadSchema[] {
    if (!Array.isArray(given) || given.length === 0)
      throw refusal(path, `must be a list of schemas, got ${valueText(given)}`);
    return given.map((schema: unknown, at) => this.read(schema, `${path}/${at}`, depth + 1));
  }

  #single(given: Json, keyword: string, path: string, depth: number): ReadSchema {
    const value = given[keyword];
    switch (keyword) {
      case "$ref":
        return this.#reference(value, path);
      case "anyOf":
        return { kind: "choice", options: this.#list(value, `${path}/anyOf`, depth) };
      case "oneOf": {
        const options = this.#list(value, `${path}/oneOf`, depth);
        if (!areApart(options)) throw refusal(path, 'has "oneOf" with schemas that may both hold; say "anyOf"');
        return { kind: "choice", options };
      }
      case "allOf": {
        const all = this.#list(value, `${path}/allOf`, depth);
        if (all.length > 1) throw refusal(path, 'has "allOf" with several schemas, which is not supported');
        return all[0];
      }
      default:
        return this.#valuesOf(given, keyword, path);
    }
  }

  /** enum and const; beside a type, the values that have it. */
  #valuesOf(given: Json, keyword: string, path: string): ReadSchema {
    const values = keyword === "const" ? [given["const"]] : given["enum"];
    if (!Array.isArray(values)) throw refusal(path, `has "enum" that is no list`);
    this.#values += values.length;
    if (this.#values > limits.values) throw refusal(path, `has more than ${limits.values} values in all its "enum"`);
    const wanted = given["type"] === undefined ? undefined : typesOf(given["type"], path);
    const kept = values.filter((value: unknown) => wanted === undefined || wanted.some((type) => hasType(value, type)));
    if (kept.length === 0) throw refusal(path, `has "${keyword}" without a value that its type allows`);
    return { kind: "values", values: kept };
  }

  /** A reference into the schema itself. What it refers to is read when all else was. */
  #reference(value: unknown, path: string): ReadSchema {
    if (typeof value !== "string" || !/^#(\/[^/~%]+)*$/.test(value))
      throw refusal(path, `has a reference that is none into the schema itself: ${valueText(value)}`);
    // A chain of references that comes back to where it was allows nothing and everything.
    const seen = new Set<unknown>();
    let at = this.#find(value);
    for (; isObject(at) && typeof at["$ref"] === "string"; at = this.#find(at["$ref"])) {
      if (seen.has(at)) throw refusal(path, `refers to itself by ${value}`);
      seen.add(at);
    }
    if (at === undefined) throw refusal(path, `refers to ${value}, which is not there`);
    const to = this.#targets.get(at) ?? { path: value.slice(1) };
    this.#targets.set(at, to);
    return { kind: "reference", to };
  }

  #find(reference: string): unknown {
    let at: unknown = this.#root;
    for (const part of reference.split("/").slice(1))
      at = (isObject(at) || Array.isArray(at)) && Object.hasOwn(at, part) ? (at as Json)[part] : undefined;
    return at;
  }

  /** A schema by its type. */
  #typed(given: Json, keys: readonly string[], path: string, depth: number): ReadSchema {
    const wanted = given["type"] === undefined ? undefined : typesOf(given["type"], path);
    const mine: Record<string, unknown> = {};
    for (const key of keys) {
      if (key === "type") continue;
      const type = typeOfKeyword[key];
      if (wanted === undefined && (type === "string" || type === "number"))
        throw refusal(path, `has "${key}" without "type": "${type}"`);
      // A keyword for values of another type says nothing.
      if (wanted === undefined || wanted.includes(type) || (type === "number" && wanted.includes("integer")))
        mine[key] = given[key];
    }
    if (wanted === undefined && Object.keys(mine).length === 0) return any;
    // Without a type, what an object or an array must be is what is meant.
    const meant = ["object", "array"].filter((type) => keys.some((key) => typeOfKeyword[key] === type));
    return {
      kind: "typed",
      types: wanted ?? meant,
      path,
      string: stringRules(mine, path),
      number: numberRules(mine, path),
      array: this.#array(mine, path, depth),
      object: this.#object(mine, path, depth),
    };
  }

  #array(given: Json, path: string, depth: number): ArrayRules {
    const { prefixItems, items } = given;
    const first = prefixItems === undefined ? [] : this.#list(prefixItems, `${path}/prefixItems`, depth);
    const [least, most] = [countOf(given, "minItems", path) ?? 0, countOf(given, "maxItems", path) ?? Infinity];
    // A list of first elements means that there are no others, where the schema does not say so.
    const isClosed = items === false || (items === undefined && first.length > 0 && least <= first.length);
    const others = isClosed ? false : items === undefined ? any : this.read(items, `${path}/items`, depth + 1);
    const room = others === false ? Math.min(most, first.length) : most;
    if (least > room) throw refusal(path, `has "minItems" ${least} where there may be ${room} elements`);
    return { first, others, least: Math.max(least, Math.min(first.length, room)), most: room };
  }

  #object(given: Json, path: string, depth: number): ObjectRules {
    const listed = given["properties"];
    const properties = listed === undefined ? [] : this.#readNamed(listed, `${path}/properties`, depth);
    const required = requiredOf(given, path);
    const additional = given["additionalProperties"] ?? given["unevaluatedProperties"] ?? true;
    const values = additional === false ? false : this.read(additional, `${path}/additionalProperties`, depth + 1);
    const names: ReadSchema =
      given["propertyNames"] === undefined
        ? any
        : this.read(given["propertyNames"], `${path}/propertyNames`, depth + 1);
    const closed = properties.length > 0 ? properties : values === false ? [] : namedProperties(names, values);
    const missing = required.find((name) => !closed.some(([each]) => each === name));
    if (missing !== undefined) throw refusal(path, `requires "${missing}", which is not among its properties`);
    const [least, most] = [
      countOf(given, "minProperties", path) ?? 0,
      countOf(given, "maxProperties", path) ?? Infinity,
    ];
    if (least > most) throw refusal(path, `has "minProperties" ${least} and "maxProperties" ${most}`);
    if (closed.length > 0) {
      for (const key of ["minProperties", "maxProperties"])
        if (given[key] !== undefined) throw refusal(path, `has "${key}" beside properties, which is not supported`);
      const wrong = properties.find(([name]) => !obeys(name, names));
      if (wrong !== undefined)
        throw refusal(path, `has "propertyNames" of which it cannot be told that "${wrong[0]}" obeys it`);
      // What is listed may not come a second time as any other.
      const isRequired = new Set(required);
      return {
        kind: "closed",
        properties: closed.map(([name, schema]) => ({ name, schema, isRequired: isRequired.has(name) })),
      };
    }
    if (least > 1) throw refusal(path, `has "minProperties" above 1 for names that may be alike`);
    if (least > 0 && values === false) throw refusal(path, 'has "minProperties" where there may be none');
    return { kind: "open", names, values, least, most };
  }
}

/** Properties whose names are listed by what names must be. */
function namedProperties(names: ReadSchema, values: ReadSchema): readonly (readonly [string, ReadSchema])[] {
  if (names.kind !== "values") return [];
  return names.values.flatMap((name) => (typeof name === "string" ? [[name, values] as const] : []));
}

/** True if a name is known to obey what names must be. */
function obeys(name: string, names: ReadSchema): boolean {
  if (names.kind === "any") return true;
  if (names.kind === "values") return names.values.includes(name);
  if (names.kind !== "typed" || !names.types.includes("string")) return false;
  const { patterns, minLength, maxLength } = names.string;
  const length = Array.from(name).length;
  return patterns.length === 0 && length >= minLength && length <= maxLength;
}

function requiredOf({ required = [] }: Json, path: string): readonly string[] {
  if (!Array.isArray(required) || !required.every((name) => typeof name === "string"))
    throw refusal(`${path}/required`, `must be a list of names, got ${valueText(required)}`);
  return required as readonly string[];
}

function countOf(given: Json, key: string, path: string): number | undefined {
  const value = given[key];
  if (value === undefined) return undefined;
  if (Number.isInteger(value) && (value as number) >= 0 && (value as number) <= limits.count) return value as number;
  throw refusal(path, `has "${key}" that is no whole number from 0 to ${limits.count}: ${valueText(value)}`);
}

function stringRules(given: Json, path: string): StringRules {
  const { pattern, format } = given;
  const patterns: string[] = [];
  if (pattern !== undefined) {
    if (typeof pattern !== "string") throw refusal(path, `has "pattern" that is no text: ${valueText(pattern)}`);
    if (pattern.length > limits.pattern) throw refusal(path, `has a pattern of more than ${limits.pattern} characters`);
    patterns.push(pattern);
  }
  if (format !== undefined) {
    const known = typeof format === "string" ? formatPattern(format) : undefined;
    if (known !== undefined) patterns.push(known);
    else if (typeof format !== "string" || !isNamedPattern(format) || pattern === undefined)
      throw refusal(path, `has the format ${valueText(format)}, which is not supported`);
  }
  const [minLength, maxLength] = [
    countOf(given, "minLength", path) ?? 0,
    countOf(given, "maxLength", path) ?? Infinity,
  ];
  if (minLength > maxLength) throw refusal(path, `has "minLength" ${minLength} and "maxLength" ${maxLength}`);
  return { patterns, minLength, maxLength };
}

function numberRules(given: Json, path: string): Readonly<Record<string, number>> {
  const bounds: Record<string, number> = {};
  for (const key of ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]) {
    const value = given[key];
    if (value === undefined) continue;
    if (typeof value !== "number" || !(Math.abs(value) <= 2 ** 53))
      throw refusal(path, `has "${key}" that is no number to 2^53: ${valueText(value)}`);
    bounds[key] = value;
  }
  return bounds;
}

function typesOf(given: unknown, path: string): readonly string[] {
  const listed: readonly unknown[] = Array.isArray(given) ? given : [given];
  const wrong = listed.find((type) => !types.has(type));
  if (listed.length === 0 || wrong !== undefined)
    throw refusal(path, `has the type ${valueText(given)}, which there is not`);
  return listed as readonly string[];
}
