// Decoders on pages and in linear caches, side by side.
import { pages } from "../../src/cache/pages.js";
import type { PagesOptions } from "../../packages/rewrite/page-names.js";
import { type DecoderForm, type DecoderSizes, generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";
import { step } from "../support/decoding.js";

/** The small generated decoder as bytes. */
export const decoderBytes = (form: DecoderForm = {}, sizes: DecoderSizes = smallSizes): Uint8Array =>
  writeModel(generatedDecoder(sizes, form));

/** A session of a model on pages, whose caches must be written in place. */
export const pagedSession = (
  model: Uint8Array | string,
  options: PagesOptions = {},
  session: SessionOptions = {},
): Promise<InferenceSession> =>
  InferenceSession.create(model, { inPlace: "require", ...session, change: pages(options) });

/** What a linear cache answers to each token of a text: one row of logits a token. */
export async function linearLogits(session: InferenceSession, tokens: readonly number[]): Promise<Float32Array[]> {
  const state = session.createState({ dims: { capacity: tokens.length } });
  const rows: Float32Array[] = [];
  for (const token of tokens) rows.push(await step(session, state, [token]));
  state.release();
  return rows;
}

export { distance } from "../support/compare.js";
