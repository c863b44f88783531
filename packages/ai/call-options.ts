/** What the AI SDK asks a model for → a conversation and the options of its answer. */
import type { LanguageModelV3CallOptions, LanguageModelV3Message, SharedV3Warning } from "@ai-sdk/provider";
import { InsituError } from "#insitu/base/error.js";
import type { JsonSchema } from "#insitu/choice/constraint.js";
import type { ChatOptions } from "#insitu/generate/chat-options.js";
import type { ChatTools } from "#insitu/generate/chat-tools.js";
import type { AnyChatMessage } from "#insitu/generate/messages.js";

/** The options of a call; what cannot be had is a warning. */
export function optionsOf(call: LanguageModelV3CallOptions, warnings: SharedV3Warning[]): ChatOptions {
  const { responseFormat, toolChoice, providerOptions } = call;
  const tools: Record<string, ChatTools[string]> = {};
  for (const tool of call.tools ?? []) {
    if (tool.type !== "function") warnings.push({ type: "unsupported", feature: `provider-defined tool ${tool.id}` });
    else
      tools[tool.name] = {
        parameters: tool.inputSchema as JsonSchema,
        strict: tool.strict === true,
        ...(tool.description === undefined ? {} : { description: tool.description }),
      };
  }
  const format = responseFormat?.type === "json" ? (responseFormat.schema ?? { type: "object" }) : undefined;
  return {
    ...given("maxTokens", call.maxOutputTokens),
    ...given("temperature", call.temperature),
    ...given("stop", call.stopSequences?.length ? call.stopSequences : undefined),
    ...given("topP", call.topP),
    ...given("topK", call.topK),
    ...given("presencePenalty", call.presencePenalty),
    ...given("frequencyPenalty", call.frequencyPenalty),
    ...given("seed", call.seed),
    ...given("signal", call.abortSignal),
    ...given("jsonSchema", format as JsonSchema | undefined),
    ...(Object.keys(tools).length === 0 ? {} : { tools }),
    ...given(
      "toolChoice",
      toolChoice?.type === "tool"
        ? { name: toolChoice.toolName }
        : Object.keys(tools).length === 0
          ? undefined
          : toolChoice?.type,
    ),
    ...(providerOptions?.["insitu"] as ChatOptions | undefined),
  };
}

const given = <Name extends string, Value>(name: Name, value: Value | undefined): Partial<Record<Name, Value>> =>
  value === undefined ? {} : ({ [name]: value } as Record<Name, Value>);

/** A prompt of the SDK as messages. */
export function conversationOf(prompt: readonly LanguageModelV3Message[]): AnyChatMessage[] {
  return prompt.flatMap((message): AnyChatMessage[] => {
    switch (message.role) {
      case "system":
        return [{ role: "system", content: message.content }];
      case "user":
        return [{ role: "user", content: textOf(message.content) }];
      case "assistant":
        return [assistantOf(message.content)];
      case "tool":
        return message.content.flatMap((part) =>
          part.type === "tool-result"
            ? [{ role: "tool", tool_call_id: part.toolCallId, name: part.toolName, content: resultText(part.output) }]
            : [],
        );
      default:
        return message satisfies never;
    }
  });
}

interface Part {
  readonly type: string;
  readonly text?: string;
}

function textOf(parts: readonly Part[]): string {
  return parts
    .map(({ type, text }) => {
      if (type === "text" && text !== undefined) return text;
      throw new InsituError("invalid-argument", `only text is supported, got a part of type "${type}"`);
    })
    .join("");
}

type AssistantParts = Extract<LanguageModelV3Message, { readonly role: "assistant" }>["content"];

function assistantOf(parts: AssistantParts): AnyChatMessage {
  const joined = (type: "text" | "reasoning"): string =>
    parts.map((part) => (part.type === type ? part.text : "")).join("");
  const calls = parts.flatMap((part) =>
    part.type === "tool-call"
      ? [{ id: part.toolCallId, type: "function", function: { name: part.toolName, arguments: part.input } }]
      : [],
  );
  const reasoning = joined("reasoning");
  return {
    role: "assistant",
    content: joined("text"),
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

type ToolParts = Extract<LanguageModelV3Message, { readonly role: "tool" }>["content"];
type Output = Extract<ToolParts[number], { readonly type: "tool-result" }>["output"];

function resultText(output: Output): string {
  switch (output.type) {
    case "text":
    case "error-text":
      return output.value;
    case "json":
    case "error-json":
      return JSON.stringify(output.value);
    case "execution-denied":
      return `error: ${output.reason ?? "the call was denied"}`;
    case "content":
      return textOf(output.value);
    default:
      return output satisfies never;
  }
}
