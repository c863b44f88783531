/**
 * Attention as jobs: what the fast paths of ONNX's Attention and of onnxruntime's attentions share. One query a sample over the whole
 * length (decode), many queries in tiles (prefill); rows past the valid length are never touched.
 */
import { type JobOf, partialBytes } from "../../../wasm-kernels/exports.js";
import { elementCode, pageCode } from "../../../wasm-kernels/jobs.js";
import type { Operand } from "../../../graph/kernel.js";
import type { Recorder } from "../../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf, type ElementType } from "../../../tensor/element-type.js";
import type { View } from "../../../tensor/view.js";
import { sharesOf } from "./attention-shares.js";
import { headsView } from "../../attention/heads.js";
import { recordCopy } from "./copy.js";
import { runElements } from "./elements.js";
import { codeOf, type FloatType, partsEach } from "./work.js";

/** Where [batch, heads, rows, size] lies. Strides in elements. */
export interface Heads<Type extends ElementType = FloatType> {
  readonly address: number;
  readonly type: Type;
  readonly batch: number;
  readonly heads: number;
  readonly rows: number;
  readonly size: number;
  readonly sample: number;
  readonly head: number;
  readonly row: number;
}

/** A part of an operand's bytes, seen as [batch, heads, rows, size]; the last dimension lies together. */
export function headsAt(recorder: Recorder, operand: Operand, view: View): Heads {
  const [batch, heads, rows, size] = view.shape;
  const [sample, head, row] = view.strides;
  const address = recorder.address(operand) + byteLengthOf(operand.type, view.offset - operand.view.offset);
  return { address, type: operand.type as FloatType, batch, heads, rows, size, sample, head, row };
}

/** An operand of 4 dimensions, or of 3 with `heads` side by side. */
export const headsOf = (recorder: Recorder, operand: Operand, heads: number | undefined): Heads =>
  headsAt(recorder, operand, headsView(operand.view, heads ?? 1));

/** Heads of the same sizes in memory of the program's own. */
export function temporaryHeads<Type extends ElementType>(
  recorder: Recorder,
  { type, batch, heads, rows, size }: Pick<Heads<Type>, "type" | "batch" | "heads" | "rows" | "size">,
): Heads<Type> {
  const address = recorder.temporary(byteLengthOf(type, batch * heads * rows * size));
  return { address, type, batch, heads, rows, size, sample: heads * rows * size, head: rows * size, row: size };
}

/** The heads from row `from` on. */
const rowsFrom = <Type extends ElementType>(heads: Heads<Type>, from: number): Heads<Type> => ({
  ...heads,
  address: heads.address + byteLengthOf(heads.type, from * heads.row),
  rows: heads.rows - from,
});

/** Copies rows of the same number and size. */
function copyHeads(recorder: Recorder, from: Heads<ElementType>, to: Heads<ElementType>): void {
  recordCopy(recorder, {
    source: from.address,
    target: to.address,
    width: byteLengthOf(to.type, 1),
    shape: [to.batch, to.heads, Math.min(from.rows, to.rows), to.size],
    from: [from.sample, from.head, from.row, 1],
    to: [to.sample, to.head, to.row, 1],
  });
}

/** Brings the past to the front of the present, where it does not stand there already. */
export function takeOver(recorder: Recorder, past: Heads<ElementType> | undefined, present: Heads<ElementType>): void {
  if (past !== undefined && past.rows > 0 && past.address !== present.address) copyHeads(recorder, past, present);
}

/** Puts fresh rows behind the `length` rows of the present's front. */
export const appendHeads = (recorder: Recorder, fresh: Heads, present: Heads, length: number): void =>
  copyHeads(recorder, fresh, rowsFrom(present, length));

/** Zeroes the rows from `from` on. */
export function clearHeads(recorder: Recorder, heads: Heads<ElementType>, from: number): void {
  const beyond = rowsFrom(heads, from);
  if (beyond.rows <= 0) return;
  const words = Math.ceil(byteLengthOf(heads.type, heads.size) / 4);
  const address = recorder.words(Array.from({ length: words }, () => ({ word: 0 })));
  copyHeads(recorder, { ...beyond, address, sample: 0, head: 0, row: 0 }, beyond);
}

/** Writes fresh rows into the present from `starts[sample]` on, int64 at this address; 0 where it is 0. */
export function scatterHeads(recorder: Recorder, fresh: Heads, present: Heads, starts: number): void {
  const bytes = (elements: number): number => byteLengthOf(present.type, elements);
  recorder.run(
    "scatterRows",
    {
      source: fresh.address,
      target: present.address,
      indices: starts,
      batch: fresh.batch,
      outer: fresh.heads,
      length: fresh.rows,
      capacity: present.rows,
      rowBytes: bytes(fresh.size),
      sourceSample: bytes(fresh.sample),
      sourceOuter: bytes(fresh.head),
      sourceRow: bytes(fresh.row),
      targetSample: bytes(present.sample),
      targetOuter: bytes(present.head),
      targetRow: bytes(present.row),
    },
    1,
  );
}

/** int64[batch] in memory of the program's own: int32 lengths, one a sample or one for all, plus a number; made anew each time. */
export function lengthsPlus(recorder: Recorder, lengths: Operand, batch: number, by: number): number {
  const address = recorder.temporary(8 * batch);
  runElements(recorder, {
    operation: "add",
    kind: "integer",
    shape: [batch],
    output: { address, type: "int64", strides: [1] },
    inputs: [
      { address: recorder.address(lengths), type: "int32", strides: [lengths.view.size === 1 ? 0 : 1] },
      { address: recorder.words([{ word: by }]), type: "int32", strides: [0] },
    ],
  });
  return address;
}

