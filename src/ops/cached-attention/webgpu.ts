/**
 * CachedAttention on WebGPU. One token a sample: norm, rotary embedding, the write into the caches and the attention in one dispatch, or two beyond 256
 * rows, where a device binds enough buffers at once; on pages in runs in which nobody reads what another sample writes. Else the heads are turned and
 * written first, on linear caches by a dispatch each, on pages into their slots by one, and the caches attended over where they lie.
 */
import { type CallOf, isInPlace, type Operand } from "../../graph/kernel.js";
import {
  type Range,
  recorderOf,
  type WebgpuKernel,
  webgpuKernel,
  type WebgpuRecorder,
} from "../../webgpu-kernels/webgpu-kernel.js";
import { recordAttention, takeOver } from "../shared/webgpu/attention.js";
import type { AttentionWork } from "../shared/webgpu/attention-parts.js";
import { fitsOneStep, type FreshStep, recordStep, startRowPart } from "../shared/webgpu/attention-step.js";
import { acceptsFresh, freshHeads, headTurnings } from "../shared/webgpu/fresh-heads.js";
import { acceptsRows, type Heads, headsOf, temporaryHeads, tokensOf } from "../shared/webgpu/heads.js";
import type { Packed } from "../shared/webgpu/packed-batch.js";
import { pageRowsOf } from "../shared/webgpu/page-rows.js";
import { lastRowPart, writesApart } from "../shared/webgpu/page-step.js";
import { moveRows, placeOf, type Starts } from "../shared/webgpu/rows.js";
import { laidEachRun, ownTable, type Table } from "../shared/webgpu/tables.js";
import { turnDispatch, type Turning } from "../shared/webgpu/turn-heads.js";
import { turnIntoPages } from "../shared/webgpu/turn-into-pages.js";
import { CachedAttention } from "./op.js";

type Call = CallOf<typeof CachedAttention>;

/** Writes a step's rows and attends. */
export const cachedAttention: WebgpuKernel = webgpuKernel([CachedAttention], {
  accepts(call) {
    const { inputs, outputs } = call;
    const { Y, present_key, present_value } = outputs;
    if (Y === undefined || present_key === undefined || present_value === undefined)
      return "not both of output and presents are asked for";
    const { slot_mapping, block_tables: tables, seq_lens, query_starts, head_sink: sink } = inputs;
    if (sink?.contiguous === false) return "sinks have gaps";
    const caches = [inputs.past_key, inputs.past_value, present_key, present_value];
    if (tables === undefined) {
      for (const cache of caches) if (acceptsRows(cache) !== true) return acceptsRows(cache);
      if ([inputs.write_indices, inputs.nonpad_kv_seqlen].some((operand) => operand?.contiguous === false))
        return "lengths have gaps";
    } else {
      if ([...caches, slot_mapping, tables, seq_lens, query_starts].some((operand) => operand?.contiguous === false))
        return "caches, slots or tables have gaps";
      if (present_key.place.buffer === present_value.place.buffer) return "both caches lie in one buffer";
      if (tables.place.size === 0) return "there is nothing to compute";
    }
    return acceptsFresh(call, Y, [present_key, present_value]);
  },
  record(call, recorder) {
    const { block_tables: tables, slot_mapping: slots, seq_lens: lengths } = call.inputs;
    if (tables === undefined || slots === undefined || lengths === undefined) recordLinear(call, recorder);
    else recordPaged(call, { tables, slots, lengths }, recorder);
  },
});

/** What both layouts ask of an attention. */
const asked = ({ inputs, outputs, attrs }: Call) =>
  ({
    output: headsOf(outputs.Y!, attrs.q_num_heads), // or it was not accepted
    past: undefined,
    causal: attrs.is_causal,
    left: attrs.left_window_size,
    right: attrs.right_window_size,
    window: -1,
    mask: undefined,
    scale: attrs.scale,
    softcap: attrs.softcap,
    sink: inputs.head_sink,
  }) as const satisfies Partial<AttentionWork>;

function recordLinear(call: Call, recorder: WebgpuRecorder): void {
  const { inputs, outputs, attrs } = call;
  const { query, key, value } = freshHeads(call);
  const shared = attrs.kv_num_heads;
  // Or they were not accepted.
  const [keys, values] = [headsOf(outputs.present_key!, shared), headsOf(outputs.present_value!, shared)];
  takeOver(headsOf(inputs.past_key, shared), keys, recorder);
  takeOver(headsOf(inputs.past_value, shared), values, recorder);
  const numbers = placesOf(call, query, recorder);
  const turnings = headTurnings(call, numbers.positions, recorder);
  const wraps = attrs.mode === "circular" ? { wrapsAt: keys.rows } : {};
  const starts = inputs.write_indices && {
    axis: 2,
    indices: inputs.write_indices,
    table: numbers.starts,
    step: 1 as const,
    add: 0,
    ...wraps,
  };
  const work: AttentionWork = {
    ...asked(call),
    query,
    key: keys,
    value: values,
    lengths: { of: inputs.nonpad_kv_seqlen!, table: numbers.lengths, sample: 1, head: 0, add: 0 },
  };
  const step = { key, value, turnings, row: startRowPart(starts) };
  if (fitsOneStep(work, step, recorder.device)) recordStep(work, step, recorder);
  else recordAttention({ ...work, query: recordRows(work, step, starts, recorder) }, recorder);
}

