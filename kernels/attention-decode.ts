/**
 * Attention of one query a sample over a cache. Work is cut into tasks, one for each sample, key head and split of the keys' range; a
 * task walks its range in blocks with an online softmax, so that scratch does not grow with the length.
 */
import { addMask, endKey, firstKey, lengthOf, maskRow, positionOf, takesPart } from "./attention-range";
import { APART, BLOCK, chunkOf, headBytes, scoreRows } from "./attention-rows";
import { beginWeights, capScores, inverse, LOWEST, scaleRow, weighScores } from "./attention-softmax";
import { meetSpecials } from "./attention-specials";
import { addRows } from "./attention-values";
import { FLOAT16, FLOAT32 } from "./codes";
import { expNegative } from "./exponential";
import { readRow, widthOf, writeRow } from "./float-types";
import { shareStart, splitStart } from "./share";
import { gain } from "./simd";
import { isMarked } from "./specials";

/** Attention, in all its kernels. Strides serve [batch, heads, length, size] and [batch, length, heads · size] alike. */
@unmanaged
export class Attention {
  query: usize; // [batch, heads, queries, headSize]
  key: usize; // [batch, kvHeads, total, headSize]
  value: usize; // [batch, kvHeads, total, valueSize]
  output: usize; // [batch, heads, queries, valueSize]
  queryType: i32; // elementCode of query and output
  cacheType: i32; // elementCode of key and value
  batch: i32;
  heads: i32; // a multiple of kvHeads
  kvHeads: i32;
  queries: i32; // 1 for the decode kernels
  headSize: i32;
  valueSize: i32;
  querySample: i32;
  queryHead: i32;
  queryRow: i32;
  keySample: i32;
  keyHead: i32;
  keyRow: i32;
  valueSample: i32;
  valueHead: i32;
  valueRow: i32;
  outputSample: i32;
  outputHead: i32;
  outputRow: i32;
  lengths: usize; // int64[batch], optional: valid keys of each sample, this step's included (nonpad_kv_seqlen)
  total: i32; // keys of every sample where lengths is absent
  past: i32; // keys before the first query, where lengths is absent; with lengths it is lengths[sample] - queries, or 0 if this is -1
  causal: i32; // 0 or 1
  left: i32; // window sizes, -1 for none
  right: i32;
  mask: usize; // [batch, heads, queries, maskLength], optional
  maskType: i32; // elementCode; bool: 0 hides the key
  maskSample: i32; // strides; 0 broadcasts
  maskHead: i32;
  maskQuery: i32;
  maskKey: i32;
  maskLength: i32; // keys from here on are hidden
  scale: f32;
  softcap: f32; // 0 for none
  splits: i32; // decode: parts of the keys' range; more than 1 needs partials and attentionMerge
  partials: usize; // float32[batch, heads, splits, 2 + valueSize], optional with splits = 1
  sinks: usize; // [heads] of queryType, optional: scores that take part in each softmax and bring no value
}

/** One query a sample: output, or partials where the range is split, which attentionMerge joins. */
export function attentionDecode(job: Attention, part: i32, parts: i32, scratch: usize): void {
  const tasks = job.batch * job.kvHeads * job.splits;
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const split = task % job.splits;
    const kvHead = (task / job.splits) % job.kvHeads;
    const sample = task / job.splits / job.kvHeads;
    const position = positionOf(job, sample);
    const first = firstKey(job, position);
    const keys = max(0, endKey(job, lengthOf(job, sample), position) - first);
    const from = first + splitStart(keys, split, job.splits);
    const to = first + splitStart(keys, split + 1, job.splits);
    if (job.cacheType == FLOAT32) decodeTask<f32>(job, sample, kvHead, split, from, to, scratch);
    else if (job.cacheType == FLOAT16) decodeTask<u16>(job, sample, kvHead, split, from, to, scratch);
    else decodeTask<i16>(job, sample, kvHead, split, from, to, scratch);
  }
}

