/**
 * Which JSON Schemas can be enforced to the letter: what is not known here is refused, with the place and the keyword, and what would allow texts
 * that cannot be told from wrong ones is read more narrowly. A value that obeys what comes out obeys what went in.
 */
import { valueText } from "#insitu/base/value-text.js";
import type { JsonSchema } from "#insitu/choice/constraint.js";
import { areApart } from "./apart.js";
import { requireEnds } from "./endless.js";
import { formatPattern, isAnnotation, isNamedPattern } from "./formats.js";
import { limits, NoValue, refusal, unlessNone } from "./limits.js";
import { arrayRules, objectRules, type RuleReader } from "./member-rules.js";
import { negated } from "./negation.js";
import { obeys, type SchemaTools } from "./obeys.js";
import { PatternMatcher } from "./pattern.js";
import { both, type Located, type PlainSchema, plainSchema, typeOfKeyword } from "./plain-schema.js";
import type { ReadSchema, StringRules, Target } from "./read-schema.js";
import { hasType, isObject } from "./value-types.js";

type Json = Readonly<Record<string, unknown>>;

/** Keywords that restrict nothing. */
const annotations: ReadonlySet<string> = new Set(
  "title description default examples example deprecated readOnly writeOnly $schema $id id $comment $anchor contentEncoding contentMediaType contentSchema discriminator externalDocs xml markdownDescription nullable".split(
    " ",
  ),
);

/** Keywords that hold other schemas by name, for references. */
const definitions: ReadonlySet<string> = new Set(["$defs", "definitions"]);

/** Keywords that say that other schemas hold. */
const combining: ReadonlySet<string> = new Set(
  "$ref anyOf oneOf allOf not if then else dependentRequired dependentSchemas dependencies".split(" "),
);

const allowed: ReadonlySet<string> = new Set([
  ...Object.keys(typeOfKeyword),
  ...combining,
  ...definitions,
  "enum",
  "const",
  "type",
]);

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

class SchemaReader implements RuleReader {
  readonly #root: unknown;
  /** What is referred to, by where it stands. */
  readonly #targets = new Map<unknown, Target>();
  /** What was read already, by the same. */
  readonly #done = new Map<unknown, ReadSchema>();
  /** Schemas that hold at once, by which they are. */
  readonly #together = new Map<string, Target>();
  readonly #numbers = new Map<unknown, number>();
  /** What must turn out to be apart, once all was read. */
  readonly #apart: { readonly options: readonly (readonly ReadSchema[])[]; readonly path: string }[] = [];
  /** Schemas that say what must not hold: the properties that they name are not evaluated. */
  #negations = 0;
  #schemas = 0;
  #values = 0;
  readonly tools: SchemaTools = {
    find: (reference) => this.#find(reference),
    matches: new PatternMatcher((why) => {
      throw refusal("", why);
    }).matches,
  };

  constructor(root: unknown) {
    this.#root = root;
  }

