/**
 * What a model that draws its own next token is asked and what it answers. Imports nothing: who runs such a model needs these words and not
 * the rewriter.
 */

/** The inputs that say how a token is drawn. Each has a default: left out, the likeliest is taken. */
export const samplingInputs = {
  options: "sampling_options",
  topK: "sampling_top_k",
  seed: "sampling_seed",
  counter: "sampling_counter",
  seen: "sampling_seen",
} as const;

/** The outputs: the token, −1 where the logits are no numbers to choose by; the same as the next run reads it, and the tokens that were seen then. */
export const samplingOutputs = { token: "next_token", input: "next_input_ids", seen: "next_sampling_seen" } as const;

/** The input that says which rows of logits come to the host beside tokens that are drawn, and the output that has them. */
export const hostRows = "sampling_host_rows";
export const hostLogits = "host_logits";

/** Words of 32 bits, one bit a token, that tell which tokens of a vocabulary were seen. */
export const seenWords = (vocabulary: number): number => Math.ceil(vocabulary / 32);
