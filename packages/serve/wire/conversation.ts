/** A conversation in the words that all doors share → its tokens, what its texts obey and how they are read, and the texts that the engine is asked for. */
import * as z from "zod";
import type { ToolChoice } from "#insitu/dialogue/dialogue.js";
import type { ToolSpec } from "#insitu/dialogue/family.js";
import { templateTool } from "#insitu/dialogue/message-forms.js";
import { InsituError } from "#insitu/base/error.js";
import type { HeldConstraint, TextRule } from "#insitu/choice/constraint.js";
import type { ChatMessage } from "#insitu/generate/messages.js";
import type { RequestedText } from "../text-group.js";
import { badField } from "./api-error.js";
import type { SamplingBody } from "./fields.js";
import type { RequestLimits } from "./limits.js";
import { conversationEnds, conversationTokens } from "./messages.js";
import { asksOf } from "./prepared.js";
import { endTokensOf, logitBiasOf, maxTokensOf, minTokensOf, samplingOf, stopsOf, type Wanted } from "./sampling.js";
import type { ServedModel } from "./served-model.js";
import { usableTools } from "./tools.js";

/** How much the model is to think, as chat has it: OpenAI's field, Qwen's, and a bound under vLLM's name and another. */
export const reasoningFields = {
  reasoning_effort: z.string().max(32).nullish(),
  enable_thinking: z.boolean().nullish(),
  thinking_token_budget: z.int().min(0).nullish(),
  thinking_budget: z.int().min(0).nullish(),
};

/** A conversation as every door says it; what a door has no word for is left out. */
export interface Conversation {
  readonly messages: readonly ChatMessage[];
  /** The field that the messages came in. */
  readonly param: "messages" | "input";
  readonly tools?: readonly ToolSpec[] | undefined;
  /** "auto" where left out. */
  readonly choice?: ToolChoice | undefined;
  /** Whether several calls may follow each other: true where left out. */
  readonly parallel?: boolean | undefined;
  readonly format?: TextRule | undefined;
  /** The field that the format came in. */
  readonly formatParam: string;
  readonly effort?: string | null | undefined;
  readonly enabled?: boolean | null | undefined;
  /** Tokens of thought at most. */
  readonly budget?: number | null | undefined;
  /** What else the template is told. */
  readonly more?: Readonly<Record<string, unknown>> | null | undefined;
}

/** What a door says of the texts of its answer. */
interface AskedTexts {
  /** How tokens are chosen, and where the text ends. */
  readonly sampling: SamplingBody;
  /** New tokens at most, by the field that says so. */
  readonly wanted: Wanted;
  /** How many of the likeliest tokens are told beside each; undefined tells none. */
  readonly logprobs?: number | undefined;
  /** How many texts; one where left out. */
  readonly count?: number;
}

/** Throws for more messages, or items, than one request may have. */
export function requireFew(messages: readonly unknown[], param: Conversation["param"], limits: RequestLimits): void {
  if (messages.length <= limits.messages) return;
  const items = param === "input" ? "items " : "";
  throw badField(param, `${param}: at most ${limits.messages} ${items}are taken, got ${messages.length}`);
}

/** A conversation that was read. */
interface ReadConversation {
  readonly prompt: readonly number[];
  readonly reader: RequestedText["reader"];
  readonly callId: () => string;
  readonly isSingleCall: boolean;
  /** True if texts must obey something, and so have to end. */
  readonly isRuled: boolean;
  /** What keeps each of `count` texts to it. */
  readonly constraints: (count: number) => Promise<readonly HeldConstraint[]>;
}

/** Reads what is said, and what is wanted of the texts that answer it. */
export async function readConversation(model: ServedModel, said: Conversation): Promise<ReadConversation> {
  const { choice = "auto", parallel = true, format, budget } = said;
  const { dialogue } = model.lm;
  const tools = usableTools(said.tools ?? [], choice, model);
  const prompt = await conversationTokens(
    model,
    said.messages,
    {
      ...dialogue.thinkingOptions({ effort: said.effort ?? undefined, enabled: said.enabled ?? undefined }),
      ...said.more,
      ...(tools.length === 0 ? {} : { tools: tools.map(templateTool) }),
    },
    said.param,
    (messages) => dialogue.messages(messages, tools),
  );
  const thoughts = dialogue.thoughtsAfter(prompt);
  const rule = ruleOf(() => dialogue.rule({ tools, choice, parallel, format, thoughts }));
  const finds = tools.length > 0 ? tools : undefined;
  return {
    prompt,
    reader: finds !== undefined || dialogue.hasParts ? () => dialogue.reader(thoughts, finds) : undefined,
    callId: () => dialogue.callId(),
    isSingleCall: !parallel,
    isRuled: rule !== undefined,
    async constraints(count) {
      const made = await model.constraints(rule, tools.length > 0 ? "tools" : said.formatParam, count);
      if (budget === undefined || budget === null) return made;
      const bounded = Array.from({ length: count }, (_, at) => dialogue.budget(budget, thoughts, made[at]));
      return bounded.filter((each) => each !== undefined);
    },
  };
}

/** Tools whose calls cannot be forced are the client's to mend. */
function ruleOf(make: () => TextRule | undefined): TextRule | undefined {
  try {
    return make();
  } catch (error) {
    if (error instanceof InsituError) throw badField("tools", `tools: ${error.message}`, "unsupported");
    throw error;
  }
}

/** The texts that answer a conversation; their constraints are the caller's to release from here on. */
export async function conversationAsks(
  model: ServedModel,
  { param }: Conversation,
  { prompt, reader, callId, isSingleCall, isRuled, constraints }: ReadConversation,
  { sampling: body, wanted, logprobs, count = 1 }: AskedTexts,
  limits: RequestLimits,
): Promise<readonly RequestedText[]> {
  const maxTokens = maxTokensOf(wanted, param, prompt.length, model.engine.context, limits);
  const ask: RequestedText = {
    prompt,
    maxTokens,
    sampling: samplingOf(body, model.lm.defaults),
    ...conversationEnds(model, stopsOf(body), minTokensOf(body, maxTokens)),
    endTokens: endTokensOf(body, model.endTokens, isRuled),
    logitBias: logitBiasOf(body, model.engine.vocabulary),
    logprobs,
    reader,
    callId,
    isSingleCall,
  };
  return asksOf(ask, count, await constraints(count));
}
