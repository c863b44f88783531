/** Anthropic's `/v1/messages` and `/v1/messages/count_tokens`: the request's fields, read into one text, or counted. */
import * as z from "zod";
import type { ToolChoice } from "#insitu/dialogue/dialogue.js";
import type { ChatMessage } from "#insitu/generate/messages.js";
import { AnthropicAnswer } from "./anthropic-answer.js";
import { badField } from "./api-error.js";
import { refuseFields } from "./chat.js";
import { type Conversation, conversationAsks, readConversation, requireFew } from "./conversation.js";
import { listOf, readBody, recordOf, refusedFields, samplingFields, schemaField, textsOf } from "./fields.js";
import type { RequestLimits } from "./limits.js";
import type { Prepared } from "./prepared.js";
import { textFormat, textRule } from "./response-format.js";
import type { ServedModel } from "./served-model.js";
import { functionFields, functionTool } from "./tools.js";

const block = z.looseObject({ type: z.string() });
type Block = z.infer<typeof block>;
const content = z.union([z.string(), listOf(block)]);

const textBlock = z.object({ text: z.string() });
const callBlock = z.object({ id: z.string(), name: z.string(), input: recordOf<unknown>() });
const resultBlock = z.object({ tool_use_id: z.string(), content: content.nullish() });
const thinkingBlock = z.object({ thinking: z.string() });

/** Fields that would change the answer and are not there. */
const refused = {
  mcp_servers: "this server calls no other servers; give their tools as tools",
  container: "there are no containers here",
};

const parallel = { disable_parallel_tool_use: z.boolean().nullish() };

const display = { display: z.enum(["summarized", "omitted"]).nullish() };

/** What a conversation and its tools are written in: the fields that count_tokens has too. */
const conversationFields = {
  ...refusedFields(refused),
  model: z.string().nullish(),
  messages: listOf(z.object({ role: z.enum(["user", "assistant", "system"]), content }), { least: 1 }),
  system: content.nullish(),
  tools: listOf(
    z.looseObject({
      type: z.string().nullish(),
      name: functionFields.name,
      description: z.string().nullish(),
      input_schema: schemaField.nullish(),
      strict: z.boolean().nullish(),
    }),
    { most: 128 },
  ).nullish(),
  tool_choice: z
    .discriminatedUnion("type", [
      z.object({ type: z.literal("auto"), ...parallel }),
      z.object({ type: z.literal("any"), ...parallel }),
      z.object({ type: z.literal("tool"), name: z.string(), ...parallel }),
      z.object({ type: z.literal("none") }),
    ])
    .nullish(),
  thinking: z
    .discriminatedUnion("type", [
      z.object({ type: z.literal("enabled"), budget_tokens: z.int().min(0).nullish(), ...display }),
      z.object({ type: z.enum(["adaptive", "between_tools"]), ...display }),
      z.object({ type: z.literal("disabled") }),
    ])
    .nullish(),
  output_config: z.object({ effort: z.string().max(32).nullish(), format: textFormat }).nullish(),
};

const countBody = z.object(conversationFields);

const messagesBody = z.object({
  ...conversationFields,
  max_tokens: z.int().min(1),
  stop_sequences: textsOf({ most: 16 }).nullish(),
  temperature: samplingFields.temperature,
  top_p: samplingFields.top_p,
  top_k: samplingFields.top_k,
  stream: z.boolean().nullish(),
  metadata: recordOf<unknown>().nullish(),
});

type ConversationBody = z.infer<typeof countBody>;

/** Reads a request. */
export async function prepareMessages(given: unknown, model: ServedModel, limits: RequestLimits): Promise<Prepared> {
  const body = readBody(messagesBody, given);
  const conversation = conversationOf(body, model, limits);
  const read = await readConversation(model, conversation);
  const { max_tokens, temperature, top_p, top_k, stop_sequences } = body;
  const stop = stop_sequences ?? [];
  const blank = stop.findIndex((each) => each === "");
  if (blank >= 0) throw badField(`stop_sequences[${blank}]`, `stop_sequences[${blank}]: must be some text, got ""`);
  const sampling = { temperature, top_p, top_k, stop };
  return {
    asks: await conversationAsks(model, conversation, read, { sampling, wanted: { max_tokens } }, limits),
    answer: new AnthropicAnswer(model.name, read.prompt.length, { stop, omitsThoughts: isOmitted(body.thinking) }),
    stream: body.stream === true,
    priority: 0,
    shown: body.messages,
  };
}

