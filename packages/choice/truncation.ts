/**
 * Which scores stay when only the likeliest may be chosen: the least of them, and how many there are. Finds them without sorting a whole
 * vocabulary. Draws nothing.
 */
import { replaceRoot } from "#insitu/base/heap.js";

/** What stays: scores above `least`, and the first of those that equal it until there are `count`. */
interface Kept {
  readonly least: number;
  readonly count: number;
}

/** Fewer than one in so many, and the largest are picked out; more, and all are sorted. */
const fewShare = 8;

/** How far below the best score the first look at a nucleus reaches, in temperatures. */
const firstReach = 4;

/** Memory for scores, kept from choice to choice. */
export class Truncation {
  #room = new Float32Array(0);

  /** The `topK` largest scores, and of their weight the largest ones that have the share `topP`; `topK` 0 is all of them. */
  keep(scores: Float32Array, best: number, temperature: number, topK: number, topP: number): Kept {
    if (this.#room.length < scores.length) this.#room = new Float32Array(scores.length);
    if (topK === 0 || topK >= scores.length) {
      if (topP >= 1) return { least: -Infinity, count: scores.length };
      return this.#nucleusOfAll(scores, best, temperature, topP);
    }
    const sorted = this.#largest(scores, topK);
    if (topP >= 1) return { least: sorted[topK - 1], count: topK };
    let total = 0;
    for (const score of sorted) total += Math.exp((score - best) / temperature);
    return nucleus(sorted, best, temperature, topP * total) ?? { least: sorted[topK - 1], count: topK };
  }

  /** The `count` largest scores, largest first. */
  #largest(scores: Float32Array, count: number): Float32Array {
    if (count * fewShare > scores.length) {
      const all = this.#room.subarray(0, scores.length);
      all.set(scores);
      return all.sort().reverse().subarray(0, count);
    }
    // A heap whose root is the smallest of the largest so far.
    const heap = this.#room.subarray(0, count);
    heap.set(scores.subarray(0, count));
    heap.sort();
    for (let at = count; at < scores.length; at++) if (scores[at] > heap[0]) replaceRoot(heap, scores[at]);
    return heap.sort().reverse();
  }

  /** The nucleus where every token counts: looks at the scores near the best one, and further down only where they do not suffice. */
  #nucleusOfAll(scores: Float32Array, best: number, temperature: number, topP: number): Kept {
    let total = 0;
    for (let at = 0; at < scores.length; at++) total += Math.exp((scores[at] - best) / temperature);
    for (let reach = firstReach; ; reach *= 2) {
      const bound = best - reach * temperature;
      let near = 0;
      for (let at = 0; at < scores.length; at++) if (scores[at] >= bound) this.#room[near++] = scores[at];
      const sorted = this.#room.subarray(0, near).sort().reverse();
      const kept = nucleus(sorted, best, temperature, topP * total);
      if (kept !== undefined) return kept;
      if (near === scores.length || reach > 1e6) return { least: -Infinity, count: scores.length };
    }
  }
}

/** As many of the sorted scores as it takes for `wanted` of weight; undefined where they do not have it. */
function nucleus(sorted: Float32Array, best: number, temperature: number, wanted: number): Kept | undefined {
  let sum = 0;
  for (let at = 0; at < sorted.length; at++) {
    sum += Math.exp((sorted[at] - best) / temperature);
    if (sum >= wanted) return { least: sorted[at], count: at + 1 };
  }
  return undefined;
}
