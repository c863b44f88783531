/**
 * The two passes of attention-rows over rows that lie where a table of addresses says: scores = keys · queries, and
 * accumulators += weights · values. Rows are taken in the same order and by the same inner loops, so that results are the same to
 * the last bit; only addresses differ.
 *
 * Rows are walked a stretch at a time, through one head after the other: where a page holds the heads of a token side by side, one
 * row of each stream; where it holds the rows of a head together, as many as a block has. That is the order of the memory. Rows in
 * pieces or of bytes are unpacked, a few at a time, into a tile of float32, which then has a table of its own.
 */
import { add1x1, add2x4, add4x1, add4x2, APART, headBytes, score1x1, score2x4, score4x1, score4x2, streamRows } from "./attention-rows";
import { PagedAttention } from "./jobs";
import { scaleOf, unpackRow } from "./pages";

/** Rows that a tile holds. */
export const TILE: i32 = 32;

/** Rows to walk, and what meets them. */
@unmanaged
export class Walk {
  rows: i32;
  /** Rows of a stream that are walked before the next head. */
  stretch: i32;
  /** Key heads that are walked together, and the first of them within its page. */
  kvHeads: i32;
  pageHead: i32;
  /** Query heads of a key head. */
  group: i32;
  /** Of a head: key's or value's. */
  size: i32;
  /** Addresses of rows, of the page's first head; their slots. */
  table: usize;
  slots: usize;
  /** Bytes between heads of a row. */
  headStep: usize;
  /** Woven queries, or accumulators; bytes between those of one key head and the next. */
  vectors: usize;
  vectorsStep: usize;
  /** Scores or weights, heads APART bytes apart; bytes between those of one key head and the next. */
  scores: usize;
  scoresStep: usize;
  /** Where rows are unpacked, behind a table of their addresses; 0 where they are read as they lie. */
  tile: usize;
  pieceStep: usize;
  scales: usize;
}

/**
 * Unpacks the rows of up to four streams, of all heads, into the tile: `count` of each, from row `first` on, streams `apart` rows from
 * each other. The table behind which they lie has the addresses of the first head; others follow `tileStep` bytes apart.
 */
function unpackStreams(job: PagedAttention, walk: Walk, first: i32, count: i32, streams: i32, apart: i32): void {
  let entry = walk.tile;
  let target = walk.tile + ((<usize>TILE) << 2);
  for (let stream = 0; stream < streams; stream++) {
    for (let i = 0; i < count; i++, target += headBytes(walk.size), entry += 4) {
      const row = (<usize>(first + stream * apart + i)) << 2;
      const slot = load<i32>(walk.slots + row);
      let source = load<usize>(walk.table + row) + walk.pageHead * walk.headStep;
      let to = target;
      for (let kvHead = 0; kvHead < walk.kvHeads; kvHead++, source += walk.headStep, to += tileStep(walk)) {
        const scale = scaleOf(job, walk.scales, slot, walk.pageHead + kvHead);
        unpackRow(source, job.cacheType, to, walk.size, job.piece, walk.pieceStep, scale);
      }
      store<usize>(entry, target);
    }
  }
}

/** Bytes between heads in the tile. */
// @ts-ignore: decorator
@inline
function tileStep(walk: Walk): usize {
  return TILE * headBytes(walk.size);
}

/** scores[head][i] = row i · query of head */
export function scorePages<T>(job: PagedAttention, walk: Walk): void {
  const group = walk.group;
  if (group >= 4) scoreHeads<T>(job, walk, 4, 0, group >> 2);
  if (group & 2) scoreHeads<T>(job, walk, 2, group & ~3, 1);
  if (group & 1) scoreHeads<T>(job, walk, 1, group & ~1, 1);
}

