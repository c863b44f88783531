/**
 * Attention of one query a sample over pages: attention-decode with rows where the tables say. Splits and blocks of rows are the
 * same. A part walks the heads that it has of a sample together where a page holds them side by side.
 */
import { Attention, partialBytes, readQuery, scaleWoven, unweave, weave, writeOutput } from "./attention-decode";
import { endKey, firstKey } from "./attention-range";
import { APART, BLOCK, headBytes } from "./attention-rows";
import { beginWeights, capScores, inverse, LOWEST, scaleRow, weighScores } from "./attention-softmax";
import { FLOAT16, FLOAT32, PAGE_INT8 } from "./codes";
import { expNegative } from "./exponential";
import { pageLength, pageWidth } from "./pages";
import { addPages, scaleScores, scorePages, TILE, Walk } from "./paged-rows";
import { shareStart, splitStart, splitsUsed } from "./share";

/**
 * Attention over pages. Where a row lies its table says: key and value are the pools, keyRow and keyHead strides within a block.
 * cacheType is a pageCode, lengths are of lengthBytes. keySample, valueSample, total, past and the mask are not looked at.
 */
@unmanaged
export class PagedAttention extends Attention {
  tables: usize; // the blocks of each sample, in order; entries behind the last valid row are not read
  tableBytes: i32; // 4 or 8
  tableSample: i32; // strides
  tableHead: i32; // 0: one table for all heads; a page then has all of them
  lengthBytes: i32; // 4 or 8
  lengthSample: i32; // strides
  lengthHead: i32; // 0: one length for all heads
  blockSize: i32;
  keyBlock: i32; // strides between blocks
  valueBlock: i32;
  piece: i32; // elements of a head that lie together; 0: all of them
  keyPiece: i32; // strides between pieces
  valuePiece: i32;
  keyScale: usize; // float32[blocks, blockSize, pageHeads], for bytes
  valueScale: usize;
  pageHeads: i32;
  sums: usize; // float32[batch, heads, sumsHead], optional: probabilities summed over the queries
  sumsHead: i32;
}

/** Query heads that are walked together, at most: their scores lie in scratch. */
const TOGETHER: i32 = 64;

/** Key heads whose rows are unpacked together, at most. */
const UNPACKED: i32 = 8;

/** Bytes of a sample's keys from which on, where a page holds heads side by side, one part walks all heads. */
const WIDE: i32 = 1 << 21;

/** Bytes of a block that are walked together at least, where there are so many: fewer are not worth going there. */
const TOGETHER_BYTES: i32 = 1 << 19;

/** One query a sample: output, or partials where the range is split, which attentionMerge joins. */
export function pagedDecode(job: PagedAttention, part: i32, parts: i32, scratch: usize): void {
  const splits = job.splits;
  const kvHeads = job.kvHeads;
  if (isHeadByHead(job)) {
    const tasks = job.batch * kvHeads * splits;
    const end = shareStart(tasks, part + 1, parts);
    for (let task = shareStart(tasks, part, parts); task < end; task++) {
      const kvHead = (task / splits) % kvHeads;
      decodeSample(job, task / splits / kvHeads, kvHead, kvHead + 1, task % splits, scratch);
    }
    return;
  }
  const tasks = job.batch * kvHeads;
  const start = shareStart(tasks, part, parts);
  const end = shareStart(tasks, part + 1, parts);
  for (let sample = 0; sample < job.batch; sample++) {
    const whole = walksAllHeads(job, pageLength(job, sample, 0));
    const from = whole ? 0 : max(0, start - sample * kvHeads), to = whole ? kvHeads : min(kvHeads, end - sample * kvHeads);
    for (let split = 0; split < splits; split++) {
      if (whole && (sample * splits + split) % parts != part) continue;
      decodeSample(job, sample, from, to, split, scratch);
    }
  }
}

/** True if heads have nothing that they could share. */
// @ts-ignore: decorator
@inline
export function isHeadByHead(job: PagedAttention): bool {
  return job.lengthHead != 0 || job.tableHead != 0;
}

/**
 * True if parts share the splits of a sample with `length` rows and walk all heads of theirs: a long range, where less than whole blocks is what
 * hardware prefetches worst.
 */
export function walksAllHeads(job: PagedAttention, length: i32): bool {
  const bytes = <i64>length * job.keyRow * pageWidth(job.cacheType);
  return splitsUsed(keysOf(job, length), job.splits) > 1 || (job.keyHead < job.keyRow && bytes >= WIDE);
}

/** The key heads from `from` to `to` of a sample over one split of what its query sees. */
export function decodeSample(job: PagedAttention, sample: i32, from: i32, to: i32, split: i32, scratch: usize): void {
  if (isHeadByHead(job)) {
    for (let kvHead = from; kvHead < to; kvHead++) decode(job, sample, kvHead, 1, 1, split, scratch);
    return;
  }
  const group = job.heads / job.kvHeads;
  const bytes = job.keyHead * pageWidth(job.cacheType);
  const near = job.keyHead < job.keyRow ? job.kvHeads : unpacksRows(job) ? 1 : (TOGETHER_BYTES + bytes - 1) / bytes;
  const most = max(1, min(TOGETHER / group, unpacksRows(job) ? UNPACKED : job.kvHeads));
  for (let kvHead = from; kvHead < to; kvHead += most) decode(job, sample, kvHead, min(most, to - kvHead), near, split, scratch);
}

