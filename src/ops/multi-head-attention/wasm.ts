/**
 * MultiHeadAttention on WASM: biases of projections, the join of past and present, padding and attention as jobs of one step. Masks are
 * numbers that are added, as the operator has it, not keys that are hidden.
 */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { View } from "../../tensor/view.js";
import { headsView } from "../attention/heads.js";
import {
  appendHeads,
  type Heads,
  headsAt,
  headsOf,
  lengthsPlus,
  recordAttention,
  scatterHeads,
  takeOver,
  temporaryHeads,
} from "../shared/wasm/attention.js";
import { type ElementsPlace, runElements } from "../shared/wasm/elements.js";
import { liesWithin } from "../shared/wasm/indices.js";
import { recordMask } from "../shared/wasm/padding.js";
import { oneFloatType } from "../shared/wasm/work.js";
import { MultiHeadAttention } from "./op.js";

type Call = CallOf<typeof MultiHeadAttention>;

/** An operand, or a part of it, as [batch, heads, rows, size]. */
interface Part {
  readonly operand: Operand;
  readonly view: View;
  /** Where its biases begin; undefined where it has none. */
  readonly biases: number | undefined;
}

/** The three projections. */
interface Parts {
  readonly query: Part;
  readonly key: Part;
  readonly value: Part;
}

function partsOf({ inputs: { query, key, value, bias }, attrs: { num_heads: heads } }: Call): Parts {
  const packed = (operand: Operand, index: number): View => {
    const { shape, strides, data, type, offset } = operand.view;
    const order = [0, 2, 1, 4];
    return new View(
      type,
      order.map((axis) => shape[axis]),
      data,
      offset + index * strides[3],
      order.map((axis) => strides[axis]),
    );
  };
  const whole = (operand: Operand): View => headsView(operand.view, heads);
  const [q, k, v]: readonly (readonly [Operand, View])[] =
    key === undefined
      ? [0, 1, 2].map((index) => [query, packed(query, index)] as const)
      : value === undefined
        ? [[query, whole(query)], ...[0, 1].map((index) => [key, packed(key, index)] as const)]
        : [query, key, value].map((operand) => [operand, whole(operand)] as const);
  const width = heads * q[1].shape[3];
  // Keys and values by heads come from a cache: their biases are in them already.
  const byHeads = key?.shape.length === 4;
  const part = ([operand, view]: readonly [Operand, View], start: number): Part => ({
    operand,
    view,
    biases: bias === undefined || (start > 0 && byHeads) ? undefined : start,
  });
  return { query: part(q, 0), key: part(k, width), value: part(v, 2 * width) };
}

/** Where the past is a buffer: how many of its rows count. */
const pastLengthOf = ({ inputs: { past_key, past_sequence_length } }: Call): Operand | undefined =>
  past_key && past_sequence_length;

/** Attends over past and fresh keys with additive masks. */
export const multiHeadAttention: WasmKernel = wasmKernel([MultiHeadAttention], {
  accepts(call) {
    const { query, key, value } = partsOf(call);
    const { bias, key_padding_mask: padding, attention_bias: added, past_key, past_value } = call.inputs;
    const { output, present_key, present_value, qk } = call.outputs;
    const caches = [past_key, past_value, present_key, present_value];
    const types = oneFloatType([query.operand, key.operand, value.operand, bias, added, ...caches, output]);
    if (types !== true) return types;
    if (output === undefined || qk !== undefined) return "the scores are asked for";
    const present = present_key !== undefined && present_value !== undefined;
    if (!present && caches.some((operand) => operand !== undefined))
      return "there is a past, but no present to join it into";
    if (pastLengthOf(call) !== undefined && (padding !== undefined || added !== undefined))
      return "there is no kernel for masks over a past that is a buffer";
    const [queries, fresh] = [query.view.shape[2], key.view.shape[2]];
    if (call.attrs.unidirectional && queries !== fresh) return "there are not as many keys as queries";
    if ([query, key, value].some(({ view }) => view.strides[3] !== 1 && view.shape[3] !== 1)) return "rows have gaps";
    const views = [query.view, key.view, value.view];
    return views.every(({ size }) => size > 0) ? true : "there is nothing to compute";
  },
  record(call, recorder) {
    const { query, key, value } = partsOf(call);
    const { bias, past_key, past_value } = call.inputs;
    const { output, present_key, present_value } = call.outputs;
    const { scale, unidirectional, mask_filter_value: filter } = call.attrs;
    const pastRows = past_key?.shape[2] ?? 0;
    const pastLength = pastLengthOf(call);
    const queries = biased(recorder, bias, query);
    const fresh = key.view.shape[2];
    if (pastLength !== undefined) recorder.when(liesWithin(pastLength, 0, pastRows - fresh));
    const counted = (by: number): number =>
      pastLength === undefined ? 0 : lengthsPlus(recorder, pastLength, queries.batch, by);
    const starts = counted(0);
    const join = (part: Part, past: Operand | undefined, present: Operand | undefined): Heads => {
      const rows = biased(recorder, bias, part);
      if (present === undefined) return rows;
      const target = headsOf(recorder, present, undefined);
      takeOver(recorder, past && headsOf(recorder, past, undefined), target);
      if (pastLength !== undefined) scatterHeads(recorder, rows, target, starts);
      else appendHeads(recorder, rows, target, pastRows);
      return target;
    };
    recordAttention(recorder, {
      query: queries,
      key: join(key, past_key, present_key),
      value: join(value, past_value, present_value),
      output: headsOf(recorder, output!, queries.heads), // or it was not accepted
      lengths: counted(fresh),
      past: pastRows,
      causal: unidirectional,
      left: -1,
      right: -1,
      mask: recordMask(recorder, {
        padding: call.inputs.key_padding_mask,
        added: call.inputs.attention_bias,
        batch: queries.batch,
        queries: queries.rows,
        total: pastRows + fresh,
        filter,
      }),
      scale: scale === 0 ? 1 / Math.sqrt(queries.size) : scale,
      softcap: 0,
    });
  },
});

/** Heads with the biases of their projection, in memory of the program's own where there are some. */
function biased(recorder: Recorder, bias: Operand | undefined, { operand, view, biases }: Part): Heads {
  const heads = headsAt(recorder, operand, view);
  if (biases === undefined || bias === undefined) return heads;
  const target = temporaryHeads(recorder, heads);
  const { type } = heads;
  const step = bias.strides[0];
  const place = ({ address, sample, head, row }: Heads): ElementsPlace => ({
    address,
    type,
    strides: [sample, head, row, 1],
  });
  runElements(recorder, {
    operation: "add",
    kind: "double",
    shape: view.shape,
    output: place(target),
    inputs: [
      place(heads),
      {
        address: recorder.address(bias) + byteLengthOf(type, biases * step),
        type,
        strides: [0, heads.size * step, 0, step],
      },
    ],
  });
  return target;
}
