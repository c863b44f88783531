// The regular expressions with which the tokenizers of the field split and normalise texts, as tokenizer.json writes them.
import { Tokenizer } from "@huggingface/tokenizers";

const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
const lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
const tail = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/** Patterns by the models that have them. */
export const patternStyles: Readonly<Record<string, readonly string[]>> = {
  "GPT-2": ["'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"],
  "Llama 3, SmolLM3": [
    `${contractions}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${tail}`,
  ],
  "Qwen 2 and 3": [`${contractions}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${tail}`],
  "o200k, Llama 4, Phi-4-mini": [
    `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${contractions}?|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${contractions}?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${tail}`,
  ],
  "cl100k, Phi-4": [
    `'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s`,
  ],
  "Mistral, Tekken": [
    `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${tail}`,
  ],
  "DeepSeek V3, R1": [
    "\\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    `[!"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_\`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|${tail}`,
  ],
  "DeepSeek coder": ["[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+"],
  BLOOM: [" ?[^(\\s|[.,!?…。，、।۔،])]+"],
  Falcon: ["[0-9][0-9][0-9]"],
  "Kimi K2": [
    `[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+${contractions}?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${tail}`,
  ],
  "spaces as normalisers have them": [" {2,}", "\\s+", "^\\s+|\\s+$", "\\u200b|\\ufeff"],
};

/** The pattern as the library writes it for RegExp. */
export const nativeOf = (regex: string): RegExp => {
  const split = { type: "Split", pattern: { Regex: regex }, behavior: "Isolated", invert: false };
  const parts = { normalizer: null, post_processor: null, decoder: null, added_tokens: [] };
  const model = { type: "BPE", vocab: {}, merges: [] };
  const made = new Tokenizer({ ...parts, model, pre_tokenizer: split }, {}) as {
    readonly pre_tokenizer: { readonly pattern: RegExp };
  };
  return made.pre_tokenizer.pattern;
};
