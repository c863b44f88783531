/** Functions that a model may call in a chat: what it is told of them, and what becomes of its calls. */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { ToolSpec } from "#insitu/dialogue/family.js";
import type { JsonSchema } from "#insitu/choice/constraint.js";

/** A schema of a library that speaks Standard Schema, such as zod, and can write itself as JSON Schema. */
export interface StandardParameters {
  /** What Standard Schema requires. */
  readonly "~standard": {
    readonly validate: (value: unknown) => unknown;
    readonly jsonSchema?: { readonly input: (options: { readonly target: "draft-2020-12" }) => object };
  };
}

/** A function that the model may call (function calling). */
export interface ChatTool {
  /** What the function does, for the model. */
  readonly description?: string | undefined;
  /**
   * The schema of the arguments, which are an object: JSON Schema, or a schema of zod or another Standard Schema library.
   * @default no arguments
   */
  readonly parameters?: JsonSchema | StandardParameters | undefined;
  /**
   * True keeps the arguments to the schema even where the model is free to call or not.
   * @default false
   */
  readonly strict?: boolean | undefined;
  /** Runs the function; its result is sent back to the model. Without it, the answer ends with the call, and you send the result. */
  readonly execute?:
    | ((given: never, call: { readonly id: string; readonly signal?: AbortSignal }) => unknown)
    | undefined;
}

/** The functions that the model may call, by name. */
export type ChatTools = Readonly<Record<string, ChatTool>>;

/** A tool call that the model made. */
export interface ToolCall {
  /** The call's id. A message with the result names it. */
  readonly id: string;
  /** The name of the function. */
  readonly name: string;
  /** The arguments as JSON. Incomplete if the text was cut. */
  readonly arguments: string;
}

/** Tools as dialogues know them. Throws for what is none. */
export function toolSpecs(tools: ChatTools | undefined): readonly ToolSpec[] {
  return Object.entries(tools ?? {}).map(([name, tool]) => {
    const refuse = (rule: string, value: unknown): never => {
      throw new InsituError("invalid-argument", `the tool "${name}" must ${rule}, got ${valueText(value)}`);
    };
    if (!/^[\w.-]{1,64}$/.test(name)) refuse("have a name of letters, digits, _, . and -, at most 64", name);
    if (typeof tool !== "object" || tool === null) return refuse("be an object with parameters", tool);
    const { description, parameters, strict, execute } = tool;
    if (execute !== undefined && typeof execute !== "function") refuse("have execute that is a function", execute);
    return { name, description, parameters: schemaOf(name, parameters), strict: strict === true };
  });
}

function schemaOf(name: string, parameters: ChatTool["parameters"]): JsonSchema {
  if (parameters === undefined || parameters === null)
    return { type: "object", properties: {}, additionalProperties: false };
  const standard = standardOf(parameters);
  if (standard === undefined) return parameters as JsonSchema;
  if (standard.jsonSchema === undefined)
    throw new InsituError(
      "invalid-argument",
      `the tool "${name}": its schema cannot write itself as JSON Schema; give parameters as JSON Schema`,
    );
  const { $schema: _, ...schema } = standard.jsonSchema.input({ target: "draft-2020-12" }) as Record<string, unknown>;
  return schema;
}

const standardOf = (parameters: ChatTool["parameters"]): StandardParameters["~standard"] | undefined =>
  (typeof parameters === "object" || typeof parameters === "function") &&
  parameters !== null &&
  "~standard" in parameters
    ? (parameters as StandardParameters)["~standard"]
    : undefined;

/** True if every one of these calls can be done here. */
export const canRun = (tools: ChatTools, calls: readonly ToolCall[]): boolean =>
  calls.every(({ name }) => !Object.hasOwn(tools, name) || tools[name].execute !== undefined);

/** Does a call; the result as text for the model. What goes wrong is told to it too, unless the caller gave up. */
export async function runCall(tools: ChatTools, call: ToolCall, signal: AbortSignal | undefined): Promise<string> {
  const tool = Object.hasOwn(tools, call.name) ? tools[call.name] : undefined;
  if (tool?.execute === undefined) return `error: there is no function "${call.name}"`;
  try {
    const given = await checked(tool, JSON.parse(call.arguments) as unknown);
    const execute = tool.execute as (given: unknown, call: object) => unknown;
    const result = await execute(given, { id: call.id, ...(signal === undefined ? {} : { signal }) });
    return typeof result === "string" ? result : (JSON.stringify(result) ?? "null");
  } catch (error) {
    signal?.throwIfAborted();
    return `error: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** Arguments as the schema's own library reads them. */
async function checked({ parameters }: ChatTool, given: unknown): Promise<unknown> {
  const standard = standardOf(parameters);
  if (standard === undefined) return given;
  const result = (await standard.validate(given)) as {
    readonly value?: unknown;
    readonly issues?: readonly { readonly message: string }[];
  };
  if (result.issues !== undefined) throw new Error(result.issues.map(({ message }) => message).join("; "));
  return result.value;
}
