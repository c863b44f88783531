/** What a family of models says about how its replies are written: calls of tools, thoughts, and what forces a call. One file a family. */
import type { ToolFormat } from "#insitu/base/known-names.js";
import type { JsonSchema, TextPart } from "#insitu/choice/constraint.js";
import type { Reading, Steps } from "./reading.js";

/** A function that the model may call. */
export interface ToolSpec {
  readonly name: string;
  readonly description?: string | undefined;
  readonly parameters: JsonSchema;
  /** True if its arguments must obey the schema to the letter wherever it is called. */
  readonly strict?: boolean | undefined;
}

/** A call that was made. */
export interface MadeCall {
  readonly name: string;
  /** A JSON object. */
  readonly arguments: unknown;
}

/** A model's chat template, as families recognise themselves in it. */
export interface TemplateView {
  readonly source: string;
  /** True for a token of the vocabulary. */
  readonly hasToken: (spelling: string) => boolean;
}

/** A message, as far as its calls and thoughts go. */
export interface AnyMessage {
  readonly role: string;
  readonly content: unknown;
  readonly [more: string]: unknown;
}

/** A chat template, and what it makes of a conversation; it throws where it refuses. */
export interface DialogueTemplate extends TemplateView {
  readonly render: (messages: readonly AnyMessage[], more: Readonly<Record<string, unknown>>) => string;
}

/** What stands around thoughts. */
export interface ThinkingMarks {
  readonly begin: string;
  readonly end: string;
}

/** Calls as a text must write them: a mark, and what follows on it. */
interface CallStructure {
  /** What a reply that must call begins with, before the mark. */
  readonly prefix?: string;
  /** Empty where a call has no mark, and is known by what it begins with. */
  readonly trigger: string;
  readonly rest: TextPart;
}

/** One family. */
export interface Family {
  readonly name: ToolFormat;
  /** True for a template of this family. */
  matches(template: TemplateView): boolean;
  /** Spellings that calls are written with: where they are control tokens, they are text to readers and grammars. */
  readonly markers: readonly string[];
  /** Marks that readers alone know: a grammar never writes them. */
  readonly readMarkers?: readonly string[];
  /** Tokens that end a reply, beside those that the model's files name. */
  readonly ends?: readonly string[];
  /** What stands around its thoughts, where the template does not say so by itself. */
  readonly thinking?: ThinkingMarks;
  /** Marks around answers that are neither text nor calls. */
  readonly dropped?: readonly string[];
  /** What calls begin with. */
  readonly begins: readonly string[];
  /** Reads a call, or several, behind the mark that it begins with. */
  call(mark: string, reading: Reading): Steps<void>;
  /** Calls without a mark: true where the reply begins with one, which was read then. */
  bareCall?(reading: Reading): Steps<boolean>;
  /** Reads a whole reply, for families that are more than text, thoughts and calls. */
  reply?(reading: Reading, findsCalls: boolean): Steps<void>;
  /** Calls that a text must make, in the form of the model's own template. */
  structure(tools: readonly ToolSpec[], parallel: boolean, template: TemplateView): CallStructure;
  /** An answer that must be of a form, where it does not stand by itself. */
  answer?(part: TextPart): TextPart;
  /** Calls as text, for templates that write none themselves. */
  write(calls: readonly MadeCall[], template: TemplateView): string;
  /** The field in which the template looks for thoughts; "reasoning_content" where left out. */
  readonly reasoningField?: string;
  /** True if the template looks for tools in the system's message. */
  readonly systemTools?: boolean;
  /** Null where the template writes a turn of its own for an empty text beside calls. */
  readonly emptyContent?: null;
  /** True if the template takes ids of nine letters and digits alone. */
  readonly shortIds?: boolean;
}
