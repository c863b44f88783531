/**
 * MultiHeadAttention on WASM: biases of projections, the join of past and present, padding and attention as jobs of one step. Masks are
 * numbers that are added, as the operator has it, not keys that are hidden.
 */
import { elementCode } from "../../kernels/jobs.js";
import type { KernelCall, Operand, Recorder, WasmKernel } from "../../kernels/wasm-kernel.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { rowMajorStrides, View } from "../../tensor/view.js";
import { headsView } from "../attention/heads.js";
import {
  appendHeads,
  type Heads,
  headsAt,
  headsOf,
  lengthsPlus,
  maskAt,
  type MaskPlace,
  noMask,
  recordAttention,
  scatterHeads,
  takeOver,
  temporaryHeads,
} from "../wasm-attention.js";
import { type ElementsPlace, runElements } from "../wasm-elements.js";
import { liesWithin } from "../wasm-indices.js";
import { productOf } from "../wasm-layout.js";
import { type FloatType, oneFloatType } from "../wasm-work.js";

/** An operand, or a part of it, as [batch, heads, rows, size]. */
interface Part {
  readonly operand: Operand;
  readonly view: View;
  /** Where its biases begin; undefined where it has none. */
  readonly biases: number | undefined;
}

interface Parts {
  readonly query: Part;
  readonly key: Part;
  readonly value: Part;
  readonly bias: Operand | undefined;
  readonly padding: Operand | undefined;
  readonly added: Operand | undefined;
  readonly past: readonly Operand[];
  /** Where the past is a buffer: how many of its rows count. */
  readonly pastLength: Operand | undefined;
  readonly output: Operand | undefined;
  readonly present: readonly Operand[];
}

function partsOf({ inputs, outputs, attrs }: KernelCall): Parts {
  const [query, key, value, bias, padding, added, pastKey, pastValue, pastLength] = inputs;
  const heads = attrs["num_heads"] as number;
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
      ? [0, 1, 2].map((index) => [query!, packed(query!, index)] as const)
      : value === undefined
        ? [[query!, whole(query!)], ...[0, 1].map((index) => [key, packed(key, index)] as const)]
        : [query!, key, value].map((operand) => [operand, whole(operand)] as const);
  const width = heads * q[1].shape[3];
  // Keys and values by heads come from a cache: their biases are in them already.
  const byHeads = key?.shape.length === 4;
  const part = ([operand, view]: readonly [Operand, View], start: number): Part => ({
    operand,
    view,
    biases: bias === undefined || (start > 0 && byHeads) ? undefined : start,
  });
  return {
    query: part(q, 0),
    key: part(k, width),
    value: part(v, 2 * width),
    bias,
    padding,
    added,
    past: [pastKey, pastValue].flatMap((operand) => operand ?? []),
    pastLength: pastKey && pastLength,
    output: outputs[0],
    present: [outputs[1], outputs[2]].flatMap((operand) => operand ?? []),
  };
}

