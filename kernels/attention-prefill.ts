/**
 * Attention of many queries, in tiles of ROWS rows by KEYS keys with an online softmax: memory follows the tile, not the lengths. The rows of a
 * tile are the queries of all heads that share a key head, so that a tile of keys and values is packed once for all of them.
 */
import { Attention } from "./attention-decode";
import { addMask, endKey, firstKey, lengthOf, maskRow, positionOf, takesPart } from "./attention-range";
import { beginWeights, capScores, inverse, scaleRow, weighScores } from "./attention-softmax";
import { FLOAT16, FLOAT32 } from "./codes";
import { expNegative } from "./exponential";
import { fromFloat16, readOne, readRow, widthOf, writeRow } from "./float-types";
import { addTile, weaveRows } from "./matmul";
import { PagedAttention } from "./paged-decode";
import { locateRows, pageLength, pageWidth, scaleOf, unpackRow, unpacks } from "./pages";
import { fma, zero } from "./simd";

export const ROWS: i32 = 64;
export const KEYS: i32 = 64;

/** A tile's place in scratch, and where its rows begin. */
@unmanaged
export class Tile {
  queries: usize; // [ROWS / 4][headSize][4]
  keys: usize; // [KEYS / 8][headSize][8]
  values: usize; // [valuePanels][KEYS][8]
  scores: usize; // [ROWS][KEYS]
  weights: usize; // [ROWS / 4][KEYS][4]
  sums: usize; // [ROWS][valueBytes]
  states: usize; // [ROWS][2]
  rows: usize; // four rows of headSize
  keyRows: usize; // [KEYS] addresses
  valueRows: usize; // [KEYS] addresses
  slots: usize; // [KEYS], of pages
  unpacked: usize; // [KEYS] rows of pages, as float32
  pages: usize; // the job of attention over pages; 0 for a cache with pitch
  type: i32; // of the rows that are read
  valueBytes: usize;
  firstRow: i32;
  count: i32; // of rows
  sample: i32;
  kvHead: i32;
  group: i32; // heads that share a key head
}

/** Any number of queries. Parts take turns with the tiles: under a causal mask later ones cost more. */
export function attentionPrefill(job: Attention, part: i32, parts: i32, scratch: usize): void {
  prefill(changetype<usize>(job), part, parts, scratch, 0);
}

/** A tile, as layOut places it. */
export function attentionPrefillScratch(job: Attention): usize {
  const size = (<usize>job.headSize + 3) & ~3;
  const valueBytes = ((<usize>job.valueSize + 7) & ~7) << 2;
  const rows = size * (ROWS + KEYS + 4) * 4 + valueBytes * (KEYS + ROWS);
  return 128 + rows + 2 * ROWS * KEYS * 4 + ROWS * 8 + 3 * KEYS * 4;
}

/** The same; `pages` is the job's address again where the cache is pages. Sums of probabilities are of one part each. */
export function prefill(at: usize, part: i32, parts: i32, scratch: usize, pages: usize): void {
  const job = changetype<Attention>(at);
  const group = job.heads / job.kvHeads;
  const rows = group * job.queries;
  const tiles = (rows + ROWS - 1) / ROWS;
  const tasks = job.batch * job.kvHeads * tiles;
  const tile = layOut(job, scratch, pages);
  const sums = pages ? changetype<PagedAttention>(pages).sums : 0;
  for (let task = 0; task < tasks; task++) {
    if ((sums ? task / tiles : task) % parts != part) continue;
    attendTile(job, tile, task / tiles / job.kvHeads, (task / tiles) % job.kvHeads, (task % tiles) * ROWS);
  }
}

