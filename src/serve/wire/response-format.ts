/** What a client wants the text to be: text, an object, or what a JSON Schema allows. Chat and responses write it differently. */
import * as z from "zod";
import type { TextRule } from "../../engine/constraint.js";
import { schemaField } from "./fields.js";

const schemaParts = {
  name: z.string().nullish(),
  description: z.string().nullish(),
  schema: schemaField,
  strict: z.boolean().nullish(),
};

/** `response_format` of chat and completions. */
export const responseFormat = z
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

/** The rule of `response_format`. */
export function formatRule(format: z.infer<typeof responseFormat>): TextRule | undefined {
  return textRule(format?.type === "json_schema" ? { type: "json_schema", ...format.json_schema } : format);
}

/** The rule of `text.format`. */
export function textRule(format: z.infer<typeof textFormat>): TextRule | undefined {
  if (format?.type === "json_object") return { kind: "object" };
  if (format?.type !== "json_schema") return undefined;
  return { kind: "schema", schema: format.schema };
}
