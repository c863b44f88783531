/** GroupQueryAttention's inner part: each query over the keys that it may see, with softcap, bias, window and sink. */
import { type Numbers, readNumbers, writeNumbers } from "../../tensor/access.js";
import { View } from "../../tensor/view.js";
import { scoreKeys, softmaxRange, weighValues } from "../shared/loops/attention-rows.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import type { RowFormat } from "./cache.js";
import type { Attributes } from "./call.js";

/** A cache and how its rows are read. */
interface Rows {
  readonly rows: View; // [batch, kv heads, rows, row]
  readonly format: RowFormat;
}

/** One attention of a whole batch. */
interface GroupAttention {
  readonly queries: View; // [batch, heads, length, size]
  readonly keys: Rows;
  readonly values: Rows;
  /** Keys of each sample. */
  readonly totals: readonly number[];
  /** Keys of each sample that come before its first query. */
  readonly offsets: readonly number[];
  readonly attrs: Attributes;
  readonly bias: View | undefined; // [batch or 1, heads or 1, length, total]
  readonly sinks: Numbers | undefined; // [heads]
  readonly output: View | undefined; // [batch, heads, length, size]
  readonly scores: View | undefined; // [batch, heads, length, total]
}

/** Computes output and scores. */
export function attendGroups(attention: GroupAttention): void {
  const { queries, totals, attrs, sinks, output, scores } = attention;
  const [batch, heads, length, size] = queries.shape;
  const group = heads / attrs.kv_num_heads; // query heads that share a key head
  const factor = attrs.scale === 0 ? 1 / Math.sqrt(size) : attrs.scale;
  const result = float64Scratch(queries.size);
  const shown = scores && { values: float64Scratch(scores.size), width: scores.shape[3] };
  for (let sample = 0; sample < batch; sample++) {
    const row = float64Scratch(totals[sample]);
    for (let head = 0; head < heads; head++) {
      const { keys, values } = rowsOf(attention, sample, Math.floor(head / group));
      const rows = readNumbers(queries.slice(0, sample, sample + 1).slice(1, head, head + 1)); // [length, size]
      const sink = sinks?.[head] ?? (attrs.smooth_softmax ? 0 : undefined);
      for (let query = 0; query < length; query++) {
        const at = (sample * heads + head) * length + query;
        const { from, to } = visible(attention, sample, query);
        const show = (): void => shown?.values.set(row.subarray(from, to), at * shown.width + from);
        scoreKeys(row, { rows, row: query }, keys, { from, to, size, factor });
        adjust(attention, row, { sample, head, query, from, to });
        if (attrs.qk_output === 1) show();
        softmaxRange(row, from, to, sink);
        if (attrs.qk_output === 2) show();
        weighValues(result, at * size, row, values, { from, to, size });
      }
    }
  }
  if (output !== undefined) writeNumbers(output, result);
  if (scores !== undefined && shown !== undefined) writeNumbers(scores, shown.values);
}

/** The keys that a query sees: those up to its own place, no further back than the window. */
function visible(
  { totals, offsets, attrs }: GroupAttention,
  sample: number,
  query: number,
): { from: number; to: number } {
  const { causal, local_window_size: window } = attrs;
  const to = causal ? Math.min(offsets[sample] + query + 1, totals[sample]) : totals[sample];
  return { from: window >= 0 ? Math.max(0, to - window) : 0, to };
}

/** Softcap, then bias. */
function adjust(
  { attrs, bias }: GroupAttention,
  row: Float64Array,
  { sample, head, query, from, to }: { sample: number; head: number; query: number; from: number; to: number },
): void {
  const { softcap } = attrs;
  if (softcap > 0) for (let key = from; key < to; key++) row[key] = softcap * Math.tanh(row[key] / softcap);
  if (bias === undefined) return;
  const added = readNumbers(biasRow(bias, sample, head, query));
  for (let key = from; key < to; key++) row[key] += added[key];
}

function biasRow(bias: View, sample: number, head: number, query: number): View {
  const at = (view: View, axis: number, index: number): View => {
    const place = view.shape[axis] === 1 ? 0 : index;
    return view.slice(axis, place, place + 1);
  };
  return at(at(at(bias, 0, sample), 1, head), 2, query);
}

/** The keys and values of one sample and key head as numbers, [total, size]. */
function rowsOf(
  { keys, values, totals }: GroupAttention,
  sample: number,
  head: number,
): { keys: Numbers; values: Numbers } {
  const read = ({ rows, format }: Rows): Numbers => {
    const part = rows
      .slice(0, sample, sample + 1)
      .slice(1, head, head + 1)
      .slice(2, 0, totals[sample]);
    const [, , count, width] = part.shape;
    return format.decode(new View(part.type, [count, width], part.data, part.offset, part.strides.slice(2)), head);
  };
  return { keys: read(keys), values: read(values) };
}