/** A tile in scratch, for any of the job's rows. */
export function layOut(job: Attention, scratch: usize, pages: usize): Tile {
  const tile = changetype<Tile>(scratch);
  tile.group = job.heads / job.kvHeads;
  tile.pages = pages;
  tile.type = pages && unpacks(changetype<PagedAttention>(pages)) ? FLOAT32 : job.cacheType;
  const size = (<usize>job.headSize + 3) & ~3;
  tile.valueBytes = ((<usize>job.valueSize + 7) & ~7) << 2;
  tile.queries = scratch + 128;
  tile.keys = tile.queries + size * (ROWS * 4);
  tile.values = tile.keys + size * (KEYS * 4);
  tile.scores = tile.values + tile.valueBytes * KEYS;
  tile.weights = tile.scores + ROWS * KEYS * 4;
  tile.sums = tile.weights + ROWS * KEYS * 4;
  tile.states = tile.sums + tile.valueBytes * ROWS;
  tile.rows = tile.states + ROWS * 8;
  tile.keyRows = tile.rows + size * 16;
  tile.valueRows = tile.keyRows + KEYS * 4;
  tile.slots = tile.valueRows + KEYS * 4;
  tile.unpacked = tile.slots + KEYS * 4;
  return tile;
}

// Rows run over the heads of a query before they go on to the next query.

// @ts-ignore: decorator
@inline
function queryOf(tile: Tile, row: i32): i32 {
  return (tile.firstRow + row) / tile.group;
}

// @ts-ignore: decorator
@inline
function headOf(tile: Tile, row: i32): i32 {
  return tile.kvHead * tile.group + ((tile.firstRow + row) % tile.group);
}

/** The rows from `firstRow` on of the heads of a key head. */
export function attendTile(job: Attention, tile: Tile, sample: i32, kvHead: i32, firstRow: i32): void {
  tile.sample = sample;
  tile.kvHead = kvHead;
  tile.firstRow = firstRow;
  tile.count = min(ROWS, tile.group * job.queries - firstRow);
  const pages = changetype<PagedAttention>(tile.pages);
  if (tile.pages && pages.sums && firstRow == 0) clearSums(pages, tile);
  const length = tile.pages ? pageLength(pages, sample, tile.kvHead) : lengthOf(job, sample);
  const position = tile.pages ? length - job.queries : positionOf(job, sample);
  // The keys that any row may see: ranges move on with the query.
  const from = firstKey(job, position + queryOf(tile, 0));
  const to = endKey(job, length, position + queryOf(tile, tile.count - 1));
  if (from < to) packQueries(job, tile);
  memory.fill(tile.sums, 0, tile.valueBytes * ROWS);
  for (let row = 0; row < ROWS; row++) {
    beginWeights(tile.states + ((<usize>row) << 3), row < tile.count ? job.sinks : 0, job.queryType, headOf(tile, row));
  }
  for (let key = from; key < to; key += KEYS) {
    const keys = min(KEYS, to - key);
    locate(job, tile, key, keys);
    packKeys(job, tile, keys);
    scoreTile(job, tile, keys);
    weighTile(job, tile, key, keys, length, position);
    if (packValues(job, tile, keys)) addValues(tile, keys);
    else addValuesOneByOne(job, tile, keys);
  }
  if (tile.pages && pages.sums) addSums(job, tile, from, to, length, position);
  const type = job.queryType;
  for (let row = 0; row < tile.count; row++) {
    const sums = tile.sums + row * tile.valueBytes;
    scaleRow(sums, tile.valueBytes, inverseOf(job, tile, row, length, position));
    const at = sample * job.outputSample + headOf(tile, row) * job.outputHead + queryOf(tile, row) * job.outputRow;
    writeRow(sums, job.output + at * widthOf(type), type, job.valueSize);
  }
}

/** What turns the sum of a row's weights into 1. */
function inverseOf(job: Attention, tile: Tile, row: i32, length: i32, position: i32): f32 {
  const total = load<f32>(tile.states + ((<usize>row) << 3), 4);
  if (total != 0) return inverse(total, true);
  const query = queryOf(tile, row);
  const from = firstKey(job, position + query), to = endKey(job, length, position + query);
  return inverse(total, takesPart(job, tile.sample, headOf(tile, row), query, from, to));
}

