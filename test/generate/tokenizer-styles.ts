// tokenizer.json in the styles of the field, made of the embedded model's own merges: byte-level BPE as GPT-2, Llama 3 and Qwen have it,
// SentencePiece's BPE with byte fallback as Llama 2, Mistral and Gemma have it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { embedded } from "./support.js";

interface BpeModel {
  readonly vocab: Readonly<Record<string, number>>;
  readonly merges: readonly (readonly [string, string] | string)[];
}

const { model: trained } = JSON.parse(readFileSync(join(embedded, "tokenizer.json"), "utf8")) as { model: BpeModel };
const merges = trained.merges.map((merge) => (typeof merge === "string" ? merge.split(" ") : [...merge]));

const special = (content: string, id: number): object => ({
  id,
  content,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: true,
});

/** A text begins with this token. */
const beginsWith = (content: string, id: number): object => ({
  type: "TemplateProcessing",
  single: [{ SpecialToken: { id: content, type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
  pair: [],
  special_tokens: { [content]: { id: content, ids: [id], tokens: [content] } },
});

const words =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

const byteLevel = (parts: object): object => ({
  version: "1.0",
  added_tokens: [special("<|end|>", 0)],
  normalizer: null,
  post_processor: null,
  decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
  model: { ...trained, merges, type: "BPE" },
  ...parts,
});

const split = {
  type: "Sequence",
  pretokenizers: [
    { type: "Split", pattern: { Regex: words }, behavior: "Isolated", invert: false },
    { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false },
  ],
};

/** Words of ASCII only, with ▁ for a space; every other character falls back to its bytes. */
function sentencePiece(): { readonly vocab: Record<string, number>; readonly merges: string[][] } {
  const spell = (token: string): string => token.replaceAll("Ġ", "▁");
  const plain = (token: string): boolean => /^[\x21-\x7eĠ]+$/.test(token);
  const tokens = ["<unk>", "<s>", "</s>"];
  for (let byte = 0; byte < 256; byte++) tokens.push(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
  tokens.push("▁");
  for (const token of Object.keys(trained.vocab)) if (plain(token) && spell(token) !== "▁") tokens.push(spell(token));
  return {
    vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
    merges: merges.filter((pair) => pair.every(plain)).map((pair) => pair.map(spell)),
  };
}

const withFallback = (parts: object): object => ({
  version: "1.0",
  added_tokens: [special("<unk>", 0), special("<s>", 1), special("</s>", 2)],
  pre_tokenizer: null,
  post_processor: beginsWith("<s>", 1),
  model: { type: "BPE", unk_token: "<unk>", fuse_unk: true, byte_fallback: true, ...sentencePiece() },
  ...parts,
});

const spaces = { type: "Replace", pattern: { String: "▁" }, content: " " };
const strip = { type: "Strip", content: " ", start: 1, stop: 0 };
const toSpaces = { type: "Replace", pattern: { String: " " }, content: "▁" };
const decoderOf = (...more: object[]): object => ({
  type: "Sequence",
  decoders: [spaces, { type: "ByteFallback" }, { type: "Fuse" }, ...more],
});

/** tokenizer.json by style. */
export const tokenizerStyles: Readonly<Record<string, object>> = {
  "GPT-2": byteLevel({ pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, use_regex: true } }),
  "Llama 3": byteLevel({ pre_tokenizer: split, post_processor: beginsWith("<|end|>", 0) }),
  Qwen: byteLevel({ normalizer: { type: "NFC" }, pre_tokenizer: split }),
  "Llama 2": withFallback({
    normalizer: { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "▁" }, toSpaces] },
    decoder: decoderOf(strip),
  }),
  Mistral: withFallback({
    normalizer: null,
    pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "first", split: false },
    decoder: decoderOf(strip),
  }),
  Gemma: withFallback({ normalizer: toSpaces, decoder: decoderOf() }),
};