  all(): ReadSchema {
    const read = this.read(this.#root, "", 0);
    // Reading one may find others.
    for (const [at, target] of this.#targets) target.schema = this.#done.get(at) ?? this.read(at, target.path, 0);
    for (const { options, path } of this.#apart)
      if (!areApart(options)) throw refusal(path, 'has "oneOf" with schemas that may both hold; say "anyOf"');
    return read;
  }

  read(given: unknown, path: string, depth: number): ReadSchema {
    const read = this.#read(given, path, depth);
    this.#done.set(given, read);
    return read;
  }

  /** Schemas that hold at once; undefined where one of them allows nothing. */
  readAll(given: readonly Located[], depth: number): ReadSchema | undefined {
    const several = given.filter(({ schema }, at) => given.findIndex((each) => each.schema === schema) === at);
    if (several.some(({ schema }) => schema === false)) return undefined;
    const wanted = several.filter(({ schema }) => schema !== true);
    if (wanted.length < 2) return wanted.length === 0 ? any : this.read(wanted[0].schema, wanted[0].path, depth);
    // Those that come to themselves are one thing.
    const key = wanted.map(({ schema }) => this.#number(schema)).join();
    const known = this.#together.get(key);
    if (known !== undefined) return { kind: "reference", to: known };
    const target: Target = { path: wanted[0].path };
    this.#together.set(key, target);
    try {
      target.schema = this.read({ allOf: wanted.map(({ schema }) => schema) }, wanted[0].path, depth);
    } catch (error) {
      this.#together.delete(key);
      throw error;
    }
    return { kind: "reference", to: target };
  }

  #number(schema: unknown): number {
    const number = this.#numbers.get(schema) ?? this.#numbers.size;
    this.#numbers.set(schema, number);
    return number;
  }

  #read(given: unknown, path: string, depth: number): ReadSchema {
    if (given === true) return any;
    if (given === false) throw new NoValue(path, "must be an object of keywords or true, got false: no value obeys it");
    const { own, combined } = this.#keysOf(given, path, depth);
    const schema = given as Json;
    if (combined.length === 0) return this.#typed(plainSchema(schema, path), schema, path, depth);
    if (combined.length === 1 && own.length === 0) {
      const [keyword] = combined;
      if (keyword === "$ref") return this.#reference(schema["$ref"], path);
      if (keyword === "anyOf" || keyword === "oneOf") return this.#choice(schema, keyword, path, depth);
    }
    const made = this.#alternatives(schema, path, depth).flatMap((plain) =>
      unlessNone(() => ({ chosen: plain.chosen, read: this.#typed(plain, schema, path, depth) })),
    );
    const read = made.map((each) => each.read);
    for (const at of new Set(made.flatMap(({ chosen }) => [...chosen.keys()]))) {
      const chosen = made.flatMap((each) => each.chosen.get(at) ?? []);
      const options = [...new Set(chosen)].map((one) =>
        made.flatMap((each) => (each.chosen.get(at) === one ? each.read : [])),
      );
      this.#apart.push({ options, path: at });
    }
    if (read.length === 0) throw new NoValue(path, "contradicts itself: no value obeys it");
    return read.length === 1 ? read[0] : { kind: "choice", options: read };
  }

  /** The keywords of a schema that restrict anything, those that combine others apart; what stands in its definitions is read. */
  #keysOf(
    given: unknown,
    path: string,
    depth: number,
  ): { readonly own: readonly string[]; readonly combined: readonly string[] } {
    if (!isObject(given)) throw refusal(path, `must be an object of keywords or true, got ${valueText(given)}`);
    if (depth > limits.depth) throw refusal(path, `is nested more than ${limits.depth} deep`);
    if (++this.#schemas > limits.schemas) throw refusal(path, `has more than ${limits.schemas} parts`);
    const keys = Object.keys(given).filter((key) => !annotations.has(key) && !key.startsWith("x-"));
    const unknown = keys.find((key) => !allowed.has(key));
    if (unknown !== undefined) throw refusal(path, `has "${unknown}", which is not supported`);
    if (path !== "" && typeof given["$id"] === "string" && JSON.stringify(given).includes('"$ref":'))
      throw refusal(path, 'has "$id" around references, which would mean other places than they name');
    for (const key of definitions)
      if (given[key] !== undefined) {
        if (!isObject(given[key]))
          throw refusal(`${path}/${key}`, `must hold schemas by name, got ${valueText(given[key])}`);
        for (const [name, schema] of Object.entries(given[key]))
          if (typeof schema !== "boolean" && !this.#done.has(schema))
            this.read(schema, `${path}/${key}/${name}`, depth + 1);
      }
    const rest = keys.filter((key) => !definitions.has(key) && !(key === "uniqueItems" && given[key] === false));
    return { own: rest.filter((key) => !combining.has(key)), combined: rest.filter((key) => combining.has(key)) };
  }

  /** anyOf and oneOf by themselves. */
  #choice(given: Json, keyword: string, path: string, depth: number): ReadSchema {
    const options = listOf(given[keyword], `${path}/${keyword}`).flatMap((schema, at) =>
      unlessNone(() => this.read(schema, `${path}/${keyword}/${at}`, depth + 1)),
    );
    if (options.length === 0) throw new NoValue(path, `has "${keyword}" that no value obeys`);
    if (keyword === "oneOf") this.#apart.push({ options: options.map((each) => [each]), path });
    return options.length === 1 ? options[0] : { kind: "choice", options };
  }

  /** The ways in which all that a schema says may hold, as keywords of its own and of those that it combines. */
  #alternatives(given: unknown, path: string, depth: number): readonly PlainSchema[] {
    if (given === true) return [plainSchema({}, path)];
    if (given === false) return [];
    const { combined } = this.#keysOf(given, path, depth);
    const { unevaluatedProperties, ...schema } = given as Json;
    const isClosed = combined.length > 0 && unevaluatedProperties === false;
    if (
      combined.length > 0 &&
      ((!isClosed && unevaluatedProperties !== undefined) || schema["unevaluatedItems"] !== undefined)
    )
      throw refusal(path, 'has "unevaluated…" beside schemas that it combines, which is not supported');
    const own = combined.length > 0 ? schema : (given as Json);
    const negations = this.#negations;
    let found: readonly PlainSchema[] = [plainSchema(own, path)];
    for (const keyword of combined)
      for (const options of this.#parts(own, keyword, path, depth)) {
        found = found.flatMap((one) => options.flatMap((other) => both(one, other, this.tools.matches) ?? []));
        if (found.length > limits.alternatives)
          throw refusal(path, `has more than ${limits.alternatives} combinations of alternatives`);
      }
    if (isClosed && this.#negations > negations)
      throw refusal(path, 'has "unevaluatedProperties" beside "if", "not" or dependencies, which is not supported');
    // What nobody lists may not be there.
    return isClosed ? found.map((each) => ({ ...each, additional: [{ schema: false, path }] })) : found;
  }

  /** What a keyword combines: of each list that is handed out, one holds. */
  #parts(given: Json, keyword: string, path: string, depth: number): readonly (readonly PlainSchema[])[] {
    if (keyword === "$ref") {
      const { schema, at } = this.#referred(given["$ref"], path);
      return [this.#alternatives(schema, at, depth + 1)];
    }
    if (/^(not|if|depend)/.test(keyword)) this.#negations++;
    if (keyword === "not") {
      const broken = negated(given["not"], this.tools.find);
      if (broken === undefined) throw refusal(path, 'has "not" of a schema whose opposite cannot be said');
      return [this.#alternatives(broken, `${path}/not`, depth + 1)];
    }
    if (keyword === "then" || keyword === "else") return [];
    if (keyword === "if") {
      const [then, otherwise] = [given["then"] ?? true, given["else"] ?? true];
      if (then === true && otherwise === true) return [];
      const broken = negated(given["if"], this.tools.find) ?? false;
      const both = { anyOf: [{ allOf: [given["if"], then] }, { allOf: [broken, otherwise] }] };
      return [this.#alternatives(both, `${path}/if`, depth + 1)];
    }
    if (keyword.startsWith("depend")) {
      const named = given[keyword];
      if (!isObject(named)) throw refusal(path, `has "${keyword}" that is no object: ${valueText(named)}`);
      return Object.entries(named).map(([name, needs]) =>
        this.#alternatives(dependency(name, needs), `${path}/${keyword}/${name}`, depth + 1),
      );
    }
    const listed = listOf(given[keyword], `${path}/${keyword}`);
    // Names that must be there exclude each other by what else must not be there.
    const exact =
      keyword === "oneOf" && listed.every(isRequirement) ? listed.map((_, at) => oneAlone(listed, at)) : listed;
    const several = exact.map((schema, at) => this.#alternatives(schema, `${path}/${keyword}/${at}`, depth + 1));
    if (keyword === "allOf") return several;
    if (keyword === "anyOf" || exact !== listed) return [several.flat()];
    return [
      several.flatMap((each, at) => each.map((one) => ({ ...one, chosen: new Map([...one.chosen, [path, at]]) }))),
    ];
  }

  /** A reference into the schema itself. What it refers to is read when all else was. */
  #reference(value: unknown, path: string): ReadSchema {
    const { schema, at } = this.#referred(value, path);
    const to = this.#targets.get(schema) ?? { path: at };
    this.#targets.set(schema, to);
    return { kind: "reference", to };
  }

  /** What a reference refers to, through others that are nothing but references. */
  #referred(value: unknown, path: string): { readonly schema: unknown; readonly at: string } {
    if (typeof value !== "string" || !value.startsWith("#"))
      throw refusal(path, `has a reference that is none into the schema itself: ${valueText(value)}`);
    // A chain of references that comes back to where it was allows nothing and everything.
    const seen = new Set<unknown>();
    let at = this.#find(value);
    for (; isObject(at) && typeof at["$ref"] === "string" && isMere(at); at = this.#find(at["$ref"])) {
      if (seen.has(at)) throw refusal(path, `refers to itself by ${value}`);
      seen.add(at);
    }
    if (at === undefined) throw refusal(path, `refers to ${value}, which is not there`);
    return { schema: at, at: value.slice(1) };
  }

  #find(reference: string): unknown {
    let at: unknown = this.#root;
    if (!reference.startsWith("#")) return undefined;
    if (/^#[^/]/.test(reference)) return anchored(this.#root, reference.slice(1));
    for (const each of reference.split("/").slice(1)) {
      const part = decoded(each);
      at = (isObject(at) || Array.isArray(at)) && Object.hasOwn(at, part) ? (at as Json)[part] : undefined;
    }
    return at;
  }

  /** What keywords of its own say, of `whole`, which says more where it combines others. */
  #typed(plain: PlainSchema, whole: Json, path: string, depth: number): ReadSchema {
    const { types, values, says } = plain;
    if (values !== undefined) return this.#valuesOf(values, types, whole, path);
    if (types === undefined && says.size === 0) return any;
    // Without a type, what a keyword is for is what is meant.
    const meant = types ?? ["object", "array", "string", "number"].filter((type) => says.has(type));
    const has = (...wanted: readonly string[]): boolean => wanted.some((type) => meant.includes(type));
    const nothing = plainSchema({}, path);
    return {
      kind: "typed",
      types: meant,
      path,
      string: stringRules(has("string") ? plain : nothing, path),
      number: has("number", "integer")
        ? { bounds: plain.bounds, multiples: plain.multiples }
        : { bounds: {}, multiples: [] },
      array: arrayRules(has("array") ? plain : nothing, path, depth, this),
      object: objectRules(has("object") ? plain : nothing, path, depth, this),
    };
  }

  /** Listed values, those that obey all that is said. */
  #valuesOf(values: readonly unknown[], types: readonly string[] | undefined, whole: Json, path: string): ReadSchema {
    this.#values += values.length;
    if (this.#values > limits.values) throw refusal(path, `has more than ${limits.values} values in all its "enum"`);
    const kept = values.filter(
      (value) => (types === undefined || types.some((type) => hasType(value, type))) && obeys(value, whole, this.tools),
    );
    if (kept.length === 0) throw new NoValue(path, `has "enum" or "const" without a value that all else allows`);
    return { kind: "values", values: kept };
  }
}

/** What must hold where a property is there: it is not, or it is and others are, or a schema holds. */
function dependency(name: string, needs: unknown): Json {
  const there = { required: [name] };
  const also = Array.isArray(needs) ? { required: needs as readonly unknown[] } : needs;
  return { anyOf: [{ properties: { [name]: false } }, { allOf: [there, also] }] };
}

/** True for a schema that says nothing but which properties must be there. */
const isRequirement = (schema: unknown): boolean =>
  isObject(schema) &&
  Array.isArray(schema["required"]) &&
  Object.keys(schema).every((key) => key === "required" || annotations.has(key));

/** One of some schemas, and none of the others. */
const oneAlone = (all: readonly unknown[], at: number): Json => ({
  allOf: all.map((schema, other) => (other === at ? schema : { not: schema })),
});

function listOf(given: unknown, path: string): readonly unknown[] {
  if (!Array.isArray(given) || given.length === 0)
    throw refusal(path, `must be a list of schemas, got ${valueText(given)}`);
  return given as readonly unknown[];
}

/** True for a schema that says nothing but a reference. */
const isMere = (given: Json): boolean =>
  Object.keys(given).every((key) => key === "$ref" || annotations.has(key) || definitions.has(key));

/** A part of a reference as names spell it. */
function decoded(part: string): string {
  const plain = part.replaceAll("~1", "/").replaceAll("~0", "~");
  try {
    return decodeURIComponent(plain);
  } catch {
    return plain;
  }
}

/** The schema with an anchor. */
function anchored(root: unknown, anchor: string): unknown {
  const level: unknown[] = [root];
  for (let each = level.pop(); each !== undefined; each = level.pop()) {
    if (isObject(each) && each["$anchor"] === anchor) return each;
    if (typeof each === "object" && each !== null) level.push(...(Object.values(each) as unknown[]));
  }
  return undefined;
}

function stringRules({ patterns: given, formats, lengths }: PlainSchema, path: string): StringRules {
  const patterns: string[] = [];
  for (const { schema: pattern } of given) {
    if (typeof pattern !== "string") throw refusal(path, `has "pattern" that is no text: ${valueText(pattern)}`);
    if (pattern.length > limits.pattern) throw refusal(path, `has a pattern of more than ${limits.pattern} characters`);
    patterns.push(pattern);
  }
  for (const { schema: format } of formats) {
    const known = typeof format === "string" ? formatPattern(format) : undefined;
    if (known !== undefined) patterns.push(known);
    else if (typeof format !== "string" || !(isAnnotation(format) || (isNamedPattern(format) && given.length > 0)))
      throw refusal(path, `has the format ${valueText(format)}, which is not supported`);
  }
  const { least: minLength, most: maxLength } = lengths;
  if (minLength > maxLength) throw new NoValue(path, `has "minLength" ${minLength} and "maxLength" ${maxLength}`);
  return { patterns: [...new Set(patterns)], without: [], minLength, maxLength };
}
