/** SampleToken: the next token of each text, drawn from its logits. Chance is an operand: the same seed and counter draw the same token. */
import { leastTemperature, mostNucleus, TokenNoise } from "../../base/token-noise.js";
import { isKnown, shapeText } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { readBigInts, readIntegers, readNumbers, writeBigInts, writeIntegers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { floats } from "../shared/rules/types.js";

/**
 * The token after the last row of logits [batch, rows, vocabulary]. `options` are [temperature, top_p, min_p, repetition_penalty]. Logits of tokens
 * that were `seen` (a bit each, in words of 32) are divided by the penalty, or multiplied where negative. Temperature 0 takes the likeliest, the
 * first of several; above it the draw is from the softmax of logits / temperature over the `top_k` likeliest (0: all; the first of those that are
 * equal at the edge), of them as many of the likeliest as have the share top_p of their probability, of them those at least min_p times as
 * likely as the likeliest. Where top_p is below 1, 1,024 are looked at at most. It is made by Gumbel's maximum, with the noise of each
 * text's `seed` and `counter`. NaN is never taken; where no logit is a largest number, the token is −1. `next_input` is the token as the next run reads
 * it: 0 in that case. `next_seen` has the token among those that were seen. Each operand has a row for each text, or one that serves all.
 */
export const SampleToken = defineOp({
  name: "SampleToken",
  domain: "insitu",
  since: 1,
  types: { T: floats },
  inputs: {
    logits: tensor("T"),
    options: tensor("float32"),
    top_k: tensor("int64"),
    seed: tensor("int64"),
    counter: tensor("int64"),
    seen: tensor("int32"),
  },
  outputs: { token: tensor("int64"), next_input: tensor("int64"), next_seen: tensor("int32") },

  infer(call) {
    const { logits, options, top_k, seed, counter, seen } = call.inputs;
    const { shape } = logits;
    if (shape === undefined) return { token: {}, next_input: {}, next_seen: {} };
    call.check(shape.length === 3, () => `logits must have 3 dimensions, got [${shape.join(",")}]`);
    call.check(shape[1] !== 0 && shape[2] !== 0, () => `logits must hold a row, got [${shape.join(",")}]`);
    for (const [name, { shape: list }] of Object.entries({ top_k, seed, counter }))
      call.check(
        list === undefined || list.length === 0 || (list.length === 1 && isForEach(list[0], shape[0])),
        () =>
          `${name} must have one number, or one for each text of logits [${shape.join(",")}], got [${list!.join(",")}]`,
      );
    checkRows(call, "options", options, shape[0], 4);
    const [, , vocabulary] = shape;
    const words = isKnown(vocabulary) ? Math.ceil(vocabulary / 32) : undefined;
    checkRows(call, "seen", seen, shape[0], words);
    const one = { shape: [shape[0], 1] };
    const size = words ?? seen.shape?.[1];
    return { token: one, next_input: one, next_seen: size === undefined ? {} : { shape: [shape[0], size] } };
  },

  reference(call) {
    const { inputs, outputs } = call;
    const { logits, seen } = inputs;
    const [batch, rows, vocabulary] = logits.shape;
    const options = readNumbers(inputs.options) as ArrayLike<number>;
    const [counts, seeds, counters] = [inputs.top_k, inputs.seed, inputs.counter].map(readBigInts);
    const [marks, words] = [readIntegers(seen), seen.shape[1]];
    const rowOf = (view: View, text: number): number => (view.shape[0] === 1 ? 0 : text);
    const tokens = Array.from({ length: batch }, (_, text) => {
      const own = <N>(list: ArrayLike<N>): N => list[list.length === 1 ? 0 : text];
      const from = 4 * rowOf(inputs.options, text);
      const [temperature, nucleus, share, penalty] = [0, 1, 2, 3].map((at) => options[from + at]);
      const count = Number(own(counts));
      const row = logits.slice(0, text, text + 1).slice(1, rows - 1, rows);
      const scores = Float64Array.from(readNumbers(row));
      const isSeen = (token: number): boolean =>
        ((marks[words * rowOf(seen, text) + (token >> 5)] >> (token & 31)) & 1) === 1;
      if (penalty !== 1)
        scores.forEach((score, token) => {
          if (isSeen(token)) scores[token] = Math.fround(score * (score > 0 ? 1 / penalty : penalty));
        });
      const order = Array.from({ length: vocabulary }, (_, token) => token)
        .filter((token) => !Number.isNaN(scores[token]))
        .toSorted((a, b) => scores[b] - scores[a] || a - b);
      const most = scores[order[0]];
      if (!Number.isFinite(most)) return -1;
      if (!(temperature >= leastTemperature)) return order[0];
      const weight = (token: number): number => Math.exp((scores[token] - most) / temperature);
      const likeliest = nucleusOf(count > 0 ? order.slice(0, count) : order, nucleus, weight);
      const least = share > 0 ? most + temperature * Math.log(share) : -Infinity;
      const noise = new TokenNoise(own(seeds));
      noise.begin(Number(BigInt.asUintN(32, own(counters))));
      let [best, largest] = [order[0], -Infinity];
      for (const token of likeliest.filter((each) => scores[each] >= least).toSorted((a, b) => a - b)) {
        const key = (scores[token] - most) / temperature + noise.at(token);
        if (key > largest) [best, largest] = [token, key];
      }
      return best;
    });
    if (call.wants("token")) writeBigInts(outputs.token, tokens.map(BigInt));
    if (call.wants("next_input"))
      writeBigInts(
        outputs.next_input,
        tokens.map((token) => BigInt(Math.max(0, token))),
      );
    if (call.wants("next_seen"))
      writeIntegers(
        outputs.next_seen,
        tokens.flatMap((token, text) =>
          Array.from({ length: words }, (_, word) => {
            const mark = marks[words * rowOf(seen, text) + word];
            return token >> 5 === word ? mark | (1 << (token & 31)) : mark;
          }),
        ),
      );
  },

  work: ({ inputs: { logits } }) =>
    16 * (logits.shape ?? []).reduce<number>((product, dim) => product * (isKnown(dim) ? dim : 1), 1),
});

type Dimension = NonNullable<Fact["shape"]>[number];

/** True for a dimension of one entry, or of one for each text. */
const isForEach = (dim: Dimension, texts: Dimension): boolean =>
  dim === 1 || !isKnown(dim) || !isKnown(texts) || dim === texts;

function checkRows(call: CallContext, name: string, { shape }: Fact, texts: Dimension, size: number | undefined): void {
  const fits =
    shape === undefined ||
    (shape.length === 2 &&
      isForEach(shape[0], texts) &&
      (size === undefined || !isKnown(shape[1]) || shape[1] === size));
  call.check(
    fits,
    () =>
      `${name} must be [1,${size ?? "words"}], or have a row for each of ${String(texts)} texts, got ${shapeText(shape!)}`,
  );
}

/** As many of the tokens, likeliest first, as have this share of their weight. */
function nucleusOf(tokens: readonly number[], share: number, weight: (token: number) => number): readonly number[] {
  if (!(share < 1)) return tokens;
  const looked = tokens.slice(0, mostNucleus);
  let left = share * looked.reduce((sum, token) => sum + weight(token), 0);
  const end = looked.findIndex((token) => (left -= weight(token)) <= 0);
  return end < 0 ? looked : looked.slice(0, end + 1);
}