/** Attends over past and fresh keys with additive masks. */
export const multiHeadAttention: WasmKernel = {
  op: "MultiHeadAttention",
  domain: "com.microsoft",
  accepts(call) {
    const { query, key, value, bias, padding, added, past, pastLength, output, present } = partsOf(call);
    const all = [query.operand, key.operand, value.operand];
    const types = oneFloatType([...all, bias, added, ...past, ...present, output]);
    if (types !== true) return types;
    if (output === undefined || call.outputs[3] !== undefined) return "the scores are asked for";
    if (present.length === 1 || past.length > present.length) return "there is a past, but no present to join it into";
    if (pastLength !== undefined && (padding !== undefined || added !== undefined))
      return "there is no kernel for masks over a past that is a buffer";
    if (padding !== undefined && padding.shape.length === 1) return "there is no kernel for padding given by lengths";
    const [queries, fresh] = [query.view.shape[2], key.view.shape[2]];
    if (call.attrs["unidirectional"] === true && queries !== fresh) return "there are not as many keys as queries";
    if ([query, key, value].some(({ view }) => view.strides[3] !== 1 && view.shape[3] !== 1)) return "rows have gaps";
    const views = [query.view, key.view, value.view];
    return views.every(({ size }) => size > 0) ? true : "there is nothing to compute";
  },
  record(call, recorder) {
    const parts = partsOf(call);
    const { past, pastLength, present, output } = parts;
    const queries = biased(recorder, parts, parts.query);
    const fresh = parts.key.view.shape[2];
    if (pastLength !== undefined) recorder.when(liesWithin(pastLength, 0, past[0].shape[2] - fresh));
    const counted = (by: number): number =>
      pastLength === undefined ? 0 : lengthsPlus(recorder, pastLength, queries.batch, by);
    const starts = counted(0);
    const join = (part: Part, at: number): Heads => {
      const rows = biased(recorder, parts, part);
      if (present.length === 0) return rows;
      const target = headsOf(recorder, present[at], undefined);
      takeOver(recorder, past.length === 0 ? undefined : headsOf(recorder, past[at], undefined), target);
      if (pastLength !== undefined) scatterHeads(recorder, rows, target, starts);
      else appendHeads(recorder, rows, target, past[at]?.shape[2] ?? 0);
      return target;
    };
    const scale = call.attrs["scale"] as number;
    recordAttention(recorder, {
      query: queries,
      key: join(parts.key, 0),
      value: join(parts.value, 1),
      output: headsOf(recorder, output!, queries.heads),
      lengths: counted(fresh),
      past: past[0]?.shape[2] ?? 0,
      causal: call.attrs["unidirectional"] === true,
      left: -1,
      right: -1,
      mask: maskOf(recorder, parts, call.attrs["mask_filter_value"] as number),
      scale: scale === 0 ? 1 / Math.sqrt(queries.size) : scale,
      softcap: 0,
    });
  },
};

/** Heads with the biases of their projection, in memory of the program's own where there are some. */
function biased(recorder: Recorder, { bias }: Parts, { operand, view, biases }: Part): Heads {
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

/** What is added to the scores: attention_bias, and mask_filter_value where the padding says so. */
function maskOf(recorder: Recorder, { padding, added, query }: Parts, filter: number): MaskPlace {
  const bias = added && maskAt(recorder.address(added), added.type as FloatType, added);
  if (padding === undefined) return bias ?? noMask;
  const [batch, heads, length] = [added?.shape[0] ?? 1, added?.shape[1] ?? 1, query.view.shape[2]];
  const total = padding.shape.at(-1)!;
  const each = padding.shape.length === 3; // one for each query
  const rows = added !== undefined || each ? length : 1;
  const shape = [Math.max(batch, padding.shape[0]), heads, rows, total];
  const strides = rowMajorStrides(shape);
  const count = productOf(shape);
  const seen = recorder.temporary(count);
  const target = { address: recorder.temporary(4 * count), type: "float32", strides } as const;
  const word = (value: number): ElementsPlace => ({
    address: recorder.words([{ number: value }]),
    type: "float32",
    strides: [0, 0, 0, 0],
  });
  const [sample, ...rest] = padding.strides;
  runElements(recorder, {
    operation: "less",
    kind: "integer",
    shape,
    output: { address: seen, type: "bool", strides },
    inputs: [
      { address: recorder.words([{ word: 0 }]), type: "int32", strides: [0, 0, 0, 0] },
      {
        address: recorder.address(padding),
        type: "int32",
        strides: [padding.shape[0] === 1 ? 0 : sample, 0, each ? rest[0] : 0, rest.at(-1)!],
      },
    ],
  });
  runElements(recorder, {
    operation: "select",
    kind: "words",
    shape,
    output: target,
    inputs: [{ address: seen, type: "bool", strides }, word(0), word(filter)],
  });
  if (added !== undefined && bias !== undefined) {
    runElements(recorder, {
      operation: "add",
      kind: "double",
      shape,
      output: target,
      inputs: [
        target,
        {
          address: bias.mask,
          type: added.type as FloatType,
          strides: [bias.maskSample, bias.maskHead, bias.maskQuery, bias.maskKey],
        },
      ],
    });
  }
  return { ...maskAt(target.address, "float32", { shape, strides }), maskType: elementCode.float32 };
}
