/** The options of a generation: the caller's, then what the model's generation_config.json says, then defaults. All are checked here. */
import { InsituError } from "../base/error.js";
import { checkChoice, checkCount, checkFlag, checkRule, checkSignal } from "../base/arguments.js";
import { checkOptionNames, type OptionNames } from "../base/option-names.js";
import { valueText } from "../base/value-text.js";
import { chatRules, type EndRules } from "../engine/ending.js";
import type {
  HeldConstraint,
  JsonSchema,
  TakenConstraint,
  TextRule,
  TokenConstraint,
} from "#insitu/choice/constraint.js";
import type { Json } from "./model-folder.js";
import type { TextAsk, WhenFull } from "../engine/text-ask.js";
import { readSampling, type SamplingOptions, samplingOptionNames } from "#insitu/choice/sampling.js";
import { guessing } from "#insitu/choice/tuning.js";
import type { LanguageModel } from "./causal-lm.js";
import type { ControlTokens, TextTokenizer } from "./tokenizer.js";

/** Options of speculative decoding. */
export interface SpeculateOptions {
  /**
   * What makes the guesses: a smaller model with the same vocabulary, or the model's own head (`loadHead`); you release it. A number is how many tokens are looked up in the text.
   * @default none: guesses are looked up in the text
   */
  readonly draft?: DraftModel | number | undefined;
  /**
   * The most guesses at a time.
   * @default 6 for lookup, 7 for a draft
   */
  readonly tokens?: number | undefined;
  /**
   * Looks guesses up where this many of the last tokens occurred before. With a draft, the draft guesses where nothing was found.
   * @default 3 without a draft, no lookup with one
   */
  readonly ngram?: number | undefined;
  /**
   * False makes `tokens` guesses each time. True makes as many as pay off, and none while they do not.
   * @default true
   */
  readonly adaptive?: boolean | undefined;
}

/** What guesses tokens for a language model: another one, or a head. */
export type DraftModel = Pick<LanguageModel, "vocabulary"> & {
  readonly forServers: Pick<LanguageModel["forServers"], "draft">;
};

/** Options of `generate`: length, sampling, structured output, cancellation. `null` means the default. */
export interface GenerateOptions extends SamplingOptions {
  /**
   * The most new tokens to generate.
   * @default as many as fit the context, or 256 with `whenFull: "slide"`
   */
  readonly maxTokens?: number | undefined;
  /**
   * The fewest new tokens: before them, no end token is chosen and no stop string ends the text. Structured output ends where its rule does.
   * @default 1 for answers in chats, 0 otherwise
   */
  readonly minTokens?: number | undefined;
  /**
   * Ends at the end of a sentence, once three quarters of `maxTokens` are generated.
   * @default false
   */
  readonly endAtSentence?: boolean | undefined;
  /**
   * Strings that end the text. They are not part of the result. Structured output is ended by them only where it is complete.
   * @default []
   */
  readonly stop?: string | readonly string[] | undefined;
  /**
   * Tokens, by number or by spelling, that end the text like the model's own end tokens.
   * @default []
   */
  readonly stopTokens?: readonly (number | string)[] | undefined;
  /**
   * Continues past the model's own end tokens.
   * @default false
   */
  readonly ignoreEnd?: boolean | undefined;
  /**
   * Reports each token's log-probability; a number also reports that many of the most likely alternatives.
   * @default false
   */
  readonly logprobs?: boolean | number | undefined;
  /**
   * What happens when the context window is full: "stop" ends the text, "slide" forgets the oldest tokens but the first few, "error" throws.
   * @default "stop"
   */
  readonly whenFull?: WhenFull | undefined;
  /**
   * Numbers to add to the logits of tokens, by token number.
   * @default an empty map
   */
  readonly logitBias?: ReadonlyMap<number, number> | undefined;
  /** Structured output: the text is JSON that matches this JSON Schema, and nothing else. */
  readonly jsonSchema?: JsonSchema | undefined;
  /** Structured output: the whole text matches this regular expression. */
  readonly regex?: string | RegExp | undefined;
  /** Structured output: the text follows this grammar in GBNF, llama.cpp's notation. Rules begin at "root". */
  readonly grammar?: string | undefined;
  /** Structured output by a constraint of your own, for one text. You release it. */
  readonly constraint?: TokenConstraint | undefined;
  /**
   * Speculative decoding: guesses the next tokens and checks the guesses in one run. The text stays the same. `true` looks guesses up in the text itself (prompt
   * lookup); `{ draft }` has a smaller model guess.
   * @default false
   */
  readonly speculate?: boolean | SpeculateOptions | undefined;
  /**
   * How many tokens a GPU that samples on the device is asked for at a time. More is faster, fewer arrive more evenly. The text stays the same.
   * @default 1, and up to 16 on a fast GPU
   */
  readonly tokensAtOnce?: number | undefined;
  /** Cancels the generation: it throws the signal's reason before the next token. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Further variables for the chat template, such as `enable_thinking`.
   * @default {}
   */
  readonly templateOptions?: Readonly<Record<string, unknown>> | undefined;
  /**
   * How text that is spelled like a control token (such as `<|im_end|>`) is encoded: "read" as that token, "plain" as ordinary text, which keeps
   * messages from forging turns.
   * @default "read" for text prompts, "plain" for messages
   */
  readonly controlTokens?: ControlTokens | undefined;
}

