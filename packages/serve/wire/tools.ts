/** The tools of a request: functions that the model may call, whether it must, and what its texts have to obey for it. */
import * as z from "zod";
import type { ToolChoice } from "#insitu/dialogue/dialogue.js";
import type { ToolSpec } from "#insitu/dialogue/family.js";
import { badField } from "./api-error.js";
import { schemaField } from "./fields.js";
import type { ServedModel } from "./served-model.js";

const functionName = z.string().regex(/^[\w.-]{1,64}$/, "letters, digits, _, . and -, at most 64");

/** The fields of a function, wherever an interface has them. */
export const functionFields = {
  name: functionName,
  description: z.string().nullish(),
  parameters: schemaField.nullish(),
  strict: z.boolean().nullish(),
};

/** `tool_choice` of chats. */
export const toolChoice = z
  .union([
    z.enum(["auto", "none", "required"]),
    z.object({ type: z.literal("function"), function: z.object({ name: z.string() }) }),
  ])
  .nullish();

/** Whether tools are called, as `tool_choice` says. */
export const toolChoiceOf = (choice: z.infer<typeof toolChoice>): ToolChoice =>
  typeof choice === "object" && choice !== null ? { name: choice.function.name } : (choice ?? "auto");

/** A function as read, without gaps. */
export function functionTool(given: z.infer<z.ZodObject<typeof functionFields>>): ToolSpec {
  return {
    name: given.name,
    description: given.description ?? undefined,
    parameters: given.parameters ?? { type: "object", properties: {}, additionalProperties: false },
    strict: given.strict === true,
  };
}

/** The tools that a text may call; none where none may. Throws for what the model cannot do. */
export function usableTools(tools: readonly ToolSpec[], choice: ToolChoice, model: ServedModel): readonly ToolSpec[] {
  if (typeof choice === "object" && !tools.some(({ name }) => name === choice.name))
    throw badField("tool_choice", `tool_choice: there is no tool "${choice.name}" among tools`);
  if (choice === "required" && tools.length === 0)
    throw badField("tool_choice", 'tool_choice: "required" needs tools to choose from');
  const twice = tools.find(({ name }, at) => tools.findIndex((other) => other.name === name) !== at);
  if (twice !== undefined) throw badField("tools", `tools: there are two called "${twice.name}"`);
  if (tools.length === 0 || choice === "none") return [];
  const noTools = model.lm.dialogue.noTools({
    template: "start the server with --chat-template file",
    family: "--tool-format names one",
  });
  if (noTools !== undefined) throw badField("tools", `tools: ${noTools}`, "unsupported");
  return tools;
}
