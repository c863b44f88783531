/**
 * Attention over pages of a packed batch: samples with any number of queries, one sample behind the other. One query of a sample is computed as
 * in paged-decode, several in the tiles of attention-prefill. Each sample is handed over as a job of its own, in scratch.
 */
import { attendTile, layOut, ROWS, Tile } from "./attention-prefill";
import { Attention, attentionMerge, attentionMergeScratch, partialBytes } from "./attention-decode";
import { endKey, firstKey } from "./attention-range";
import { widthOf } from "./float-types";
import { decodeSample, isHeadByHead, PagedAttention, pagedDecodeScratch, pagedSums, walksAllHeads } from "./paged-decode";
import { pagedPrefillScratch } from "./paged-prefill";
import { pageLength, readIndex } from "./pages";
import { shareStart } from "./share";

/** Attention over pages with the queries of all samples in one row: queryRow and outputRow go from one to the next. batch is that of the tables. */
@unmanaged
export class PackedAttention extends PagedAttention {
  starts: usize; // [batch + 1]: where the queries of each sample begin, and where the last one's end
  startBytes: i32; // 4 or 8
  alike: i32; // 1: each query is computed as if it were the only one of its sample; not with sums
}

/** Bytes at the start of scratch for a sample's own job, and for the length that one query sees. */
const OWN: usize = 512;
const LENGTH: usize = 504;

/** Keys that a query and a tile cost beside those they see, and rows that a tile costs beside its own. */
const QUERY_KEYS: i64 = 32;
const TILE_KEYS: i64 = 16;
const TILE_ROWS: i64 = 8;

/** All samples; where ranges are split, partials of those with one query, which packedMerge joins. Parts have equal shares of the work. */
export function pagedPacked(job: PackedAttention, part: i32, parts: i32, scratch: usize): void {
  const own = changetype<PackedAttention>(scratch);
  // First all of it is counted: nothing lies from 0 up to 0.
  const all = parts == 1 ? i64.MAX_VALUE >> 8 : takeWork(job, own, 0, 0, scratch + OWN);
  takeWork(job, own, (all * part) / parts, (all * (part + 1)) / parts, scratch + OWN);
}

/** A sample's job, and what either kernel needs. */
export function pagedPackedScratch(job: PackedAttention): usize {
  return OWN + max(pagedPrefillScratch(job), pagedDecodeScratch(job));
}

/** Joins the splits of samples with one query, and makes their sums; parts share the samples. */
export function packedMerge(job: PackedAttention, part: i32, parts: i32, scratch: usize): void {
  const own = changetype<PackedAttention>(scratch);
  const end = shareStart(job.batch, part + 1, parts);
  for (let sample = shareStart(job.batch, part, parts); sample < end; sample++) {
    if (startOf(job, sample + 1) - startOf(job, sample) != 1) continue;
    takeSample(job, own, sample, 1);
    attentionMerge(changetype<Attention>(scratch), 0, 1, scratch + OWN);
    if (job.sums) pagedSums(changetype<PagedAttention>(scratch), 0, 1, scratch + OWN);
  }
}

export function packedMergeScratch(job: PackedAttention): usize {
  return OWN + attentionMergeScratch(job);
}

// @ts-ignore: decorator
@inline
function startOf(job: PackedAttention, sample: i32): i32 {
  return readIndex(job.starts, job.startBytes, sample);
}

/** Makes `own` the job of one sample with `rows` queries. */
function takeSample(job: PackedAttention, own: PackedAttention, sample: i32, rows: i32): void {
  const width = widthOf(job.queryType);
  const first = startOf(job, sample);
  memory.copy(changetype<usize>(own), changetype<usize>(job), offsetof<PackedAttention>());
  own.batch = 1;
  own.queries = rows;
  own.query = job.query + <usize>first * job.queryRow * width;
  own.output = job.output + <usize>first * job.outputRow * width;
  own.lengths = job.lengths + <usize>sample * job.lengthSample * job.lengthBytes;
  own.tables = job.tables + <usize>sample * job.tableSample * job.tableBytes;
  own.splits = rows == 1 ? job.splits : 1;
  own.partials = job.partials + <usize>sample * job.heads * job.splits * partialBytes(changetype<Attention>(changetype<usize>(job)));
  if (job.sums) own.sums = job.sums + ((<usize>sample * job.heads * job.sumsHead) << 2);
}

/** The same, of query `row` alone: a head has as many rows then as the query sees. */
function takeQuery(job: PackedAttention, own: PackedAttention, sample: i32, kvHead: i32, rows: i32, row: i32): void {
  const all = changetype<Attention>(changetype<usize>(job));
  const width = widthOf(job.queryType);
  const length = pageLength(changetype<PagedAttention>(changetype<usize>(job)), sample, kvHead);
  const position = length - rows + row;
  const from = firstKey(all, position);
  const to = max(from, endKey(all, length, position));
  takeSample(job, own, sample, 1);
  own.query += <usize>row * job.queryRow * width;
  own.output += <usize>row * job.outputRow * width;
  own.lengths = changetype<usize>(own) + LENGTH;
  store<i32>(own.lengths, from < to ? to : 0);
  own.lengthBytes = 4;
  own.lengthHead = 0;
  own.causal = 0;
  own.right = -1;
  own.left = job.left < 0 ? -1 : to - 1 - from;
}