/** For each head of a key head its query, accumulator, scores and state; and a row. */
export function attentionDecodeScratch(job: Attention): usize {
  const size = headBytes(job.headSize), valueSize = headBytes(job.valueSize);
  return (job.heads / job.kvHeads) * (size + valueSize + APART + 16) + max(size, valueSize);
}

/**
 * Bytes of an attention's `partials`.
 * @host
 */
export function partialsBytes(job: Attention): usize {
  return job.splits == 1 ? 0 : <usize>job.batch * job.heads * job.splits * partialBytes(job);
}

/** The query heads of one key head over the keys from `from` to `to`. */
function decodeTask<T>(job: Attention, sample: i32, kvHead: i32, split: i32, from: i32, to: i32, scratch: usize): void {
  const heads = job.heads / job.kvHeads;
  const firstHead = kvHead * heads;
  const size = job.headSize;
  const valueSize = job.valueSize;
  // Scratch: queries, accumulators, scores, for each head the largest score and the weights' sum, and a row.
  const queries = scratch;
  const accumulators = queries + heads * headBytes(size);
  const scores = accumulators + heads * headBytes(valueSize);
  const states = scores + <usize>heads * APART;
  const row = states + <usize>heads * 16;
  for (let head = 0; head < heads; head++) {
    readQuery<T>(job, sample, firstHead + head, row);
    weave(row, queries, head, heads, size);
    beginWeights(states + head * 8, split == 0 ? job.sinks : 0, job.queryType, firstHead + head);
  }
  memory.fill(accumulators, 0, heads * headBytes(valueSize));
  const keyBytes = <usize>job.keyRow * sizeof<T>();
  const valueBytes = <usize>job.valueRow * sizeof<T>();
  const key = job.key + (sample * job.keySample + kvHead * job.keyHead) * <i32>sizeof<T>();
  const value = job.value + (sample * job.valueSample + kvHead * job.valueHead) * <i32>sizeof<T>();
  for (let block = from; block < to; block += BLOCK) {
    const rows = min(BLOCK, to - block);
    const met = scoreRows<T>(key + block * keyBytes, keyBytes, rows, queries, size, heads, scores);
    if (isMarked(met)) meetSpecials<T>(key + block * keyBytes, keyBytes, rows, queries, size, heads, scores, false, false);
    let hidden = 0;
    for (let head = 0; head < heads; head++) {
      const scoresRow = scores + <usize>head * APART;
      capScores<T>(scoresRow, rows, job.softcap);
      if (job.mask) hidden += addMask(job, maskRow(job, sample, firstHead + head, 0), block, scoresRow, rows);
      const factor = weighScores<T>(scoresRow, rows, states + head * 8);
      if (factor != 1) scaleWoven(accumulators, head, heads, valueSize, factor);
    }
    // Values of hidden keys may be anything: nothing times NaN is not nothing.
    const added = addRows<T>(value + block * valueBytes, valueBytes, rows, scores, valueSize, heads, accumulators, hidden != 0);
    if (isMarked(added)) meetSpecials<T>(value + block * valueBytes, valueBytes, rows, accumulators, valueSize, heads, scores, true, hidden != 0);
  }
  for (let head = 0; head < heads; head++) {
    unweave(accumulators, row, head, heads, valueSize);
    const highest = load<f32>(states + head * 8);
    const total = load<f32>(states + head * 8, 4);
    const tookPart = total == 0 && takesPart(job, sample, firstHead + head, 0, from, to);
    if (job.splits == 1) {
      scaleRow(row, headBytes(valueSize), inverse(total, tookPart));
      writeOutput(job, sample, firstHead + head, row);
    } else {
      const task = (sample * job.heads + firstHead + head) * job.splits + split;
      const partial = job.partials + <usize>task * partialBytes(job);
      store<f32>(partial, tookPart ? LOWEST : highest);
      store<f32>(partial, total, 4);
      memory.copy(partial + 8, row, <usize>valueSize << 2);
    }
  }
}

