// A page that uses transformers.js and knows nothing of what computes beneath it.
import { env, pipeline, TextStreamer } from "@huggingface/transformers";

env.allowRemoteModels = false;
env.allowLocalModels = true;
env.localModelPath = "/models/";
env.useBrowserCache = false;

/** The text behind a prompt, as pieces of it come. */
globalThis.generateText = async (name, prompt, options) => {
  const generator = await pipeline("text-generation", name, { dtype: "fp32", ...options });
  const pieces = [];
  const streamer = new TextStreamer(generator.tokenizer, {
    skip_prompt: true,
    callback_function: (text) => pieces.push(text),
  });
  const [{ generated_text: text }] = await generator(prompt, { max_new_tokens: 12, do_sample: false, streamer });
  const { presents } = generator.model.sessions.model.explain({ json: true });
  const { backend } = generator.model.sessions.model;
  await generator.dispose();
  return { text, streamed: pieces.join(""), presents, backend };
};
