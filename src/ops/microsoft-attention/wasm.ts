/** com.microsoft's Attention on WASM, in float32: MatMul's kernel for the projections, then the pieces that all attentions share. */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import {
  appendHeads,
  type Heads,
  headsAt,
  lengthsPlus,
  recordAttention,
  scatterHeads,
  takeOver,
} from "../shared/wasm/attention.js";
import { liesWithin } from "../shared/wasm/indices.js";
import { recordProductAt, single } from "../shared/wasm/matmul.js";
import { recordMask } from "../shared/wasm/padding.js";
import { halfOf, hasStarts, isDummy, widthsOf } from "./call.js";
import { MicrosoftAttention } from "./op.js";

type Call = CallOf<typeof MicrosoftAttention>;

/** Where the past is a buffer: how many of its rows count. */
const pastLengthOf = ({ inputs: { past, past_sequence_length }, attrs }: Call): Operand | undefined =>
  past !== undefined && attrs.past_present_share_buffer ? past_sequence_length : undefined;

/** Projects `input`, then attends over past and fresh keys. */
export const attention: WasmKernel = wasmKernel([MicrosoftAttention], {
  accepts(call) {
    const { input, weights, bias, mask_index: mask, past, attention_bias: added } = call.inputs;
    const { output, present } = call.outputs;
    for (const operand of [input, weights, bias, past, added, output, present]) {
      if (operand === undefined) continue;
      if (operand.type !== "float32") return `there is no kernel for ${operand.type}`;
    }
    if (!input.contiguous || bias?.contiguous === false) return "rows have gaps";
    if (past !== undefined && present === undefined) return "there is a past, but no present to join it into";
    if (pastLengthOf(call) !== undefined && mask !== undefined)
      return "there is no kernel for masks over a past that is a buffer";
    if (mask?.contiguous === false) return "the mask has gaps";
    if (output === undefined) return "the output is not asked for";
    return input.view.size > 0 && output.view.size > 0 ? true : "there is nothing to compute";
  },
  record(call, recorder) {
    const { input, weights, bias, mask_index: mask, past, attention_bias: added } = call.inputs;
    const { output, present } = call.outputs;
    const { num_heads: heads, scale, unidirectional, mask_filter_value: filter } = call.attrs;
    const [batch, length, hidden] = input.shape;
    const columns = weights.shape[1];
    const [bK, bN] = weights.strides;
    const projected = recorder.temporary(4 * batch * length * columns);
    const product = {
      a: input,
      b: weights,
      bias,
      m: batch * length,
      n: columns,
      k: hidden,
      aRow: hidden,
      aColumn: 1,
      bK,
      bN,
    };
    recordProductAt(recorder, { ...product, ...single }, projected);
    const widths = widthsOf(call.attrs, columns);
    const part = (index: number): Heads => ({
      address: projected + 4 * widths.slice(0, index).reduce((sum, width) => sum + width, 0),
      type: "float32",
      batch,
      heads,
      rows: length,
      size: widths[index] / heads,
      sample: length * columns,
      head: widths[index] / heads,
      row: columns,
    });
    const pastRows = past?.shape[3] ?? 0;
    const pastLength = pastLengthOf(call);
    if (pastLength !== undefined) recorder.when(liesWithin(pastLength, 0, pastRows - length));
    const counted = (by: number): number =>
      pastLength === undefined ? 0 : lengthsPlus(recorder, pastLength, batch, by);
    const starts = counted(0);
    const join = (half: 0 | 1): Heads => {
      const rows = part(half + 1);
      if (present === undefined) return rows;
      const target = halfAt(recorder, present, half);
      takeOver(recorder, past && halfAt(recorder, past, half), target);
      if (pastLength !== undefined) scatterHeads(recorder, rows, target, starts);
      else appendHeads(recorder, rows, target, pastRows);
      return target;
    };
    const query = part(0);
    const total = pastRows + length;
    const padding = mask === undefined || isDummy(mask.shape, total) ? undefined : mask;
    recordAttention(recorder, {
      query,
      key: join(0),
      value: join(1),
      output: outputHeads(recorder, output!, heads), // or it was not accepted
      lengths: counted(length),
      past: pastRows,
      causal: unidirectional,
      left: -1,
      right: -1,
      mask: recordMask(recorder, {
        padding,
        hasStarts: padding !== undefined && hasStarts(padding.shape, batch),
        added,
        batch,
        queries: length,
        total,
        filter,
      }),
      scale: scale === 0 ? 1 / Math.sqrt(query.size) : scale,
      softcap: 0,
    });
  },
});

const halfAt = (recorder: Recorder, operand: Operand, half: 0 | 1): Heads =>
  headsAt(recorder, operand, halfOf(operand.view, half));

/** The output [batch, length, heads · size]. */
function outputHeads(recorder: Recorder, output: Operand, heads: number): Heads {
  const [batch, rows, width] = output.shape;
  const [sample, row] = output.strides;
  const size = width / heads;
  return { address: recorder.address(output), type: "float32", batch, heads, rows, size, sample, head: size, row };
}