/** Reads a request to count the tokens of a conversation. */
export async function countMessages(
  given: unknown,
  model: ServedModel,
  limits: RequestLimits,
): Promise<() => Promise<object>> {
  const { prompt } = await readConversation(model, conversationOf(readBody(countBody, given), model, limits));
  return () => Promise.resolve({ input_tokens: prompt.length });
}

function conversationOf(body: ConversationBody, model: ServedModel, limits: RequestLimits): Conversation {
  refuseFields(body, refused);
  model.requireName(body.model);
  const { messages, system, tools, tool_choice: choice, thinking, output_config } = body;
  requireFew(messages, "messages", limits);
  if (messages.at(-1)!.role === "assistant")
    throw badField(
      "messages",
      'messages: the last one must be of role "user"; an answer that is begun already is not continued',
      "unsupported",
    );
  const told = system === null || system === undefined ? "" : saidText(system, "system");
  return {
    messages: [...(told === "" ? [] : [{ role: "system", content: told }]), ...messages.flatMap(templateMessages)],
    param: "messages",
    tools: tools?.map((tool, at) => {
      if (tool.type !== undefined && tool.type !== null && tool.type !== "custom")
        throw badField(
          `tools[${at}].type`,
          `tools[${at}].type: tools are the client's own functions here, got "${tool.type}"`,
          "unsupported",
        );
      return functionTool({ ...tool, parameters: tool.input_schema });
    }),
    choice: choiceOf(choice),
    parallel: choice?.type === "none" || choice?.disable_parallel_tool_use !== true,
    format: textRule(output_config?.format),
    formatParam: "output_config.format",
    effort: output_config?.effort,
    enabled: thinking && thinking.type !== "disabled",
    budget: thinking?.type === "enabled" ? thinking.budget_tokens : undefined,
  };
}

const isOmitted = (thinking: ConversationBody["thinking"]): boolean =>
  thinking !== undefined && thinking !== null && "display" in thinking && thinking.display === "omitted";

function choiceOf(choice: ConversationBody["tool_choice"]): ToolChoice {
  if (choice?.type === "tool") return { name: choice.name };
  if (choice?.type === "any") return "required";
  return choice?.type ?? "auto";
}

/** A message as templates know it: results of tools are messages of their own. */
function templateMessages({ role, content: said }: ConversationBody["messages"][number], at: number): ChatMessage[] {
  const param = `messages[${at}].content`;
  if (typeof said === "string" || role === "system") return [{ role, content: saidText(said, param) }];
  return role === "assistant" ? [assistantMessage(said, param)] : userMessages(said, param);
}

function userMessages(blocks: readonly Block[], param: string): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let texts: string[] = [];
  const flush = (): void => {
    if (texts.length > 0) messages.push({ role: "user", content: texts.join("\n") });
    texts = [];
  };
  blocks.forEach((each, at) => {
    const place = `${param}[${at}]`;
    if (each.type !== "tool_result") return void texts.push(blockText(each, place));
    flush();
    const { tool_use_id, content: result } = readBody(resultBlock, each, place);
    messages.push({ role: "tool", tool_call_id: tool_use_id, content: saidText(result ?? "", `${place}.content`) });
  });
  flush();
  return messages;
}

function assistantMessage(blocks: readonly Block[], param: string): ChatMessage {
  const calls: object[] = [];
  let [text, thoughts] = ["", ""];
  blocks.forEach((each, at) => {
    const place = `${param}[${at}]`;
    switch (each.type) {
      case "tool_use": {
        const { id, name, input } = readBody(callBlock, each, place);
        calls.push({ id, type: "function", function: { name, arguments: input } });
        return;
      }
      case "thinking":
        thoughts += readBody(thinkingBlock, each, place).thinking;
        return;
      // Thoughts of another server's model, which it alone can read.
      case "redacted_thinking":
        return;
      default:
        text += blockText(each, place);
    }
  });
  return {
    role: "assistant",
    content: text,
    ...(thoughts === "" ? {} : { reasoning_content: thoughts }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

/** The text of what may be blocks of text. */
const saidText = (given: string | readonly Block[], param: string): string =>
  typeof given === "string" ? given : given.map((each, at) => blockText(each, `${param}[${at}]`)).join("\n");

function blockText(given: Block, param: string): string {
  if (given.type === "text") return readBody(textBlock, given, param).text;
  throw badField(
    `${param}.type`,
    `${param}.type: only text is supported, got a block of type "${given.type}"`,
    "unsupported",
  );
}