/** What is added to scores, [batch, heads, queries, keys]; strides in elements, 0 broadcasts. */
export interface MaskPlace {
  readonly mask: number;
  readonly maskType: number;
  readonly maskSample: number;
  readonly maskHead: number;
  readonly maskQuery: number;
  readonly maskKey: number;
  readonly maskLength: number;
}

/** No mask. */
export const noMask: MaskPlace = {
  mask: 0,
  maskType: 0,
  maskSample: 0,
  maskHead: 0,
  maskQuery: 0,
  maskKey: 0,
  maskLength: 0,
};

/** A mask of up to 4 dimensions at an address; a dimension of 1 broadcasts, but for the last. */
export function maskAt(
  address: number,
  type: FloatType | "bool",
  { shape, strides }: { readonly shape: readonly number[]; readonly strides: readonly number[] },
): MaskPlace {
  const lead = 4 - shape.length;
  const stride = (axis: number): number => (axis < lead || shape[axis - lead] === 1 ? 0 : strides[axis - lead]);
  return {
    mask: address,
    maskType: elementCode[type],
    maskSample: stride(0),
    maskHead: stride(1),
    maskQuery: stride(2),
    maskKey: strides.at(-1) ?? 1,
    maskLength: shape.at(-1) ?? 1,
  };
}

/** A window as jobs hold it: −1 for none, and no more than any cache has rows, so that positions can be added to it. */
export const windowOf = (size: number | undefined): number => Math.min(size ?? -1, 2 ** 30);

/** One attention. */
interface AttentionWork {
  readonly query: Heads;
  /** `rows` of keys and values are all there may be. */
  readonly key: Heads<ElementType>;
  readonly value: Heads<ElementType>;
  readonly output: Heads;
  /** int64[batch] at this address: valid keys of each sample, this step's included; 0 where all rows are valid. */
  readonly lengths: number;
  /** Keys before the first query. With lengths it is what they leave, but 0 where this is −1. */
  readonly past: number;
  readonly causal: boolean;
  /** How far back and ahead of its own place a query looks; −1 for no bound. */
  readonly left: number;
  readonly right: number;
  readonly mask: MaskPlace;
  readonly scale: number;
  readonly softcap: number;
  /** Where keys and values are integers, unscaled: what they are. Then there are lengths, the last query stands at the last key, and nothing is masked. */
  readonly levels?: "int8" | "int4" | undefined;
  /** Scores of the queries' type at this address, one a head, that take part in each softmax and bring no value. */
  readonly sinks?: number;
}

/** Queues an attention. */
export function recordAttention(recorder: Recorder, work: AttentionWork): void {
  const { query, key, value, output, levels } = work;
  const { splits, parts: threads } = sharesOf(
    { batch: query.batch, heads: query.heads, kvHeads: key.heads, queries: query.rows, keys: key.rows },
    recorder,
  );
  const parts =
    threads === 1
      ? 1
      : query.rows > 1
        ? threads * partsEach
        : Math.min(threads * partsEach, query.batch * key.heads * splits);
  const job = {
    query: query.address,
    key: key.address,
    value: value.address,
    output: output.address,
    queryType: codeOf(query.type),
    cacheType: levels === undefined ? codeOf(key.type) : pageCode[levels],
    batch: query.batch,
    heads: query.heads,
    kvHeads: key.heads,
    queries: query.rows,
    headSize: query.size,
    valueSize: output.size,
    querySample: query.sample,
    queryHead: query.head,
    queryRow: query.row,
    keySample: key.sample,
    keyHead: key.head,
    keyRow: key.row,
    valueSample: value.sample,
    valueHead: value.head,
    valueRow: value.row,
    outputSample: output.sample,
    outputHead: output.head,
    outputRow: output.row,
    lengths: work.lengths,
    total: key.rows,
    past: work.past,
    causal: work.causal ? 1 : 0,
    left: windowOf(work.left),
    right: windowOf(work.right),
    ...work.mask,
    scale: work.scale,
    softcap: work.softcap,
    splits,
    partials: 0,
    sinks: work.sinks ?? 0,
  };
  const bytes = partialBytes(job);
  const withPartials = bytes === 0 ? job : { ...job, partials: recorder.temporary(bytes) };
  if (levels !== undefined) {
    const pages = { ...withPartials, ...onePageEach(recorder, work) };
    recorder.run(query.rows === 1 ? "pagedDecode" : "pagedPrefill", pages, parts);
  } else recorder.run(query.rows === 1 ? "attentionDecode" : "attentionPrefill", withPartials, parts);
  if (query.rows === 1 && splits > 1) recorder.run("attentionMerge", withPartials, 1);
}

/** A cache of integers as the kernels of pages read it: a sample's rows are one block. Their scales are in the queries and in the output. */
const onePageEach = (
  recorder: Recorder,
  { key, value }: AttentionWork,
): Omit<JobOf<"pagedDecode">, keyof JobOf<"attentionDecode">> => ({
  tables: recorder.words(Array.from({ length: key.batch }, (_, word) => ({ word }))),
  tableBytes: 4,
  tableSample: 1,
  tableHead: 0,
  lengthBytes: 8,
  lengthSample: 1,
  lengthHead: 0,
  blockSize: key.rows,
  keyBlock: key.sample,
  valueBlock: value.sample,
  piece: 0,
  keyPiece: 0,
  valuePiece: 0,
  keyScale: 0,
  valueScale: 0,
  pageHeads: key.heads,
  sums: 0,
  sumsHead: 0,
});
