/**
 * What a model that draws its own next token is asked and what it answers. Imports nothing: who runs such a model needs these words and not
 * the rewriter.
 */

/** The inputs that say how a token is drawn. Each has a default: left out, the likeliest is taken. */
export const samplingInputs = {
  temperature: "sampling_temperature",
  topK: "sampling_top_k",
  topP: "sampling_top_p",
  minP: "sampling_min_p",
  seed: "sampling_seed",
  counter: "sampling_counter",
} as const;

/** The outputs: the token, −1 where the logits are no numbers to choose by, and the same as the next run reads it. */
export const samplingOutputs = { token: "next_token", input: "next_input_ids" } as const;
