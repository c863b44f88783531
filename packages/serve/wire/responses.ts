/** `/v1/responses`: the request's fields, read into one text. What is kept between requests is not there: each one says all. */
import * as z from "zod";
import type { ToolChoice } from "#insitu/dialogue/dialogue.js";
import type { ChatMessage } from "#insitu/generate/messages.js";
import { ApiError, badField } from "./api-error.js";
import { refuseFields } from "./chat.js";
import { conversationAsks, readConversation, requireFew } from "./conversation.js";
import {
  commonFields,
  listOf,
  readBody,
  recordOf,
  refusedFields,
  samplingFields,
  textsOf,
  tokenCount,
} from "./fields.js";
import type { RequestLimits } from "./limits.js";
import { contentText, messageField, templateMessage } from "./messages.js";
import type { Prepared } from "./prepared.js";
import { textFormat, textRule } from "./response-format.js";
import { ResponseAnswer } from "./response-answer.js";
import { priorityOf } from "./sampling.js";
import type { ServedModel } from "./served-model.js";
import { functionFields, functionTool } from "./tools.js";

const item = z.looseObject({ type: z.string().nullish(), role: z.string().nullish() });

const messageItem = messageField.extend({ type: z.literal("message").nullish() });
const callItem = z.object({ call_id: z.string(), name: z.string(), arguments: z.string() });
const thought = z.object({ text: z.string() });
const reasoningItem = z.object({ content: listOf(thought).nullish(), summary: listOf(thought).nullish() });
const outputItem = z.object({ call_id: z.string(), output: messageField.shape.content });

/** Fields that would change the answer and are not there. */
const refused = {
  previous_response_id: "nothing is kept between requests; send the conversation as input",
  conversation: "nothing is kept between requests; send the conversation as input",
  background: "answers are generated while the request is open",
  prompt: "there are no stored prompts; send instructions and input",
};

const responseBody = z.object({
  ...refusedFields(refused),
  ...commonFields,
  ...samplingFields,
  input: z.union([z.string(), listOf(item, { least: 1 })]),
  instructions: z.string().nullish(),
  max_output_tokens: tokenCount,
  top_logprobs: z.int().min(0).max(20).nullish(),
  include: textsOf().nullish(),
  text: z.object({ format: textFormat }).nullish(),
  tools: listOf(z.object({ type: z.literal("function"), ...functionFields }), { most: 128 }).nullish(),
  tool_choice: z
    .union([z.enum(["auto", "none", "required"]), z.object({ type: z.literal("function"), name: z.string() })])
    .nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  metadata: recordOf(z.string()).nullish(),
  truncation: z.enum(["auto", "disabled"]).nullish(),
  reasoning: z.object({ effort: z.string().max(32).nullish(), summary: z.string().nullish() }).nullish(),
});

/** What a request asked for, as the answer repeats it. */
export type RepeatedRequest = Pick<
  z.infer<typeof responseBody>,
  | "instructions"
  | "metadata"
  | "max_output_tokens"
  | "text"
  | "tools"
  | "tool_choice"
  | "parallel_tool_calls"
  | "user"
  | "reasoning"
>;

