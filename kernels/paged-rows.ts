/**
 * The two passes of attention-rows over rows that lie in pages: scores = keys · queries, and accumulators += weights · values. Rows are
 * taken in the same order and by the same loops, so that results are the same to the last bit; only addresses differ.
 *
 * Rows are walked a run at a time, through one head after the other: where a page holds the heads of a token side by side, one row of
 * each stream; where it holds the rows of a head together, as many as lie in one page. That is the order of the memory. Rows in
 * pieces or of bytes are unpacked, a few at a time, into a tile of float32.
 */
import { APART, headBytes, score1x1, scoreRun1, scoreRun2, scoreRun3, scoreRun4, streamRows, streamsOf } from "./attention-rows";
import { meetSpecials } from "./attention-specials";
import { add1x1, addRun1, addRun2, addRun3, addRun4 } from "./attention-values";
import { PagedAttention } from "./paged-decode";
import { readIndex, scaleOf, unpackRow } from "./pages";
import { byteGain } from "./simd";
import { isMarked, markRow } from "./specials";

/** Rows that a tile holds. */
export const TILE: i32 = 32;

/** Rows to walk, and what meets them. */
@unmanaged
export class Walk {
  /** The first of the rows, and their number. */
  first: i32;
  rows: i32;
  /** Key heads that are walked together, and the first of them within its page. */
  kvHeads: i32;
  pageHead: i32;
  /** Query heads of a key head. */
  group: i32;
  /** Of a head: key's or value's. */
  size: i32;
  /** The sample's table; bytes of its entries. */
  blocks: usize;
  tableBytes: i32;
  /** Rows in a block, and their logarithm where it is a whole number, else -1. */
  blockSize: i32;
  blockShift: i32;
  /** The pool of keys or values; bytes between its blocks, rows and heads. */
  pool: usize;
  blockStep: usize;
  rowStep: usize;
  headStep: usize;
  /** Woven queries, or accumulators; bytes between those of one key head and the next. */
  vectors: usize;
  vectorsStep: usize;
  /** Scores or weights, heads APART bytes apart; bytes between those of one key head and the next. */
  scores: usize;
  scoresStep: usize;
  /** Where rows are unpacked; 0 where they are read as they lie. */
  tile: usize;
  pieceStep: usize;
  scales: usize;
}

/** The block of the sample that holds its row `at`. Rows of some layouts are looked up one by one: a division would be felt. */
// @ts-ignore: decorator
@inline
function columnOf(walk: Walk, at: i32): i32 {
  return walk.blockShift >= 0 ? at >> walk.blockShift : at / walk.blockSize;
}

/** Where row `row` of the walk lies, in the head that is first in its page. */
function rowAt(walk: Walk, row: i32): usize {
  const at = walk.first + row;
  const column = columnOf(walk, at);
  const block = <usize>readIndex(walk.blocks, walk.tableBytes, column);
  return walk.pool + block * walk.blockStep + <usize>(at - column * walk.blockSize) * walk.rowStep;
}

/** The slot of row `row`: its number among all rows of the pool. */
// @ts-ignore: decorator
@inline
function slotAt(walk: Walk, row: i32): i32 {
  const at = walk.first + row;
  const column = columnOf(walk, at);
  return (readIndex(walk.blocks, walk.tableBytes, column) - column) * walk.blockSize + at;
}

/** How many rows from `row` on lie in one page, `most` at most. */
// @ts-ignore: decorator
@inline
function runAt(walk: Walk, row: i32, most: i32): i32 {
  const at = walk.first + row;
  return min(most, (columnOf(walk, at) + 1) * walk.blockSize - at);
}

/** Bytes between heads in the tile. */
// @ts-ignore: decorator
@inline
function tileStep(walk: Walk): usize {
  return TILE * headBytes(walk.size);
}

/** Unpacks `count` rows from `row` on, of all heads, to `target`; heads lie `tileStep` bytes apart. */
function unpackRun(job: PagedAttention, walk: Walk, row: i32, count: i32, target: usize): void {
  for (const end = row + count; row < end; row++, target += headBytes(walk.size)) {
    const slot = slotAt(walk, row);
    let source = rowAt(walk, row) + walk.pageHead * walk.headStep;
    let to = target;
    for (let kvHead = 0; kvHead < walk.kvHeads; kvHead++, source += walk.headStep, to += tileStep(walk)) {
      const scale = scaleOf(job, walk.scales, slot, walk.pageHead + kvHead);
      unpackRow(source, job.cacheType, to, walk.size, job.piece, walk.pieceStep, scale);
    }
  }
}

