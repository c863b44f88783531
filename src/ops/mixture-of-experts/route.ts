/** Which experts each token goes to, and with what weight: onnxruntime's routing, from scores that no softmax has seen. */
import type { Numbers } from "../../tensor/access.js";

/** How experts are chosen. */
interface Routing {
  readonly k: number;
  readonly normalize: boolean;
  /** Phi-3.5's way of two experts: each is weighed against those whose scores are near its own. */
  readonly sparseMixer: boolean;
}

/** The experts of one token, best first, with their weights. */
export interface Routes {
  readonly experts: readonly number[];
  readonly weights: readonly number[];
}

/** Scores further below the best than this share of the larger of both are left out by the sparse mixer. */
const nearness = 0.02;

/** The routes of the token whose scores start at `start`. `given` has weights that replace those of scores and mixer. */
export function routeToken(
  scores: Numbers,
  start: number,
  count: number,
  { k, normalize, sparseMixer }: Routing,
  given: Numbers | undefined,
): Routes {
  const row = Array.from({ length: count }, (_, expert) => Number(scores[start + expert]));
  const experts = bestOf(row, k);
  if (given === undefined) {
    if (sparseMixer) return { experts, weights: mixed(row, experts) };
    const most = row[experts[0]];
    const over = normalize ? experts : row.keys();
    let sum = 0;
    for (const expert of over) sum += Math.exp(row[expert] - most);
    return { experts, weights: experts.map((expert) => Math.exp(row[expert] - most) / sum) };
  }
  const weights = experts.map((expert) => Number(given[start + expert]));
  if (!normalize) return { experts, weights };
  const sum = weights.reduce((all, weight) => all + weight, 0);
  return { experts, weights: weights.map((weight) => (sum === 0 ? 0 : weight / sum)) };
}

/** The `k` experts with the highest scores; of equal ones the last comes first, as in onnxruntime, and NaN counts as the lowest. */
function bestOf(row: readonly number[], k: number): number[] {
  const rank = (expert: number): number => (Number.isNaN(row[expert]) ? -Infinity : row[expert]);
  return [...row.keys()].toSorted((a, b) => (rank(a) === rank(b) ? b - a : rank(b) - rank(a))).slice(0, k);
}

function mixed(row: readonly number[], experts: readonly number[]): number[] {
  return experts.map((expert, place) => {
    const best = row[expert];
    let sum = 0;
    for (const [other, score] of row.entries()) {
      const taken = place > 0 && other === experts[0];
      if (!taken && best - score <= nearness * Math.max(Math.abs(score), best)) sum += Math.exp(score - best);
    }
    return sum === 0 ? 0 : 1 / sum;
  });
}