/** The tile's queries, scaled; rows that are not there are zero. */
function packQueries(job: Attention, tile: Tile): void {
  const size = job.headSize;
  const type = job.queryType;
  const bytes = ((<usize>size + 3) & ~3) << 2;
  for (let first = 0; first < tile.count; first += 4) {
    for (let row = first; row < first + 4; row++) {
      const target = tile.rows + (row - first) * bytes;
      memory.fill(target, 0, bytes);
      if (row >= tile.count) continue;
      const at = tile.sample * job.querySample + headOf(tile, row) * job.queryHead + queryOf(tile, row) * job.queryRow;
      readRow(job.query + at * widthOf(type), type, target, size);
      scaleRow(target, bytes, job.scale);
    }
    weaveRows(tile.rows, bytes, size, tile.queries + ((<usize>(first * size)) << 2));
  }
}

/** Four elements as float32, whatever they are. */
// @ts-ignore: decorator
@inline
function read4(p: usize, type: i32): v128 {
  if (type == FLOAT32) return v128.load(p);
  const bits = v128.load_ext<u16>(p);
  return type == FLOAT16 ? fromFloat16(bits) : i32x4.shl(bits, 16);
}

/** The addresses of `count` keys and values from `first` on. */
function locate(job: Attention, tile: Tile, first: i32, count: i32): void {
  if (tile.pages) return locatePages(changetype<PagedAttention>(tile.pages), tile, first, count);
  const width = widthOf(job.cacheType);
  let key = job.key + (tile.sample * job.keySample + tile.kvHead * job.keyHead + first * job.keyRow) * width;
  let value = job.value + (tile.sample * job.valueSample + tile.kvHead * job.valueHead + first * job.valueRow) * width;
  for (let i: usize = 0; i < (<usize>count) << 2; i += 4, key += job.keyRow * width, value += job.valueRow * width) {
    store<usize>(tile.keyRows + i, key);
    store<usize>(tile.valueRows + i, value);
  }
}

function locatePages(job: PagedAttention, tile: Tile, first: i32, count: i32): void {
  locateRows(job, tile.sample, tile.kvHead, first, count, tile.keyRows, tile.valueRows, tile.slots);
  if (job.tableHead) return;
  const width = pageWidth(job.cacheType);
  const key = <usize>tile.kvHead * job.keyHead * width, value = <usize>tile.kvHead * job.valueHead * width;
  for (let i: usize = 0; i < (<usize>count) << 2; i += 4) {
    store<usize>(tile.keyRows + i, load<usize>(tile.keyRows + i) + key);
    store<usize>(tile.valueRows + i, load<usize>(tile.valueRows + i) + value);
  }
}

/** Rows of pages that do not lie as they are computed with: as float32, and their addresses. */
function unpackRows(job: PagedAttention, tile: Tile, table: usize, size: i32, step: i32, scales: usize, count: i32): void {
  if (!unpacks(job)) return;
  const head = job.tableHead ? 0 : tile.kvHead;
  const bytes = (((<usize>size) + 3) >> 2) << 4;
  let target = tile.unpacked;
  for (let i: usize = 0; i < (<usize>count) << 2; i += 4, target += bytes) {
    const scale = scaleOf(job, scales, load<i32>(tile.slots + i), head);
    unpackRow(load<usize>(table + i), job.cacheType, target, size, job.piece, <usize>step * pageWidth(job.cacheType), scale);
    store<usize>(table + i, target);
  }
}

