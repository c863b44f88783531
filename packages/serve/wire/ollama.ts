/** Ollama's `/api/chat` and `/api/generate`: the request's fields, read into one text; without anything to answer, the model is there. */
import * as z from "zod";
import { valueText } from "#insitu/base/value-text.js";
import type { TextRule } from "#insitu/choice/constraint.js";
import type { ChatMessage } from "#insitu/generate/messages.js";
import { badField } from "./api-error.js";
import { refuseFields } from "./chat.js";
import { conversationAsks, readConversation, requireFew } from "./conversation.js";
import {
  listOf,
  readBody,
  recordOf,
  refusedFields,
  type SamplingBody,
  samplingFields,
  textsOf,
  tokensOf,
} from "./fields.js";
import type { RequestLimits } from "./limits.js";
import { OllamaAnswer } from "./ollama-answer.js";
import { asksOf, type Prepared } from "./prepared.js";
import { endTokensOf, maxTokensOf, samplingOf, stopsOf, type Wanted } from "./sampling.js";
import type { ServedModel } from "./served-model.js";
import { functionFields, functionTool, toolChoice, toolChoiceOf } from "./tools.js";

/** Options that decide how tokens are chosen; what is said of memory and threads is the server's own to decide. */
const optionsField = z
  .object({
    num_predict: z.int().min(-2).nullish(),
    temperature: samplingFields.temperature,
    top_k: samplingFields.top_k,
    top_p: samplingFields.top_p,
    min_p: samplingFields.min_p,
    seed: samplingFields.seed,
    stop: z.union([z.string(), textsOf({ most: 16 })]).nullish(),
    repeat_penalty: samplingFields.repetition_penalty,
    presence_penalty: samplingFields.presence_penalty,
    frequency_penalty: samplingFields.frequency_penalty,
    mirostat: z.int().nullish(),
    typical_p: z.number().nullish(),
  })
  .nullish();

const commonFields = {
  model: z.string(),
  stream: z.boolean().nullish(),
  format: z.union([z.enum(["json", ""]), recordOf<unknown>()]).nullish(),
  options: optionsField,
  think: z.union([z.boolean(), z.string().max(32)]).nullish(),
  keep_alive: z.union([z.string(), z.number()]).nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
};

const call = z.looseObject({
  id: z.string().nullish(),
  function: z.looseObject({ name: z.string(), arguments: z.union([recordOf<unknown>(), z.string()]).nullish() }),
});

const message = z.object({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.string().nullish(),
  thinking: z.string().nullish(),
  images: z.unknown().optional(),
  tool_calls: listOf(call).nullish(),
  tool_name: z.string().nullish(),
  tool_call_id: z.string().nullish(),
});
type Message = z.infer<typeof message>;

const chatBody = z.object({
  ...commonFields,
  messages: listOf(message).nullish(),
  tools: listOf(z.looseObject({ type: z.literal("function").nullish(), function: z.object(functionFields) }), {
    most: 128,
  }).nullish(),
  /** Ollama has neither: as chat completions have them. */
  tool_choice: toolChoice,
  parallel_tool_calls: z.boolean().nullish(),
});

/** Fields that would change the answer and are not there. */
const refused = {
  suffix: "text is continued at its end only",
  template: "the model has its own template; raw takes prompts without one",
  images: "texts only",
};

const generateBody = z.object({
  ...refusedFields(refused),
  ...commonFields,
  prompt: z.string().nullish(),
  system: z.string().nullish(),
  raw: z.boolean().nullish(),
  context: tokensOf().nullish(),
});

type Common = z.infer<z.ZodObject<typeof commonFields>>;

/** Reads a request of a chat. */
export async function prepareOllamaChat(given: unknown, model: ServedModel, limits: RequestLimits): Promise<Prepared> {
  const body = readBody(chatBody, given);
  const messages = body.messages ?? [];
  requireFew(messages, "messages", limits);
  const said = templateMessages(messages);
  return prepared(body, model, limits, "chat", messages, said.length === 0 ? undefined : { messages: said, body });
}

/** Reads a request of one text. */
export async function prepareOllamaText(given: unknown, model: ServedModel, limits: RequestLimits): Promise<Prepared> {
  const body = readBody(generateBody, given);
  refuseFields(Object.fromEntries(Object.entries(body).map(([name, value]) => [name, someOf(value)])), refused);
  if ((body.context ?? []).length > 0)
    throw badField("context", "context is not supported: send the conversation to /api/chat", "unsupported");
  const { prompt, system } = body;
  if (prompt === undefined || prompt === null || prompt === "")
    return prepared(body, model, limits, "generate", "", undefined);
  const told = system === undefined || system === null || system === "" ? [] : [{ role: "system", content: system }];
  const asked = { messages: [...told, { role: "user", content: prompt }], body: {} };
  return prepared(body, model, limits, "generate", prompt, body.raw === true ? { raw: prompt } : asked);
}

/** A conversation, or a prompt that is continued as it is. */
type Asked =
  | {
      readonly messages: readonly ChatMessage[];
      readonly body: Pick<z.infer<typeof chatBody>, "tools" | "tool_choice" | "parallel_tool_calls">;
    }
  | { readonly raw: string };

