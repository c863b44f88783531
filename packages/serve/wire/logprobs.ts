/** Log-probabilities as chat and completions tell them. */
import type { TextTokenizer } from "#insitu/generate/tokenizer.js";
import type { ToldToken } from "./text-event.js";

interface ToldText {
  readonly token: string;
  readonly logprob: number;
  /** The token's bytes; null where it is a part of a character. */
  readonly bytes: readonly number[] | null;
}

/** `logprobs` of a chat's choice. */
export interface ChatLogprobs {
  readonly content: readonly (ToldText & { readonly top_logprobs: readonly ToldText[] })[];
  readonly refusal: null;
}

/** JSON has no infinity: what cannot come at all is told as OpenAI tells it. */
const least = -9999;

const encoder = new TextEncoder();

/** What is told of a token whatever its probability: texts tell the same ones again and again. */
interface KnownToken {
  readonly token: string;
  readonly bytes: readonly number[] | null;
}

const known = new WeakMap<TextTokenizer, Map<number, KnownToken>>();

function knownToken(token: number, tokenizer: TextTokenizer): KnownToken {
  let tokens = known.get(tokenizer);
  if (tokens === undefined) known.set(tokenizer, (tokens = new Map()));
  let found = tokens.get(token);
  if (found === undefined) {
    const decoded = tokenizer.decode([token]);
    // Its spelling where it is no text.
    const text = decoded === "" ? (tokenizer.spellingOf(token) ?? "") : decoded;
    found = { token: text, bytes: text.includes("\uFFFD") ? null : [...encoder.encode(text)] };
    tokens.set(token, found);
  }
  return found;
}

const textOf = (token: number, tokenizer: TextTokenizer): string => knownToken(token, tokenizer).token;

function told(
  { token: number, logprob }: { readonly token: number; readonly logprob: number },
  tokenizer: TextTokenizer,
): ToldText {
  const { token, bytes } = knownToken(number, tokenizer);
  return { token, logprob: Math.max(least, logprob), bytes };
}

/** Tokens as chat tells them. */
export const chatLogprobs = (tokens: readonly ToldToken[], tokenizer: TextTokenizer): ChatLogprobs => ({
  content: tokens.map((each) => ({
    ...told(each, tokenizer),
    top_logprobs: each.top.map((one) => told(one, tokenizer)),
  })),
  refusal: null,
});

/** Tokens as completions tell them; `offset` is where the first one's text begins. */
export function completionLogprobs(tokens: readonly ToldToken[], tokenizer: TextTokenizer, offset: number): object {
  const texts = tokens.map(({ token }) => textOf(token, tokenizer));
  let at = offset;
  const offsets = texts.map(({ length }) => {
    at += length;
    return at - length;
  });
  return {
    tokens: texts,
    token_logprobs: tokens.map(({ logprob }) => Math.max(least, logprob)),
    top_logprobs: tokens.map(({ top }) =>
      Object.fromEntries(top.map((one) => [textOf(one.token, tokenizer), Math.max(least, one.logprob)])),
    ),
    text_offset: offsets,
  };
}
