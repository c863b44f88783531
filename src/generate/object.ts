/** Objects by a schema: a text that is held to its JSON Schema, read and validated; or, while it is made, what there is of it. */
import { checkCallback, checkCount, optionsWithoutNull } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";
import type { JsonSchema } from "#insitu/choice/constraint.js";
import type { GeneratedToken, GenerationSummary } from "./generation.js";
import { type GenerateOptions, generateOptionNames } from "./options.js";
import { partialJson } from "#insitu/text/partial-json.js";
import { jsonSchemaOf, type ObjectSchema, validated } from "#insitu/dialogue/standard-schema.js";

/** Options of `generateObject` and `streamObject`: those of `generate` without the other kinds of structured output. */
export interface ObjectOptions extends Omit<GenerateOptions, "jsonSchema" | "regex" | "grammar" | "constraint"> {
  /**
   * How often to try again, with the next seed, if the text was cut or the schema rejects the object.
   * @default 0
   */
  readonly retries?: number | undefined;
  /** Turns the schema into JSON Schema, for libraries whose schemas cannot do so themselves: `toJsonSchema` of @valibot/to-json-schema. */
  readonly toJsonSchema?: ((schema: never) => unknown) | undefined;
}

const {
  jsonSchema: _schema,
  regex: _regex,
  grammar: _grammar,
  constraint: _constraint,
  ...textNames
} = generateOptionNames;

/** Their names. */
const objectOptionNames: OptionNames<ObjectOptions> = { ...textNames, retries: true, toJsonSchema: true };

/** The result of `generateObject`. */
export interface GeneratedObject<T> {
  /** The object, validated by the schema. */
  readonly object: T;
  /** The JSON that the model wrote. */
  readonly text: string;
  /** Token counts, times and cache bytes of the last attempt. */
  readonly summary: GenerationSummary;
}

/** An object while it is generated: parts may be missing. */
export type PartialObject<T> = T extends readonly (infer Element)[]
  ? readonly PartialObject<Element>[]
  : T extends object
    ? { readonly [Name in keyof T]?: PartialObject<T[Name]> }
    : T;

/** Generates text that a JSON Schema allows. */
type Generate = (options: GenerateOptions & { readonly jsonSchema: JsonSchema }) => ObjectText;

/** The text of an object, wherever it is made: in a worker its summary comes with its first token. */
interface ObjectText extends AsyncIterable<GeneratedToken> {
  readonly textSoFar: string;
  readonly summary: GenerationSummary | undefined;
  text(): Promise<string>;
}

/** What objects are made by: the schema, its JSON Schema, and the options of the text. */
function readObjectOptions(
  where: string,
  schema: ObjectSchema,
  given: ObjectOptions | undefined,
): { readonly retries: number; readonly text: GenerateOptions & { readonly jsonSchema: JsonSchema } } {
  const { retries = 0, toJsonSchema, ...options } = optionsWithoutNull(where, given, objectOptionNames);
  checkCount("option retries", retries, 0);
  checkCallback("option toJsonSchema", toJsonSchema);
  return {
    retries,
    text: { ...options, jsonSchema: jsonSchemaOf(schema, toJsonSchema as (schema: unknown) => unknown) },
  };
}

/** Generates an object. */
export async function generateObject<T>(
  schema: ObjectSchema<T>,
  options: ObjectOptions | undefined,
  generate: Generate,
): Promise<GeneratedObject<T>> {
  const { retries, text } = readObjectOptions("the options of generateObject", schema, options);
  for (let tried = 0; ; tried++) {
    const seed = tried === 0 || text.seed === undefined ? {} : { seed: text.seed + tried };
    const stream = new ObjectStream(schema, generate({ ...text, ...seed }));
    try {
      const object = await stream.object();
      return { object, text: stream.textSoFar, summary: stream.summary };
    } catch (error) {
      const isWorthIt = error instanceof InsituError && (error.code === "unfinished" || error.code === "invalid-value");
      if (!isWorthIt || tried >= retries) throw error;
    }
  }
}

/** Generates an object whose parts are told as they come. */
export function streamObject<T>(
  schema: ObjectSchema<T>,
  options: ObjectOptions | undefined,
  generate: Generate,
): ObjectStream<T> {
  const { retries, text } = readObjectOptions("the options of streamObject", schema, options);
  if (retries > 0)
    throw new InsituError(
      "invalid-argument",
      "option retries: a stream cannot take back what it gave; use generateObject",
    );
  return new ObjectStream(schema, generate(text));
}

/** An object that is generated while you iterate over it. Iterate for the object so far, or await `object()` for the whole. */
export class ObjectStream<T> implements AsyncIterable<PartialObject<T>> {
  readonly #schema: ObjectSchema<T>;
  readonly #generation: ObjectText;
  #made: Promise<T> | undefined;
  #isBegun = false;

  constructor(schema: ObjectSchema<T>, generation: ObjectText) {
    this.#schema = schema;
    this.#generation = generation;
  }

  /** The JSON so far. */
  get textSoFar(): string {
    return this.#generation.textSoFar;
  }

  /** Token counts, times and cache bytes so far. */
  get summary(): GenerationSummary {
    return this.#generation.summary!; // every text that was begun has one
  }

  /** The whole object, validated. Throws an error of code "unfinished" if the text was cut, and "invalid-value" if the schema rejects the object. */
  object(): Promise<T> {
    this.#made ??= this.#finish();
    return this.#made;
  }

  async #finish(): Promise<T> {
    if (!this.#isBegun) await this.#generation.text();
    const { finishReason, newTokens } = this.summary;
    if (finishReason !== "end" && finishReason !== "stop")
      throw new InsituError(
        "unfinished",
        finishReason === "unfinished"
          ? "the object is incomplete: its loop was left"
          : `the object was cut after ${newTokens} tokens, before it was complete: ${finishReason === "length" ? "ask for more with maxTokens" : "load the model with a longer context"}, or bound its parts in the schema (maxLength, maxItems)`,
      );
    return validated(this.#schema, JSON.parse(this.textSoFar));
  }

  /** The object so far, each time that it grows. */
  async *[Symbol.asyncIterator](): AsyncGenerator<PartialObject<T>, void, undefined> {
    this.#isBegun = true;
    let told = "";
    for await (const { text } of this.#generation) {
      if (text === "") continue;
      const value = partialJson(this.textSoFar);
      const now = JSON.stringify(value);
      if (value === undefined || now === told) continue;
      told = now;
      yield value as PartialObject<T>;
    }
  }
}
