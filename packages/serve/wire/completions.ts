/** `/v1/completions`: prompts that are continued as they are, as text or tokens, and the answer as a body or as chunks. */
import * as z from "zod";
import type { ApiError } from "./api-error.js";
import { badField } from "./api-error.js";
import { type Answer, dataEvent, doneEvent, type StreamEvent, usageBody } from "./answer.js";
import { choicesOf, refuseFields } from "./chat.js";
import {
  commonFields,
  listOf,
  readBody,
  refusedFields,
  samplingFields,
  streamOptions,
  textsOf,
  tokenCount,
  tokensOf,
} from "./fields.js";
import type { RequestLimits } from "./limits.js";
import { newId, nowSeconds } from "./identity.js";
import { completionLogprobs } from "./logprobs.js";
import { asksOf, type Prepared } from "./prepared.js";
import { structureFields, structureRule } from "./response-format.js";
import { endTokensOf, logitBiasOf, maxTokensOf, minTokensOf, priorityOf, samplingOf, stopsOf } from "./sampling.js";
import type { ServedModel } from "./served-model.js";
import { type TextEvent, type ToldToken, type Usage, WholeText } from "./text-event.js";

const tokens = tokensOf({ least: 1 });

/** Fields that would change the answer and are not there. */
const refused = { suffix: "text is continued at its end only" };

/** Text, tokens, or several of either. */
export const promptField = z.union([z.string(), tokens, textsOf({ least: 1 }), listOf(tokens, { least: 1 })]);

const completionBody = z.object({
  ...refusedFields(refused),
  ...commonFields,
  ...samplingFields,
  prompt: promptField,
  n: z.int().min(1).nullish(),
  best_of: z.int().min(1).nullish(),
  max_tokens: tokenCount,
  logprobs: z.int().min(0).max(20).nullish(),
  echo: z.boolean().nullish(),
  stream_options: streamOptions,
  ...structureFields,
});

/** How many tokens a completion has where nobody says, as OpenAI's. */
const usualTokens = 16;

/** Reads a request. */
export async function prepareCompletion(given: unknown, model: ServedModel, limits: RequestLimits): Promise<Prepared> {
  const body = readBody(completionBody, given);
  refuseFields(body, refused);
  model.requireName(body.model);
  const priority = priorityOf(body, limits);
  const { prompt: asked, stream, stream_options, best_of, echo, logprobs } = body;
  const n = choicesOf(body.n, limits);
  if (stream_options && stream !== true) throw badField("stream_options", "stream_options: only a stream has options");
  if (typeof best_of === "number" && best_of !== n)
    throw badField(
      "best_of",
      "best_of: completions that are generated and not returned are not supported",
      "unsupported",
    );
  if (echo === true && typeof logprobs === "number")
    throw badField("echo", "echo: the prompt's log-probabilities are not returned", "unsupported");
  const several = severalOf(asked);
  if (several.length * n > limits.choices)
    throw badField(
      "prompt",
      `prompt: at most ${limits.choices} completions can be asked for at once, got ${several.length * n}`,
    );
  const prompts = await promptsOf(several, "prompt", model);
  const stop = stopsOf(body);
  const sampling = samplingOf(body, model.lm.defaults);
  const logitBias = logitBiasOf(body, model.engine.vocabulary);
  const { rule, param } = structureRule(body);
  const max_tokens = body.max_tokens ?? Math.min(usualTokens, limits.newTokens);
  const endTokens = endTokensOf(body, model.endTokens, rule !== undefined);
  const asks = prompts.map((prompt) => {
    const maxTokens = maxTokensOf({ max_tokens }, "prompt", prompt.length, model.engine.context, limits);
    const minTokens = minTokensOf(body, maxTokens) ?? 0;
    const ends = { stop, minTokens, stopsFrom: minTokens, endTokens };
    return { prompt, maxTokens, sampling, ...ends, logitBias, logprobs: logprobs ?? undefined };
  });
  const constraints = await model.constraints(rule, param, prompts.length * n);
  const echoes =
    echo === true ? prompts.flatMap((prompt) => Array<string>(n).fill(model.lm.tokenizer.decode(prompt))) : [];
  return {
    asks: asks.flatMap((ask, at) => asksOf(ask, n, constraints.slice(at * n, (at + 1) * n))),
    answer: new CompletionAnswer(model, prompts.length * n, echoes, {
      logprobs: typeof logprobs === "number",
      usage: stream_options?.include_usage === true,
    }),
    stream: stream === true,
    priority,
    shown: asked,
  };
}

