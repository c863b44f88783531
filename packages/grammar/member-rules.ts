/** What arrays and objects must be, of what a schema says of their elements and properties. */
import { limits, NoValue, refusal, unlessNone } from "./limits.js";
import { obeys, type SchemaTools } from "./obeys.js";
import type { Located, PlainSchema } from "./plain-schema.js";
import type { ArrayRules, Member, ObjectRules, ReadSchema } from "./read-schema.js";

/** Reads the schemas of elements and properties. */
export interface RuleReader {
  readonly tools: SchemaTools;
  /** Schemas that hold at once; undefined where one of them allows nothing. */
  readAll(given: readonly Located[], depth: number): ReadSchema | undefined;
}

/** What a schema says of elements. */
export function arrayRules(plain: PlainSchema, path: string, depth: number, reader: RuleReader): ArrayRules {
  const { first: given, others: rest, counts, isUnique } = plain;
  const { least, most } = counts;
  const read = given.map((each) => reader.readAll(each, depth + 1));
  const forbidden = read.indexOf(undefined);
  const first = (forbidden < 0 ? read : read.slice(0, forbidden)) as readonly ReadSchema[];
  // A list of first elements means that there are no others, where the schema does not say so.
  const isClosed = forbidden >= 0 || (rest.length === 0 && first.length > 0 && least <= first.length);
  const others = isClosed ? undefined : reader.readAll(rest, depth + 1);
  const room = others === undefined ? Math.min(most, first.length) : most;
  if (least > room) throw new NoValue(path, `has "minItems" ${least} where there may be ${room} elements`);
  const counted = { least: Math.max(least, Math.min(first.length, room)), most: room };
  if (!isUnique || room < 2) return { first, others: others ?? false, ...counted };
  const values = first.length === 0 && others !== undefined ? listed(others) : undefined;
  if (values === undefined)
    throw refusal(path, 'has "uniqueItems" for elements that no "enum" lists, which is not supported');
  if (least > values.length) throw new NoValue(path, `has "minItems" ${least} of ${values.length} that may be there`);
  return { first, others: others ?? false, ...counted, distinct: values };
}

/** The values that a schema lists; undefined where it lists none. */
function listed(schema: ReadSchema): readonly unknown[] | undefined {
  if (schema.kind === "reference") return schema.to.schema && listed(schema.to.schema);
  if (schema.kind === "values") return [...new Map(schema.values.map((each) => [JSON.stringify(each), each])).values()];
  return schema.kind === "typed" && schema.types.join() === "boolean" ? [true, false] : undefined;
}

/** What a schema says of properties. Where it lists them, there are no others. */
export function objectRules(plain: PlainSchema, path: string, depth: number, reader: RuleReader): ObjectRules {
  const { properties, required, sizes } = plain;
  const { least, most } = sizes;
  if (least > most) throw new NoValue(path, `has "minProperties" ${least} and "maxProperties" ${most}`);
  const names = reader.readAll(plain.names, depth + 1);
  const isName = (name: string): boolean =>
    names !== undefined && plain.names.every(({ schema }) => obeys(name, schema, reader.tools));
  const known = new Set([...properties.keys(), ...required]);
  const byNames =
    known.size === 0 && names?.kind === "values" ? names.values.filter((name) => typeof name === "string") : [];
  const closed = [...known, ...byNames].flatMap((name) => {
    const rule = isName(name) ? rulesOf(name, plain, reader) : undefined;
    const schema = rule && reader.readAll(rule, depth + 1);
    const isRequired = required.has(name);
    if (schema !== undefined) return [{ name, schema, isRequired }];
    if (isRequired) throw new NoValue(path, `requires "${name}", which may not be there`);
    return [];
  });
  // An empty list is one, as functions without parameters have it, unless something is said of others.
  const saysMore = [plain.patternProperties, plain.additional, plain.names].some((rules) => rules.length > 0);
  if (known.size > 0 || byNames.length > 0 || (plain.listsNone && !saysMore)) {
    if (least > closed.length)
      throw refusal(path, `has "minProperties" ${least} and lists ${closed.length}: others are not generated`);
    const needed = closed.filter(({ isRequired }) => isRequired).length;
    if (needed > most) throw new NoValue(path, `has "maxProperties" ${most} and requires ${needed}`);
    return { kind: "closed", properties: closed, least, most };
  }
  const members = names === undefined ? [] : membersOf(plain, names, path, depth, reader);
  if (least > 1) throw refusal(path, `has "minProperties" above 1 for names that may be alike`);
  if (least > 0 && members.length === 0) throw new NoValue(path, 'has "minProperties" where there may be none');
  return { kind: "open", members, least, most: members.length === 0 ? 0 : most };
}

/** What the value of a property by a name obeys. */
function rulesOf(name: string, plain: PlainSchema, { tools }: RuleReader): readonly Located[] {
  const listed = plain.properties.get(name);
  const byPattern = plain.patternProperties.filter(([pattern]) => tools.matches(pattern, name));
  const patterned = byPattern.map(([, schema]) => schema);
  return listed === undefined && byPattern.length === 0 ? plain.additional : [...(listed ?? []), ...patterned];
}

/** Patterns of which names may obey several. */
const mostPatterns = 4;

/** Some of the patterns, in every way; one by one where they are many. */
function subsetsOf(patterns: readonly string[]): readonly (readonly string[])[] {
  if (patterns.length > mostPatterns) return patterns.map((each) => [each]);
  return patterns.reduce<readonly (readonly string[])[]>(
    (found, each) => [...found, [each], ...found.map((some) => [...some, each])],
    [],
  );
}

/** Properties by the patterns of their names, and those that no pattern is for. */
function membersOf(
  plain: PlainSchema,
  names: ReadSchema,
  path: string,
  depth: number,
  reader: RuleReader,
): readonly Member[] {
  const { patternProperties } = plain;
  const patterns = [...new Set(patternProperties.map(([pattern]) => pattern))];
  const tooLong = patterns.find(({ length }) => length > limits.pattern);
  if (tooLong !== undefined) throw refusal(path, `has a pattern of more than ${limits.pattern} characters`);
  if (patterns.length > 0 && names.kind !== "any")
    throw refusal(path, 'has "propertyNames" beside "patternProperties", which is not supported');
  const byPattern = subsetsOf(patterns).flatMap((some) => {
    const rules = patternProperties.flatMap(([each, schema]) => (some.includes(each) ? [schema] : []));
    const [values] = unlessNone(() => reader.readAll(rules, depth + 1));
    const string = { patterns: some, without: [], minLength: 0, maxLength: Infinity };
    const wanted = stringSchema(string, path);
    return values === undefined
      ? []
      : [{ names: wanted, without: patterns.filter((each) => !some.includes(each)), values }];
  });
  const values = reader.readAll(plain.additional, depth + 1);
  return values === undefined ? byPattern : [...byPattern, { names, without: patterns, values }];
}

/** Texts by rules, as a schema that was read. */
function stringSchema(string: (ReadSchema & { kind: "typed" })["string"], path: string): ReadSchema {
  return {
    kind: "typed",
    types: ["string"],
    path,
    string,
    number: { bounds: {}, multiples: [] },
    array: { first: [], others: false, least: 0, most: 0 },
    object: { kind: "open", members: [], least: 0, most: 0 },
  };
}
