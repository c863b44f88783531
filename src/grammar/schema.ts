/**
 * Which JSON Schemas can be enforced to the letter: what the grammar would pass over in silence is refused here, with the place and the keyword,
 * and what it would read too generously is written more narrowly. A text that obeys what comes out obeys what went in.
 */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { JsonSchema } from "../generate/constraint.js";

type Json = Readonly<Record<string, unknown>>;

/** Keywords that restrict nothing. */
const annotations: ReadonlySet<string> = new Set([
  "title",
  "description",
  "default",
  "examples",
  "deprecated",
  "readOnly",
  "writeOnly",
  "$schema",
  "$id",
  "$comment",
  "$anchor",
  "contentEncoding",
  "contentMediaType",
]);

/** Keywords that hold other schemas by name. */
const definitions: ReadonlySet<string> = new Set(["$defs", "definitions"]);

/** Keywords for values of one type, and that type. */
const typeOfKeyword: Readonly<Record<string, string>> = {
  properties: "object",
  required: "object",
  additionalProperties: "object",
  unevaluatedProperties: "object",
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
  minimum: "integer",
  maximum: "integer",
  exclusiveMinimum: "integer",
  exclusiveMaximum: "integer",
};

/** Keywords that stand for all that a schema says: beside them only annotations may stand. */
const whole: ReadonlySet<string> = new Set(["$ref", "anyOf", "oneOf", "allOf", "enum", "const"]);

const types: ReadonlySet<unknown> = new Set(["string", "integer", "number", "boolean", "null", "array", "object"]);

const formats: ReadonlySet<unknown> = new Set(
  "date date-time time duration email uuid ipv4 ipv6 hostname uri uri-reference uri-template json-pointer relative-json-pointer".split(
    " ",
  ),
);

/** Bounds on what one schema may cost. */
const limits = { depth: 32, schemas: 500, values: 1000, count: 1024, pattern: 1024, bytes: 256 * 1024 };

/** A schema that can be enforced; throws for one that cannot be. */
export function enforceable(schema: JsonSchema): JsonSchema {
  const bytes = JSON.stringify(schema).length;
  if (bytes > limits.bytes) throw refusal("", `may be ${limits.bytes} characters long, has ${bytes}`);
  const checked = new SchemaCheck(schema).schema(schema, "", 0) as JsonSchema;
  // The grammar's own name for any value.
  return checked === true ? {} : checked;
}

const refusal = (path: string, why: string): InsituError =>
  new InsituError("invalid-argument", `the schema cannot be enforced${path === "" ? "" : ` at ${path}`}: it ${why}`);

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

class SchemaCheck {
  readonly #root: unknown;
  #schemas = 0;

  constructor(root: unknown) {
    this.#root = root;
  }

  schema(given: unknown, path: string, depth: number): unknown {
    if (given === true) return true;
    if (!isObject(given)) throw refusal(path, `must be an object of keywords or true, got ${valueText(given)}`);
    if (depth > limits.depth) throw refusal(path, `is nested more than ${limits.depth} deep`);
    if (++this.#schemas > limits.schemas) throw refusal(path, `has more than ${limits.schemas} parts`);
    const keys = Object.keys(given).filter((key) => !annotations.has(key));
    const allowed = new Set([...Object.keys(typeOfKeyword), ...whole, ...definitions, "type"]);
    const unknown = keys.find((key) => !allowed.has(key) && !(key === "uniqueItems" && given[key] === false));
    if (unknown !== undefined) throw refusal(path, `has "${unknown}", which is not supported`);
    const out: Record<string, unknown> = {};
    for (const key of definitions)
      if (given[key] !== undefined) out[key] = this.#named(given[key], `${path}/${key}`, depth);
    const rest = keys.filter((key) => !definitions.has(key) && key !== "uniqueItems");
    const single = rest.find((key) => whole.has(key));
    if (single === undefined) return { ...out, ...this.#typed(given, rest, path, depth) };
    const beside = rest.find((key) => key !== single && !(key === "type" && (single === "enum" || single === "const")));
    if (beside !== undefined) throw refusal(path, `has "${beside}" beside "${single}", of which only one would count`);
    return { ...out, ...this.#single(given, single, path, depth) };
  }

  #named(given: unknown, path: string, depth: number): object {
    if (!isObject(given)) throw refusal(path, `must hold schemas by name, got ${valueText(given)}`);
    return Object.fromEntries(
      Object.entries(given).map(([name, schema]) => [name, this.schema(schema, `${path}/${name}`, depth + 1)]),
    );
  }

  #list(given: unknown, path: string, depth: number): unknown[] {
    if (!Array.isArray(given) || given.length === 0)
      throw refusal(path, `must be a list of schemas, got ${valueText(given)}`);
    return given.map((schema: unknown, at) => this.schema(schema, `${path}/${at}`, depth + 1));
  }

  #single(given: Json, keyword: string, path: string, depth: number): object {
    const value = given[keyword];
    switch (keyword) {
      case "$ref":
        this.#reference(value, path);
        return { $ref: value };
      case "anyOf":
        return { anyOf: this.#list(value, `${path}/anyOf`, depth) };
      case "oneOf": {
        const variants = this.#list(value, `${path}/oneOf`, depth);
        if (!areApart(variants)) throw refusal(path, 'has "oneOf" with schemas that may both hold; say "anyOf"');
        return { anyOf: variants };
      }
      case "allOf": {
        const all = this.#list(value, `${path}/allOf`, depth);
        if (all.length > 1) throw refusal(path, 'has "allOf" with several schemas, which is not supported');
        return all[0] === true ? {} : (all[0] as object);
      }
      default:
        return this.#values(given, keyword, path);
    }
  }

  /** enum and const; beside a type, the values that have it. */
  #values(given: Json, keyword: string, path: string): object {
    const values = keyword === "const" ? [given["const"]] : given["enum"];
    if (!Array.isArray(values)) throw refusal(path, `has "enum" that is no list`);
    if (values.length > limits.values) throw refusal(path, `has "enum" with more than ${limits.values} values`);
    const wanted = given["type"] === undefined ? undefined : typesOf(given["type"], path);
    const kept = values.filter((value: unknown) => wanted === undefined || wanted.some((type) => hasType(value, type)));
    if (kept.length === 0) throw refusal(path, `has "${keyword}" without a value that its type allows`);
    return kept.length === 1 ? { const: kept[0] as unknown } : { enum: kept };
  }

