/**
 * Attention on WebGPU: what ONNX's Attention, onnxruntime's and that over pages share. Few queries and many take different dispatches; rows
 * past the valid length are never read. Computed in float32 whatever caches are kept in.
 */
import type { Operand } from "../../../graph/kernel.js";
import type { WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { holdsTiles, recordDecode } from "./attention-decode.js";
import { recordInMatrices } from "./attention-matrices.js";
import { type AttentionWork, isRowType, type MaskPlace } from "./attention-parts.js";
import { recordPrefill } from "./attention-prefill.js";
import type { Heads } from "./heads.js";
import { moveRows, type RowsPlace, type Starts } from "./rows.js";

/** Queries up to which keys are split between workgroups. */
const fewQueries = 8;

/** Elements of a head that shaders hold. */
const mostSize = 512;

/** True if attention of such sizes and types is done on the device, else why not. */
export function acceptsAttention(
  query: Pick<Heads, "type" | "size">,
  key: Pick<Heads, "type" | "size">,
  value: Pick<Heads, "type" | "size">,
  output: Operand,
): true | string {
  for (const { type } of [query, key, value]) if (!isRowType(type)) return `there is no kernel for ${type}`;
  if (query.type === "int8" || output.type === "int8") return "queries of int8 have no kernel";
  for (const { size } of [key, value])
    if (size > mostSize || size === 0) return `heads of ${size} elements are not held by a workgroup`;
  if (!output.contiguous) return "the output has gaps";
  return output.type !== "float32" && value.size % 2 !== 0 ? "rows of the output are no whole words" : true;
}

/** Records an attention. */
export function recordAttention(work: AttentionWork, recorder: WebgpuRecorder): void {
  const { query, packed } = work;
  if (packed !== undefined) return recordPacked(work, packed, recorder);
  if (query.rows <= fewQueries && holdsTiles(work, recorder.device)) recordDecode(work, recorder);
  else if (!recordInMatrices(work, recorder)) recordPrefill(work, recorder);
}

/** Samples of one query by splitting their keys, those of several in tiles. */
function recordPacked(
  work: AttentionWork,
  packed: NonNullable<AttentionWork["packed"]>,
  recorder: WebgpuRecorder,
): void {
  const one: AttentionWork = {
    ...work,
    query: { ...work.query, batch: packed.samples, rows: 1 },
    packed: { ...packed, serves: "one" },
  };
  const splits = holdsTiles(one, recorder.device);
  if (splits) recordDecode(one, recorder);
  const others: AttentionWork = { ...work, packed: { ...packed, serves: splits ? "several" : "all" } };
  if (!recordInMatrices(others, recorder)) recordPrefill(others, recorder);
}

/** A mask of up to 4 dimensions; a dimension of 1 broadcasts, the last one only where `broadcasts`. */
export function maskPlace(mask: Operand, keys: number, broadcasts: boolean): MaskPlace {
  const { shape, place } = mask;
  const lead = 4 - shape.length;
  const stride = (axis: number): number => (axis < lead || shape[axis - lead] === 1 ? 0 : place.strides[axis - lead]);
  const last = shape.at(-1) ?? 1;
  return broadcasts && last === 1
    ? { of: mask, strides: [stride(0), stride(1), stride(2), 0], length: keys }
    : { of: mask, strides: [stride(0), stride(1), stride(2), place.strides.at(-1) ?? 1], length: last };
}

const isSame = (a: Heads, b: Heads): boolean =>
  "place" in a.of && "place" in b.of && a.of.place.buffer === b.of.place.buffer && a.offset === b.offset;

const stridesOf = ({ sample, head, row }: Heads): readonly number[] => [sample, head, row, 1];

/** Brings the past to the front of the present, where it does not stand there already. */
export function takeOver(past: Heads | undefined, present: Heads, recorder: WebgpuRecorder): void {
  if (past === undefined || isSame(past, present)) return;
  copyHeads("copyPast", { ...past, rows: Math.min(past.rows, present.rows) }, present, undefined, recorder);
}

/** Puts fresh rows into the present, from a row on that is known or data. */
export function appendHeads(
  fresh: Heads,
  present: Heads,
  start: number | Omit<Starts, "axis">,
  recorder: WebgpuRecorder,
): void {
  if (typeof start !== "number") copyHeads("appendRows", fresh, present, { ...start, axis: 2 }, recorder);
  else
    copyHeads("appendRows", fresh, { ...present, offset: present.offset + start * present.row }, undefined, recorder);
}

/** Zeroes the rows from `from` on. */
export function clearHeads(heads: Heads, from: number, recorder: WebgpuRecorder): void {
  const rows = heads.rows - from;
  if (rows > 0)
    copyHeads("clearRows", undefined, { ...heads, offset: heads.offset + from * heads.row, rows }, undefined, recorder);
}

/** Copies as many rows as the source has, or zeros into all of the target. */
function copyHeads(
  name: string,
  from: Heads | undefined,
  to: Heads,
  starts: Starts | undefined,
  recorder: WebgpuRecorder,
): void {
  const { type, batch, heads, rows, size } = from ?? to;
  const place = (part: Heads): RowsPlace => ({ of: part.of, offset: part.offset, strides: stridesOf(part) });
  const shape = [batch, heads, rows, size];
  const move = { name, type, shape, source: from && place(from), target: place(to), starts };
  for (const dispatch of moveRows(move, recorder.device)) recorder.dispatch(dispatch);
}
