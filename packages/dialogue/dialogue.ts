/** How one model writes its replies: the family that its chat template belongs to, its thoughts, and what is made of messages for it. */
import type { TextPart, TextRule } from "#insitu/choice/constraint.js";
import type { AnyMessage, DialogueTemplate, Family, ThinkingMarks, ToolSpec } from "./family.js";
import { MessageForms } from "./message-forms.js";
import { type ReaderParts, ReplyReader } from "./reader.js";

/** Whether tools are called: as the model likes, never, at least one, or this one. */
export type ToolChoice = "auto" | "none" | "required" | { readonly name: string };

/** Whether a prompt ends inside of thoughts, behind thoughts that it closed, or leaves it to the model. */
export type ThoughtState = "open" | "closed" | "free";

/** How much a model is asked to think. */
interface ThinkingWish {
  /** "none", "minimal", "low", "medium", "high", or what else the template knows. */
  readonly effort?: string | undefined;
  readonly enabled?: boolean | undefined;
}

const harmonyEfforts: ReadonlyMap<string, string> = new Map([
  ["none", "low"],
  ["minimal", "low"],
  ["xhigh", "high"],
]);

/** What a reply has to be. */
interface ReplyRule {
  readonly tools: readonly ToolSpec[];
  readonly choice: ToolChoice;
  readonly parallel: boolean;
  /** What an answer must be. */
  readonly format: TextRule | undefined;
  readonly thoughts: ThoughtState;
}

/** Marks around thoughts that templates spell out. */
const thinkingMarks: readonly ThinkingMarks[] = [
  { begin: "<think>", end: "</think>" },
  { begin: "[THINK]", end: "[/THINK]" },
  { begin: "<seed:think>", end: "</seed:think>" },
];

/** A model's way of talking. */
export class Dialogue {
  readonly family: Family | undefined;
  readonly thinking: ThinkingMarks | undefined;
  readonly #template: DialogueTemplate | undefined;
  #forms: MessageForms | undefined;

  /** Over a model's template, and the family that it is of: `familyOf` in families.ts. */
  constructor(template: DialogueTemplate | undefined, family: Family | undefined) {
    this.#template = template;
    const source = template?.source ?? "";
    this.family = family;
    this.thinking =
      family?.thinking ?? thinkingMarks.find(({ begin, end }) => source.includes(begin) || source.includes(end));
  }

  /** Why no tools can be given to the model; undefined where they can. `ways` are the ways out: one without a template, one with another's. */
  noTools(ways: { readonly template: string; readonly family: string }): string | undefined {
    if (this.hasTools) return undefined;
    return this.#template === undefined
      ? `the model has no chat template, so it cannot be given tools: put a chat_template.jinja beside tokenizer.json, or ${ways.template}`
      : `the model's chat template is of no family whose tool calls are known; ${ways.family}`;
  }

  /** True if tools can be given to the model, and its calls be read. */
  get hasTools(): boolean {
    return this.family !== undefined && this.#template !== undefined;
  }

  /** True if replies are more than text. */
  get hasParts(): boolean {
    return this.thinking !== undefined || this.family?.reply !== undefined;
  }

  /** Spellings that are text to a reader, also where they are control tokens. */
  get markers(): readonly string[] {
    return [...this.grammarMarkers, ...(this.family?.readMarkers ?? [])];
  }

  /** Spellings that a grammar writes. */
  get grammarMarkers(): readonly string[] {
    const thoughts = this.thinking === undefined ? [] : [this.thinking.begin, this.thinking.end];
    return [...(this.family?.markers ?? []), ...thoughts.flatMap((mark) => [mark, ...(mark.match(/<[^<>]+>/g) ?? [])])];
  }

  /** Spellings of tokens that end a reply, beside those that the model's files name. */
  get ends(): readonly string[] {
    return this.family?.ends ?? [];
  }

  /** Whether a prompt that ends so leaves the model inside of thoughts. */
  thoughtsAt(promptEnd: string): ThoughtState {
    if (this.thinking === undefined) return "closed";
    const end = promptEnd.trimEnd();
    if (end.endsWith(this.thinking.begin.trimEnd())) return "open";
    return end.endsWith(this.thinking.end) ? "closed" : "free";
  }