/** Does what has its middle from `low` up to `high`, where all work stands one behind the other; how much there is of it. */
function takeWork(job: PackedAttention, own: PackedAttention, low: i64, high: i64, scratch: usize): i64 {
  let at: i64 = 0;
  for (let sample = 0, start = 0; sample < job.batch; sample++) {
    const end = startOf(job, sample + 1);
    const rows = end - start;
    start = end;
    if (rows == 0) {
      if (job.sums && at >= low && at < high) clearSums(job, sample);
      at += job.sums ? 1 : 0;
    } else if (rows > 1 && (!job.alike || job.sums)) at = takeTiles(job, own, sample, rows, at, low, high, scratch);
    else for (let row = 0; row < rows; row++) at = takeRow(job, own, sample, rows, row, at, low, high, scratch);
  }
  return at;
}

function clearSums(job: PackedAttention, sample: i32): void {
  const bytes = (<usize>job.heads * job.sumsHead) << 2;
  memory.fill(job.sums + sample * bytes, 0, bytes);
}

/** One query of `rows`: heads side by side, or splits of a long range. Returns where the next work stands. */
function takeRow(
  job: PackedAttention, own: PackedAttention, sample: i32, rows: i32, row: i32, at: i64, low: i64, high: i64, scratch: usize,
): i64 {
  const pages = changetype<PagedAttention>(changetype<usize>(job));
  const whole = !isHeadByHead(pages) && walksAllHeads(pages, pageLength(pages, sample, 0));
  // What is shared: splits, each with all heads, or heads, each with all splits.
  const shared = whole ? job.splits : job.kvHeads;
  let work: i64 = 0, from = 0, to = 0;
  for (let i = 0; i < shared; i++, at += work) {
    if (i == 0 || job.lengthHead) work = queryWork(job, pageLength(pages, sample, whole ? 0 : i), rows, row);
    if (i == 0 && whole) work = max(1, (work * job.kvHeads) / shared);
    if (!isWithin(at, work, low, high)) continue;
    if (from == to) from = i;
    to = i + 1;
  }
  if (from == to) return at;
  const firstHead = whole ? 0 : from, endHead = whole ? job.kvHeads : to;
  const firstSplit = whole ? from : 0, endSplit = whole ? to : job.splits;
  const step = job.lengthHead ? 1 : endHead - firstHead;
  for (let kvHead = firstHead; kvHead < endHead; kvHead += step) {
    takeQuery(job, own, sample, kvHead, rows, row);
    for (let split = firstSplit; split < endSplit; split++)
      decodeSample(changetype<PagedAttention>(changetype<usize>(own)), 0, kvHead, kvHead + step, split, scratch);
  }
  return at;
}

/** Several queries, a tile of a key head at a time; where probabilities are summed, all tiles of it. */
function takeTiles(
  job: PackedAttention, own: PackedAttention, sample: i32, rows: i32, at: i64, low: i64, high: i64, scratch: usize,
): i64 {
  const group = job.heads / job.kvHeads;
  const tiles = (rows * group + ROWS - 1) / ROWS;
  const step = job.sums ? tiles : 1;
  let tile = changetype<Tile>(0);
  for (let kvHead = 0; kvHead < job.kvHeads; kvHead++) {
    const length = pageLength(changetype<PagedAttention>(changetype<usize>(job)), sample, kvHead);
    for (let first = 0; first < tiles; first += step) {
      let work: i64 = 0;
      for (let at = first; at < first + step; at++) work += tileWork(job, length, rows, at * ROWS, group);
      const isOwn = isWithin(at, work, low, high);
      at += work;
      if (!isOwn) continue;
      if (!changetype<usize>(tile)) {
        takeSample(job, own, sample, rows);
        tile = layOut(changetype<Attention>(changetype<usize>(own)), scratch, changetype<usize>(own));
      }
      for (let at = first; at < first + step; at++)
        attendTile(changetype<Attention>(changetype<usize>(own)), tile, 0, kvHead, at * ROWS);
    }
  }
  return at;
}

// @ts-ignore: decorator
@inline
function isWithin(at: i64, work: i64, low: i64, high: i64): bool {
  const middle = at + (work >> 1);
  return middle >= low && middle < high;
}

/** What a query costs for each key head. */
function queryWork(job: PackedAttention, length: i32, rows: i32, row: i32): i64 {
  const all = changetype<Attention>(changetype<usize>(job));
  const position = length - rows + row;
  return (<i64>max(0, endKey(all, length, position) - firstKey(all, position)) + QUERY_KEYS) * (job.heads / job.kvHeads + 4);
}

function tileWork(job: PackedAttention, length: i32, rows: i32, firstRow: i32, group: i32): i64 {
  const all = changetype<Attention>(changetype<usize>(job));
  const count = min(ROWS, rows * group - firstRow);
  const position = length - rows;
  const from = firstKey(all, position + firstRow / group);
  const to = endKey(all, length, position + (firstRow + count - 1) / group);
  return (<i64>max(0, to - from) + TILE_KEYS) * (count + TILE_ROWS);
}