// @ts-ignore: decorator
@inline
export function partialBytes(job: Attention): usize {
  return (<usize>job.valueSize + 2) << 2;
}

/** Reads a query as float32, scaled, zeros behind it up to whole vectors. */
export function readQuery<T>(job: Attention, sample: i32, head: i32, target: usize): void {
  const size = job.headSize;
  const type = job.queryType;
  v128.store(target + headBytes(size) - 16, i32x4.splat(0));
  readRow(job.query + (sample * job.querySample + head * job.queryHead) * widthOf(type), type, target, size);
  scaleRow(target, headBytes(size), job.scale * gain<T>());
}

export function writeOutput(job: Attention, sample: i32, head: i32, source: usize): void {
  const type = job.queryType;
  const target = job.output + (sample * job.outputSample + head * job.outputHead) * widthOf(type);
  writeRow(source, target, type, job.valueSize);
}

/** The first vector of a head among woven ones: they are woven in fours. */
// @ts-ignore: decorator
@inline
export function wovenStart(head: i32, size: i32): usize {
  return (head & ~3) * headBytes(size) + ((head & 3) << 4);
}

/** The bytes between vectors of a head among woven ones. */
// @ts-ignore: decorator
@inline
export function wovenStride(head: i32, heads: i32): usize {
  return chunkOf(heads - (head & ~3)) << 4;
}

export function weave(row: usize, woven: usize, head: i32, heads: i32, size: i32): void {
  woven += wovenStart(head, size);
  const stride = wovenStride(head, heads);
  for (const end = row + headBytes(size); row < end; row += 16, woven += stride) v128.store(woven, v128.load(row));
}

export function unweave(woven: usize, row: usize, head: i32, heads: i32, size: i32): void {
  woven += wovenStart(head, size);
  const stride = wovenStride(head, heads);
  for (const end = row + headBytes(size); row < end; row += 16, woven += stride) v128.store(row, v128.load(woven));
}

export function scaleWoven(woven: usize, head: i32, heads: i32, size: i32, factor: f32): void {
  woven += wovenStart(head, size);
  const stride = wovenStride(head, heads);
  const f = f32x4.splat(factor);
  for (let left = (size + 3) >> 2; left > 0; left--, woven += stride) v128.store(woven, f32x4.mul(v128.load(woven), f));
}

/** Joins the splits of an attention into its output; parts share the heads. */
export function attentionMerge(job: Attention, part: i32, parts: i32, scratch: usize): void {
  const bytes = partialBytes(job);
  const splits = job.splits;
  const tasks = job.batch * job.heads;
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const first = job.partials + <usize>task * splits * bytes;
    let highest: f32 = -Infinity;
    for (let split = 0; split < splits; split++) highest = max(highest, load<f32>(first + split * bytes));
    const tookPart = highest != -Infinity;
    if (!tookPart) highest = 0;
    let total: f32 = 0;
    memory.fill(scratch, 0, bytes);
    for (let split = 0; split < splits; split++) {
      const partial = first + split * bytes;
      const factor = f32x4.extract_lane(expNegative(f32x4.splat(load<f32>(partial) - highest)), 0);
      total += load<f32>(partial, 4) * factor;
      for (let i: usize = 8; i < bytes; i += 4) {
        const sum = scratch + i - 8;
        store<f32>(sum, load<f32>(sum) + load<f32>(partial + i) * factor);
      }
    }
    scaleRow(scratch, headBytes(job.valueSize), inverse(total, tookPart));
    writeOutput(job, task / job.heads, task % job.heads, scratch);
  }
}

/** A row, and the two numbers before it. */
export function attentionMergeScratch(job: Attention): usize {
  return headBytes(job.valueSize) + 16;
}