/** The walk; for each head that is walked its query, accumulator, scores and state; a row, and tiles of unpacked ones. */
export function pagedDecodeScratch(job: PagedAttention): usize {
  const size = headBytes(job.headSize), valueSize = headBytes(job.valueSize);
  const group = job.heads / job.kvHeads;
  const walked = min(job.kvHeads, max(1, TOGETHER / group));
  const unpacked = unpacksRows(job) ? min(UNPACKED, walked) : 0;
  return 128 + walked * group * (size + valueSize + APART + 16) + (1 + TILE * unpacked) * max(size, valueSize);
}

/** True if rows are unpacked before they are computed with: in pieces, or of float8. Integers of 8 bits are read as they lie. */
// @ts-ignore: decorator
@inline
function unpacksRows(job: PagedAttention): bool {
  return job.piece != 0 || job.cacheType > PAGE_INT8;
}

/** The keys that the query of a sample with `length` rows sees. */
// @ts-ignore: decorator
@inline
function keysOf(job: PagedAttention, length: i32): i32 {
  const all = changetype<Attention>(changetype<usize>(job));
  return max(0, endKey(all, length, length - 1) - firstKey(all, length - 1));
}

/** `count` key heads of a sample over one split of what its query sees; `near` of them are walked together. */
function decode(job: PagedAttention, sample: i32, kvHead: i32, count: i32, near: i32, split: i32, scratch: usize): void {
  const all = changetype<Attention>(changetype<usize>(job));
  const length = pageLength(job, sample, kvHead);
  const first = firstKey(all, length - 1);
  const keys = keysOf(job, length);
  const from = first + splitStart(keys, split, job.splits);
  const to = first + splitStart(keys, split + 1, job.splits);
  if (job.cacheType == PAGE_INT8 && !unpacksRows(job)) decodeHeads<i8>(job, sample, kvHead, count, near, split, from, to, scratch);
  else if (unpacksRows(job) || job.cacheType == FLOAT32) decodeHeads<f32>(job, sample, kvHead, count, near, split, from, to, scratch);
  else if (job.cacheType == FLOAT16) decodeHeads<u16>(job, sample, kvHead, count, near, split, from, to, scratch);
  else decodeHeads<i16>(job, sample, kvHead, count, near, split, from, to, scratch);
}

/** The query heads of `count` key heads over the rows from `from` to `to`. */
function decodeHeads<T>(
  job: PagedAttention, sample: i32, kvHead: i32, count: i32, near: i32, split: i32, from: i32, to: i32, scratch: usize,
): void {
  const all = changetype<Attention>(changetype<usize>(job));
  const group = job.heads / job.kvHeads;
  const firstHead = kvHead * group;
  const heads = group * count;
  const size = job.headSize;
  const valueSize = job.valueSize;
  const width = <usize>pageWidth(job.cacheType);
  // Scratch: the walk, queries, accumulators, scores, for each head the largest score and the weights' sum, a row, a tile.
  const walk = changetype<Walk>(scratch);
  const queries = scratch + 128;
  const accumulators = queries + heads * headBytes(size);
  const scores = accumulators + heads * headBytes(valueSize);
  const scoresStep = <usize>group * APART;
  const states = scores + <usize>count * scoresStep;
  const row = states + <usize>heads * 16;
  const tile = row + max(headBytes(size), headBytes(valueSize));
  for (let head = 0; head < heads; head++) {
    readQuery<T>(all, sample, firstHead + head, row);
    weave(row, queries + (head / group) * group * headBytes(size), head % group, group, size);
    beginWeights(states + head * 8, split == 0 ? job.sinks : 0, job.queryType, firstHead + head);
  }
  memory.fill(accumulators, 0, heads * headBytes(valueSize));
  walk.group = group;
  walk.blocks = job.tables + <usize>((sample * job.tableSample + kvHead * job.tableHead) * job.tableBytes);
  walk.tableBytes = job.tableBytes;
  walk.blockSize = job.blockSize;
  walk.blockShift = popcnt(job.blockSize) == 1 ? ctz(job.blockSize) : -1;
  walk.scoresStep = scoresStep;
  walk.tile = unpacksRows(job) ? tile : 0;
  for (let block = from; block < to; block += BLOCK) {
    const rows = min(BLOCK, to - block);
    walk.first = block;
    walk.rows = rows;
    for (let head = 0; head < count; head += near) {
      walk.kvHeads = min(near, count - head);
      walk.pageHead = job.tableHead ? 0 : kvHead + head;
      walk.scores = scores + head * scoresStep;
      walk.size = size;
      walk.pool = job.key;
      walk.blockStep = <usize>job.keyBlock * width;
      walk.rowStep = <usize>job.keyRow * width;
      walk.headStep = <usize>job.keyHead * width;
      walk.vectorsStep = group * headBytes(size);
      walk.vectors = queries + head * walk.vectorsStep;
      walk.pieceStep = <usize>job.keyPiece * width;
      walk.scales = job.keyScale;
      scorePages<T>(job, walk);
      if (sizeof<T>() == 1) scaleScores(job, walk, row);
      weighHeads<T>(job, walk, sample, kvHead + head, block, states + head * group * 8, accumulators + head * group * headBytes(valueSize));
      walk.size = valueSize;
      walk.pool = job.value;
      walk.blockStep = <usize>job.valueBlock * width;
      walk.rowStep = <usize>job.valueRow * width;
      walk.headStep = <usize>job.valueHead * width;
      walk.vectorsStep = group * headBytes(valueSize);
      walk.vectors = accumulators + head * walk.vectorsStep;
      walk.pieceStep = <usize>job.valuePiece * width;
      walk.scales = job.valueScale;
      if (sizeof<T>() == 1) scaleScores(job, walk, row);
      addPages<T>(job, walk);
    }
  }
  for (let head = 0; head < heads; head++) {
    unweave(accumulators + (head / group) * group * headBytes(valueSize), row, head % group, group, valueSize);
    const highest = load<f32>(states + head * 8);
    const total = load<f32>(states + head * 8, 4);
    const tookPart = from < to;
    if (job.splits == 1) {
      if (job.sums) normalizeSums(job, sumsRow(job, sample, firstHead + head), from, to, highest, inverse(total, tookPart));
      scaleRow(row, headBytes(valueSize), inverse(total, tookPart));
      writeOutput(all, sample, firstHead + head, row);
    } else {
      const task = (sample * job.heads + firstHead + head) * job.splits + split;
      const partial = job.partials + <usize>task * partialBytes(all);
      store<f32>(partial, total == 0 && tookPart ? LOWEST : highest);
      store<f32>(partial, total, 4);
      memory.copy(partial + 8, row, <usize>valueSize << 2);
    }
  }
}

