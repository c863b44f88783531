/** Fields of a request → how its texts are sampled and where they end: the client's words, then the model's own. */
import type { ModelDefaults } from "#insitu/generate/options.js";
import { readSampling, type Sampling, type SamplingOptions } from "#insitu/choice/sampling.js";
import { badField } from "./api-error.js";
import type { SamplingBody } from "./fields.js";
import type { RequestLimits } from "./limits.js";

/** How tokens are chosen; what the client leaves out is the model's. */
export function samplingOf(body: SamplingBody, defaults: ModelDefaults): Sampling {
  const { top_p, top_k } = body;
  const options: Record<keyof SamplingOptions, number | undefined> = {
    temperature: body.temperature ?? undefined,
    // No probability at all is that of the likeliest token alone.
    topP: top_p === 0 ? 1 : (top_p ?? undefined),
    topK: top_p === 0 ? 1 : top_k === -1 ? 0 : (top_k ?? undefined),
    minP: body.min_p ?? undefined,
    repetitionPenalty: body.repetition_penalty ?? undefined,
    presencePenalty: body.presence_penalty ?? undefined,
    frequencyPenalty: body.frequency_penalty ?? undefined,
    seed: body.seed ?? undefined,
  };
  return readSampling(options as SamplingOptions, defaults.sampling);
}

/** The bias of logits by token; throws for what is no token of the vocabulary. */
export function logitBiasOf({ logit_bias }: SamplingBody, vocabulary: number): ReadonlyMap<number, number> | undefined {
  if (logit_bias === undefined || logit_bias === null) return undefined;
  const bias = new Map<number, number>();
  for (const [key, value] of Object.entries(logit_bias)) {
    const token = Number(key);
    if (!/^\d+$/.test(key) || token >= vocabulary)
      throw badField("logit_bias", `logit_bias: keys must be tokens below ${vocabulary}, got "${key}"`);
    bias.set(token, value);
  }
  return bias.size === 0 ? undefined : bias;
}

/** The tokens that end a text; a text that must obey something ends. */
export function endTokensOf(
  { ignore_eos }: SamplingBody,
  ends: ReadonlySet<number>,
  isRuled: boolean,
): ReadonlySet<number> {
  if (ignore_eos !== true) return ends;
  if (isRuled) throw badField("ignore_eos", "ignore_eos: structured output has to end", "unsupported");
  return new Set();
}

/** The texts that end a text. */
export const stopsOf = ({ stop }: SamplingBody): readonly string[] =>
  typeof stop === "string" ? [stop] : (stop ?? []);

/** A number of tokens that a request asks for, by the first of its fields that does. */
export type Wanted = Readonly<Record<string, number | null | undefined>>;

/** New tokens at most: what the client asks for, what fits, and what the operator allows; throws where nothing fits. */
export function maxTokensOf(
  wantedBy: Wanted,
  param: string,
  promptTokens: number,
  context: number,
  limits: RequestLimits,
): number {
  const [field, wanted] = Object.entries(wantedBy).find(([, count]) => typeof count === "number") ?? ["", undefined];
  const room = context - promptTokens;
  if (room < 1)
    throw badField(
      param,
      `the prompt has ${promptTokens} tokens, and the context holds ${context} for prompt and completion together`,
      "context_length_exceeded",
    );
  if (typeof wanted === "number" && wanted > limits.newTokens)
    throw badField(field, `${field}: at most ${limits.newTokens} can be asked for, got ${wanted}`);
  return Math.min(wanted ?? Infinity, room, limits.newTokens);
}

/** Tokens before which a text does not end, where the client says so. */
export function minTokensOf({ min_tokens }: SamplingBody, maxTokens: number): number | undefined {
  if (typeof min_tokens === "number" && min_tokens > maxTokens)
    throw badField("min_tokens", `min_tokens: the text has ${maxTokens} tokens at most, got ${min_tokens}`);
  return min_tokens ?? undefined;
}

/** Whom the engine takes first: what a request says the other way round, as far as the operator lets it. */
export function priorityOf(
  { priority }: { readonly priority?: number | null | undefined },
  limits: RequestLimits,
): number {
  const given = priority ?? 0;
  if (Math.abs(given) > limits.priority)
    throw badField(
      "priority",
      limits.priority === 0
        ? "priority: the server has to be started with --max-priority"
        : `priority: must be from ${-limits.priority} to ${limits.priority}, got ${given}`,
      "unsupported",
    );
  return given === 0 ? 0 : -given;
}