/** The same for `chunks` chunks of `chunk` heads each, from the head `head` of each group on. */
function scoreHeads<T>(job: PagedAttention, walk: Walk, chunk: i32, head: i32, chunks: i32): void {
  const size = walk.size;
  const bytes = headBytes(size);
  const streams = chunk == 4 ? 2 : 4;
  const queries = walk.vectors + <usize>head * bytes;
  let scores = walk.scores + <usize>head * APART;
  let first = 0;
  let left = walk.rows;
  while (left >= streams && !(size & 3)) {
    const count = streamRows(left, streams);
    const step = (<usize>count) << 2;
    const stretch = walk.tile ? TILE / streams : walk.stretch;
    for (let i = 0; i < count; i += stretch) {
      const rows = min(stretch, count - i);
      if (walk.tile) unpackStreams(job, walk, first + i, rows, streams, count);
      const table = walk.tile ? walk.tile : walk.table + ((<usize>(first + i)) << 2);
      const tableStep = walk.tile ? (<usize>rows) << 2 : step;
      for (let kvHead = 0; kvHead < walk.kvHeads; kvHead++) {
        const start = walk.tile ? kvHead * tileStep(walk) : (walk.pageHead + kvHead) * walk.headStep;
        let q = queries + kvHead * walk.vectorsStep, target = scores + kvHead * walk.scoresStep;
        for (let c = 0; c < chunks; c++, q += bytes << 2, target += 4 * APART) {
          if (chunk == 4) scorePairs<T>(table, tableStep, start, rows, q, bytes, target, step);
          else if (chunk == 2) scoreQuads2<T>(table, tableStep, start, rows, q, bytes, target, step);
          else scoreQuads1<T>(table, tableStep, start, rows, q, bytes, target, step);
        }
      }
      scores += (<usize>rows) << 2;
    }
    scores += (streams - 1) * step;
    first += streams * count;
    left -= streams * count;
  }
  for (; left > 0; left--, first++, scores += 4) {
    if (walk.tile) unpackStreams(job, walk, first, 1, 1, 0);
    let k = walk.tile ? load<usize>(walk.tile) : load<usize>(walk.table + ((<usize>first) << 2)) + walk.pageHead * walk.headStep;
    for (let kvHead = 0; kvHead < walk.kvHeads; kvHead++, k += walk.tile ? tileStep(walk) : walk.headStep) {
      for (let h = 0; h < chunk * chunks; h++) {
        const q = queries + kvHead * walk.vectorsStep + (h & ~3) * bytes + (h & 3) * 16;
        store<f32>(scores + kvHead * walk.scoresStep + h * APART, score1x1<T>(k, q, chunk << 4, size));
      }
    }
  }
}

// The hot loops are functions of their own, so that the engine has registers for what they use. `start` is a head's place in a row.

/** Two streams of rows against four queries. */
function scorePairs<T>(
  table: usize, tableStep: usize, start: usize, rows: i32, q: usize, bytes: usize, scores: usize, step: usize,
): void {
  for (const end = table + ((<usize>rows) << 2); table < end; table += 4, scores += 4) {
    const k = load<usize>(table);
    score2x4<T>(k + start, load<usize>(table + tableStep) - k, q, bytes, scores, step);
  }
}

/** Four streams of rows against two queries. */
function scoreQuads2<T>(
  table: usize, tableStep: usize, start: usize, rows: i32, q: usize, bytes: usize, scores: usize, step: usize,
): void {
  for (const end = table + ((<usize>rows) << 2); table < end; table += 4, scores += 4) {
    const k = load<usize>(table), k2 = load<usize>(table + 2 * tableStep);
    const span = load<usize>(table + tableStep) - k, span2 = load<usize>(table + 3 * tableStep) - k2;
    score4x2<T>(k + start, span, k2 + start, span2, q, bytes, scores, step);
  }
}

/** Four streams of rows against one query. */
function scoreQuads1<T>(
  table: usize, tableStep: usize, start: usize, rows: i32, q: usize, bytes: usize, scores: usize, step: usize,
): void {
  for (const end = table + ((<usize>rows) << 2); table < end; table += 4, scores += 4) {
    const k = load<usize>(table), k2 = load<usize>(table + 2 * tableStep);
    const span = load<usize>(table + tableStep) - k, span2 = load<usize>(table + 3 * tableStep) - k2;
    score4x1<T>(k + start, span, k2 + start, span2, q, bytes, scores, step);
  }
}

/** accumulator[head] += Σ weights[head][i] · row i */
export function addPages<T>(job: PagedAttention, walk: Walk): void {
  const group = walk.group;
  if (group >= 4) addHeads<T>(job, walk, 4, 0, group >> 2);
  if (group & 2) addHeads<T>(job, walk, 2, group & ~3, 1);
  if (group & 1) addHeads<T>(job, walk, 1, group & ~1, 1);
}

