/** GroupQueryAttention's reference implementation: turns queries and keys, writes the present, then attends over it. */
import { readIntegers, readNumbers, writeNumbers } from "../../tensor/access.js";
import { View } from "../../tensor/view.js";
import { headsView } from "../attention/heads.js";
import { rotateHead } from "../shared/loops/rotation.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { attendGroups } from "./attend.js";
import { appendRows, plainRows, quantizedRows, type RowFormat, slideRows, windowRows } from "./cache.js";
import {
  checkLengths,
  checkPositions,
  type GroupQueryCall,
  isPrompt,
  type OutputName,
  type Step,
  tokenPositions,
} from "./call.js";

/** The call of the reference implementation. */
interface RunGroupQueryCall extends GroupQueryCall<View> {
  readonly outputs: { readonly [N in OutputName]: View | undefined };
}

/** Computes every output that is asked for. */
export function runGroupQuery(call: RunGroupQueryCall): void {
  const { inputs, outputs, attrs } = call;
  const { query, past_key, past_value } = inputs;
  const { num_heads: heads, kv_num_heads: shared } = attrs;
  const packed = inputs.key === undefined && headsView(query, heads + 2 * shared);
  const queries = packed ? packed.slice(1, 0, heads) : headsView(query, heads); // [batch, heads, length, size]
  const keys = packed ? packed.slice(1, heads, heads + shared) : headsView(inputs.key!, shared); // [batch, kv heads, fresh, size]
  const values = packed ? packed.slice(1, heads + shared, heads + 2 * shared) : headsView(inputs.value!, shared);
  const [batch, , length, size] = queries.shape;
  const step: Step = {
    batch,
    length,
    fresh: keys.shape[2],
    total: readIntegers(inputs.total_sequence_length)[0],
    past: past_key?.shape[2],
  };
  const seqlens = readIntegers(inputs.seqlens_k);
  checkLengths(call, seqlens, step);
  const lengths = seqlens.map((last) => last + 1); // tokens of each sample after this step
  const prompt = isPrompt(step);
  const given = inputs.position_ids && readIntegers(inputs.position_ids);
  const positionOf = tokenPositions(step, seqlens, given);
  if (attrs.do_rotary && inputs.cos_cache !== undefined && inputs.sin_cache !== undefined)
    checkPositions(call, step, positionOf, Math.min(inputs.cos_cache.shape[0], inputs.sin_cache.shape[0]));
  const turnedQueries = turned(call, queries, inputs.q_norm_weight, positionOf);
  const turnedKeys = turned(call, keys, inputs.k_norm_weight, positionOf);
  const format = (scale: View | undefined): RowFormat =>
    scale === undefined || attrs.k_quant_type === "NONE"
      ? plainRows
      : quantizedRows(attrs.kv_cache_bit_width, attrs.k_quant_type, scale, size);
  const [keyFormat, valueFormat] = [format(inputs.k_scale), format(inputs.v_scale)];

  const capacity = step.past ?? 0;
  const windowed = attrs.sliding_window_cache;
  // A padded prompt has its own tokens first.
  const fresh = lengths.map((count) => Math.min(count, length));
  const held = lengths.map((count, sample) =>
    windowed ? windowRows(count - fresh[sample], capacity, attrs.local_window_size) : 0,
  );
  const store = (past: View | undefined, given: View, rows: RowFormat, present: View | undefined): View => {
    const stored = rows.encode(given);
    const target =
      present ?? View.allocate(stored.type, stored.shape.with(2, windowed ? capacity : Math.max(step.total, capacity)));
    if (windowed) {
      const kept = lengths.map((count) => windowRows(count, capacity, attrs.local_window_size));
      return slideRows(past!, stored, target, { held, fresh, kept });
    }
    const starts = lengths.map((count) => (past === undefined || prompt || step.fresh === 0 ? 0 : count - length));
    appendRows(past, stored, target, starts);
    return target;
  };
  const keyRows = store(past_key, turnedKeys, keyFormat, outputs.present_key);
  const valueRows = store(past_value, values, valueFormat, outputs.present_value);

  attendGroups({
    queries: turnedQueries,
    keys: { rows: keyRows, format: keyFormat },
    values: { rows: valueRows, format: valueFormat },
    // Keys of each sample, and how many of them come before its first query.
    totals: lengths.map((count, sample) => (windowed ? held[sample] + fresh[sample] : count)),
    offsets: lengths.map((count, sample) =>
      windowed ? held[sample] : past_key === undefined || prompt ? 0 : count - length,
    ),
    attrs,
    bias: inputs.attention_bias,
    sinks: inputs.head_sink && readNumbers(inputs.head_sink),
    output: outputs.output && headsView(outputs.output, heads),
    scores: outputs.output_qk,
  });
}

/** Heads normalized and turned to their positions, in the type they came in; the same view where neither is asked for. */
function turned(
  call: RunGroupQueryCall,
  heads: View,
  weight: View | undefined,
  positionOf: (sample: number, token: number) => number,
): View {
  const { do_rotary, rotary_interleaved: interleaved, qk_norm_epsilon: epsilon } = call.attrs;
  const { cos_cache, sin_cache } = call.inputs;
  if (heads.size === 0 || (!do_rotary && weight === undefined)) return heads;
  const [, count, length, size] = heads.shape;
  const values = float64Scratch(heads.size);
  values.set(readNumbers(heads));
  const weights = weight && readNumbers(weight);
  const rotation =
    do_rotary && cos_cache !== undefined && sin_cache !== undefined
      ? { cos: readNumbers(cos_cache), sin: readNumbers(sin_cache), pairs: cos_cache.shape[1], interleaved }
      : undefined;
  for (let row = 0; row < heads.size / size; row++) {
    if (weights !== undefined) normalizeHead(values, row * size, weights, epsilon);
    if (rotation !== undefined)
      rotateHead(values, row * size, positionOf(Math.floor(row / (count * length)), row % length), rotation);
  }
  const result = View.allocate(heads.type, heads.shape);
  writeNumbers(result, values);
  return result;
}

/** Brings a head to a root mean square of 1, times the weights. */
function normalizeHead(values: Float64Array, start: number, weights: ArrayLike<number>, epsilon: number): void {
  const size = weights.length;
  let squares = 0;
  for (let i = 0; i < size; i++) squares += values[start + i] ** 2;
  const inverse = 1 / Math.sqrt(squares / size + epsilon);
  for (let i = 0; i < size; i++) values[start + i] *= inverse * weights[i];
}

/** The rows of the presents that a call writes: from the first fresh one of any sample on; all where rows slide. */
export function writtenRows({ inputs, outputs, attrs }: RunGroupQueryCall): {
  present_key: View[];
  present_value: View[];
} {
  const lasts = readIntegers(inputs.seqlens_k);
  const length = inputs.query.shape[1];
  const total = readIntegers(inputs.total_sequence_length)[0];
  const first =
    attrs.sliding_window_cache || length === total ? 0 : Math.min(...lasts.map((last) => last + 1 - length));
  const rows = (present: View | undefined): View[] =>
    present === undefined ? [] : [present.slice(2, Math.max(0, first), present.shape[2])];
  return { present_key: rows(outputs.present_key), present_value: rows(outputs.present_value) };
}