/** Keys as panels of eight; keys that are not there are zero. */
function packKeys(job: Attention, tile: Tile, count: i32): void {
  if (tile.pages) {
    const pages = changetype<PagedAttention>(tile.pages);
    unpackRows(pages, tile, tile.keyRows, job.headSize, pages.keyPiece, pages.keyScale, count);
  }
  const type = tile.type;
  const width = widthOf(type);
  const size = job.headSize;
  for (let key = 0; key < count; key += 4) {
    let target = tile.keys + ((<usize>((key >> 3) * size)) << 5) + ((key & 4) << 2);
    const rows = tile.keyRows + ((<usize>key) << 2);
    let i = 0;
    if (key + 4 <= count) {
      let p = load<usize>(rows), p1 = load<usize>(rows, 4), p2 = load<usize>(rows, 8), p3 = load<usize>(rows, 12);
      const bytes = 4 * width;
      for (; i + 4 <= size; i += 4, p += bytes, p1 += bytes, p2 += bytes, p3 += bytes, target += 128) {
        const a = read4(p, type), b = read4(p1, type), c = read4(p2, type), d = read4(p3, type);
        const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5), cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
        const AB = v128.shuffle<i32>(a, b, 2, 6, 3, 7), CD = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
        v128.store(target, v128.shuffle<i64>(ab, cd, 0, 2));
        v128.store(target, v128.shuffle<i64>(ab, cd, 1, 3), 32);
        v128.store(target, v128.shuffle<i64>(AB, CD, 0, 2), 64);
        v128.store(target, v128.shuffle<i64>(AB, CD, 1, 3), 96);
      }
    }
    for (; i < size; i++, target += 32) {
      v128.store(target, zero());
      for (let j = 0; j < min(4, count - key); j++)
        store<f32>(target + (j << 2), readOne(load<usize>(rows + (j << 2)) + i * width, type));
    }
  }
  if (((count + 3) >> 2) & 1) {
    // The second half of the last panel.
    let target = tile.keys + ((<usize>((count >> 3) * size)) << 5) + 16;
    for (let i = 0; i < size; i++, target += 32) v128.store(target, zero());
  }
}

/** scores = queries · keys */
function scoreTile(job: Attention, tile: Tile, keys: i32): void {
  const size = job.headSize;
  memory.fill(tile.scores, 0, ROWS * KEYS * 4);
  for (let key = 0; key < keys; key += 8) {
    const panel = tile.keys + ((<usize>(key * size)) << 2);
    for (let row = 0; row < tile.count; row += 4) {
      const target = tile.scores + ((<usize>(row * KEYS + key)) << 2);
      addTile(tile.queries + ((<usize>(row * size)) << 2), panel, size, target, KEYS * 4);
    }
  }
}

/** Caps a row's scores; the keys that it may not see get -infinity. */
function limitScores(job: Attention, tile: Tile, row: i32, first: i32, count: i32, length: i32, position: i32): void {
  const scores = tile.scores + ((<usize>(row * KEYS)) << 2);
  const query = queryOf(tile, row);
  const from = min(count, max(0, firstKey(job, position + query) - first));
  const to = max(from, min(count, endKey(job, length, position + query) - first));
  capScores<f32>(scores, KEYS, job.softcap);
  for (let i = 0; i < from; i++) store<f32>(scores + ((<usize>i) << 2), -Infinity);
  for (let i = to; i < KEYS; i++) store<f32>(scores + ((<usize>i) << 2), -Infinity);
  if (job.mask && from < to) {
    const mask = maskRow(job, tile.sample, headOf(tile, row), query);
    addMask(job, mask, first + from, scores + ((<usize>from) << 2), to - from);
  }
}

/** Scores to weights, row by row: the keys a row may not see have none. */
function weighTile(job: Attention, tile: Tile, first: i32, count: i32, length: i32, position: i32): void {
  for (let row = 0; row < tile.count; row++) {
    const scores = tile.scores + ((<usize>(row * KEYS)) << 2);
    limitScores(job, tile, row, first, count, length, position);
    const factor = weighScores<f32>(scores, KEYS, tile.states + ((<usize>row) << 3));
    if (factor != 1) scaleRow(tile.sums + row * tile.valueBytes, tile.valueBytes, factor);
  }
  memory.fill(tile.scores + ((<usize>(tile.count * KEYS)) << 2), 0, (<usize>(-tile.count & 3) * KEYS) << 2);
  for (let row = 0; row < tile.count; row += 4) {
    weaveRows(tile.scores + ((<usize>(row * KEYS)) << 2), KEYS * 4, KEYS, tile.weights + ((<usize>(row * KEYS)) << 2));
  }
}

