/**
 * What tokenizer.json must look like: checked before anything is made of it, so that a file that is damaged, or means harm, is refused by
 * the name of its part. Says nothing about what the parts do.
 */
import { InsituError } from "#insitu/base/error.js";
import type { AddedToken } from "./added-tokens.js";
import {
  fields,
  flag,
  isObject,
  list,
  number,
  optional,
  pair,
  pattern,
  refuse,
  type Rule,
  text,
  typed,
  vocabulary,
  whole,
} from "./shape-rules.js";

/** Parts of all kinds that a file may have. */
const mostParts = 1_000;

/** Characters of an added token, of a piece of a Unigram vocabulary, of a word for WordPiece: the time for a text grows with them. */
const mostAddedLength = 1_000;
const mostPieceLength = 128;
const mostWordLength = 200;

const replace = { pattern, content: optional(text) };
const byteLevel = { add_prefix_space: optional(flag), use_regex: optional(flag), trim_offsets: optional(flag) };

const normalizer: Rule = typed({
  BertNormalizer: {
    clean_text: optional(flag),
    handle_chinese_chars: optional(flag),
    strip_accents: optional(flag),
    lowercase: optional(flag),
  },
  Precompiled: {},
  Sequence: { normalizers: optional(list((value, path) => optional(normalizer)(value, path))) },
  Replace: replace,
  NFC: {},
  NFD: {},
  NFKC: {},
  NFKD: {},
  Strip: { strip_left: optional(flag), strip_right: optional(flag) },
  StripAccents: {},
  Lowercase: {},
  Prepend: { prepend: text },
});

const preTokenizer: Rule = typed({
  BertPreTokenizer: {},
  Sequence: { pretokenizers: optional(list((value, path) => optional(preTokenizer)(value, path))) },
  Whitespace: {},
  WhitespaceSplit: {},
  Metaspace: { replacement: optional(text), str_rep: optional(text), prepend_scheme: optional(text) },
  ByteLevel: byteLevel,
  Split: { pattern, behavior: optional(text), invert: optional(flag) },
  Punctuation: {},
  Digits: { individual_digits: optional(flag) },
  Replace: replace,
  FixedLength: { length: whole(1) },
});

const templateItem: Rule = (value, path) => {
  fields({
    SpecialToken: optional(fields({ id: text })),
    Sequence: optional(fields({ id: text })),
  })(value, path);
};

const postProcessor: Rule = typed({
  TemplateProcessing: { single: list(templateItem) },
  ByteLevel: {},
  BertProcessing: { sep: pair(text), cls: pair(text) },
  RobertaProcessing: { sep: pair(text), cls: pair(text) },
  Sequence: { processors: optional(list((value, path) => postProcessor(value, path))) },
});

const decoder: Rule = typed({
  ByteLevel: {},
  WordPiece: { prefix: optional(text), cleanup: optional(flag) },
  Metaspace: { replacement: optional(text) },
  BPEDecoder: { suffix: optional(text) },
  CTC: { pad_token: optional(text), word_delimiter_token: optional(text), cleanup: optional(flag) },
  Sequence: { decoders: optional(list((value, path) => decoder(value, path))) },
  Replace: replace,
  Fuse: {},
  Strip: { content: optional(text), start: optional(whole(0)), stop: optional(whole(0)) },
  ByteFallback: {},
});

const unknown = { unk_token: optional(text), fuse_unk: optional(flag) };

const bpe: Rule = (value, path) => {
  fields({
    ...unknown,
    vocab: vocabulary,
    end_of_word_suffix: optional(text),
    continuing_subword_suffix: optional(text),
    byte_fallback: optional(flag),
    ignore_merges: optional(flag),
  })(value, path);
  const { merges } = value as { readonly merges?: unknown };
  // The first merge decides in which of two ways all are written.
  const inPairs = Array.isArray(merges) && Array.isArray((merges as readonly unknown[])[0]);
  list(inPairs ? pair(text, text) : text)(merges, `${path}.merges`);
};

const unigram: Rule = (value, path) => {
  fields({ unk_id: optional(whole(0)), vocab: list(pair(text, number)) })(value, path);
  const { vocab } = value as { readonly vocab: readonly (readonly [string, number])[] };
  if (vocab.length === 0) refuse(`${path}.vocab`, "a list that is not empty", vocab);
  const long = vocab.findIndex(([piece]) => piece.length > mostPieceLength);
  if (long >= 0) refuse(`${path}.vocab[${long}][0]`, `at most ${mostPieceLength} characters long`, vocab[long][0]);
};

const wordPiece: Rule = fields({
  ...unknown,
  vocab: vocabulary,
  continuing_subword_prefix: optional(text),
  max_input_chars_per_word: optional(whole(0, mostWordLength)),
});

/** A model without a type is told by what it has; one that only names words is a plain vocabulary. */
const model: Rule = (value, path) => {
  if (!isObject(value)) refuse(path, "an object with a vocabulary", value);
  const { type, vocab, merges } = value;
  if (type === "Unigram" || (type !== "BPE" && type !== "WordPiece" && Array.isArray(vocab))) unigram(value, path);
  else if (type === "BPE" || (type !== "WordPiece" && merges !== undefined)) bpe(value, path);
  else if (type === "WordPiece" || Object.hasOwn(value, "continuing_subword_prefix")) wordPiece(value, path);
  else if (type === undefined || type === "WordLevel") fields({ ...unknown, vocab: vocabulary })(value, path);
  else refuse(`${path}.type`, "one of BPE, Unigram, WordLevel, WordPiece", type);
};

const addedToken: Rule = (value, path) => {
  fields({
    id: whole(0),
    content: text,
    special: optional(flag),
    normalized: optional(flag),
    lstrip: optional(flag),
    rstrip: optional(flag),
  })(value, path);
  const { content } = value as { readonly content: string };
  if (content.length > mostAddedLength)
    refuse(`${path}.content`, `at most ${mostAddedLength} characters long`, content);
};

const wholeFile: Rule = fields({
  normalizer: optional(normalizer),
  pre_tokenizer: optional(preTokenizer),
  post_processor: optional(postProcessor),
  decoder: optional(decoder),
  model,
  added_tokens: optional(list(addedToken)),
});

/** Throws unless the file is one that a tokenizer can be made of; its added tokens. */
export function checkTokenizer(json: object): AddedToken[] {
  const parts = json as Readonly<Record<string, unknown>>;
  const count = ["normalizer", "pre_tokenizer", "post_processor", "decoder"]
    .map((name) => countParts(parts[name]))
    .reduce((sum, each) => sum + each, 0);
  if (count > mostParts)
    throw new InsituError(
      "invalid-model",
      `the tokenizer cannot be created from tokenizer.json: it has ${count} parts, more than ${mostParts}`,
    );
  wholeFile(json, "");
  const added = (parts["added_tokens"] ?? []) as readonly (Partial<AddedToken> & Pick<AddedToken, "id" | "content">)[];
  return added.map(({ id, content, special, normalized, lstrip, rstrip }) => ({
    id,
    content,
    special: special ?? false,
    normalized: normalized ?? special !== true,
    lstrip: lstrip ?? false,
    rstrip: rstrip ?? false,
  }));
}

/** A part and the parts inside it. */
function countParts(part: unknown): number {
  if (!isObject(part)) return 0;
  const inside = ["normalizers", "pretokenizers", "processors", "decoders"].flatMap((name): unknown[] => {
    const value = part[name];
    return Array.isArray(value) ? value : [];
  });
  return inside.reduce((sum: number, each) => sum + countParts(each), 1);
}