/** Multiplies the scores or weights of rows that were read as bytes by the rows' scales, which are gathered at `row`, a few at a time. */
export function scaleScores(job: PagedAttention, walk: Walk, row: usize): void {
  const most = <i32>(headBytes(walk.size) >> 2) & ~3;
  for (let kvHead = 0; kvHead < walk.kvHeads; kvHead++) {
    for (let from = 0; from < walk.rows; from += most) {
      const count = min(most, walk.rows - from);
      for (let i = 0; i < count; ) {
        let slot = slotAt(walk, from + i);
        for (const end = i + runAt(walk, from + i, count - i); i < end; i++, slot++) {
          store<f32>(row + ((<usize>i) << 2), scaleOf(job, walk.scales, slot, walk.pageHead + kvHead) / byteGain());
        }
      }
      for (let head = 0; head < walk.group; head++) {
        const scores = walk.scores + kvHead * walk.scoresStep + <usize>head * APART + ((<usize>from) << 2);
        const bytes = (<usize>count) << 2;
        for (let i: usize = 0; i < bytes; i += 16) v128.store(scores + i, f32x4.mul(v128.load(scores + i), v128.load(row + i)));
      }
    }
  }
}

/** scores[head][i] = row i · query of head */
export function scorePages<T>(job: PagedAttention, walk: Walk): void {
  if (isMarked(walkChunks<T>(job, walk, false))) walkSpecials<T>(walk, false);
}

/** accumulator[head] += Σ weights[head][i] · row i */
export function addPages<T>(job: PagedAttention, walk: Walk): void {
  if (isMarked(walkChunks<T>(job, walk, true))) walkSpecials<T>(walk, true);
}

/** What infinities and NaN among the rows do to scores or sums. */
function walkSpecials<T>(walk: Walk, adds: bool): void {
  for (let row = 0, rows = 0; row < walk.rows; row += rows) {
    rows = runAt(walk, row, walk.rows - row);
    let p = rowAt(walk, row) + walk.pageHead * walk.headStep;
    for (let kvHead = 0; kvHead < walk.kvHeads; kvHead++, p += walk.headStep) {
      const scores = walk.scores + kvHead * walk.scoresStep + ((<usize>row) << 2);
      meetSpecials<T>(p, walk.rowStep, rows, walk.vectors + kvHead * walk.vectorsStep, walk.size, walk.group, scores, adds, false);
    }
  }
}

/** One of the passes; the mark of the rows. */
function walkChunks<T>(job: PagedAttention, walk: Walk, adds: bool): u64 {
  const group = walk.group;
  let mark: u64 = 0;
  if (group >= 4) mark = walkHeads<T>(job, walk, 4, 0, group >> 2, adds);
  if (group & 3) mark |= walkHeads<T>(job, walk, group & 3, group & ~3, 1, adds);
  return mark;
}

