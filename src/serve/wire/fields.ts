/** What fields of requests may hold, in zod's words, and how a body that breaks a rule is refused: with the field, the rule and the value. */
import * as z from "zod";
import { valueText } from "../../base/value-text.js";
import { badField } from "./api-error.js";

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
  repetition_penalty: z.number().gt(0).max(10).nullish(),
  seed: z.int().nullish(),
  logit_bias: z.record(z.string(), z.number().min(-100).max(100)).nullish(),
  /** Goes on past the model's end tokens, as vLLM and llama.cpp have it: for measurements. */
  ignore_eos: z.boolean().nullish(),
  /** As vLLM has it: tokens before which no text ends. */
  min_tokens: count(0),
  stop: z.union([z.string().min(1), z.array(z.string().min(1)).max(16)]).nullish(),
};

/** The fields that every endpoint has which answers with texts. */
export const commonFields = {
  model: z.string().nullish(),
  stream: z.boolean().nullish(),
  user: z.string().nullish(),
  /** As vLLM has it: lower ones come first. */
  priority: z.int().nullish(),
};

export const streamOptions = z.looseObject({ include_usage: z.boolean().nullish() }).nullish();

/** A number of tokens that a text may have. */
export const tokenCount = count(1);

/** A JSON Schema, of which only the outermost shape is looked at here. */
export const schemaField = z.union([z.boolean(), z.record(z.string(), z.unknown())]);

/** The fields of a sampling, as read. */
export type SamplingBody = z.infer<z.ZodObject<typeof samplingFields>>;

/** A body by its schema; throws with the first field that breaks a rule. */
export function readBody<T extends z.ZodType>(schema: T, body: unknown): z.infer<T> {
  const read = schema.safeParse(body);
  if (read.success) return read.data;
  const issue = deepest(read.error.issues[0]);
  const param = paramText(issue.path);
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
const paramText = (path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : text === "" ? String(key) : `${text}.${String(key)}`),
    "",
  );
