/**
 * PagedAttention on WASM: one query a sample (decode), many (prefill), or both in one packed batch, over pages where they lie. Computes in float32
 * whatever pages are kept in; bytes are unpacked a few rows at a time.
 */
import { partialBytes, scratchBytes } from "../../wasm-kernels/exports.js";
import type { JobOf } from "../../wasm-kernels/exports.js";
import { elementCode, pageCode } from "../../wasm-kernels/jobs.js";
import type { CallOf, Operand } from "../../graph/kernel.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { sharesOf } from "../shared/wasm/attention-shares.js";
import { pageHeadsOf, pageStrides } from "../shared/paged/strides.js";
import { indexBytes } from "../shared/wasm/pages.js";
import { windowOf } from "../shared/wasm/attention.js";
import { PagedAttention } from "./op.js";

type FloatType = "float32" | "float16" | "bfloat16";
type Call = CallOf<typeof PagedAttention>;

/** Scratch that a thread surely has. */
const mostScratch = 1 << 20;

/** Attention over pages. */
export const pagedAttention: WasmKernel = wasmKernel([PagedAttention], {
  accepts(call) {
    const { Y: output } = call.outputs;
    if (output === undefined) return "only the sums are asked for";
    const gap = Object.entries(call.inputs).find(([, operand]) => operand?.contiguous === false);
    if (gap !== undefined) return `${gap[0]} has gaps`;
    if (output.view.size === 0) return "there is nothing to compute";
    const job = jobOf(call, output, () => 0, 1);
    const needed =
      call.inputs.query_starts === undefined
        ? scratchBytes(job.queries === 1 ? "pagedDecode" : "pagedPrefill", job)
        : scratchBytes(
            "pagedPacked",
            packedJob(job, call, () => 0, false),
          );
    return needed <= mostScratch
      ? true
      : `heads of ${job.headSize} and ${job.valueSize} need more scratch than there is`;
  },
  record(call, recorder) {
    const output = call.outputs.Y!; // or it was not accepted
    if (call.inputs.query_starts !== undefined) return recordPacked(call, output, recorder);
    const { batch, heads, kvHeads, queries, sumsHead } = jobOf(call, output, () => 0, 1);
    const { splits, parts } = sharesOf({ batch, heads, kvHeads, queries, keys: sumsHead }, recorder);
    const job = jobOf(call, output, (operand) => recorder.address(operand), splits);
    if (queries > 1) return recorder.run("pagedPrefill", job, parts);
    decode(job, parts, recorder);
  },
});

function decode(job: JobOf<"pagedDecode">, parts: number, recorder: Recorder): void {
  const bytes = partialBytes(job);
  const withPartials = bytes === 0 ? job : { ...job, partials: recorder.temporary(bytes) };
  recorder.run("pagedDecode", withPartials, parts);
  if (job.splits === 1) return;
  recorder.run("attentionMerge", withPartials, 1);
  if (job.sums !== 0) recorder.run("pagedSums", withPartials, Math.min(parts, job.batch * job.heads));
}

/** Parts for each thread: a part may be held up, and how long samples are is not known here. */
const partsPerThread = 4;

function recordPacked(call: Call, output: Operand, recorder: Recorder): void {
  const { batch, heads, kvHeads, queries, sumsHead } = jobOf(call, output, () => 0, 1);
  // How ranges are split follows from the samples as if each had one query, which are those that are split.
  const { splits } = sharesOf({ batch, heads, kvHeads, queries: 1, keys: sumsHead }, recorder);
  const { parts } = sharesOf({ batch: 1, heads, kvHeads, queries: Math.max(2, queries), keys: sumsHead }, recorder);
  const address = (operand: Operand): number => recorder.address(operand);
  const job = packedJob(jobOf(call, output, address, splits), call, address, recorder.batchInvariant);
  const bytes = partialBytes(job);
  const withPartials = bytes === 0 ? job : { ...job, partials: recorder.temporary(bytes) };
  recorder.run("pagedPacked", withPartials, parts === 1 ? 1 : parts * partsPerThread);
  if (splits > 1) recorder.run("packedMerge", withPartials, Math.min(parts, batch));
}