async function prepared(
  body: Common,
  model: ServedModel,
  limits: RequestLimits,
  kind: "chat" | "generate",
  shown: unknown,
  asked: Asked | undefined,
): Promise<Prepared> {
  model.requireName(body.model);
  const { logprobs: wantsLogprobs, top_logprobs, stream } = body;
  const logprobs = wantsLogprobs === true ? (top_logprobs ?? 0) : undefined;
  const answer = new OllamaAnswer(kind, model.name, {
    spells: logprobs === undefined ? undefined : model.lm.tokenizer,
    // Models come and go by the server's own rules: none leaves on request.
    nothing: asked === undefined ? "load" : undefined,
  });
  const told = { answer, stream: stream !== false, priority: 0, shown };
  if (asked === undefined) return { ...told, asks: [] };
  const [sampling, wanted] = samplingFieldsOf(body.options);
  const format = formatOf(body.format);
  if ("raw" in asked) {
    const prompt = await model.encode("prompt", asked.raw);
    const ask = {
      prompt,
      maxTokens: maxTokensOf(wanted, "prompt", prompt.length, model.engine.context, limits),
      sampling: samplingOf(sampling, model.lm.defaults),
      stop: stopsOf(sampling),
      endTokens: endTokensOf(sampling, model.endTokens, format !== undefined),
      logprobs,
    };
    return { ...told, asks: asksOf(ask, 1, await model.constraints(format, "format", 1)) };
  }
  const { think } = body;
  if (think !== undefined && think !== null && think !== false && !model.lm.dialogue.hasParts)
    throw badField(
      "think",
      `think: the model "${model.name}" has no reasoning format that is known here`,
      "unsupported",
    );
  const conversation = {
    messages: asked.messages,
    param: "messages",
    tools: asked.body.tools?.map((tool) => functionTool(tool.function)),
    choice: toolChoiceOf(asked.body.tool_choice),
    parallel: asked.body.parallel_tool_calls !== false,
    format,
    formatParam: "format",
    effort: typeof think === "string" ? think : undefined,
    enabled: typeof think === "boolean" ? think : undefined,
  } as const;
  const read = await readConversation(model, conversation);
  return { ...told, asks: await conversationAsks(model, conversation, read, { sampling, wanted, logprobs }, limits) };
}

/** Clients send what is empty for what is not there. */
const someOf = (value: unknown): unknown =>
  value === "" || (Array.isArray(value) && value.length === 0) ? undefined : value;

/** Ollama's options by the names that are known here. */
function samplingFieldsOf(options: z.infer<typeof optionsField>): readonly [SamplingBody, Wanted] {
  const { num_predict, seed, repeat_penalty, mirostat, typical_p, stop, ...same } = options ?? {};
  if ((mirostat ?? 0) !== 0)
    throw badField("options.mirostat", "options.mirostat is not supported: use top_p or min_p", "unsupported");
  if ((typical_p ?? 1) !== 1)
    throw badField("options.typical_p", "options.typical_p is not supported: use top_p or min_p", "unsupported");
  if (num_predict === 0)
    throw badField("options.num_predict", "options.num_predict: must be 1 or more, or -1 for what fits, got 0");
  const stops = (typeof stop === "string" ? [stop] : (stop ?? [])).filter((each) => each !== "");
  return [
    { ...same, stop: stops, repetition_penalty: repeat_penalty, seed: seed === -1 ? undefined : seed },
    { "options.num_predict": typeof num_predict === "number" && num_predict > 0 ? num_predict : undefined },
  ];
}

function formatOf(format: Common["format"]): TextRule | undefined {
  if (format === undefined || format === null || format === "") return undefined;
  return format === "json" ? { kind: "object" } : { kind: "schema", schema: format };
}

/** Messages as templates know them. Calls may come without ids, and results without saying whose they are: then they are in order. */
function templateMessages(messages: readonly Message[]): ChatMessage[] {
  const open: { readonly id: string; readonly name: string }[] = [];
  let made = 0;
  return messages.map(({ role, content, thinking, images, tool_calls, tool_name, tool_call_id }, at) => {
    if (someOf(images) !== undefined && images !== null)
      throw badField(
        `messages[${at}].images`,
        `messages[${at}].images: texts only, got ${valueText(images)}`,
        "unsupported",
      );
    const said = { role, content: content ?? "" };
    if (role === "tool") {
      const whose = open.findIndex(({ id, name }) =>
        typeof tool_call_id === "string" ? id === tool_call_id : typeof tool_name !== "string" || name === tool_name,
      );
      const [found] = whose < 0 ? [] : open.splice(whose, 1);
      const name = tool_name ?? found?.name;
      const id = tool_call_id ?? found?.id;
      return { ...said, ...(name === undefined ? {} : { name }), ...(id === undefined ? {} : { tool_call_id: id }) };
    }
    const calls = (tool_calls ?? []).map(({ id, function: called }) => {
      const named = { id: id ?? `call_${made++}`, name: called.name };
      open.push(named);
      return { id: named.id, type: "function", function: { name: called.name, arguments: called.arguments ?? {} } };
    });
    return {
      ...said,
      ...(typeof thinking === "string" && thinking !== "" ? { reasoning_content: thinking } : {}),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    };
  });
}
