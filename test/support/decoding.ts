// The generated decoder in the form of ONNX's in-place page, and a way to feed it tokens.
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";
import type { Session } from "../../src/session/session.js";
import type { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";

export const int64 = (values: readonly number[], dims: readonly number[] = [values.length]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), dims);

/** A session of the small generated decoder. */
export const decoderSession = (options: SessionOptions = {}): Promise<InferenceSession> =>
  InferenceSession.create(writeModel(generatedDecoder(smallSizes)), options);

/** Feeds for one row of tokens a sample, each sample at its own position. */
export function tokenFeeds(rows: readonly (readonly number[])[], starts: readonly number[]): Record<string, Tensor> {
  const dims = [rows.length, rows[0].length];
  return {
    input_ids: int64(rows.flat(), dims),
    position_ids: int64(
      rows.flatMap((row, sample) => row.map((_, index) => starts[sample] + index)),
      dims,
    ),
  };
}

/** Runs tokens of one sample on a state; the last position's logits. */
export async function step(session: Session, state: State, tokens: readonly number[]): Promise<Float32Array> {
  const { logits } = await session.run(tokenFeeds([tokens], state.lengths), { state });
  return (logits.data as Float32Array).slice(-smallSizes.vocabulary);
}

/** A fixed, varied token for each position. */
export const tokenAt = (position: number): number => (position * 37 + 11) % smallSizes.vocabulary;

export const tokens = (from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, index) => tokenAt(from + index));
