/**
 * Text → tokens → text, on the parts that @huggingface/tokenizers makes of tokenizer.json: normaliser, splitting, model, what is put
 * around a text, decoder. The order of things is here, because it must know where each character of a text comes from.
 */
import { InsituError } from "#insitu/base/error.js";
import { bytesOfLetters } from "./byte-letters.js";
import { BoundedPattern } from "../patterns/bounded-pattern.js";
import { PatternWork } from "../patterns/limits.js";
import { type AddedToken, type Allows, allowsAll, type Section, TokenSplitter } from "./added-tokens.js";
import { MarkedText, markOf } from "./marked-text.js";
import { longWord, PairMerges } from "./pair-merges.js";
import { firstPattern, windowsOf } from "./text-windows.js";

/** The parts of a Tokenizer of @huggingface/tokenizers that are used. */
export interface TokenizerParts {
  readonly normalizer: ((text: string) => string) | null;
  readonly pre_tokenizer: ((text: string, place: { readonly section_index: number }) => string[]) | null;
  readonly model: {
    (pieces: string[]): string[];
    readonly tokens_to_ids: Map<string, number>;
    readonly vocab: string[];
    readonly unk_token?: string | null;
    readonly unk_token_id?: number | null;
    readonly end_of_word_suffix?: string | null;
    /** Of byte-pair encoding alone: pairs in their order, what ends all pieces of a word but its last, pieces of words that came before. */
    readonly merges?: readonly (readonly [string, string])[];
    readonly bpe_ranks?: Map<string, number>;
    readonly continuing_subword_suffix?: string | null;
    readonly cache?: { get(word: string): string[] | undefined; put(word: string, pieces: string[]): void };
    readonly max_length_to_cache?: number;
  };
  readonly post_processor: ((tokens: string[], pair: null, around: boolean) => { readonly tokens: string[] }) | null;
  readonly decoder: {
    (tokens: string[]): string;
    added_tokens: readonly { readonly content: string }[];
    end_of_word_suffix: string | null;
  } | null;
}

/** What tokenizer_config.json says about texts as a whole. */
interface TextRules {
  readonly removeSpace: boolean;
  readonly lowercase: boolean;
  /** True if letters stand for bytes, and a text is what its tokens' bytes are, one behind the other. */
  readonly isBytes: boolean;
}

/** How a text becomes tokens. */
interface EncodeRules {
  /** True puts the tokens around it that the model wants there. */
  readonly around: boolean;
  readonly allows: Allows;
  /** A text that has more is read no further. */
  readonly mostTokens: number;
}

/** A tokenizer that was checked, bounded and made ready. */
export class TokenPipeline {
  readonly #parts: TokenizerParts;
  readonly #rules: TextRules;
  readonly #work = new PatternWork();
  readonly #added = new Map<string, AddedToken>();
  readonly #addedById = new Map<number, AddedToken>();
  readonly #bytes = new Map<number, Uint8Array | string>();
  readonly #plain: TokenSplitter;
  readonly #normalized: TokenSplitter;
  /** The pattern that splits a text first, where nothing else does. */
  readonly #splits: BoundedPattern | undefined;
  #merges: PairMerges | undefined;
  /** A long word that was merged in steps. */
  #ready: { readonly word: string; readonly pieces: string[] } | undefined;

