/** The texts of a conversation's answer as the engine is asked for them: alike at every door. */
import type { RequestedText } from "../text-group.js";
import type { SamplingBody } from "./fields.js";
import type { RequestLimits } from "./limits.js";
import { conversationEnds } from "./messages.js";
import { asksOf } from "./prepared.js";
import type { ReadReply } from "./reply.js";
import { endTokensOf, logitBiasOf, maxTokensOf, minTokensOf, samplingOf, stopsOf, type Wanted } from "./sampling.js";
import type { ServedModel } from "./served-model.js";

/** What a door read of a request beside the conversation. */
interface AskedReply {
  /** How tokens are chosen, and where the text ends. */
  readonly sampling: SamplingBody;
  /** New tokens at most, by the field that says so. */
  readonly wanted: Wanted;
  /** The field that the messages came in. */
  readonly param: string;
  /** How many of the likeliest tokens are told beside each; undefined tells none. */
  readonly logprobs?: number | undefined;
  /** How many texts; one where left out. */
  readonly count?: number;
}

/** The texts; their constraints are the caller's to release from here on. */
export async function replyAsks(
  model: ServedModel,
  reply: ReadReply,
  { sampling: body, wanted, param, logprobs, count = 1 }: AskedReply,
  limits: RequestLimits,
): Promise<readonly RequestedText[]> {
  const { prompt, reader, callId, isSingleCall } = reply;
  const maxTokens = maxTokensOf(wanted, param, prompt.length, model.engine.context, limits);
  const ask: RequestedText = {
    prompt,
    maxTokens,
    sampling: samplingOf(body, model.lm.defaults),
    ...conversationEnds(model, stopsOf(body), minTokensOf(body, maxTokens)),
    endTokens: endTokensOf(body, model.endTokens, reply.isRuled),
    logitBias: logitBiasOf(body, model.engine.vocabulary),
    logprobs,
    reader,
    callId,
    isSingleCall,
  };
  return asksOf(ask, count, await reply.constraints(count));
}
