/** Rounds of a chat on a model: the prompt with its tools, what the reply must obey, and how it is read. */
import { InsituError } from "../base/error.js";
import { templateTool } from "#insitu/dialogue/message-forms.js";
import type { HeldConstraint, TextRule } from "#insitu/choice/constraint.js";
import { type ChatOptions, generateOptionsOf } from "./chat-options.js";
import { ReadRound, type Round } from "./chat-round.js";
import { toolSpecs } from "./chat-tools.js";
import type { ContextSource } from "./context-pool.js";
import type { Generation, GenerationSummary } from "./generation.js";
import type { AnyChatMessage } from "./messages.js";
import type { ModelDialogue } from "./model-dialogue.js";
import type { GenerateOptions, Generating } from "./options.js";

/** What rounds are made with. */
interface RoundMaker {
  readonly dialogue: ModelDialogue;
  readonly encode: (messages: readonly AnyChatMessage[], options: GenerateOptions) => readonly number[];
  readonly read: (options: GenerateOptions) => Generating;
  readonly generate: (tokens: readonly number[], options: Generating, source: ContextSource) => Generation;
  readonly constrain: (rule: TextRule) => Promise<HeldConstraint>;
}

/** One reply to a conversation. */
export function chatRound(
  { dialogue, encode, read, generate, constrain }: RoundMaker,
  messages: readonly AnyChatMessage[],
  options: ChatOptions,
  source: ContextSource,
): Round<GenerationSummary> {
  const given = generateOptionsOf(options);
  const { toolChoice: choice = "auto", parallelToolCalls: parallel = true, reasoning } = options;
  const tools = choice === "none" ? [] : toolSpecs(options.tools);
  const noTools = dialogue.noTools({
    template: "load the model with chatTemplate",
    family: "load the model with toolFormat to name one",
  });
  if (tools.length > 0 && noTools !== undefined) throw new InsituError("invalid-argument", `option tools: ${noTools}`);
  const templateOptions = {
    ...dialogue.thinkingOptions({ effort: reasoning?.effort }),
    ...given.templateOptions,
    ...(tools.length === 0 ? {} : { tools: tools.map(templateTool) }),
  };
  const tokens = encode(dialogue.messages(messages, tools) as readonly AnyChatMessage[], { ...given, templateOptions });
  if (tools.length === 0 && !dialogue.hasParts) return generate(tokens, read(given), source);
  const { jsonSchema, ...free } = given;
  const thoughts = dialogue.thoughtsAfter(tokens);
  const format: TextRule | undefined = jsonSchema === undefined ? undefined : { kind: "schema", schema: jsonSchema };
  const rule =
    given.constraint === undefined ? dialogue.rule({ tools, choice, parallel, format, thoughts }) : undefined;
  const budget = reasoning?.budget;
  const generating = read(rule === undefined ? given : free);
  const constraint =
    rule === undefined && budget === undefined
      ? generating.constraint
      : async () => {
          const inner = rule && (await constrain(rule));
          const held = budget === undefined ? inner : dialogue.budget(budget, thoughts, inner);
          return { rule: held ?? unbound, release: () => held?.release() };
        };
  const generation = generate(tokens, { ...generating, constraint, markers: dialogue.markerTokens }, source);
  const reader = dialogue.reader(thoughts, tools.length === 0 ? undefined : tools);
  return new ReadRound(generation, reader, () => dialogue.callId(), !parallel);
}

/** What rules nothing out: the model has no thoughts that could be bounded. */
const unbound = {
  fillMask: (): boolean => false,
  accept: (): boolean => true,
  rollback: (): void => {},
  allows: (): boolean => true,
  terminated: false,
};