  #reference(value: unknown, path: string): void {
    if (typeof value !== "string" || !/^#(\/[^/~%]+)*$/.test(value))
      throw refusal(path, `has a reference that is none into the schema itself: ${valueText(value)}`);
    let at: unknown = this.#root;
    for (const part of value.split("/").slice(1)) at = isObject(at) && Object.hasOwn(at, part) ? at[part] : undefined;
    if (at === undefined) throw refusal(path, `refers to ${value}, which is not there`);
    // A chain of references that comes back to where it was allows nothing and everything.
    const seen = new Set<unknown>();
    for (let next = at; isObject(next) && typeof next["$ref"] === "string";) {
      if (seen.has(next)) throw refusal(path, `refers to itself by ${value}`);
      seen.add(next);
      let target: unknown = this.#root;
      for (const part of next["$ref"].split("/").slice(1)) target = isObject(target) ? target[part] : undefined;
      next = target as Json;
    }
  }

  /** A schema by its type. */
  #typed(given: Json, keys: readonly string[], path: string, depth: number): object {
    const wanted = given["type"] === undefined ? undefined : typesOf(given["type"], path);
    const out: Record<string, unknown> = wanted === undefined ? {} : { type: wanted.length === 1 ? wanted[0] : wanted };
    for (const key of keys) {
      if (key === "type") continue;
      const type = typeOfKeyword[key];
      if (wanted === undefined && (type === "string" || type === "integer"))
        throw refusal(path, `has "${key}" without "type": "${type}"`);
      if (type === "integer" && (wanted?.length !== 1 || wanted[0] !== "integer"))
        throw refusal(path, `has "${key}" for numbers that are not integers alone, which is not supported`);
      // A keyword for values of another type says nothing.
      if (wanted !== undefined && !wanted.includes(type)) continue;
      out[key] = this.#keyword(given, key, path, depth);
    }
    if (out["pattern"] !== undefined || out["format"] !== undefined) {
      const more = ["pattern", "format", "minLength", "maxLength"].filter((key) => out[key] !== undefined);
      if (more.length > 1) throw refusal(path, `has "${more[0]}" and "${more[1]}", of which only one would count`);
    }
    if ((wanted === undefined && out["properties"] !== undefined) || wanted?.includes("object"))
      narrowObject(out, path);
    return out;
  }

  #keyword(given: Json, key: string, path: string, depth: number): unknown {
    const value = given[key];
    const place = `${path}/${key}`;
    switch (key) {
      case "properties":
        return this.#named(value, place, depth);
      case "prefixItems":
        return this.#list(value, place, depth);
      case "additionalProperties":
      case "unevaluatedProperties":
      case "items":
        return value === false ? false : this.schema(value, place, depth + 1);
      case "required":
        if (!Array.isArray(value) || !value.every((name) => typeof name === "string"))
          throw refusal(place, `must be a list of names, got ${valueText(value)}`);
        return value;
      case "pattern":
        return patternOf(value, place);
      case "format":
        if (!formats.has(value)) throw refusal(path, `has the format ${valueText(value)}, which is not supported`);
        return value;
      default: {
        const isBound = /^(exclusiveM|m)(in|ax)imum$/.test(key);
        const most = isBound ? 2 ** 53 : limits.count;
        if (!Number.isInteger(value) || Math.abs(value as number) > most || (!isBound && (value as number) < 0))
          throw refusal(
            path,
            `has "${key}" that is no whole number ${isBound ? "" : "from 0 "}to ${most}: ${valueText(value)}`,
          );
        return value;
      }
    }
  }
}