/** The same for `chunks` chunks of `chunk` heads each, from the head `head` of each group on. */
function addHeads<T>(job: PagedAttention, walk: Walk, chunk: i32, head: i32, chunks: i32): void {
  const size = walk.size;
  const bytes = headBytes(size);
  const streams = chunk == 4 ? 2 : 4;
  const sums = walk.vectors + <usize>head * bytes;
  let weights = walk.scores + <usize>head * APART;
  let first = 0;
  let left = walk.rows;
  while (left >= streams && !(size & 3)) {
    const count = streamRows(left, streams);
    const step = (<usize>count) << 2;
    const stretch = walk.tile ? TILE / streams : walk.stretch;
    for (let i = 0; i < count; i += stretch) {
      const rows = min(stretch, count - i);
      if (walk.tile) unpackStreams(job, walk, first + i, rows, streams, count);
      const table = walk.tile ? walk.tile : walk.table + ((<usize>(first + i)) << 2);
      const tableStep = walk.tile ? (<usize>rows) << 2 : step;
      for (let kvHead = 0; kvHead < walk.kvHeads; kvHead++) {
        const start = walk.tile ? kvHead * tileStep(walk) : (walk.pageHead + kvHead) * walk.headStep;
        let sum = sums + kvHead * walk.vectorsStep, source = weights + kvHead * walk.scoresStep;
        for (let c = 0; c < chunks; c++, sum += bytes << 2, source += 4 * APART) {
          if (chunk == 4) addPairs<T>(table, tableStep, start, rows, sum, bytes, source, step);
          else if (chunk == 2) addQuads2<T>(table, tableStep, start, rows, sum, bytes, source, step);
          else addQuads1<T>(table, tableStep, start, rows, sum, bytes, source, step);
        }
      }
      weights += (<usize>rows) << 2;
    }
    weights += (streams - 1) * step;
    first += streams * count;
    left -= streams * count;
  }
  for (; left > 0; left--, first++, weights += 4) {
    if (walk.tile) unpackStreams(job, walk, first, 1, 1, 0);
    let v = walk.tile ? load<usize>(walk.tile) : load<usize>(walk.table + ((<usize>first) << 2)) + walk.pageHead * walk.headStep;
    for (let kvHead = 0; kvHead < walk.kvHeads; kvHead++, v += walk.tile ? tileStep(walk) : walk.headStep) {
      for (let h = 0; h < chunk * chunks; h++) {
        const sum = sums + kvHead * walk.vectorsStep + (h & ~3) * bytes + (h & 3) * 16;
        add1x1<T>(v, load<f32>(weights + kvHead * walk.scoresStep + h * APART), sum, chunk << 4, size);
      }
    }
  }
}

/** Two streams of rows, weighed, onto four accumulators. */
function addPairs<T>(
  table: usize, tableStep: usize, start: usize, rows: i32, sum: usize, bytes: usize, weights: usize, step: usize,
): void {
  for (const end = table + ((<usize>rows) << 2); table < end; table += 4, weights += 4) {
    const v = load<usize>(table);
    add2x4<T>(v + start, load<usize>(table + tableStep) - v, weights, step, sum, bytes);
  }
}

/** Four streams of rows, weighed, onto two accumulators. */
function addQuads2<T>(
  table: usize, tableStep: usize, start: usize, rows: i32, sum: usize, bytes: usize, weights: usize, step: usize,
): void {
  for (const end = table + ((<usize>rows) << 2); table < end; table += 4, weights += 4) {
    const v = load<usize>(table), v2 = load<usize>(table + 2 * tableStep);
    const span = load<usize>(table + tableStep) - v, span2 = load<usize>(table + 3 * tableStep) - v2;
    add4x2<T>(v + start, span, v2 + start, span2, weights, step, sum, bytes);
  }
}

/** Four streams of rows, weighed, onto one accumulator. */
function addQuads1<T>(
  table: usize, tableStep: usize, start: usize, rows: i32, sum: usize, bytes: usize, weights: usize, step: usize,
): void {
  for (const end = table + ((<usize>rows) << 2); table < end; table += 4, weights += 4) {
    const v = load<usize>(table), v2 = load<usize>(table + 2 * tableStep);
    const span = load<usize>(table + tableStep) - v, span2 = load<usize>(table + 3 * tableStep) - v2;
    add4x1<T>(v + start, span, v2 + start, span2, weights, step, sum, bytes);
  }
}