/** Values as panels of eight columns, zero where no row weighs the key. False if one is infinite or NaN: then 0 times it is not 0. */
function packValues(job: Attention, tile: Tile, count: i32): bool {
  if (tile.pages) {
    const pages = changetype<PagedAttention>(tile.pages);
    unpackRows(pages, tile, tile.valueRows, job.valueSize, pages.valuePiece, pages.valueScale, count);
  }
  const type = tile.type;
  const width = widthOf(type);
  const size = job.valueSize;
  let check = zero();
  for (let key = 0; key < count; key++) {
    let target = tile.values + ((<usize>key) << 5);
    const isSeen = weighed(tile, key);
    let p = load<usize>(tile.valueRows + ((<usize>key) << 2));
    for (let i = 0; i < size; i += 8, target += KEYS * 32, p += 8 * width) {
      v128.store(target, zero());
      v128.store(target, zero(), 16);
      if (!isSeen) continue;
      if (i + 8 <= size) {
        v128.store(target, read4(p, type));
        v128.store(target, read4(p + 4 * width, type), 16);
      } else readRow(p, type, target, size - i);
      check = fma(v128.load(target), zero(), check);
      check = fma(v128.load(target, 16), zero(), check);
    }
  }
  return !v128.any_true(f32x4.ne(check, check));
}

/** True if any row has a weight for the key. */
function weighed(tile: Tile, key: i32): bool {
  let any = zero();
  let p = tile.weights + ((<usize>key) << 4);
  for (let row = 0; row < tile.count; row += 4, p += KEYS * 16) any = v128.or(any, v128.load(p));
  return v128.any_true(any);
}

/** sums += weights · values */
function addValues(tile: Tile, keys: i32): void {
  for (let column: usize = 0; column < tile.valueBytes; column += 32) {
    const panel = tile.values + column * KEYS;
    for (let row = 0; row < tile.count; row += 4) {
      const weights = tile.weights + ((<usize>(row * KEYS)) << 2);
      addTile(weights, panel, keys, tile.sums + row * tile.valueBytes + column, tile.valueBytes);
    }
  }
}

/** The same, where only weighed values are looked at. */
function addValuesOneByOne(job: Attention, tile: Tile, keys: i32): void {
  for (let row = 0; row < tile.count; row++) {
    for (let key = 0; key < keys; key++) {
      const weight = load<f32>(tile.scores + ((<usize>(row * KEYS + key)) << 2));
      if (weight == 0) continue;
      for (let i = 0; i < job.valueSize; i++) {
        const value = load<f32>(tile.values + ((<usize>(((i >> 3) * KEYS + key) * 8 + (i & 7))) << 2));
        const sum = tile.sums + row * tile.valueBytes + ((<usize>i) << 2);
        store<f32>(sum, load<f32>(sum) + weight * value);
      }
    }
  }
}

function clearSums(job: PagedAttention, tile: Tile): void {
  const head = tile.sample * job.heads + tile.kvHead * tile.group;
  memory.fill(job.sums + ((<usize>(head * job.sumsHead)) << 2), 0, (<usize>(tile.group * job.sumsHead)) << 2);
}

/** Adds each row's probabilities, now that its largest score and its sum are known, to those of its head. */
function addSums(job: Attention, tile: Tile, first: i32, end: i32, length: i32, position: i32): void {
  const pages = changetype<PagedAttention>(tile.pages);
  for (let key = first; key < end; key += KEYS) {
    const keys = min(KEYS, end - key);
    locate(job, tile, key, keys);
    packKeys(job, tile, keys);
    scoreTile(job, tile, keys);
    for (let row = 0; row < tile.count; row++) {
      limitScores(job, tile, row, key, keys, length, position);
      const state = tile.states + ((<usize>row) << 3);
      const highest = load<f32>(state);
      if (highest == -Infinity) continue;
      const factor = inverse(load<f32>(state, 4), true);
      const head = tile.sample * job.heads + headOf(tile, row);
      const sums = pages.sums + ((<usize>(head * pages.sumsHead + key)) << 2);
      const scores = tile.scores + ((<usize>(row * KEYS)) << 2);
      for (let i: usize = 0; i < (<usize>keys) << 2; i += 4) {
        const weight = f32x4.extract_lane(expNegative(f32x4.splat(load<f32>(scores + i) - highest)), 0);
        store<f32>(sums + i, load<f32>(sums + i) + weight * factor);
      }
    }
  }
}
