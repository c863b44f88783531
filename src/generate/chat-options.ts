/** The options of a chat: a generation's, and what is said about tools and reasoning. */
import { InsituError } from "../base/error.js";
import { checkCount, checkFlag, checkName, checkRule } from "../base/arguments.js";
import { checkOptionNames, type OptionNames } from "../base/option-names.js";
import { valueText } from "../base/value-text.js";
import type { ToolChoice } from "../dialogue/dialogue.js";
import { type ChatTools, toolSpecs } from "./chat-tools.js";
import { checkGenerateOptions, type GenerateOptions, generateOptionNames } from "./options.js";

/** How much a model thinks before it answers. */
export interface ReasoningOptions {
  /** "none", "minimal", "low", "medium", "high", or what else the model's template knows. */
  readonly effort?: string;
  /** Tokens of reasoning at most: then the mark that ends it is forced. */
  readonly budget?: number;
}

/** How a chat answers. */
export interface ChatOptions extends GenerateOptions {
  /** Functions that the model may call, by name. */
  readonly tools?: ChatTools;
  /** "auto" where left out; "required" and a name hold for the first round. */
  readonly toolChoice?: ToolChoice;
  /** False has the model make one call at a time. */
  readonly parallelToolCalls?: boolean;
  /** Rounds of calls that are done for one message at most; 8 where left out. */
  readonly maxRounds?: number;
  /** How much the model thinks. */
  readonly reasoning?: ReasoningOptions;
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
