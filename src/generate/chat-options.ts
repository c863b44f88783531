/** The options of a chat: a generation's, and what is said about tools and reasoning. */
import { InsituError } from "../base/error.js";
import type { ReasoningEffort } from "../base/known-names.js";
import { checkCount, checkFlag, checkName, checkRule } from "../base/arguments.js";
import { checkOptionNames, type OptionNames } from "../base/option-names.js";
import { valueText } from "../base/value-text.js";
import type { ToolChoice } from "#insitu/dialogue/dialogue.js";
import { type ChatTools, toolSpecs } from "./chat-tools.js";
import { checkGenerateOptions, type GenerateOptions, generateOptionNames } from "./options.js";

/** Options of reasoning models: how much they think before they answer. */
export interface ReasoningOptions {
  /**
   * How hard the model thinks, if its chat template supports it.
   * @default what the chat template does by itself
   */
  readonly effort?: ReasoningEffort | undefined;
  /**
   * The most tokens of reasoning: after them, the end of the reasoning is forced.
   * @default no limit
   */
  readonly budget?: number | undefined;
}

/** Options of a chat's answers: those of `generate`, and tools and reasoning. */
export interface ChatOptions extends GenerateOptions {
  /**
   * Function calling: the functions that the model may call, by name.
   * @default {}
   */
  readonly tools?: ChatTools | undefined;
  /**
   * "auto" lets the model decide, "none" forbids calls, "required" and `{ name }` force one in the first round.
   * @default "auto"
   */
  readonly toolChoice?: ToolChoice | undefined;
  /**
   * False lets the model make one call at a time.
   * @default true
   */
  readonly parallelToolCalls?: boolean | undefined;
  /**
   * How many rounds of tool calls are run for one message.
   * @default 8
   */
  readonly maxRounds?: number | undefined;
  /**
   * How much the model thinks before it answers.
   * @default {}
   */
  readonly reasoning?: ReasoningOptions | undefined;
}

/** Their names. */
export const chatOptionNames: OptionNames<ChatOptions> = {
  ...generateOptionNames,
  tools: true,
  toolChoice: true,
  parallelToolCalls: true,
  maxRounds: true,
  reasoning: true,
};

const reasoningNames: OptionNames<ReasoningOptions> = { effort: true, budget: true };

/** A generation's options alone. */
export function generateOptionsOf(options: ChatOptions): GenerateOptions {
  const {
    tools: _tools,
    toolChoice: _choice,
    parallelToolCalls: _parallel,
    maxRounds: _rounds,
    reasoning: _,
    ...rest
  } = options;
  return rest;
}

/** Throws for values that mean nothing, whatever the model is. */
export function checkChatOptions(options: ChatOptions): void {
  checkGenerateOptions(generateOptionsOf(options));
  const { tools, toolChoice, parallelToolCalls, maxRounds, reasoning } = options;
  checkRule("option tools", tools, "an object of tools by name", typeof tools === "object" && !Array.isArray(tools));
  const known = toolSpecs(tools);
  checkFlag("option parallelToolCalls", parallelToolCalls);
  checkCount("option maxRounds", maxRounds, 0);
  const isChoice =
    typeof toolChoice === "object"
      ? known.some(({ name }) => name === toolChoice?.name)
      : ["auto", "none", "required"].includes(toolChoice ?? "auto");
  if (!isChoice || (toolChoice === "required" && known.length === 0))
    throw new InsituError(
      "invalid-argument",
      `option toolChoice must be "auto", "none", "required" or { name } of one of the tools, got ${valueText(toolChoice)}`,
    );
  checkRule("option reasoning", reasoning, "an object", typeof reasoning === "object");
  if (reasoning === undefined || reasoning === null) return;
  checkOptionNames("option reasoning", reasoning, reasoningNames);
  checkName("option reasoning.effort", reasoning.effort);
  checkCount("option reasoning.budget", reasoning.budget, 0);
}
