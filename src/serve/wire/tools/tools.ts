/** The tools of a request: functions that the model may call, whether it must, and what its texts have to obey for it. */
import * as z from "zod";
import type { JsonSchema, TextRule } from "../../../engine/constraint.js";
import { badField } from "../api-error.js";
import { schemaField } from "../fields.js";
import { mustCall, type ToolStyle } from "./tool-style.js";

/** A function that the model may call. */
export interface FunctionTool {
  readonly name: string;
  readonly description: string | undefined;
  readonly parameters: JsonSchema;
  readonly strict: boolean;
}

/** Whether tools are called: as the model likes, never, at least one, or this one. */
export type ToolChoice = "auto" | "none" | "required" | { readonly name: string };

const functionName = z.string().regex(/^[\w.-]{1,64}$/, "letters, digits, _, . and -, at most 64");

/** The fields of a function, wherever an interface has them. */
export const functionFields = {
  name: functionName,
  description: z.string().nullish(),
  parameters: schemaField.nullish(),
  strict: z.boolean().nullish(),
};

/** A function as read, without gaps. */
export function functionTool(given: z.infer<z.ZodObject<typeof functionFields>>): FunctionTool {
  return {
    name: given.name,
    description: given.description ?? undefined,
    parameters: given.parameters ?? { type: "object", properties: {} },
    strict: given.strict === true,
  };
}

/** The tools of a request and what becomes of them. */
interface ToolUse {
  /** As templates know them; none where none may be called. */
  readonly forTemplate: readonly object[];
  /** How calls are found in the text; undefined where none may be made. */
  readonly style: ToolStyle | undefined;
  /** What the text must obey. */
  readonly rule: TextRule | undefined;
}

/** Decides how tools are used; throws for what the model cannot do. */
export function toolUse(
  tools: readonly FunctionTool[],
  choice: ToolChoice,
  parallel: boolean,
  style: () => ToolStyle | undefined,
): ToolUse {
  const named = typeof choice === "object" ? tools.filter(({ name }) => name === choice.name) : tools;
  if (typeof choice === "object" && named.length === 0)
    throw badField("tool_choice", `tool_choice: there is no tool "${choice.name}" among tools`);
  if (choice === "required" && tools.length === 0)
    throw badField("tool_choice", 'tool_choice: "required" needs tools to choose from');
  const twice = tools.find(({ name }, at) => tools.findIndex((other) => other.name === name) !== at);
  if (twice !== undefined) throw badField("tools", `tools: there are two called "${twice.name}"`);
  if (tools.length === 0 || choice === "none") return { forTemplate: [], style: undefined, rule: undefined };
  const found = style();
  if (found === undefined)
    throw badField("tools", "tools: the model's chat template knows no tools that this server can read", "unsupported");
  return { forTemplate: tools.map(templateTool), style: found, rule: ruleOf(found, named, choice, parallel) };
}

function ruleOf(
  style: ToolStyle,
  tools: readonly FunctionTool[],
  choice: ToolChoice,
  parallel: boolean,
): TextRule | undefined {
  if (choice !== "auto") return mustCall(style, tools, parallel && choice === "required");
  if (!tools.some(({ strict }) => strict)) return undefined;
  if (style.trigger === undefined)
    throw badField(
      "tools",
      `tools: strict cannot be enforced where the model may also answer in text (calls of the kind ${style.name}); set tool_choice to "required" or leave strict out`,
      "unsupported",
    );
  return { kind: "text-with-calls", forms: tools.map((tool) => style.form(tool)), trigger: style.trigger };
}

const templateTool = ({ name, description, parameters }: FunctionTool): object => ({
  type: "function",
  function: { name, ...(description === undefined ? {} : { description }), parameters },
});
