/** MultiHeadAttention's reference implementation: adds the biases, writes the present, then attends over it with additive masks. */
import { type Numbers, readIntegers, readNumbers, writeNumbers } from "../../tensor/access.js";
import { cloneView, copyView } from "../../tensor/copy.js";
import { View } from "../../tensor/view.js";
import { scoreKeys, softmaxRange, weighValues } from "../shared/loops/attention-rows.js";
import { headsView } from "../attention/heads.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { checkPastLength, type Layout, type MultiHeadCall, type OutputName } from "./call.js";
import { layoutOf } from "./infer.js";

/** The call of the reference implementation. */
interface RunMultiHeadCall extends MultiHeadCall<View> {
  readonly outputs: { readonly [N in OutputName]: View | undefined };
}

/** What is added to keys that the causal rule hides: the least float32, not −∞. */
const hidden = -3.4028234663852886e38;

/** Computes every output that is asked for. */
export function runMultiHead(call: RunMultiHeadCall): void {
  const { inputs, outputs, attrs } = call;
  const layout = layoutOf(call);
  const { queries, keys, values } = operandsOf(call, layout);
  const [batch, heads, length, size] = queries.shape;
  const fresh = keys.shape[2];
  const valueSize = values.shape[3];
  const buffer = inputs.past_key !== undefined && inputs.past_sequence_length !== undefined;
  const past = buffer ? readIntegers(inputs.past_sequence_length!)[0] : (inputs.past_key?.shape[2] ?? 0);
  if (buffer) checkPastLength(call, past, fresh, inputs.past_key!.shape[2]);
  const total = past + fresh;
  const keyRows = join(inputs.past_key, keys, outputs.present_key, past);
  const valueRows = join(inputs.past_value, values, outputs.present_value, past);
  const queryValues = readNumbers(queries);
  const result = float64Scratch(batch * heads * length * valueSize);
  const shown = outputs.qk && float64Scratch(outputs.qk.size);
  const row = float64Scratch(total);
  const factor = attrs.scale === 0 ? 1 / Math.sqrt(size) : attrs.scale;
  const addMasks = masks(call, { length, past, total });
  const all = { from: 0, to: total };
  for (let sample = 0; sample < batch; sample++) {
    for (let head = 0; head < heads; head++) {
      const headKeys = rowsOf(keyRows, sample, head, total);
      const headValues = rowsOf(valueRows, sample, head, total);
      for (let query = 0; query < length; query++) {
        const at = (sample * heads + head) * length + query;
        scoreKeys(row, { rows: queryValues, row: at }, headKeys, { ...all, size, factor });
        addMasks(row, sample, head, query);
        shown?.set(row, at * total);
        softmaxRange(row, 0, total);
        weighValues(result, at * valueSize, row, headValues, { ...all, size: valueSize });
      }
    }
  }
  if (outputs.output !== undefined) writeNumbers(headsView(outputs.output, heads), result);
  if (outputs.qk !== undefined && shown !== undefined) writeNumbers(outputs.qk, shown);
}

/** Queries, keys and values as [batch, heads, length, size], with the biases of their projections. */
function operandsOf(call: RunMultiHeadCall, layout: Layout): { queries: View; keys: View; values: View } {
  const { query, key, value, bias } = call.inputs;
  const heads = call.attrs.num_heads;
  const part = (packed: View, index: number): View => {
    const [batch, length, count, , size] = packed.shape;
    const [batchStep, lengthStep, headStep, partStep, step] = packed.strides;
    const offset = packed.offset + index * partStep;
    return new View(packed.type, [batch, count, length, size], packed.data, offset, [
      batchStep,
      headStep,
      lengthStep,
      step,
    ]);
  };
  const operands =
    layout === "packed-qkv"
      ? [part(query, 0), part(query, 1), part(query, 2)]
      : layout === "packed-kv"
        ? [headsView(query, heads), part(key!, 0), part(key!, 1)]
        : [headsView(query, heads), headsView(key!, heads), headsView(value!, heads)];
  const [queries, keys, values] = operands;
  if (bias === undefined) return { queries, keys, values };
  const [width, biases] = [heads * queries.shape[3], readNumbers(bias)];
  const biased = withBias(queries, biases, 0);
  // Keys and values by heads come from a cache: their biases are in them already.
  if (layout === "by-heads") return { queries: biased, keys, values };
  return { queries: biased, keys: withBias(keys, biases, width), values: withBias(values, biases, 2 * width) };
}

/** A copy of [batch, heads, length, size] with biases [heads · size] from `start` on added. */
function withBias(view: View, biases: Numbers, start: number): View {
  const [, heads, length, size] = view.shape;
  const result = View.allocate(view.type, view.shape);
  const values = Float64Array.from(readNumbers(view));
  for (let i = 0; i < values.length; i++) {
    const head = Math.floor(i / (size * length)) % heads;
    values[i] += biases[start + head * size + (i % size)];
  }
  writeNumbers(result, values);
  return result;
}

/** The `length` rows of the past followed by the fresh ones, in the present where it is asked for. Rows behind them stay the past's. */
function join(past: View | undefined, fresh: View, present: View | undefined, length: number): View {
  const rows = Math.max(length + fresh.shape[2], past?.shape[2] ?? 0);
  const target = present ?? View.allocate(fresh.type, fresh.shape.with(2, rows));
  if (past !== undefined) {
    const front = target.slice(2, 0, past.shape[2]);
    if (past.data !== front.data) copyView(past, front);
    else if (past.offset !== front.offset || past.strides.some((stride, axis) => stride !== front.strides[axis]))
      copyView(cloneView(past), front);
  }
  copyView(fresh, target.slice(2, length, length + fresh.shape[2]));
  return target;
}

/** The first `count` rows of one head as numbers. */
const rowsOf = (view: View, sample: number, head: number, count: number): Numbers =>
  readNumbers(
    view
      .slice(0, sample, sample + 1)
      .slice(1, head, head + 1)
      .slice(2, 0, count),
  );

/** Lengths that masks depend on. */
interface Lengths {
  readonly length: number;
  readonly past: number;
  readonly total: number;
}

/**
 * A function that adds attention_bias, the padding mask and the causal rule to a row of scores. The causal rule replaces the padding
 * where it hides a key; the last query always sees every key, however many there are.
 */
function masks(
  call: RunMultiHeadCall,
  { length, past, total }: Lengths,
): (row: Float64Array, sample: number, head: number, query: number) => void {
  const { key_padding_mask: mask, attention_bias: bias } = call.inputs;
  const { mask_filter_value: filter, unidirectional } = call.attrs;
  const entries = mask && readNumbers(mask);
  const biases = bias && readNumbers(bias);
  const padded = (sample: number, query: number, key: number): boolean => {
    if (mask === undefined || entries === undefined) return false;
    if (mask.rank === 1) return key >= Math.max(0, entries[sample]);
    return entries[(mask.rank === 2 ? sample : sample * length + query) * total + key] <= 0;
  };
  return (row, sample, head, query) => {
    if (bias !== undefined && biases !== undefined) {
      const [samples, heads] = bias.shape;
      const start = (((samples === 1 ? 0 : sample) * heads + (heads === 1 ? 0 : head)) * length + query) * total;
      for (let key = 0; key < total; key++) row[key] += biases[start + key];
    }
    for (let key = 0; key < total; key++) {
      if (unidirectional && query < length - 1 && key > past + query) row[key] += hidden;
      else if (padded(sample, query, key)) row[key] += filter;
    }
  };
}