/** Their names. */
export const generateOptionNames: OptionNames<GenerateOptions> = {
  ...samplingOptionNames,
  maxTokens: true,
  minTokens: true,
  endAtSentence: true,
  stop: true,
  stopTokens: true,
  ignoreEnd: true,
  logprobs: true,
  whenFull: true,
  logitBias: true,
  jsonSchema: true,
  regex: true,
  grammar: true,
  constraint: true,
  speculate: true,
  tokensAtOnce: true,
  signal: true,
  templateOptions: true,
  controlTokens: true,
};

const speculationNames: OptionNames<SpeculateOptions> = {
  draft: true,
  tokens: true,
  ngram: true,
  adaptive: true,
};

/** Options without gaps: what a text is asked to be, but for its prompt. */
export interface Generating extends EndRules, Omit<TextAsk, "prompt" | "constraint" | keyof EndRules> {
  /** Makes what the text must obey, for one text. */
  readonly constraint: (() => Promise<TakenConstraint>) | undefined;
  readonly signal: AbortSignal | undefined;
}

/** What a model says about how it wants to be used. */
export interface ModelDefaults {
  readonly sampling: SamplingOptions;
  readonly endTokens: readonly number[];
}

/** Reads config.json and generation_config.json, or what stands for it in `file`; where neither names an end token, the tokenizer's is one. */
export function modelDefaults(
  config: Json,
  generationConfig: Json,
  endToken?: number,
  file = "generation_config.json",
): ModelDefaults {
  const number = (name: string): number | undefined => {
    const given = generationConfig[name];
    return typeof given === "number" ? given : undefined;
  };
  const sampling: Record<string, number | undefined> = {
    // A model that says nothing, or says not to sample, is greedy.
    temperature: generationConfig["do_sample"] === true ? (number("temperature") ?? 1) : 0,
    topK: number("top_k"),
    topP: number("top_p"),
    minP: number("min_p"),
    repetitionPenalty: number("repetition_penalty"),
  };
  try {
    readSampling(sampling);
  } catch (cause) {
    const why = cause instanceof InsituError ? cause.message.replace(/^option /, "") : String(cause);
    throw new InsituError("invalid-model", `${file}: ${why}`, { cause });
  }
  const isToken = (token: unknown): token is number => Number.isSafeInteger(token) && (token as number) >= 0;
  // What names no token (-1, text) says nothing: a text would never end.
  const told = [generationConfig["eos_token_id"], config["eos_token_id"], endToken].map((each) => [each].flat());
  return { sampling, endTokens: told.map((ends) => ends.filter(isToken)).find((ends) => ends.length > 0) ?? [] };
}

