/**
 * The first of the two passes over a block of a cache that decoding makes, for the query heads of one key head: scores = keys · queries; the
 * other is in attention-values.ts.
 *
 * What decides their speed: rows are read as two to four streams that lie far apart, at a distance that is no power of two, since
 * such addresses get in each other's way in the processor's caches; one load instruction follows one stream from its first row to
 * its last, which is what hardware prefetches; each row that is loaded serves up to four heads; and loop bodies are small
 * enough for the engine to keep everything in registers. Head sizes that are no multiple of 4 go row by row.
 *
 * Heads are woven in chunks of four, and one of those that are left (`chunkOf`): queries and accumulators of a chunk are [vectors][heads][4 lanes],
 * the head's size rounded up to whole vectors and zero behind its end.
 */
import { fma, load4, loadTail, raw4, sum, sums, widen4, zero } from "./simd";
import { markMet, markOf, markRow, markRows, meet } from "./specials";

/** Keys of a block. */
export const BLOCK: i32 = 1024;

/** Bytes between the scores of heads: no power of two, since those of a row are written one after the other. */
export const APART: usize = (<usize>BLOCK << 2) + 64;

/** How many of the heads that are left form the next chunk. */
// @ts-ignore: decorator
@inline
export function chunkOf(left: i32): i32 {
  return min(left, 4);
}

/** The streams that rows are read as for a chunk of heads: accumulators and rows fill the registers. */
// @ts-ignore: decorator
@inline
export function streamsOf(chunk: i32): i32 {
  return chunk == 4 ? 2 : chunk == 3 ? 3 : 4;
}

/** Bytes of a head of `size` in whole vectors. */
// @ts-ignore: decorator
@inline
export function headBytes(size: i32): usize {
  return ((<usize>size + 3) >> 2) << 4;
}

/**
 * The length of each of two to four streams over `rows` rows, which is their distance too: an odd number of rows, or an odd number of times
 * 16 or, of two streams, 128 rows where there are enough, so that all streams meet the borders of pages at once.
 */
// @ts-ignore: decorator
@inline
export function streamRows(rows: i32, streams: i32): i32 {
  const length = rows / streams;
  if (streams == 2 && length >= 128) return (((length >> 7) - 1) | 1) << 7;
  return length < 16 ? (length - 1) | 1 : (((length >> 4) - 1) | 1) << 4;
}

