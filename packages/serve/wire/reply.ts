/** What a request says about tools, reasoning and the form of its answer → the conversation's tokens, what its texts obey, and how they are read. */
import * as z from "zod";
import type { ToolChoice } from "#insitu/dialogue/dialogue.js";
import type { ToolSpec } from "#insitu/dialogue/family.js";
import { templateTool } from "#insitu/dialogue/message-forms.js";
import { InsituError } from "#insitu/base/error.js";
import type { HeldConstraint, TextRule } from "#insitu/engine/constraint.js";
import type { ChatMessage } from "#insitu/generate/messages.js";
import type { RequestedText } from "../text-group.js";
import { badField } from "./api-error.js";
import { conversationTokens } from "./messages.js";
import type { ServedModel } from "./served-model.js";
import { usableTools } from "./tools.js";

/** How much the model is to think, as chat has it: OpenAI's field, Qwen's, and a bound under vLLM's name and another. */
export const reasoningFields = {
  reasoning_effort: z.string().max(32).nullish(),
  enable_thinking: z.boolean().nullish(),
  thinking_token_budget: z.int().min(0).nullish(),
  thinking_budget: z.int().min(0).nullish(),
};

/** What a request wants of its replies. */
interface ReplyWish {
  readonly messages: readonly ChatMessage[];
  /** The field that the messages came in. */
  readonly param: "messages" | "input";
  readonly tools: readonly ToolSpec[];
  readonly choice: ToolChoice;
  readonly parallel: boolean;
  readonly format: TextRule | undefined;
  /** The field that the format came in. */
  readonly formatParam: string;
  readonly effort: string | undefined;
  readonly enabled: boolean | undefined;
  /** Tokens of thought at most. */
  readonly budget: number | undefined;
  /** What else the template is told. */
  readonly more: Readonly<Record<string, unknown>>;
}

/** A conversation that was read. */
export interface ReadReply {
  readonly prompt: readonly number[];
  readonly reader: RequestedText["reader"];
  readonly callId: () => string;
  readonly isSingleCall: boolean;
  /** True if texts must obey something, and so have to end. */
  readonly isRuled: boolean;
  /** What keeps each of `count` texts to it. */
  readonly constraints: (count: number) => Promise<readonly HeldConstraint[]>;
}

/** Reads what a request wants. */
export async function readReply(model: ServedModel, wish: ReplyWish): Promise<ReadReply> {
  const { choice, parallel, format, budget } = wish;
  const { dialogue } = model.lm;
  const tools = usableTools(wish.tools, choice, model);
  const prompt = await conversationTokens(
    model,
    wish.messages,
    {
      ...dialogue.thinkingOptions(wish),
      ...wish.more,
      ...(tools.length === 0 ? {} : { tools: tools.map(templateTool) }),
    },
    wish.param,
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
      const made = await model.constraints(rule, tools.length > 0 ? "tools" : wish.formatParam, count);
      if (budget === undefined) return made;
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
