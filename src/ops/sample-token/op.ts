/** SampleToken: the next token of each text, drawn from its logits. Chance is an operand: the same seed and counter draw the same token. */
import { leastTemperature, mostNucleus, TokenNoise } from "../../base/token-noise.js";
import { isKnown } from "../../graph/dim.js";
import { defineOp, tensor } from "../../graph/op.js";
import { readBigInts, readNumbers, writeBigInts } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { floats } from "../shared/rules/types.js";

/**
 * The token after the last row of logits [batch, rows, vocabulary]. Temperature 0 takes the likeliest, the first of several; above it the draw
 * is from the softmax of logits / temperature over the `top_k` likeliest (0: all; the first of those that are equal at the edge), of them as
 * many of the likeliest as have the share `top_p` of their probability, of them those at least `min_p` times as likely as the likeliest. Where
 * `top_p` is below 1, 1,024 are looked at at most. It is made by Gumbel's maximum, with the noise of each text's `seed` and `counter`.
 * NaN is never taken; where no logit is a largest number, the token is −1. `next_input` is the token as the next run reads it: 0 in that case.
 * Each option has a number for each text, or one that serves all.
 */
export const SampleToken = defineOp({
  name: "SampleToken",
  domain: "insitu",
  since: 1,
  types: { T: floats },
  inputs: {
    logits: tensor("T"),
    temperature: tensor("float32"),
    top_k: tensor("int64"),
    top_p: tensor("float32"),
    min_p: tensor("float32"),
    seed: tensor("int64"),
    counter: tensor("int64"),
  },
  outputs: { token: tensor("int64"), next_input: tensor("int64") },

  infer(call) {
    const { logits, temperature, top_k, top_p, min_p, seed, counter } = call.inputs;
    const { shape } = logits;
    if (shape === undefined) return { token: {}, next_input: {} };
    call.check(shape.length === 3, () => `logits must have 3 dimensions, got [${shape.join(",")}]`);
    call.check(shape[1] !== 0 && shape[2] !== 0, () => `logits must hold a row, got [${shape.join(",")}]`);
    for (const [name, { shape: list }] of Object.entries({ temperature, top_k, top_p, min_p, seed, counter }))
      call.check(
        list === undefined ||
          list.length === 0 ||
          (list.length === 1 && (list[0] === 1 || !isKnown(list[0]) || !isKnown(shape[0]) || list[0] === shape[0])),
        () =>
          `${name} must have one number, or one for each text of logits [${shape.join(",")}], got [${list!.join(",")}]`,
      );
    return { token: { shape: [shape[0], 1] }, next_input: { shape: [shape[0], 1] } };
  },

  reference(call) {
    const { inputs, outputs } = call;
    const { logits } = inputs;
    const [batch, rows, vocabulary] = logits.shape;
    const numbers = (view: View): ArrayLike<number> => readNumbers(view) as ArrayLike<number>;
    const [temperatures, nuclei, shares] = [inputs.temperature, inputs.top_p, inputs.min_p].map(numbers);
    const [counts, seeds, counters] = [inputs.top_k, inputs.seed, inputs.counter].map(readBigInts);
    const tokens = Array.from({ length: batch }, (_, text) => {
      const own = <N>(list: ArrayLike<N>): N => list[list.length === 1 ? 0 : text];
      const [temperature, nucleus, share, count] = [own(temperatures), own(nuclei), own(shares), Number(own(counts))];
      const row = logits.slice(0, text, text + 1).slice(1, rows - 1, rows);
      const scores = Float64Array.from(readNumbers(row));
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
  },

  work: ({ inputs: { logits } }) =>
    16 * (logits.shape ?? []).reduce<number>((product, dim) => product * (isKnown(dim) ? dim : 1), 1),
});

/** As many of the tokens, likeliest first, as have this share of their weight. */
function nucleusOf(tokens: readonly number[], share: number, weight: (token: number) => number): readonly number[] {
  if (!(share < 1)) return tokens;
  const looked = tokens.slice(0, mostNucleus);
  let left = share * looked.reduce((sum, token) => sum + weight(token), 0);
  const end = looked.findIndex((token) => (left -= weight(token)) <= 0);
  return end < 0 ? looked : looked.slice(0, end + 1);
}
