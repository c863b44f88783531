/** The reference implementation of com.microsoft's Attention: the three projections, then MultiHeadAttention's. */
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import { View } from "../../tensor/view.js";
import { runMultiHead } from "../multi-head-attention/reference.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { type AttentionCall, columnsOf, halfOf, hasStarts, isDummy, widthsOf } from "./call.js";

interface RunAttentionCall extends AttentionCall<View> {
  readonly outputs: { readonly output: View; readonly present: View | undefined };
}

/** Computes both outputs. */
export function runAttention(call: RunAttentionCall): void {
  const { inputs, outputs, attrs } = call;
  const projected = project(inputs.input, inputs.weights, inputs.bias);
  const [batch, length, columns] = projected.shape;
  const [queries, keys, values] = widthsOf(attrs, columns);
  const { past, mask_index: mask, past_sequence_length } = inputs;
  const { present } = outputs;
  const total = length + (past?.shape[3] ?? 0);
  runMultiHead({
    ...call,
    inputs: {
      query: columnsOf(projected, 0, queries),
      key: columnsOf(projected, queries, keys),
      value: columnsOf(projected, queries + keys, values),
      bias: undefined,
      key_padding_mask: mask && paddingOf(mask, batch, total),
      attention_bias: inputs.attention_bias,
      past_key: past && halfOf(past, 0),
      past_value: past && halfOf(past, 1),
      past_sequence_length: attrs.past_present_share_buffer ? past_sequence_length : undefined,
      cache_indirection: undefined,
    },
    outputs: {
      output: outputs.output,
      present_key: present && halfOf(present, 0),
      present_value: present && halfOf(present, 1),
      qk: undefined,
    },
  });
}

/** input · weights + bias, rounded to the type as queries, keys and values are. */
function project(input: View, weights: View, bias: View | undefined): View {
  const [batch, length, hidden] = input.shape;
  const columns = weights.shape[1];
  const [x, w, b] = [readNumbers(input), readNumbers(weights), bias && readNumbers(bias)];
  const sums = float64Scratch(batch * length * columns);
  for (let row = 0; row < batch * length; row++) {
    const to = row * columns;
    if (b !== undefined) for (let column = 0; column < columns; column++) sums[to + column] = b[column];
    for (let k = 0; k < hidden; k++) {
      const factor = x[row * hidden + k];
      for (let column = 0; column < columns; column++) sums[to + column] += factor * w[k * columns + column];
    }
  }
  const result = View.allocate(input.type, [batch, length, columns]);
  writeNumbers(result, sums);
  return result;
}

/** The mask in a form that MultiHeadAttention has; undefined where it hides nothing. */
function paddingOf(mask: View, batch: number, total: number): View | undefined {
  if (isDummy(mask.shape, total)) return undefined;
  if (!hasStarts(mask.shape, batch)) return mask;
  const bounds = readNumbers(mask);
  const shown = View.allocate("int32", [batch, total]);
  const entries = Array.from({ length: batch * total }, (_, at) => {
    const [sample, key] = [Math.floor(at / total), at % total];
    return key >= bounds[batch + sample] && key < bounds[sample] ? 1 : 0;
  });
  writeNumbers(shown, entries);
  return shown;
}