/** A prompt, as text or tokens. */
type GivenPrompt = string | readonly number[];

/** Every prompt by itself. */
export const severalOf = (given: z.infer<typeof promptField>): readonly GivenPrompt[] =>
  typeof given === "string"
    ? [given]
    : typeof given[0] === "number"
      ? [given as number[]]
      : (given as string[] | number[][]);

/** The tokens of every prompt; throws for what is none of the vocabulary, and for texts that are too long before any is read. */
export async function promptsOf(
  several: readonly GivenPrompt[],
  param: string,
  model: ServedModel,
): Promise<readonly (readonly number[])[]> {
  for (const prompt of several)
    if (typeof prompt === "string") model.requireLength(param, prompt.length);
    else requireTokens(prompt, param, model);
  const prompts: (readonly number[])[] = [];
  for (const prompt of several) prompts.push(typeof prompt === "string" ? await model.encode(param, prompt) : prompt);
  return prompts;
}

/** Throws for what is no token of the vocabulary. */
export function requireTokens(tokens: readonly number[], param: string, { engine }: ServedModel): void {
  const wrong = tokens.find((token) => token >= engine.vocabulary);
  if (wrong !== undefined) throw badField(param, `${param}: tokens must be below ${engine.vocabulary}, got ${wrong}`);
}

/** The answer of one completion. */
class CompletionAnswer implements Answer {
  readonly heldBytes = 0;
  readonly #model: ServedModel;
  readonly #texts: WholeText[];
  /** What stands before each text. */
  readonly #echoes: readonly string[];
  readonly #tells: { readonly logprobs: boolean; readonly usage: boolean };
  readonly #id = newId("cmpl-");
  readonly #created = nowSeconds();

  constructor(
    model: ServedModel,
    count: number,
    echoes: readonly string[],
    tells: { logprobs: boolean; usage: boolean },
  ) {
    this.#model = model;
    this.#texts = Array.from({ length: count }, () => new WholeText());
    this.#echoes = echoes;
    this.#tells = tells;
  }

  begin(): readonly StreamEvent[] {
    return this.#echoes.map((text, index) => this.#chunk(index, text, [], 0, null));
  }

  event(index: number, event: TextEvent): readonly StreamEvent[] {
    const before = this.#texts[index].content.length;
    this.#texts[index].add(event);
    if (event.kind === "content") return [this.#chunk(index, event.text, event.tokens, before, null)];
    return event.kind === "finish" ? [this.#chunk(index, "", [], before, event.reason)] : [];
  }

  end(usage: Usage): readonly StreamEvent[] {
    const last = dataEvent({ ...this.#head(), choices: [], usage: usageBody(usage) });
    return this.#tells.usage ? [last, doneEvent] : [doneEvent];
  }

  failed(error: ApiError): readonly StreamEvent[] {
    return [dataEvent(error.body)];
  }

  body(usage: Usage): object {
    const choices = this.#texts.map(({ content, tokens: told, finish }, index) => ({
      index,
      text: (this.#echoes[index] ?? "") + content,
      logprobs: this.#told(told, 0),
      finish_reason: finish,
    }));
    return { ...this.#head(), choices, usage: usageBody(usage) };
  }

  #head(): object {
    return { id: this.#id, object: "text_completion", created: this.#created, model: this.#model.name };
  }

  #told(told: readonly ToldToken[], offset: number): object | null {
    return this.#tells.logprobs ? completionLogprobs(told, this.#model.lm.tokenizer, offset) : null;
  }

  #chunk(index: number, text: string, told: readonly ToldToken[], offset: number, finish: string | null): StreamEvent {
    return dataEvent({
      ...this.#head(),
      choices: [{ index, text, logprobs: this.#told(told, offset), finish_reason: finish }],
      ...(this.#tells.usage ? { usage: null } : {}),
    });
  }
}