  /** `parts` must have been made without added tokens: theirs would be normalised by patterns without a bound. */
  constructor(parts: TokenizerParts, added: readonly AddedToken[], rules: TextRules) {
    this.#parts = parts;
    this.#rules = rules;
    for (const part of [parts.normalizer, parts.pre_tokenizer, parts.decoder]) boundPatterns(part, this.#work);
    const { normalizer, decoder, model } = parts;
    this.#splits = firstPattern(parts.pre_tokenizer);
    if (model.merges !== undefined) {
      Reflect.set(model, "bpe", (word: string) => this.#pieces(word));
      model.bpe_ranks?.clear();
    }
    const plain: [string, AddedToken][] = [];
    const normalized: [string, AddedToken][] = [];
    this.#work.begin(added.reduce((sum, { content }) => sum + content.length, 0));
    for (const token of added) {
      this.#added.set(token.content, token);
      this.#addedById.set(token.id, token);
      model.tokens_to_ids.set(token.content, token.id);
      if (token.normalized && normalizer !== null) normalized.push([normalizer(token.content), token]);
      else plain.push([token.content, token]);
    }
    this.#plain = new TokenSplitter(plain);
    this.#normalized = new TokenSplitter(normalized);
    if (decoder !== null) {
      decoder.added_tokens = added;
      decoder.end_of_word_suffix = model.end_of_word_suffix ?? null;
    }
  }

  /** The added tokens by their spelling. */
  get added(): ReadonlyMap<string, AddedToken> {
    return this.#added;
  }

  /** The tokens of a text, in steps; throws where the vocabulary lacks one of them. */
  *encode(text: MarkedText, { around, allows, mostTokens }: EncodeRules): Generator<void, number[]> {
    this.#work.begin(text.length);
    const spellings: string[] = [];
    for (const [index, section] of this.#plain.split(text, allows).entries())
      for (const piece of this.#section(section, index, allows)) {
        for (const spelling of piece ?? []) spellings.push(spelling);
        if (spellings.length > mostTokens)
          throw new InsituError("context-overflow", `the text has more than ${mostTokens} tokens`);
        // What is left to this text is its own, whoever has a turn meanwhile.
        const { left } = this.#work;
        yield;
        this.#work.left = left;
      }
    const { post_processor } = this.#parts;
    const tokens = post_processor === null ? spellings : post_processor(spellings, null, around).tokens;
    return tokens.map((spelling) => {
      const token = this.tokenOf(spelling) ?? this.#parts.model.unk_token_id;
      if (token === undefined || token === null)
        throw new InsituError("invalid-model", `tokenizer.json: the vocabulary has no token "${spelling}"`);
      return token;
    });
  }

  /** The text of tokens, without those that `skips` says to leave out. Numbers that are no token of the vocabulary give nothing. */
  decode(tokens: readonly number[], skips: ReadonlySet<string>): string {
    const spellings = tokens.flatMap((token) => {
      const spelling = this.spellingOf(token) ?? this.#parts.model.unk_token ?? undefined;
      return spelling === undefined || skips.has(spelling) ? [] : [spelling];
    });
    this.#work.begin(spellings.reduce((sum, { length }) => sum + length, 0));
    const { decoder } = this.#parts;
    if (decoder === null) return spellings.join(" ");
    const text = decoder(spellings);
    const { end_of_word_suffix: suffix } = decoder;
    return suffix ? text.replaceAll(suffix, () => " ").trim() : text;
  }

  /** What a token adds to the bytes of a text, or to the text where it was added as it is; undefined where that depends on the tokens around it. */
  bytesOf(token: number, skips: ReadonlySet<string>): Uint8Array | string | undefined {
    if (!this.#rules.isBytes || this.#parts.model.end_of_word_suffix) return undefined;
    let piece = this.#bytes.get(token);
    if (piece === undefined) {
      const spelling = this.spellingOf(token) ?? this.#parts.model.unk_token ?? undefined;
      if (spelling === undefined || skips.has(spelling)) piece = new Uint8Array();
      else if (this.#added.has(spelling)) piece = spelling;
      else piece = Uint8Array.from(spelling, (letter) => bytesOfLetters.get(letter) ?? 0);
      this.#bytes.set(token, piece);
    }
    return piece;
  }

  tokenOf(spelling: string): number | undefined {
    return this.#added.get(spelling)?.id ?? this.#parts.model.tokens_to_ids.get(spelling);
  }

  spellingOf(token: number): string | undefined {
    const spelling: unknown = this.#addedById.get(token)?.content ?? this.#parts.model.vocab[token];
    return typeof spelling === "string" ? spelling : undefined;
  }

  /** The spellings of the tokens of a section of the text as it was given, some at a time; nothing where work is under way. */
  *#section({ part, token }: Section, index: number, allows: Allows): Generator<Spellings, void> {
    if (part.length === 0) return;
    // A section that is nothing but a token is one, however it would be normalised.
    const whole = token ?? this.#added.get(part.text);
    if (whole !== undefined && (whole === token || allows(whole.content, part.marks[0], part.marks.at(-1)!)))
      return yield [whole.content];
    for (const inner of this.#normalized.split(this.#normalizedPart(part, allows), allows))
      yield* this.#subsection(inner, index, allows);
  }

  #normalize(given: string): string {
    let text = given;
    if (this.#rules.removeSpace) text = text.trim().split(/\s+/).join(" ");
    if (this.#rules.lowercase) text = text.toLowerCase().replace(/\p{M}/gu, "");
    const { normalizer } = this.#parts;
    return normalizer === null ? text : normalizer(text);
  }

  /** A part as it is normalised. Where each character comes from matters only where there are tokens to be found. */
  #normalizedPart(part: MarkedText, allows: Allows): MarkedText {
    const text = this.#normalize(part.text);
    if (text === part.text) return part;
    const runs = part.runs();
    if (runs.length === 1 || allows === allowsAll || !this.#normalized.finds(text))
      return MarkedText.of(text, runs[0].marks[0]);
    // A letter that stands nowhere else keeps those apart that wrote the text.
    const fence = fences.find((letter) => !part.text.includes(letter) && !text.includes(letter)) ?? "";
    const pieces = this.#normalize(runs.map((run) => run.text).join(fence)).split(fence);
    if (fence === "" || pieces.length !== runs.length) return MarkedText.of(text, part.leastTrusted);
    return MarkedText.join(pieces.map((piece, index) => MarkedText.of(piece, runs[index].marks[0])));
  }

  *#subsection({ part: { text }, token }: Section, index: number, allows: Allows): Generator<Spellings, void> {
    if (text === "") return;
    if (token !== undefined) return yield [token.content];
    const { pre_tokenizer } = this.#parts;
    for (const window of windowsOf(text, this.#splits)) {
      const words = pre_tokenizer === null ? [window] : pre_tokenizer(window, { section_index: index });
      const long = words.filter(({ length }) => length >= longWord);
      if (long.length === 0) yield this.#spellings(words, allows);
      else for (const word of words) yield* this.#longSpellings(word, allows);
    }
  }

  #spellings(words: string[], allows: Allows): readonly string[] {
    const spellings = this.#parts.model(words);
    return allows === allowsAll ? spellings : spellings.flatMap((spelling) => this.#spelledOut(spelling, allows));
  }

  /** Those of one word, which is merged in steps where it is long. */
  *#longSpellings(word: string, allows: Allows): Generator<Spellings, void> {
    if (word.length >= longWord && this.#parts.model.merges !== undefined) {
      const merging = this.#merge(word);
      for (;;) {
        const { done, value } = merging.next();
        if (done === true) {
          this.#ready = { word, pieces: value };
          break;
        }
        yield undefined;
      }
    }
    const spellings = this.#spellings([word], allows);
    this.#ready = undefined;
    yield spellings;
  }

  /** What a word becomes by the model's merges. */
  #pieces(word: string): string[] {
    if (this.#ready?.word === word) return this.#ready.pieces;
    const { cache, max_length_to_cache = 0 } = this.#parts.model;
    const known = cache?.get(word);
    if (known !== undefined) return known;
    const merging = this.#merge(word);
    let step = merging.next();
    while (step.done !== true) step = merging.next();
    if (word.length < max_length_to_cache) cache?.put(word, step.value);
    return step.value;
  }

  *#merge(text: string): Generator<void, string[]> {
    const { merges = [], end_of_word_suffix: end, continuing_subword_suffix: goesOn } = this.#parts.model;
    this.#merges ??= new PairMerges(merges);
    const word = Array.from(text);
    if (end && word.length > 0) word[word.length - 1] += end;
    const pieces = yield* this.#merges.merge(word);
    return goesOn ? pieces.map((piece, at) => (at < pieces.length - 1 ? piece + goesOn : piece)) : pieces;
  }

  /** Plain text whose pieces the vocabulary knows as a control token becomes the tokens of its characters. */
  #spelledOut(spelling: string, allows: Allows): string[] {
    const { model } = this.#parts;
    // What stands for unknown characters is no control token.
    const isControl = (text: string): boolean =>
      text !== model.unk_token && !allows(text, markOf.caller, markOf.caller);
    if (!isControl(spelling)) return [spelling];
    const letters = Array.from(spelling)
      .flatMap((character) => model([character]))
      .filter((each) => !isControl(each));
    // A single character has no other spelling: it stays what it is.
    return letters.length === 0 ? [spelling] : letters;
  }
}

/** Spellings of tokens; none yet where work is under way. */
type Spellings = readonly string[] | undefined;

/** Runes: letters without case, accents or other forms, which no normaliser changes. */
const fences = Array.from({ length: 75 }, (_, index) => String.fromCodePoint(0x16a0 + index));

/** Gives every pattern of a part, and of the parts inside it, a bound. */
function boundPatterns(part: object | null, work: PatternWork): void {
  if (part === null) return;
  for (const [name, value] of Object.entries(part) as [string, unknown][]) {
    if (value instanceof RegExp) Reflect.set(part, name, new BoundedPattern(value, work));
    else if (Array.isArray(value))
      for (const inner of value as unknown[]) if (typeof inner === "function") boundPatterns(inner, work);
  }
}