/** Reads a request. */
export async function prepareResponse(given: unknown, model: ServedModel, limits: RequestLimits): Promise<Prepared> {
  const body = readBody(responseBody, given);
  refuseFields(body, refused);
  model.requireName(body.model);
  const priority = priorityOf(body, limits);
  if (body.truncation === "auto")
    throw badField(
      "truncation",
      'truncation: "auto" is not supported; a prompt that is too long is refused',
      "unsupported",
    );
  const { instructions, input, max_output_tokens } = body;
  const said = typeof input === "string" ? [{ role: "user", content: input }] : conversationOf(input);
  requireFew(said, "input", limits);
  const choice = body.tool_choice;
  const system = typeof instructions === "string" ? [{ role: "system", content: instructions }] : [];
  const conversation = {
    messages: [...system, ...said],
    param: "input",
    tools: body.tools?.map((tool) => functionTool(tool)),
    choice: typeof choice === "object" && choice !== null ? { name: choice.name } : ((choice ?? "auto") as ToolChoice),
    parallel: body.parallel_tool_calls !== false,
    format: textRule(body.text?.format),
    formatParam: "text.format",
    effort: body.reasoning?.effort,
  } as const;
  const wantsLogprobs = body.include?.includes("message.output_text.logprobs") === true;
  const logprobs = wantsLogprobs ? (body.top_logprobs ?? 0) : undefined;
  const read = await readConversation(model, conversation);
  const asks = await conversationAsks(
    model,
    conversation,
    read,
    { sampling: body, wanted: { max_output_tokens }, logprobs },
    limits,
  );
  return {
    asks,
    answer: new ResponseAnswer(model, repeatedOf(body), asks[0].sampling),
    stream: body.stream === true,
    priority,
    shown: input,
  };
}

/** What is kept of a request while its text is made. */
function repeatedOf(body: z.infer<typeof responseBody>): RepeatedRequest {
  const { instructions, metadata, max_output_tokens, text, tools, tool_choice, parallel_tool_calls, user, reasoning } =
    body;
  return { instructions, metadata, max_output_tokens, text, tools, tool_choice, parallel_tool_calls, user, reasoning };
}

/** The items of an input as messages; calls that follow each other are one message. */
function conversationOf(items: readonly z.infer<typeof item>[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  /** Thoughts belong to the message or the call that follows on them; templates say whether they are read again. */
  let thoughts = "";
  const taken = (): { readonly reasoning_content?: string } => {
    const reasoning_content = thoughts;
    thoughts = "";
    return reasoning_content === "" ? {} : { reasoning_content };
  };
  const inItem = <T>(at: number, read: () => T): T => {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const inner = (error.param ?? "").replace(/^messages\[\d+\]\.?/, "");
      const param = inner === "" ? `input[${at}]` : `input[${at}].${inner}`;
      throw badField(param, `${param}: ${error.message.replace(/^[\w.[\]]+:? /, "")}`);
    }
  };
  items.forEach((each, at) => {
    switch (each.type ?? "message") {
      case "message": {
        const message = inItem(at, () => templateMessage(readBody(messageItem, { ...each, type: "message" }), at));
        messages.push(message.role === "assistant" ? { ...message, ...taken() } : message);
        return;
      }
      case "function_call": {
        const { call_id, name, arguments: given } = inItem(at, () => readBody(callItem, each));
        const call = { id: call_id, function: { name, arguments: given } };
        const before = messages.at(-1);
        const calls = before?.role === "assistant" ? ((before["tool_calls"] ?? []) as readonly object[]) : [];
        const made = templateMessage({ role: "assistant", content: "", tool_calls: [call] }, at);
        const all = [...calls, ...(made["tool_calls"] as readonly object[])];
        if (before?.role === "assistant") messages[messages.length - 1] = { ...before, ...taken(), tool_calls: all };
        else messages.push({ ...made, ...taken(), tool_calls: all });
        return;
      }
      case "function_call_output": {
        const { call_id, output } = inItem(at, () => readBody(outputItem, each));
        const content = contentText(output, `input[${at}].output`);
        messages.push({ role: "tool", tool_call_id: call_id, content });
        return;
      }
      case "reasoning":
        thoughts = inItem(at, () => reasoningText(readBody(reasoningItem, each)));
        return;
      default:
        throw badField(
          `input[${at}].type`,
          `input[${at}].type: items of type "${each.type}" are not supported`,
          "unsupported",
        );
    }
  });
  return messages;
}

const reasoningText = ({ content, summary }: z.infer<typeof reasoningItem>): string =>
  (content?.length ? content : (summary ?? [])).map(({ text }) => text).join("\n");