/**
 * How many rows samples have, where their new ones go, and at which positions they are. Of a token each they are bound as one: the dispatch that lays
 * them side by side serves the steps of all layers.
 */
function placesOf(
  { inputs: { nonpad_kv_seqlen: lengths, write_indices: starts, position_ids: positions } }: Call,
  { rows }: Heads,
  recorder: WebgpuRecorder,
): Partial<Record<"lengths" | "starts" | "positions", Table | undefined>> {
  if (rows === 1) return laidEachRun("places", { lengths, starts, positions }, recorder);
  return { positions: positions && ownTable("positions", positions) };
}

/** Turns queries and writes keys and values, a dispatch each; the queries as they are now. */
function recordRows(
  { query, key: keys, value: values }: AttentionWork,
  { key, value, turnings }: FreshStep,
  starts: Starts | undefined,
  recorder: WebgpuRecorder,
): Heads {
  const { device } = recorder;
  const still: Turning = { norm: undefined, rotation: undefined };
  recorder.dispatch(turnDispatch("writeKeys", key, { heads: keys, starts }, turnings.key, device));
  recorder.dispatch(turnDispatch("writeValues", value, { heads: values, starts }, still, device));
  if (turnings.query.norm === undefined && turnings.query.rotation === undefined) return query;
  const heads = temporaryHeads(recorder, query);
  recorder.dispatch(turnDispatch("turnQueries", query, { heads, starts: undefined }, turnings.query, device));
  return heads;
}

/** Where a step's rows go on pages, and which are attended over. */
type PageNumbers = Readonly<Record<"tables" | "slots" | "lengths", Operand>>;

function recordPaged(call: Call, operands: PageNumbers, recorder: WebgpuRecorder): void {
  const { inputs, outputs } = call;
  for (const [past, present] of [
    [inputs.past_key, outputs.present_key!], // or it was not accepted
    [inputs.past_value, outputs.present_value!],
  ])
    if (!isInPlace(past, present)) {
      const copy = { name: "copyCache", type: past.type, shape: past.shape };
      const ends = { source: placeOf(past), target: placeOf(present) };
      for (const dispatch of moveRows({ ...copy, ...ends }, recorder.device)) recorder.dispatch(dispatch);
    }
  const { query, key, value } = freshHeads(call);
  const { tables, lengths } = operands;
  const { cache_mode: layout, kv_num_heads: pageHeads } = call.attrs;
  const pages = { layout, pageHeads, tables, batch: query.batch };
  const [keys, values] = [outputs.present_key!, outputs.present_value!].map((cache) => pageRowsOf(cache, pages));
  const numbers = placesOnPages(call, operands, query, recorder);
  const turnings = headTurnings(call, numbers.positions, recorder);
  const work: AttentionWork = {
    ...asked(call),
    query,
    key: keys,
    value: values,
    lengths: { of: lengths, table: numbers.lengths, sample: 1, head: 0, add: 0 },
  };
  const step = { key, value, turnings, row: lastRowPart(numbers) };
  const apart = runsApart(call, operands, work, recorder);
  const isStep = apart !== undefined && fitsOneStep(work, step, recorder.device);
  if (isStep) recordStep(work, step, recorderOf(recorder, [{ ...apart, least: 1, most: 1 }]));
  const others = isStep ? recorderOf(recorder, [{ ...apart, least: 0, most: 0 }]) : recorder;
  const turned = turnIntoPages({ query, key, value, turnings, slots: numbers.slots, keys, values }, others);
  const { starts } = numbers;
  const packed: Packed | undefined = starts && { starts, samples: lengths.shape[0], serves: "all" };
  recordAttention(
    {
      ...work,
      query: packed === undefined ? turned : tokensOf(turned),
      output: packed === undefined ? work.output : tokensOf(work.output),
      packed,
    },
    others,
  );
}

/** How many rows samples have, where their new ones go, at which positions they are and where the queries begin: of a token each bound as one. */
function placesOnPages(
  { inputs: { position_ids: positions, query_starts: starts } }: Call,
  { lengths, slots }: PageNumbers,
  { rows }: Heads,
  recorder: WebgpuRecorder,
): Readonly<Record<"lengths" | "slots", Table> & Record<"positions" | "starts", Table | undefined>> {
  if (rows === 1) return laidEachRun("rowPlaces", { lengths, slots, positions, starts }, recorder);
  const spans = laidEachRun("spans", { lengths, starts }, recorder);
  return { ...spans, slots: ownTable("slots", slots), positions: positions && ownTable("positions", positions) };
}

/** What tells the runs in which each sample has one token, in a row of its own; undefined where there are no such, or the host does not know. */
function runsApart(
  { inputs: { query_starts: starts } }: Call,
  { slots, tables, lengths }: PageNumbers,
  { query, key }: AttentionWork,
  recorder: WebgpuRecorder,
): Pick<Range, "of" | "measure"> | undefined {
  const of = [slots, tables, lengths, ...(starts === undefined ? [] : [starts])];
  const { shape } = tables;
  const isOneEach = query.rows === 1 && shape.length === 2 && shape[0] === query.batch && lengths.shape.length === 1;
  return isOneEach && of.every((each) => recorder.isOnHost(each))
    ? { of, measure: writesApart(key.pages!.blockSize) }
    : undefined;
}
