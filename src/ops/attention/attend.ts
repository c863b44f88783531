/**
 * Scaled dot-product attention on views, the reference implementation: Y = softmax(cap(√scale·Q · (√scale·K)ᵀ) + bias)·V. Each stage is a tensor
 * of the type of Q and is rounded as one; within a stage sums are exact to float64. Keys and values that no query may see are not
 * read.
 */
import type { ElementType } from "../../tensor/element-type.js";
import { numberWriter } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { readRows, type Range } from "./heads.js";
import type { Bias } from "./mask.js";
import { rounder } from "./rounding.js";
import { softmaxRow } from "./softmax.js";
import { type Placement, reachOf, visibleKeys } from "./visible.js";

/** What the scores output shows: the scaled product, after softcap, after the mask, after softmax. */
export type ScoresMode = 0 | 1 | 2 | 3;

/** One attention. */
interface Attention {
  readonly queries: View; // [batch, heads, queries, size]
  /** One after the other along the length: together [batch, kv heads, total, size]. */
  readonly keys: readonly View[];
  readonly values: readonly View[]; // together [batch, kv heads, total, value size]
  readonly output: View | undefined; // [batch, heads, queries, value size]
  readonly scores: { readonly view: View; readonly mode: ScoresMode } | undefined; // [batch, heads, queries, total]
  readonly placement: Placement;
  readonly bias: Bias | undefined;
  readonly scale: number;
  /** 0 for none. */
  readonly softcap: number;
  /** The type that softmax works in. */
  readonly softmaxType: ElementType;
  /** One a head: scores that take part in each softmax and bring no value. */
  readonly sinks?: ArrayLike<number> | undefined;
}

/** Computes one attention into its outputs. */
export function attend(attention: Attention): void {
  const { queries, keys, values, placement, scores, scale } = attention;
  const [batch, heads, length] = queries.shape;
  const kvHeads = keys[0].shape[1];
  const group = heads / kvHeads; // query heads that share a key head
  const round = rounder(queries.type);
  const root = round(Math.sqrt(Math.abs(scale)));
  for (let sample = 0; sample < batch; sample++) {
    // The product and the capped product are shown for every key, visible or not.
    const showsAll = scores !== undefined && scores.mode < 2;
    const range = showsAll ? { from: 0, to: placement.total } : reachOf(placement, sample);
    for (let kvHead = 0; kvHead < kvHeads; kvHead++) {
      const keyRows = readRows(keys, sample, kvHead, range).map((key) => round(key * root)); // [range, size]
      const valueRows = readRows(values, sample, kvHead, range); // [range, value size]
      for (let head = kvHead * group; head < (kvHead + 1) * group; head++) {
        const queryRows = readRows([queries], sample, head, { from: 0, to: length }) // [queries, size]
          .map((query) => round(query * root) * Math.sign(scale));
        for (let query = 0; query < length; query++) {
          attendRow(attention, { sample, head, query, range, queryRows, keyRows, valueRows, round });
        }
      }
    }
  }
}

/** One query of one head, with the rows it works on. */
interface Row {
  readonly sample: number;
  readonly head: number;
  readonly query: number;
  /** The keys and values that were read. */
  readonly range: Range;
  readonly queryRows: Float64Array;
  readonly keyRows: Float64Array;
  readonly valueRows: Float64Array;
  /** To the type of Q. */
  readonly round: (value: number) => number;
}

function attendRow(attention: Attention, row: Row): void {
  const { placement, bias, output, scores } = attention;
  const { sample, head, query, range, round } = row;
  // All of these count keys from range.from.
  const products = productsOf(row, attention.queries.shape[3]);
  const capped = capProducts(products, attention.softcap, round);
  const logits = new Float64Array(products.length).fill(-Infinity);
  const attended: number[] = [];
  const visible = visibleKeys(placement, sample, query);
  for (let key = visible.from; key < visible.to; key++) {
    const at = key - range.from;
    const added = bias === undefined ? 0 : bias(sample, head, query, key);
    // Position and mask alone decide who takes part: what the score is does not matter.
    if (added === -Infinity) continue;
    attended.push(at);
    logits[at] = round(capped[at] + added);
  }
  // A query that attends to nothing has a row of zeros.
  const weights =
    attended.length === 0
      ? new Float64Array(logits.length)
      : softmaxRow(logits, attention.softmaxType, range.from, attention.sinks?.[head]).map(round);
  if (output !== undefined) {
    writeRow(output, row, weighedValues(weights, attended, row.valueRows, output.shape[3]));
  }
  if (scores === undefined) return;
  if (scores.mode >= 2) {
    writeRow(scores.view, row, new Float64Array(placement.total).fill(scores.mode === 2 ? -Infinity : 0));
  }
  writeRow(scores.view, row, [products, capped, logits, weights][scores.mode], range.from);
}

/** q·k for every key of the range. */
function productsOf({ query, queryRows, keyRows, range, round }: Row, size: number): Float64Array {
  const products = new Float64Array(range.to - range.from);
  for (let key = 0; key < products.length; key++) {
    let sum = 0;
    for (let i = 0; i < size; i++) sum += queryRows[query * size + i] * keyRows[key * size + i];
    products[key] = round(sum);
  }
  return products;
}

function capProducts(products: Float64Array, softcap: number, round: (value: number) => number): Float64Array {
  if (softcap === 0) return products;
  const cap = round(softcap);
  return products.map((product) => round(round(Math.tanh(round(product / cap))) * cap));
}

/** Σ weight · value over the attended keys; the others' values are not looked at. */
function weighedValues(
  weights: Float64Array,
  attended: readonly number[],
  valueRows: Float64Array,
  size: number,
): Float64Array {
  const result = new Float64Array(size);
  for (const key of attended) {
    for (let i = 0; i < size; i++) result[i] += weights[key] * valueRows[key * size + i];
  }
  return result;
}

/** Writes values into a row of [batch, heads, queries, …] from `start` on. */
function writeRow(view: View, { sample, head, query }: Row, values: Float64Array, start = 0): void {
  const write = numberWriter(view);
  const [sampleStep, headStep, rowStep, step] = view.strides;
  const first = view.offset + sample * sampleStep + head * headStep + query * rowStep + start * step;
  for (let i = 0; i < values.length; i++) write(first + i * step, values[i]);
}
