/** What logits say of tokens in probabilities: the log-probability of one, and the likeliest. Chooses nothing. */

/** A table's steps for each unit, and how far down it reaches: what lies further below the largest adds nothing to a sum in float64. */
const [steps, reach] = [16, 46];

/** exp(-index / steps). */
const table = Float64Array.from({ length: steps * reach }, (_, index) => Math.exp(-index / steps));

/** The sum of exp(logit - most), each exact to 1e-10: a vocabulary of them for every token is worth a table. */
function sumOfShares(logits: Float32Array, most: number): number {
  let sum = 0;
  for (let token = 0; token < logits.length; token++) {
    const below = (most - logits[token]) * steps;
    if (below >= steps * reach) continue;
    const step = below | 0;
    const rest = (step - below) / steps;
    sum += table[step] * (1 + rest * (1 + rest * (1 / 2 + rest * (1 / 6 + rest * (1 / 24 + rest / 120)))));
  }
  return sum;
}

/** The logarithm of the sum of the exponentials: what turns a logit into a log-probability. */
export function logSumExp(logits: Float32Array): number {
  let most = -Infinity;
  for (let token = 0; token < logits.length; token++) if (logits[token] > most) most = logits[token];
  return most + Math.log(sumOfShares(logits, most));
}

/** What is told of a chosen token: its log-probability, and the likeliest `count` at its place where there is a count; nothing where undefined. */
export function describeChoice(
  logits: Float32Array,
  token: number,
  count: number | undefined,
): { readonly logprob?: number; readonly top?: readonly { readonly token: number; readonly logprob: number }[] } {
  if (count === undefined) return {};
  const all = logSumExp(logits);
  const logprob = logits[token] - all;
  return count === 0 ? { logprob } : { logprob, top: likeliestTokens(logits, count, all) };
}

/** The `count` likeliest tokens, likeliest first, with their log-probabilities; `all` is the logits' `logSumExp`, where it is known. */
export function likeliestTokens(
  logits: Float32Array,
  count: number,
  all: number = logSumExp(logits),
): { token: number; logprob: number }[] {
  const best: { token: number; logprob: number }[] = [];
  // The logit that is to be passed, once there are enough.
  let least = -Infinity;
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token];
    if (best.length === count && !(logit > least)) continue;
    const logprob = logit - all;
    let at = best.length;
    while (at > 0 && best[at - 1].logprob < logprob) at--;
    best.splice(at, 0, { token, logprob });
    if (best.length > count) best.pop();
    if (best.length === count) least = logits[best[count - 1].token];
  }
  return best;
}