/** Throws for values that mean nothing, whatever the model is. */
export function checkGenerateOptions(options: GenerateOptions): void {
  readSampling(options);
  const { maxTokens, minTokens, logprobs, stop, stopTokens, ignoreEnd, speculate, templateOptions } = options;
  checkCount("option maxTokens", maxTokens, 0);
  checkCount("option minTokens", minTokens, 0);
  if (minTokens !== undefined && maxTokens !== undefined && minTokens > maxTokens)
    throw new InsituError(
      "invalid-argument",
      `option minTokens must be at most maxTokens, ${maxTokens}, got ${minTokens}`,
    );
  checkCount("option tokensAtOnce", options.tokensAtOnce, 1);
  if (typeof logprobs !== "boolean") checkCount("option logprobs", logprobs, 0);
  checkChoice("option whenFull", options.whenFull, ["stop", "slide", "error"]);
  checkChoice("option controlTokens", options.controlTokens, ["read", "plain"]);
  const texts: unknown = typeof stop === "string" ? [stop] : stop;
  const isText = (text: unknown): boolean => typeof text === "string" && text !== "";
  if (stop !== undefined && !(Array.isArray(texts) && texts.every(isText)))
    throw new InsituError(
      "invalid-argument",
      `option stop must hold strings that are not empty, got ${valueText(stop)}`,
    );
  checkRule("option stopTokens", stopTokens, "a list of tokens, by number or spelling", Array.isArray(stopTokens));
  checkFlag("option ignoreEnd", ignoreEnd);
  checkFlag("option endAtSentence", options.endAtSentence);
  checkRule("option logitBias", options.logitBias, "a map from tokens to numbers", isBias(options.logitBias));
  checkStructure(options);
  checkRule("option templateOptions", templateOptions, "an object", isObject(templateOptions));
  checkRule(
    "option speculate",
    speculate,
    "true, false or an object",
    typeof speculate === "boolean" || isObject(speculate),
  );
  if (typeof speculate === "object") checkOptionNames("option speculate", speculate, speculationNames);
  const { draft, tokens, ngram, adaptive } = typeof speculate === "object" ? speculate : {};
  checkCount("option speculate.ngram", ngram, 2);
  checkCount("option speculate.tokens", tokens, 1);
  checkFlag("option speculate.adaptive", adaptive);
  if (typeof draft === "number") checkCount("option speculate.draft", draft, 1);
  else
    checkRule("option speculate.draft", draft, "a language model", isObject(draft) && draft?.forServers !== undefined);
  checkSignal(options.signal);
}

/** Options that say what a text must be; one at most is given. */
const structureNames = ["jsonSchema", "regex", "grammar", "constraint"] as const;

function checkStructure({ jsonSchema, regex, grammar, constraint, ...options }: GenerateOptions): void {
  const given = { jsonSchema, regex, grammar, constraint };
  const [name, other] = structureNames.filter((each) => given[each] !== undefined);
  if (name === undefined) return;
  checkRule("option constraint", constraint, "a constraint", typeof constraint?.fillMask === "function");
  if (other !== undefined)
    throw new InsituError("invalid-argument", `options ${name} and ${other} exclude each other: give one of them`);
  checkRule("option jsonSchema", jsonSchema, "a JSON Schema", typeof jsonSchema === "boolean" || isObject(jsonSchema));
  checkRule("option grammar", grammar, "a grammar in GBNF, as text", typeof grammar === "string");
  const isPattern = typeof regex === "string" || (regex instanceof RegExp && !/[ims]/.test(regex.flags));
  checkRule("option regex", regex, "a regular expression without the flags i, m and s", isPattern);
  if (options.ignoreEnd === true && constraint === undefined)
    throw new InsituError(
      "invalid-argument",
      `option ${name}: what obeys a ${name === "jsonSchema" ? "schema" : name} has to end, so ignoreEnd cannot be set`,
    );
  if (options.endAtSentence === true)
    throw new InsituError(
      "invalid-argument",
      "option endAtSentence: structured output ends where its rule says, not at a sentence",
    );
}

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);

const isBias = (given: unknown): boolean =>
  given instanceof Map &&
  [...(given as ReadonlyMap<unknown, unknown>)].every(
    ([token, bias]) => Number.isSafeInteger(token) && (token as number) >= 0 && Number.isFinite(bias),
  );

const stopsOf = ({ stop }: GenerateOptions): readonly string[] | undefined =>
  typeof stop === "string" ? [stop] : stop;

/** Where a text may end; `isChat` says that it is an answer. */
function endRules(options: GenerateOptions, isChat: boolean, tokenizer: TextTokenizer): EndRules {
  const { minTokens } = options;
  if (isChat) return chatRules(tokenizer.hasChatTemplate, stopsOf(options), minTokens);
  return { stop: stopsOf(options) ?? [], minTokens: minTokens ?? 0, stopsFrom: minTokens ?? 0 };
}