  /** Reads one reply; calls are looked for where tools are given. */
  reader(thoughts: ThoughtState, tools: readonly ToolSpec[] | undefined): ReplyReader {
    const { family, thinking } = this;
    const parts: ReaderParts = { family, thinking, isThinking: thoughts === "open", tools };
    return new ReplyReader(parts);
  }

  /** What the text must obey; undefined where it is free. */
  rule({ tools, choice, parallel, format, thoughts }: ReplyRule): TextRule | undefined {
    const { family } = this;
    const wanted = typeof choice === "object" ? tools.filter(({ name }) => name === choice.name) : tools;
    const calls =
      choice === "none" || wanted.length === 0 || family === undefined || this.#template === undefined
        ? undefined
        : family.structure(wanted, parallel && typeof choice !== "object", this.#template);
    const answer = format && (family?.answer?.(partOf(format)) ?? partOf(format));
    if (calls === undefined) {
      if (format === undefined || answer === undefined) return undefined;
      const before = this.#thoughtsBefore(thoughts);
      return before === undefined && family?.answer === undefined
        ? format
        : { kind: "structure", part: { sequence: [before ?? "", answer] } };
    }
    const { prefix = "", trigger, rest } = calls;
    const all: TextPart = { sequence: [prefix, trigger, rest] };
    const isFree = choice === "auto" && answer === undefined;
    if (isFree && !tools.some(({ strict }) => strict === true)) return undefined;
    const text: TextPart =
      trigger === ""
        ? { choice: [all, { notBeginning: "{" }] }
        : {
            sequence: [
              { repeat: { sequence: [{ until: trigger }, rest] }, between: "", least: 0 },
              { without: trigger },
            ],
          };
    const part = isFree ? text : choice === "auto" && answer !== undefined ? { choice: [all, answer] } : all;
    return { kind: "structure", part: { sequence: [this.#thoughtsBefore(thoughts) ?? "", part] } };
  }

  /** Messages as the template takes them: calls and thoughts where it looks for them, and tools in words where it has no place for them. */
  messages(messages: readonly AnyMessage[], tools: readonly ToolSpec[] = []): readonly AnyMessage[] {
    return this.family === undefined ? messages : this.#messageForms.all(messages, tools);
  }

  /** What the template is told of how much to think: the names that templates have for it. */
  thinkingOptions({ effort, enabled }: ThinkingWish): Readonly<Record<string, unknown>> {
    const isOn = enabled ?? (effort === undefined ? undefined : effort !== "none");
    // Harmony knows three efforts.
    const known = this.family?.reply === undefined ? effort : effort && (harmonyEfforts.get(effort) ?? effort);
    return {
      ...(isOn === undefined ? {} : { enable_thinking: isOn, thinking: isOn }),
      ...(known === undefined ? {} : { reasoning_effort: known }),
    };
  }

  /** An id for a call, in the form that the template takes. */
  callId(): string {
    const short = this.family?.shortIds === true;
    const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const bytes = crypto.getRandomValues(new Uint8Array(short ? 9 : 24));
    return (short ? "" : "call_") + Array.from(bytes, (byte) => letters[byte % letters.length]).join("");
  }

  get #messageForms(): MessageForms {
    this.#forms ??= new MessageForms(this.family, this.#template);
    return this.#forms;
  }

  /** Thoughts that may or must come first; undefined where there are none. */
  #thoughtsBefore(thoughts: ThoughtState): TextPart | undefined {
    if (this.thinking === undefined || thoughts === "closed") return undefined;
    const { begin, end } = this.thinking;
    const blanks: TextPart = { choice: ["", "\n", "\n\n"] };
    if (thoughts === "open") return { sequence: [{ until: end }, blanks] };
    return { choice: ["", { sequence: [begin, { until: end }, blanks] }] };
  }
}

/** A rule as a part of another. */
function partOf(rule: TextRule): TextPart {
  switch (rule.kind) {
    case "schema":
      return { schema: rule.schema };
    case "object":
      return { object: true };
    case "regex":
      return { regex: rule.pattern };
    case "grammar":
      return { grammar: rule.grammar };
    case "choice":
      return { choice: rule.texts };
    case "structure":
      return rule.part;
    default:
      return rule satisfies never;
  }
}