/** The job of a call with query_starts. */
const packedJob = (
  job: JobOf<"pagedDecode">,
  { inputs: { query_starts: starts } }: Call,
  address: (operand: Operand) => number,
  alike: boolean,
): JobOf<"pagedPacked"> => ({
  ...job,
  starts: address(starts!),
  startBytes: indexBytes(starts!),
  alike: alike ? 1 : 0,
});

function jobOf(
  { inputs, outputs, attrs }: Call,
  output: Operand,
  address: (operand: Operand) => number,
  splits: number,
): JobOf<"pagedDecode"> {
  const { query, key_cache: key, value_cache: value, block_tables: tables, seq_lens: lengths } = inputs;
  const { key_scale: keyScale, value_scale: valueScale, head_sink: sink } = inputs;
  const { attention_sums: sums } = outputs;
  const { cache_mode: layout } = attrs;
  const wide = query.shape.length === 3;
  const isPacked = inputs.query_starts !== undefined;
  const [samples, rows] = wide ? query.shape : [query.shape[0], query.shape[2]];
  // A packed batch has its queries in one row, whichever dimension counts them.
  const [batch, queries] = isPacked ? [tables.shape[0], samples * rows] : [samples, rows];
  const heads = wide ? attrs.q_num_heads! : query.shape[1];
  const headSize = wide ? query.shape[2] / heads : query.shape[3];
  const perHead = tables.shape.length === 3;
  const pageHeads = perHead ? 1 : pageHeadsOf(layout, key.shape, headSize);
  const kvHeads = perHead ? tables.shape[1] : pageHeads;
  const keys = pageStrides(layout, key.shape, pageHeads);
  const values = pageStrides(layout, value.shape, pageHeads);
  const columns = tables.shape.at(-1)!;
  const lengthsPerHead = lengths.shape.length === 2;
  const strides = (size: number): [sample: number, head: number, row: number] =>
    wide || (isPacked && rows === 1)
      ? [queries * heads * size, size, heads * size]
      : [heads * queries * size, queries * size, size];
  const [querySample, queryHead, queryRow] = strides(headSize);
  const [outputSample, outputHead, outputRow] = strides(values.size);
  return {
    query: address(query),
    key: address(key),
    value: address(value),
    output: address(output),
    queryType: elementCode[query.type as FloatType],
    cacheType: pageCode[key.type as keyof typeof pageCode],
    batch,
    heads,
    kvHeads,
    queries,
    headSize,
    valueSize: values.size,
    querySample,
    queryHead,
    queryRow,
    keySample: 0,
    keyHead: keys.head,
    keyRow: keys.row,
    valueSample: 0,
    valueHead: values.head,
    valueRow: values.row,
    outputSample,
    outputHead,
    outputRow,
    lengths: address(lengths),
    total: 0,
    past: 0,
    causal: attrs.is_causal ? 1 : 0,
    left: windowOf(attrs.left_window_size),
    right: windowOf(attrs.right_window_size),
    mask: 0,
    maskType: 0,
    maskSample: 0,
    maskHead: 0,
    maskQuery: 0,
    maskKey: 0,
    maskLength: 0,
    scale: attrs.scale ?? 1 / Math.sqrt(headSize),
    softcap: attrs.softcap,
    splits,
    partials: 0,
    sinks: sink === undefined ? 0 : address(sink),
    tables: address(tables),
    tableBytes: indexBytes(tables),
    tableSample: perHead ? kvHeads * columns : columns,
    tableHead: perHead ? columns : 0,
    lengthBytes: indexBytes(lengths),
    lengthSample: lengthsPerHead ? kvHeads : 1,
    lengthHead: lengthsPerHead ? 1 : 0,
    blockSize: keys.blockSize,
    keyBlock: keys.block,
    valueBlock: values.block,
    piece: keys.piece,
    keyPiece: keys.pieceStep,
    valuePiece: values.pieceStep,
    keyScale: keyScale === undefined ? 0 : address(keyScale),
    valueScale: valueScale === undefined ? 0 : address(valueScale),
    pageHeads,
    sums: sums === undefined ? 0 : address(sums),
    sumsHead: columns * keys.blockSize,
  };
}
