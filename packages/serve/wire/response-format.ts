/**
 * What a client wants the text to be: text, an object, or what a JSON Schema, a regular expression or a grammar allows. Chat and responses write it
 * differently; vLLM and llama.cpp have fields of their own, which are known too.
 */
import * as z from "zod";
import type { TextRule } from "#insitu/choice/constraint.js";
import { badField } from "./api-error.js";
import { schemaField, textsOf } from "./fields.js";

const schemaParts = {
  name: z.string().nullish(),
  description: z.string().nullish(),
  schema: schemaField,
  strict: z.boolean().nullish(),
};

/** `response_format` of chat and completions. */
const responseFormat = z
  .discriminatedUnion("type", [
    z.object({ type: z.literal("text") }),
    z.object({ type: z.literal("json_object") }),
    z.object({ type: z.literal("json_schema"), json_schema: z.object(schemaParts) }),
  ])
  .nullish();

/** `text.format` of responses. */
export const textFormat = z
  .discriminatedUnion("type", [
    z.object({ type: z.literal("text") }),
    z.object({ type: z.literal("json_object") }),
    z.object({ type: z.literal("json_schema"), ...schemaParts }),
  ])
  .nullish();

const anySchema = z.union([z.string(), schemaField]).nullish();
const choices = textsOf({ least: 1, most: 1000 }).nullish();
const pattern = z.string().nullish();

/** Fields of chat and completions: OpenAI's, those of vLLM (`structured_outputs`, and `guided_…` as it was before), those of llama.cpp. */
export const structureFields = {
  response_format: responseFormat,
  structured_outputs: z
    .object({
      json: anySchema,
      regex: pattern,
      choice: choices,
      grammar: pattern,
      json_object: z.boolean().nullish(),
    })
    .nullish(),
  guided_json: anySchema,
  guided_regex: pattern,
  guided_choice: choices,
  guided_grammar: pattern,
  grammar: pattern,
  json_schema: anySchema,
};

/** What the fields of a body say that its texts must be, and which of them says so. */
export function structureRule(body: z.infer<z.ZodObject<typeof structureFields>>): {
  readonly rule: TextRule | undefined;
  readonly param: string;
} {
  const { structured_outputs: structured } = body;
  const all: readonly (readonly [param: string, rule: TextRule | undefined])[] = [
    ["response_format", formatRule(body.response_format)],
    ["structured_outputs.json", jsonRule("structured_outputs.json", structured?.json)],
    ["structured_outputs.regex", regexRule(structured?.regex)],
    ["structured_outputs.choice", choiceRule(structured?.choice)],
    ["structured_outputs.grammar", grammarRule(structured?.grammar)],
    ["structured_outputs.json_object", structured?.json_object === true ? { kind: "object" } : undefined],
    ["guided_json", jsonRule("guided_json", body.guided_json)],
    ["guided_regex", regexRule(body.guided_regex)],
    ["guided_choice", choiceRule(body.guided_choice)],
    ["guided_grammar", grammarRule(body.guided_grammar)],
    ["grammar", grammarRule(body.grammar)],
    ["json_schema", jsonRule("json_schema", body.json_schema)],
  ];
  const [first, second] = all.filter(([, rule]) => rule !== undefined);
  if (second !== undefined)
    throw badField(second[0], `${second[0]}: excluded by ${first[0]}; give one of the two`, "invalid_value");
  return { rule: first?.[1], param: first?.[0] ?? "response_format" };
}

function jsonRule(param: string, given: z.infer<typeof anySchema>): TextRule | undefined {
  if (given === undefined || given === null) return undefined;
  if (typeof given !== "string") return { kind: "schema", schema: given };
  try {
    return { kind: "schema", schema: schemaField.parse(JSON.parse(given)) };
  } catch {
    throw badField(param, `${param}: the text is no JSON Schema`);
  }
}

const regexRule = (given: string | null | undefined): TextRule | undefined =>
  given === undefined || given === null ? undefined : { kind: "regex", pattern: given };

const grammarRule = (given: string | null | undefined): TextRule | undefined =>
  given === undefined || given === null || given === "" ? undefined : { kind: "grammar", grammar: given };

const choiceRule = (given: readonly string[] | null | undefined): TextRule | undefined =>
  given === undefined || given === null ? undefined : { kind: "choice", texts: given };

/** The rule of `response_format`. */
function formatRule(format: z.infer<typeof responseFormat>): TextRule | undefined {
  return textRule(format?.type === "json_schema" ? { type: "json_schema", ...format.json_schema } : format);
}

/** The rule of `text.format`. */
export function textRule(format: z.infer<typeof textFormat>): TextRule | undefined {
  if (format?.type === "json_object") return { kind: "object" };
  if (format?.type !== "json_schema") return undefined;
  return { kind: "schema", schema: format.schema };
}