/** Two rows, `span` bytes apart, against four queries. */
// @ts-ignore: decorator
@inline
function score2x4<T>(k: usize, span: usize, q: usize, bytes: usize, scores: usize, step: usize): u64 {
  let a0 = zero(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  let mark: u64 = 0;
  let met = a0;
  const end = q + (bytes << 2);
  do {
    let r0 = raw4<T>(k), r1 = raw4<T>(k + span);
    mark |= markOf<T>(k) | markOf<T>(k + span);
    met = meet<T>(met, r0, r1);
    r0 = widen4<T>(r0);
    r1 = widen4<T>(r1);
    let x = v128.load(q);
    a0 = fma(r0, x, a0);
    b0 = fma(r1, x, b0);
    x = v128.load(q, 16);
    a1 = fma(r0, x, a1);
    b1 = fma(r1, x, b1);
    x = v128.load(q, 32);
    a2 = fma(r0, x, a2);
    b2 = fma(r1, x, b2);
    x = v128.load(q, 48);
    a3 = fma(r0, x, a3);
    b3 = fma(r1, x, b3);
    q += 64;
    k += 4 * sizeof<T>();
  } while (q < end);
  storeApart(scores, APART, sums(a0, a1, a2, a3));
  storeApart(scores + step, APART, sums(b0, b1, b2, b3));
  return mark | markMet<T>(met);
}

/** Three rows against three queries: k, the one `span` and the one `span2` behind it. */
// @ts-ignore: decorator
@inline
function score3x3<T>(k: usize, span: usize, span2: usize, q: usize, bytes: usize, scores: usize, step: usize): void {
  let a0 = zero(), a1 = a0, a2 = a0, b0 = a0, b1 = a0, b2 = a0, c0 = a0, c1 = a0, c2 = a0;
  const end = q + 3 * bytes;
  do {
    const x = v128.load(q), y = v128.load(q, 16), z = v128.load(q, 32);
    let r = load4<T>(k);
    a0 = fma(r, x, a0);
    b0 = fma(r, y, b0);
    c0 = fma(r, z, c0);
    r = load4<T>(k + span);
    a1 = fma(r, x, a1);
    b1 = fma(r, y, b1);
    c1 = fma(r, z, c1);
    r = load4<T>(k + span2);
    a2 = fma(r, x, a2);
    b2 = fma(r, y, b2);
    c2 = fma(r, z, c2);
    q += 48;
    k += 4 * sizeof<T>();
  } while (q < end);
  storeThree(scores, step, sums(a0, a1, a2, a2));
  storeThree(scores + APART, step, sums(b0, b1, b2, b2));
  storeThree(scores + 2 * APART, step, sums(c0, c1, c2, c2));
}

/** Four rows against two queries: k and the one `span` behind it, k2 and the one `span2` behind it. */
// @ts-ignore: decorator
@inline
function score4x2<T>(
  k: usize, span: usize, k2: usize, span2: usize, q: usize, bytes: usize, scores: usize, step: usize,
): void {
  let a0 = zero(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  const end = q + (bytes << 1);
  do {
    const x = v128.load(q), y = v128.load(q, 16);
    let r = load4<T>(k);
    a0 = fma(r, x, a0);
    b0 = fma(r, y, b0);
    r = load4<T>(k + span);
    a1 = fma(r, x, a1);
    b1 = fma(r, y, b1);
    r = load4<T>(k2);
    a2 = fma(r, x, a2);
    b2 = fma(r, y, b2);
    r = load4<T>(k2 + span2);
    a3 = fma(r, x, a3);
    b3 = fma(r, y, b3);
    q += 32;
    k += 4 * sizeof<T>();
    k2 += 4 * sizeof<T>();
  } while (q < end);
  storeApart(scores, step, sums(a0, a1, a2, a3));
  storeApart(scores + APART, step, sums(b0, b1, b2, b3));
}

/** The same against one query. */
// @ts-ignore: decorator
@inline
function score4x1<T>(
  k: usize, span: usize, k2: usize, span2: usize, q: usize, bytes: usize, scores: usize, step: usize,
): void {
  let a0 = zero(), a1 = a0, a2 = a0, a3 = a0;
  const end = q + bytes;
  do {
    const x = v128.load(q);
    a0 = fma(load4<T>(k), x, a0);
    a1 = fma(load4<T>(k + span), x, a1);
    a2 = fma(load4<T>(k2), x, a2);
    a3 = fma(load4<T>(k2 + span2), x, a3);
    q += 16;
    k += 4 * sizeof<T>();
    k2 += 4 * sizeof<T>();
  } while (q < end);
  storeApart(scores, step, sums(a0, a1, a2, a3));
}

/** One row against the query at q, whose vectors lie `stride` bytes apart. */
// @ts-ignore: decorator
@inline
export function score1x1<T>(k: usize, q: usize, stride: usize, size: i32): f32 {
  let a = zero();
  for (let left = size >> 2; left > 0; left--, q += stride, k += 4 * sizeof<T>()) a = fma(load4<T>(k), v128.load(q), a);
  if (size & 3) a = fma(loadTail<T>(k, size & 3), v128.load(q), a);
  return sum(a);
}

// @ts-ignore: decorator
@inline
function storeThree(p: usize, step: usize, values: v128): void {
  v128.store_lane<f32>(p, values, 0);
  v128.store_lane<f32>(p + step, values, 1);
  v128.store_lane<f32>(p + 2 * step, values, 2);
}

// @ts-ignore: decorator
@inline
function storeApart(p: usize, step: usize, values: v128): void {
  storeThree(p, step, values);
  v128.store_lane<f32>(p + 3 * step, values, 3);
}

/** scores[head][i] = row i of k · query of head, for `rows` rows that lie `rowBytes` apart; their mark (specials.ts). */
export function scoreRows<T>(k: usize, rowBytes: usize, rows: i32, q: usize, size: i32, heads: i32, scores: usize): u64 {
  let mark: u64 = 0;
  for (let left = heads; left > 0; ) {
    const chunk = chunkOf(left);
    mark |= scoreChunk<T>(k, rowBytes, rows, q, size, chunk, scores);
    left -= chunk;
    scores += chunk * APART;
    q += chunk * headBytes(size);
  }
  return mark;
}

/** Brings two lines into the first cache. */
// @ts-ignore: decorator
@inline
export function touch(p: usize): void {
  v128.load(p);
  v128.load(p, 64);
}

// The hot loops are functions of their own, so that the engine has registers for what they use. Caches with pitch and pages share them.

// Those of four heads also touch, `aheadStep` bytes a row, what the next head's run will use: while memory is busy with rows, what comes
// from the second cache takes its time as well.

/**
 * scores of `rows` rows that lie `rowBytes` apart, and of as many `span` bytes behind them, against four queries: the same ones, with scores
 * side by side, or those of the next key head, `qStep` and `scoresStep` bytes on.
 */
export function scoreRun4<T>(
  k: usize, span: usize, rowBytes: usize, rows: i32, q: usize, qStep: usize, bytes: usize, scores: usize, scoresStep: usize, step: usize,
  ahead: usize, aheadStep: usize,
): u64 {
  let mark: u64 = 0;
  for (const end = k + rows * rowBytes; k < end; k += rowBytes, q += qStep, scores += scoresStep, ahead += aheadStep) {
    touch(ahead);
    mark |= score2x4<T>(k, span, q, bytes, scores, step);
  }
  return mark;
}

/** The same of runs `span` and `span2` bytes behind the first, against three queries. */
export function scoreRun3<T>(
  k: usize, span: usize, span2: usize, rowBytes: usize, rows: i32, q: usize, bytes: usize, scores: usize, step: usize,
): u64 {
  let mark: u64 = 0;
  for (const end = k + rows * rowBytes; k < end; k += rowBytes, scores += 4) {
    mark |= markRows<T>(k, span, k + span2, 0, <i32>bytes >> 2);
    score3x3<T>(k, span, span2, q, bytes, scores, step);
  }
  return mark;
}

/** The same of a run `span` bytes behind the first, and of two further ones from k2 on, against two queries. */
export function scoreRun2<T>(
  k: usize, span: usize, k2: usize, span2: usize, rowBytes: usize, rows: i32, q: usize, bytes: usize, scores: usize, step: usize,
): u64 {
  let mark: u64 = 0;
  for (const end = k + rows * rowBytes; k < end; k += rowBytes, k2 += rowBytes, scores += 4) {
    mark |= markRows<T>(k, span, k2, span2, <i32>bytes >> 2);
    score4x2<T>(k, span, k2, span2, q, bytes, scores, step);
  }
  return mark;
}

/** The same against one query. */
export function scoreRun1<T>(
  k: usize, span: usize, k2: usize, span2: usize, rowBytes: usize, rows: i32, q: usize, bytes: usize, scores: usize, step: usize,
): u64 {
  let mark: u64 = 0;
  for (const end = k + rows * rowBytes; k < end; k += rowBytes, k2 += rowBytes, scores += 4) {
    mark |= markRows<T>(k, span, k2, span2, <i32>bytes >> 2);
    score4x1<T>(k, span, k2, span2, q, bytes, scores, step);
  }
  return mark;
}

/** The same for one chunk of heads. */
function scoreChunk<T>(k: usize, rowBytes: usize, rows: i32, q: usize, size: i32, chunk: i32, scores: usize): u64 {
  const bytes = headBytes(size);
  const streams = streamsOf(chunk);
  let mark: u64 = 0;
  let left = rows;
  while (left >= streams && !(size & 3)) {
    const count = streamRows(left, streams);
    const span = <usize>count * rowBytes;
    const step = (<usize>count) << 2;
    if (chunk == 4) mark |= scoreRun4<T>(k, span, rowBytes, count, q, 0, bytes, scores, 4, step, q, 0);
    else if (chunk == 3) mark |= scoreRun3<T>(k, span, 2 * span, rowBytes, count, q, bytes, scores, step);
    else if (chunk == 2) mark |= scoreRun2<T>(k, span, k + 2 * span, span, rowBytes, count, q, bytes, scores, step);
    else mark |= scoreRun1<T>(k, span, k + 2 * span, span, rowBytes, count, q, bytes, scores, step);
    k += streams * span;
    scores += streams * step;
    left -= streams * count;
  }
  for (; left > 0; left--, k += rowBytes, scores += 4) {
    mark |= markRow<T>(k, size);
    for (let head = 0; head < chunk; head++) {
      store<f32>(scores + head * APART, score1x1<T>(k, q + head * 16, chunk << 4, size));
    }
  }
  return mark;
}