/** The same for `chunks` chunks of `chunk` heads each, from the head `head` of each group on. */
function walkHeads<T>(job: PagedAttention, walk: Walk, chunk: i32, head: i32, chunks: i32, adds: bool): u64 {
  const size = walk.size;
  const bytes = headBytes(size);
  const streams = streamsOf(chunk);
  const tile = walk.tile;
  const rowStep = tile ? bytes : walk.rowStep;
  const headStep = tile ? tileStep(walk) : walk.headStep;
  const inPage = walk.pageHead * walk.headStep;
  const longest = tile ? TILE / streams : walk.headStep < walk.rowStep ? 1 : i32.MAX_VALUE;
  const vectors = walk.vectors + <usize>head * bytes;
  let scores = walk.scores + <usize>head * APART;
  let mark: u64 = 0;
  let first = 0;
  let left = walk.rows;
  while (left >= streams && !(size & 3)) {
    const count = streamRows(left, streams);
    const step = (<usize>count) << 2;
    for (let i = 0; i < count; ) {
      let rows = min(longest, count - i);
      let k: usize, k1: usize, k2: usize = 0, k3: usize = 0; // where the streams are
      if (tile) {
        for (let stream = 0; stream < streams; stream++) {
          unpackRun(job, walk, first + i + stream * count, rows, tile + <usize>(stream * rows) * bytes);
        }
        k = tile;
        k1 = k + <usize>rows * bytes;
        k2 = k1 + <usize>rows * bytes;
        k3 = k2 + <usize>rows * bytes;
      } else {
        const row = first + i;
        rows = runAt(walk, row + count, runAt(walk, row, rows));
        k = rowAt(walk, row) + inPage;
        k1 = rowAt(walk, row + count) + inPage;
        if (streams > 2) {
          rows = runAt(walk, row + 2 * count, rows);
          k2 = rowAt(walk, row + 2 * count) + inPage;
        }
        if (streams > 3) {
          rows = runAt(walk, row + 3 * count, rows);
          k3 = rowAt(walk, row + 3 * count) + inPage;
        }
      }
      const span = k1 - k, span2 = k3 - k2;
      const nextStep: usize = <usize>(rows << 7) <= bytes << 2 ? 128 : <usize>(rows << 6) <= bytes << 2 ? 64 : 0;
      if (chunk == 4 && rows == 1) {
        // One row of each stream, through all heads.
        let q = vectors, s = scores;
        for (let c = 0; c < chunks; c++, q += bytes << 2, s += 4 * APART) {
          if (adds) mark |= addRun4<T>(k, span, headStep, walk.kvHeads, q, walk.vectorsStep, bytes, s, walk.scoresStep, step, q, 0);
          else mark |= scoreRun4<T>(k, span, headStep, walk.kvHeads, q, walk.vectorsStep, bytes, s, walk.scoresStep, step, q, 0);
        }
      } else for (let kvHead = 0; kvHead < walk.kvHeads; kvHead++, k += headStep, k2 += headStep) {
        const next = vectors + (kvHead + 1 < walk.kvHeads ? kvHead + 1 : 0) * walk.vectorsStep;
        let q = vectors + kvHead * walk.vectorsStep, s = scores + kvHead * walk.scoresStep;
        for (let c = 0; c < chunks; c++, q += bytes << 2, s += 4 * APART) {
          if (chunk == 4) {
            if (adds) mark |= addRun4<T>(k, span, rowStep, rows, q, 0, bytes, s, 4, step, next, nextStep);
            else mark |= scoreRun4<T>(k, span, rowStep, rows, q, 0, bytes, s, 4, step, next, nextStep);
          } else if (chunk == 3) {
            if (adds) mark |= addRun3<T>(k, span, k2 - k, rowStep, rows, q, bytes, s, step);
            else mark |= scoreRun3<T>(k, span, k2 - k, rowStep, rows, q, bytes, s, step);
          } else if (chunk == 2) {
            if (adds) mark |= addRun2<T>(k, span, k2, span2, rowStep, rows, q, bytes, s, step);
            else mark |= scoreRun2<T>(k, span, k2, span2, rowStep, rows, q, bytes, s, step);
          } else if (adds) mark |= addRun1<T>(k, span, k2, span2, rowStep, rows, q, bytes, s, step);
          else mark |= scoreRun1<T>(k, span, k2, span2, rowStep, rows, q, bytes, s, step);
        }
      }
      scores += (<usize>rows) << 2;
      i += rows;
    }
    scores += (streams - 1) * step;
    first += streams * count;
    left -= streams * count;
  }
  for (; left > 0; left--, first++, scores += 4) {
    if (tile) unpackRun(job, walk, first, 1, tile);
    let k = tile ? tile : rowAt(walk, first) + inPage;
    for (let kvHead = 0; kvHead < walk.kvHeads; kvHead++, k += headStep) {
      mark |= markRow<T>(k, size);
      for (let h = 0; h < chunk * chunks; h++) {
        const q = vectors + kvHead * walk.vectorsStep + (h & ~3) * bytes + (h & 3) * 16;
        const s = scores + kvHead * walk.scoresStep + h * APART;
        if (adds) add1x1<T>(k, load<f32>(s), q, chunk << 4, size);
        else store<f32>(s, score1x1<T>(k, q, chunk << 4, size));
      }
    }
  }
  return mark;
}