/** Scores of the heads of a walk become weights; what their accumulators hold is brought to the same scale. */
function weighHeads<T>(
  job: PagedAttention, walk: Walk, sample: i32, kvHead: i32, block: i32, states: usize, accumulators: usize,
): void {
  const group = walk.group;
  const rows = walk.rows;
  const valueSize = job.valueSize;
  for (let head = 0; head < group * walk.kvHeads; head++) {
    const scores = walk.scores + (head / group) * walk.scoresStep + <usize>(head % group) * APART;
    capScores<T>(scores, rows, job.softcap);
    if (job.sums) memory.copy(sumsRow(job, sample, kvHead * group + head) + ((<usize>block) << 2), scores, (<usize>rows) << 2);
    const factor = weighScores<T>(scores, rows, states + head * 8);
    if (factor != 1) scaleWoven(accumulators + (head / group) * group * headBytes(valueSize), head % group, group, valueSize, factor);
  }
}

// @ts-ignore: decorator
@inline
function sumsRow(job: PagedAttention, sample: i32, head: i32): usize {
  return job.sums + ((<usize>((sample * job.heads + head) * job.sumsHead)) << 2);
}

/** Scores of the rows from `from` to `to` become probabilities; the others are zero. */
function normalizeSums(job: PagedAttention, row: usize, from: i32, to: i32, highest: f32, factor: f32): void {
  const origin = highest == -Infinity ? <f32>0 : highest;
  memory.fill(row, 0, (<usize>from) << 2);
  for (let p = row + ((<usize>from) << 2), end = row + ((<usize>to) << 2); p < end; p += 4) {
    const weight = f32x4.extract_lane(expNegative(f32x4.splat(load<f32>(p) - origin)), 0);
    store<f32>(p, weight * factor);
  }
  memory.fill(row + ((<usize>to) << 2), 0, (<usize>(job.sumsHead - to)) << 2);
}

/** The probabilities' sums, after pagedDecode with a range that was split; parts share the heads. */
export function pagedSums(job: PagedAttention, part: i32, parts: i32, scratch: usize): void {
  const all = changetype<Attention>(changetype<usize>(job));
  const bytes = partialBytes(all);
  const splits = job.splits;
  const tasks = job.batch * job.heads;
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const sample = task / job.heads;
    const head = task % job.heads;
    const partials = job.partials + <usize>task * splits * bytes;
    let highest: f32 = -Infinity;
    for (let split = 0; split < splits; split++) highest = max(highest, load<f32>(partials + split * bytes));
    let total: f32 = 0;
    for (let split = 0; split < splits; split++) {
      const distance = load<f32>(partials + split * bytes) - (highest == -Infinity ? <f32>0 : highest);
      total += load<f32>(partials + split * bytes, 4) * f32x4.extract_lane(expNegative(f32x4.splat(distance)), 0);
    }
    const length = pageLength(job, sample, head / (job.heads / job.kvHeads));
    const from = firstKey(all, length - 1);
    const to = max(from, endKey(all, length, length - 1));
    normalizeSums(job, sumsRow(job, sample, head), from, to, highest, inverse(total, from < to));
  }
}
