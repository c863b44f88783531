/**
 * Attention of many queries, in tiles of ROWS rows by KEYS keys with an online softmax: memory follows the tile, not the lengths. The rows of a
 * tile are the queries of all heads that share a key head, so that a tile of keys and values is packed once for all of them.
 */
import { addMask, endKey, firstKey, lengthOf, maskRow, positionOf } from "./attention-range";
import { capScores, inverse, scaleRow, weighScores } from "./attention-softmax";
import { FLOAT16, FLOAT32, fromFloat16, readOne, readRow, widthOf, writeRow } from "./float-types";
import { Attention } from "./jobs";
import { addTile, weaveRows } from "./matmul";
import { fma, zero } from "./simd";

const ROWS: i32 = 64;
const KEYS: i32 = 64;

/** A tile's place in scratch, and where its rows begin. */
@unmanaged
class Tile {
  queries: usize; // [ROWS / 4][headSize][4]
  keys: usize; // [KEYS / 8][headSize][8]
  values: usize; // [valuePanels][KEYS][8]
  scores: usize; // [ROWS][KEYS]
  weights: usize; // [ROWS / 4][KEYS][4]
  sums: usize; // [ROWS][valueBytes]
  states: usize; // [ROWS][2]
  rows: usize; // four rows of headSize
  valueBytes: usize;
  firstRow: i32;
  count: i32; // of rows
  sample: i32;
  kvHead: i32;
  group: i32; // heads that share a key head
}

/** Parts take turns with the tiles: under a causal mask later ones cost more. */
export function attentionPrefill(at: usize, part: i32, parts: i32, scratch: usize): void {
  const job = changetype<Attention>(at);
  const group = job.heads / job.kvHeads;
  const rows = group * job.queries;
  const tiles = (rows + ROWS - 1) / ROWS;
  const tasks = job.batch * job.kvHeads * tiles;
  const tile = layOut(job, scratch);
  tile.group = group;
  for (let task = part; task < tasks; task += parts) {
    tile.firstRow = (task % tiles) * ROWS;
    tile.count = min(ROWS, rows - tile.firstRow);
    tile.kvHead = (task / tiles) % job.kvHeads;
    tile.sample = task / tiles / job.kvHeads;
    attendTile(job, tile);
  }
}

function layOut(job: Attention, scratch: usize): Tile {
  const tile = changetype<Tile>(scratch);
  const size = (<usize>job.headSize + 3) & ~3;
  tile.valueBytes = ((<usize>job.valueSize + 7) & ~7) << 2;
  tile.queries = scratch + 64;
  tile.keys = tile.queries + size * (ROWS * 4);
  tile.values = tile.keys + size * (KEYS * 4);
  tile.scores = tile.values + tile.valueBytes * KEYS;
  tile.weights = tile.scores + ROWS * KEYS * 4;
  tile.sums = tile.weights + ROWS * KEYS * 4;
  tile.states = tile.sums + tile.valueBytes * ROWS;
  tile.rows = tile.states + ROWS * 8;
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

function attendTile(job: Attention, tile: Tile): void {
  const sample = tile.sample;
  const length = lengthOf(job, sample);
  const position = positionOf(job, sample);
  // The keys that any row may see: ranges move on with the query.
  const from = firstKey(job, position + queryOf(tile, 0));
  const to = endKey(job, length, position + queryOf(tile, tile.count - 1));
  packQueries(job, tile);
  memory.fill(tile.sums, 0, tile.valueBytes * ROWS);
  for (let row = 0; row < ROWS; row++) {
    store<f32>(tile.states + ((<usize>row) << 3), -Infinity);
    store<f32>(tile.states + ((<usize>row) << 3), 0, 4);
  }
  for (let key = from; key < to; key += KEYS) {
    const keys = min(KEYS, to - key);
    packKeys(job, tile, key, keys);
    scoreTile(job, tile, keys);
    weighTile(job, tile, key, keys, length, position);
    if (packValues(job, tile, key, keys)) addValues(tile, keys);
    else addValuesOneByOne(job, tile, key, keys);
  }
  const type = job.queryType;
  for (let row = 0; row < tile.count; row++) {
    const sums = tile.sums + row * tile.valueBytes;
    scaleRow(sums, tile.valueBytes, inverse(load<f32>(tile.states + ((<usize>row) << 3), 4)));
    const at = sample * job.outputSample + headOf(tile, row) * job.outputHead + queryOf(tile, row) * job.outputRow;
    writeRow(sums, job.output + at * widthOf(type), type, job.valueSize);
  }
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

/** Keys as panels of eight; keys that are not there are zero. */
function packKeys(job: Attention, tile: Tile, first: i32, count: i32): void {
  const type = job.cacheType;
  const width = widthOf(type);
  const size = job.headSize;
  const step = job.keyRow * width;
  const start = job.key + (tile.sample * job.keySample + tile.kvHead * job.keyHead + first * job.keyRow) * width;
  for (let key = 0; key < count; key += 4) {
    let target = tile.keys + ((<usize>((key >> 3) * size)) << 5) + ((key & 4) << 2);
    let p = start + key * step;
    let i = 0;
    if (key + 4 <= count) {
      for (; i + 4 <= size; i += 4, p += 4 * width, target += 128) {
        const a = read4(p, type), b = read4(p + step, type), c = read4(p + 2 * step, type), d = read4(p + 3 * step, type);
        const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5), cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
        const AB = v128.shuffle<i32>(a, b, 2, 6, 3, 7), CD = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
        v128.store(target, v128.shuffle<i64>(ab, cd, 0, 2));
        v128.store(target, v128.shuffle<i64>(ab, cd, 1, 3), 32);
        v128.store(target, v128.shuffle<i64>(AB, CD, 0, 2), 64);
        v128.store(target, v128.shuffle<i64>(AB, CD, 1, 3), 96);
      }
    }
    for (; i < size; i++, p += width, target += 32) {
      v128.store(target, zero());
      for (let j = 0; j < min(4, count - key); j++) store<f32>(target + (j << 2), readOne(p + j * step, type));
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

/** Scores to weights, row by row: the keys a row may not see have none. */
function weighTile(job: Attention, tile: Tile, first: i32, count: i32, length: i32, position: i32): void {
  for (let row = 0; row < tile.count; row++) {
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
    const factor = weighScores<f32>(scores, KEYS, tile.states + ((<usize>row) << 3));
    if (factor != 1) scaleRow(tile.sums + row * tile.valueBytes, tile.valueBytes, factor);
  }
  memory.fill(tile.scores + ((<usize>(tile.count * KEYS)) << 2), 0, (<usize>(-tile.count & 3) * KEYS) << 2);
  for (let row = 0; row < tile.count; row += 4) {
    weaveRows(tile.scores + ((<usize>(row * KEYS)) << 2), KEYS * 4, KEYS, tile.weights + ((<usize>(row * KEYS)) << 2));
  }
}

/** Values as panels of eight columns, zero where no row weighs the key. False if one is infinite or NaN: then 0 times it is not 0. */
function packValues(job: Attention, tile: Tile, first: i32, count: i32): bool {
  const type = job.cacheType;
  const width = widthOf(type);
  const size = job.valueSize;
  const start = job.value + (tile.sample * job.valueSample + tile.kvHead * job.valueHead + first * job.valueRow) * width;
  let check = zero();
  for (let key = 0; key < count; key++) {
    let target = tile.values + ((<usize>key) << 5);
    const isSeen = weighed(tile, key);
    let p = start + key * job.valueRow * width;
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
function addValuesOneByOne(job: Attention, tile: Tile, first: i32, keys: i32): void {
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