/** Objects have the properties that are listed, or any: what is listed may not come a second time as any other. */
function narrowObject(out: Record<string, unknown>, path: string): void {
  const properties = Object.keys((out["properties"] ?? {}) as object);
  const required = (out["required"] ?? []) as readonly string[];
  const missing = required.find((name) => !properties.includes(name));
  if (missing !== undefined) throw refusal(path, `requires "${missing}", which is not among its properties`);
  delete out["unevaluatedProperties"];
  if (properties.length === 0) return;
  out["additionalProperties"] = false;
  for (const key of ["minProperties", "maxProperties"])
    if (out[key] !== undefined) throw refusal(path, `has "${key}" beside "properties", which is not supported`);
}

function typesOf(given: unknown, path: string): readonly string[] {
  const listed: readonly unknown[] = Array.isArray(given) ? given : [given];
  const wrong = listed.find((type) => !types.has(type));
  if (listed.length === 0 || wrong !== undefined)
    throw refusal(path, `has the type ${valueText(given)}, which there is not`);
  return listed as readonly string[];
}

const hasType = (value: unknown, type: string): boolean =>
  type === "integer"
    ? Number.isInteger(value)
    : type === "null"
      ? value === null
      : type === "array"
        ? Array.isArray(value)
        : type === "object"
          ? isObject(value)
          : typeof value === type;

/** A pattern whose matches can stand in a JSON string as they are. */
function patternOf(value: unknown, path: string): unknown {
  if (typeof value !== "string") throw refusal(path, `must be text, got ${valueText(value)}`);
  const classes = value.match(/\[(?:\\.|[^\]\\])*\]/g) ?? [];
  const outside = value.replace(/\[(?:\\.|[^\]\\])*\]/g, "");
  const free = /(^|[^\\])(\\\\)*\.|\\[^dw.^$*+?()[\]{}|/-]|"/u.test(outside) || hasControl(outside);
  const open = classes.some((each) => /^\[\^|\\[^dw.^$*+?()[\]{}|/-]/.test(each) || matchesAny(each, path));
  if (free || open)
    throw refusal(path, `has a pattern that may match quotes, backslashes or control characters: ${valueText(value)}`);
  if (value.length > limits.pattern) throw refusal(path, `has a pattern of more than ${limits.pattern} characters`);
  // Repeats of repeats multiply.
  const repeats = [...value.matchAll(/\{(\d+)(?:,(\d*))?\}/g)].map(([, least, most]) => Number(most || least) || 1);
  if (repeats.reduce((all, count) => all * count, 1) > limits.count)
    throw refusal(path, `repeats more than ${limits.count} times: ${valueText(value)}`);
  return value;
}

/** True for a class of characters that has one which a JSON string must not have as it is. */
function matchesAny(characters: string, path: string): boolean {
  try {
    const matches = new RegExp(characters);
    return [34, 92, ...Array(32).keys()].some((code) => matches.test(String.fromCharCode(code)));
  } catch {
    throw refusal(path, `has a class that cannot be read: ${valueText(characters)}`);
  }
}

const hasControl = (text: string): boolean => Array.from(text).some((character) => character < " ");

/** True if no value can obey two of these: other types, or a property that must be there with other values. */
function areApart(variants: readonly unknown[]): boolean {
  return variants.every((one, at) => variants.slice(at + 1).every((other) => twoApart(one, other)));
}

function twoApart(a: unknown, b: unknown): boolean {
  if (!isObject(a) || !isObject(b)) return false;
  const [valuesA, valuesB] = [valuesIn(a), valuesIn(b)];
  if (valuesA !== undefined && valuesB !== undefined) return valuesA.every((value) => !valuesB.includes(value));
  const [typesA, typesB] = [typesIn(a), typesIn(b)];
  if (typesA === undefined || typesB === undefined) return false;
  const both = typesA.filter((type) => typesB.includes(type));
  if (both.length === 0) return true;
  if (both.some((type) => type !== "object")) return false;
  const shared = (a["required"] as readonly string[] | undefined)?.filter((name) =>
    (b["required"] as readonly string[] | undefined)?.includes(name),
  );
  return (shared ?? []).some((name) => twoApart((a["properties"] as Json)[name], (b["properties"] as Json)[name]));
}

const valuesIn = ({ const: only, enum: listed }: Json): readonly string[] | undefined =>
  only !== undefined
    ? [JSON.stringify(only)]
    : (listed as readonly unknown[] | undefined)?.map((each) => JSON.stringify(each));

const typesIn = ({ type }: Json): readonly string[] | undefined => {
  if (type === undefined) return undefined;
  const listed = (Array.isArray(type) ? type : [type]) as readonly string[];
  // Every integer is a number.
  return listed.includes("number") ? [...listed, "integer"] : listed;
};
