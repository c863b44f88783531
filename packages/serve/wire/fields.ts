/**
 * What fields of requests may hold, in zod's words, and how a body that breaks a rule is refused: with the field, the rule and the value. Lists and
 * records are looked through up to their first fault: what is refused takes no more time and memory than what is taken.
 */
import * as z from "zod";
import { valueText } from "#insitu/base/value-text.js";
import { badField } from "./api-error.js";

/** How many elements a list may have. */
interface ListBounds {
  readonly least?: number;
  readonly most?: number;
}

/** A list up to its first element that breaks a rule. What `isRight` knows at a glance is not looked at further. */
export const listOf = <T extends z.ZodType>(
  element: T,
  { least = 0, most = Infinity }: ListBounds = {},
  isRight: (value: unknown) => boolean = () => false,
) =>
  z.unknown().transform((input, context): z.infer<T>[] => {
    const refuse = (issue: z.core.$ZodRawIssue): never => {
      context.issues.push(issue);
      return z.NEVER;
    };
    if (!Array.isArray(input)) return refuse({ code: "invalid_type", expected: "array", input });
    const given = input as readonly unknown[];
    if (given.length < least)
      return refuse({ code: "too_small", origin: "array", minimum: least, inclusive: true, input });
    if (given.length > most) return refuse({ code: "too_big", origin: "array", maximum: most, inclusive: true, input });
    const list = given as z.infer<T>[];
    const first = list.findIndex((each) => !isRight(each));
    if (first < 0) return list;
    const read = list.slice(0, first);
    for (let at = first; at < list.length; at++) {
      const each = element.safeParse(list[at]);
      if (!each.success) return refuse(issueAt(at, each.error, list[at]));
      read.push(each.data);
    }
    return read;
  });

/** Values by name, up to the first that breaks a rule; any where there is none. */
export const recordOf = <T>(element?: z.ZodType<T>) =>
  z.unknown().transform((input, context): Readonly<Record<string, T>> => {
    if (typeof input !== "object" || input === null || Array.isArray(input)) {
      context.issues.push({ code: "invalid_type", expected: "record", input });
      return z.NEVER;
    }
    const given = input as Readonly<Record<string, T>>;
    if (element === undefined) return given;
    for (const name of Object.keys(given)) {
      const each = element.safeParse(given[name]);
      if (each.success) continue;
      context.issues.push(issueAt(name, each.error, given[name]));
      return z.NEVER;
    }
    return given;
  });

/** What was wrong with a part, as a fault of the whole. */
const issueAt = (key: PropertyKey, { issues: [issue] }: z.ZodError, input: unknown): z.core.$ZodRawIssue =>
  ({ ...issue, path: [key, ...issue.path], input }) as z.core.$ZodRawIssue;

/** A list of texts. */
export const textsOf = (bounds: ListBounds = {}) => listOf(z.string(), bounds, (value) => typeof value === "string");

/** A list of tokens. */
export const tokensOf = (bounds: ListBounds = {}) =>
  listOf(z.int().min(0), bounds, (value) => Number.isSafeInteger(value) && (value as number) >= 0);

const between = (least: number, most: number) => z.number().min(least).max(most).nullish();
const count = (least: number) => z.int().min(least).nullish();

/** The fields that decide how tokens are chosen and where a text ends: every endpoint that makes text has them. */
export const samplingFields = {
  temperature: between(0, 2),
  top_p: between(0, 1),
  top_k: count(-1),
  min_p: between(0, 1),
  presence_penalty: between(-2, 2),
  frequency_penalty: between(-2, 2),
  repetition_penalty: between(1e-3, 10),
  seed: z.int().nullish(),
  logit_bias: recordOf(z.number().min(-100).max(100)).nullish(),
  /** Goes on past the model's end tokens, as vLLM and llama.cpp have it: for measurements. */
  ignore_eos: z.boolean().nullish(),
  /** As vLLM has it: tokens before which no text ends. */
  min_tokens: count(0),
  stop: z.union([z.string().min(1), listOf(z.string().min(1), { most: 16 })]).nullish(),
};

/** The fields that every endpoint has which answers with texts. */
export const commonFields = {
  model: z.string().nullish(),
  stream: z.boolean().nullish(),
  user: z.string().nullish(),
  /** As vLLM has it: lower ones come first. */
  priority: z.int().nullish(),
};

export const streamOptions = z.object({ include_usage: z.boolean().nullish() }).nullish();

/** A number of tokens that a text may have. */
export const tokenCount = count(1);

/** A JSON Schema, of which only the outermost shape is looked at here. */
export const schemaField = z.union([z.boolean(), recordOf<unknown>()]);

/** The fields of a sampling, as read. */
export type SamplingBody = z.infer<z.ZodObject<typeof samplingFields>>;

/** Fields that are known in order to be refused. */
export const refusedFields = (fields: Readonly<Record<string, string>>): Record<string, z.ZodOptional<z.ZodUnknown>> =>
  Object.fromEntries(Object.keys(fields).map((name) => [name, z.unknown().optional()]));

/** A body by its schema, without fields that are not known; throws with the first field that breaks a rule. `at`: where in a body it stands. */
export function readBody<T extends z.ZodType>(schema: T, body: unknown, at = ""): z.infer<T> {
  const read = schema.safeParse(body);
  if (read.success) return read.data;
  const issue = deepest(read.error.issues[0]);
  const param = paramText(issue.path, at);
  const value = issue.path.reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown> | undefined)?.[key], body);
  const what = param === "" ? "the body" : param;
  const missing = value === undefined && param !== "";
  throw badField(
    param === "" ? undefined : param,
    missing ? `${what} is required` : `${what}: ${issue.message}, got ${valueText(value)}`,
    missing ? "missing_required_parameter" : "invalid_value",
  );
}

type Issue = z.core.$ZodIssue;

/** Of a value that none of several forms takes, the complaint of the form that came furthest. */
function deepest(issue: Issue): Issue {
  if (issue.code !== "invalid_union") return issue;
  const inner = issue.errors
    .flat()
    .map(deepest)
    .toSorted((a, b) => b.path.length - a.path.length)[0] as Issue | undefined;
  return inner === undefined || inner.path.length === 0 ? issue : { ...inner, path: [...issue.path, ...inner.path] };
}

/** `messages[0].role`, as OpenAI writes it. */
const paramText = (path: readonly PropertyKey[], at: string): string =>
  path.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : text === "" ? String(key) : `${text}.${String(key)}`),
    at,
  );