/** How a text is guessed, with the model that does; none is where left out. */
function speculationOf({ speculate = false }: GenerateOptions): TextAsk["speculate"] {
  if (speculate === false) return undefined;
  const { draft, tokens, ngram, adaptive = true } = speculate === true ? {} : speculate;
  if (draft === undefined || typeof draft === "number")
    return { ngram: ngram ?? 3, tokens: tokens ?? draft ?? 6, adaptive };
  return { ngram, tokens: tokens ?? guessing.most, draft: draft.forServers.draft, adaptive };
}

/** The caller's options over the model's, for an answer in a chat or another text; throws for values that mean nothing. */
export function readGenerating(
  options: GenerateOptions,
  defaults: ModelDefaults,
  tokenizer: TextTokenizer,
  constrain: (rule: TextRule) => Promise<HeldConstraint>,
  isChat: boolean,
): Generating {
  checkGenerateOptions(options);
  const { maxTokens, logprobs, whenFull = "stop" } = options;
  const ends = options.ignoreEnd === true ? [] : defaults.endTokens;
  const wanted = (options.stopTokens ?? []).map((token) => stopToken(token, tokenizer));
  return {
    sampling: readSampling(options, defaults.sampling),
    maxTokens: maxTokens ?? (whenFull === "slide" ? 256 : undefined),
    endAtSentence: options.endAtSentence === true,
    ...endRules(options, isChat, tokenizer),
    endTokens: new Set([...ends, ...wanted]),
    logprobs: logprobs === undefined || logprobs === false ? undefined : logprobs === true ? 0 : logprobs,
    whenFull,
    logitBias: options.logitBias,
    constraint: constraintOf(options, constrain),
    speculate: speculationOf(options),
    tokensAtOnce: options.tokensAtOnce,
    signal: options.signal,
  };
}

function constraintOf(
  options: GenerateOptions,
  constrain: (rule: TextRule) => Promise<HeldConstraint>,
): Generating["constraint"] {
  const { constraint } = options;
  if (constraint !== undefined) return () => Promise.resolve({ rule: constraint, release: () => {} });
  const wanted = ruleOf(options);
  if (wanted === undefined) return undefined;
  return async () => {
    const rule = await constrain(wanted);
    return { rule, release: () => rule.release() };
  };
}

/** What a text must be. */
function ruleOf({ jsonSchema, regex, grammar }: GenerateOptions): TextRule | undefined {
  if (jsonSchema !== undefined) return { kind: "schema", schema: jsonSchema };
  if (regex !== undefined) return { kind: "regex", pattern: typeof regex === "string" ? regex : regex.source };
  return grammar === undefined ? undefined : { kind: "grammar", grammar };
}

function stopToken(token: number | string, tokenizer: TextTokenizer): number {
  const found = typeof token === "string" ? tokenizer.tokenOf(token) : token;
  if (found === undefined || !Number.isSafeInteger(found) || found < 0)
    throw new InsituError("invalid-argument", `option stopTokens: ${valueText(token)} is no token of the vocabulary`);
  return found;
}

/** Throws for tokens that the vocabulary does not have, where its size is known: nothing would come of what is said of them. */
export function requireKnownTokens({ logitBias, stopTokens }: GenerateOptions, vocabulary: number = Infinity): void {
  for (const [name, tokens] of Object.entries({ logitBias: logitBias?.keys(), stopTokens })) {
    const beyond = [...(tokens ?? [])].find((token) => typeof token === "number" && token >= vocabulary);
    if (beyond !== undefined)
      throw new InsituError(
        "invalid-argument",
        `option ${name}: ${beyond} is no token of the vocabulary, which has ${vocabulary}`,
      );
  }
}

/** Throws for options that rule what is drawn, where nothing is: a search ranks whole texts. */
export function refuseRules(where: string, options: GenerateOptions): void {
  const name = ([...structureNames, "logitBias"] as const).find((each) => options[each] !== undefined);
  if (name !== undefined)
    throw new InsituError("invalid-argument", `${where} does not take ${name}: use generate, generateBatch or samples`);
}

/** Throws for a constraint of the caller's own where several texts would follow it: it knows where one text is. */
export function refuseOneConstraint(where: string, texts: number, { constraint }: GenerateOptions): void {
  if (constraint !== undefined && texts > 1)
    throw new InsituError(
      "invalid-argument",
      `option constraint: one constraint follows one text, and ${where} makes ${texts}; give jsonSchema, regex or grammar, or use generate for each`,
    );
}
