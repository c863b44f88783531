/**
 * The second of the two passes over a block of a cache that decoding makes: accumulators += weights · values. Streams, chunks of heads and
 * what is woven are those of attention-rows.ts.
 */
import { APART, chunkOf, headBytes, streamRows, streamsOf, touch } from "./attention-rows";
import { fma, load4, loadTail, raw4, widen4, zero } from "./simd";
import { markMet, markOf, markRow, markRows, meet } from "./specials";

/** Adds two rows, weighed, to four accumulators. */
// @ts-ignore: decorator
@inline
function add2x4<T>(v: usize, span: usize, weights: usize, step: usize, sum: usize, bytes: usize): u64 {
  const a0 = v128.load_splat<f32>(weights), a1 = v128.load_splat<f32>(weights, APART);
  const a2 = v128.load_splat<f32>(weights, 2 * APART), a3 = v128.load_splat<f32>(weights, 3 * APART);
  weights += step;
  const b0 = v128.load_splat<f32>(weights), b1 = v128.load_splat<f32>(weights, APART);
  const b2 = v128.load_splat<f32>(weights, 2 * APART), b3 = v128.load_splat<f32>(weights, 3 * APART);
  const end = sum + (bytes << 2);
  let mark: u64 = 0;
  let met = zero();
  do {
    let r0 = raw4<T>(v), r1 = raw4<T>(v + span);
    mark |= markOf<T>(v) | markOf<T>(v + span);
    met = meet<T>(met, r0, r1);
    r0 = widen4<T>(r0);
    r1 = widen4<T>(r1);
    v128.store(sum, fma(r1, b0, fma(r0, a0, v128.load(sum))));
    v128.store(sum, fma(r1, b1, fma(r0, a1, v128.load(sum, 16))), 16);
    v128.store(sum, fma(r1, b2, fma(r0, a2, v128.load(sum, 32))), 32);
    v128.store(sum, fma(r1, b3, fma(r0, a3, v128.load(sum, 48))), 48);
    sum += 64;
    v += 4 * sizeof<T>();
  } while (sum < end);
  return mark | markMet<T>(met);
}

/** Adds three rows, weighed, to three accumulators: v, the one `span` and the one `span2` behind it. */
// @ts-ignore: decorator
@inline
function add3x3<T>(v: usize, span: usize, span2: usize, weights: usize, step: usize, sum: usize, bytes: usize): void {
  const a0 = v128.load_splat<f32>(weights), b0 = v128.load_splat<f32>(weights, APART), c0 = v128.load_splat<f32>(weights, 2 * APART);
  weights += step;
  const a1 = v128.load_splat<f32>(weights), b1 = v128.load_splat<f32>(weights, APART), c1 = v128.load_splat<f32>(weights, 2 * APART);
  weights += step;
  const a2 = v128.load_splat<f32>(weights), b2 = v128.load_splat<f32>(weights, APART), c2 = v128.load_splat<f32>(weights, 2 * APART);
  const end = sum + 3 * bytes;
  do {
    const r0 = load4<T>(v), r1 = load4<T>(v + span), r2 = load4<T>(v + span2);
    v128.store(sum, fma(r2, a2, fma(r1, a1, fma(r0, a0, v128.load(sum)))));
    v128.store(sum, fma(r2, b2, fma(r1, b1, fma(r0, b0, v128.load(sum, 16)))), 16);
    v128.store(sum, fma(r2, c2, fma(r1, c1, fma(r0, c0, v128.load(sum, 32)))), 32);
    sum += 48;
    v += 4 * sizeof<T>();
  } while (sum < end);
}

/** Adds four rows, weighed, to two accumulators: v and the one `span` behind it, v2 and the one `span2` behind it. */
// @ts-ignore: decorator
@inline
function add4x2<T>(
  v: usize, span: usize, v2: usize, span2: usize, weights: usize, step: usize, sum: usize, bytes: usize,
): void {
  const a0 = v128.load_splat<f32>(weights), b0 = v128.load_splat<f32>(weights, APART);
  weights += step;
  const a1 = v128.load_splat<f32>(weights), b1 = v128.load_splat<f32>(weights, APART);
  weights += step;
  const a2 = v128.load_splat<f32>(weights), b2 = v128.load_splat<f32>(weights, APART);
  weights += step;
  const a3 = v128.load_splat<f32>(weights), b3 = v128.load_splat<f32>(weights, APART);
  const end = sum + (bytes << 1);
  do {
    const r0 = load4<T>(v), r1 = load4<T>(v + span), r2 = load4<T>(v2), r3 = load4<T>(v2 + span2);
    v128.store(sum, fma(r3, a3, fma(r2, a2, fma(r1, a1, fma(r0, a0, v128.load(sum))))));
    v128.store(sum, fma(r3, b3, fma(r2, b2, fma(r1, b1, fma(r0, b0, v128.load(sum, 16))))), 16);
    sum += 32;
    v += 4 * sizeof<T>();
    v2 += 4 * sizeof<T>();
  } while (sum < end);
}

/** Adds four rows, weighed, to one accumulator. */
// @ts-ignore: decorator
@inline
function add4x1<T>(
  v: usize, span: usize, v2: usize, span2: usize, weights: usize, step: usize, sum: usize, bytes: usize,
): void {
  const w0 = v128.load_splat<f32>(weights), w1 = v128.load_splat<f32>(weights + step);
  const w2 = v128.load_splat<f32>(weights + 2 * step), w3 = v128.load_splat<f32>(weights + 3 * step);
  const end = sum + bytes;
  do {
    const low = fma(load4<T>(v + span), w1, fma(load4<T>(v), w0, v128.load(sum)));
    v128.store(sum, fma(load4<T>(v2 + span2), w3, fma(load4<T>(v2), w2, low)));
    sum += 16;
    v += 4 * sizeof<T>();
    v2 += 4 * sizeof<T>();
  } while (sum < end);
}

/** Adds one row, weighed, to the accumulator at sum, whose vectors lie `stride` bytes apart. */
// @ts-ignore: decorator
@inline
export function add1x1<T>(v: usize, weight: f32, sum: usize, stride: usize, size: i32): void {
  const w = f32x4.splat(weight);
  for (let left = size >> 2; left > 0; left--, sum += stride, v += 4 * sizeof<T>()) {
    v128.store(sum, fma(load4<T>(v), w, v128.load(sum)));
  }
  if (size & 3) v128.store(sum, fma(loadTail<T>(v, size & 3), w, v128.load(sum)));
}

/** accumulator[head] += Σ weights[head][i] · row i of v; the rows' mark (specials.ts). Rows of weight 0 add nothing when `skips`. */
export function addRows<T>(
  v: usize, rowBytes: usize, rows: i32, weights: usize, size: i32, heads: i32, sums: usize, skips: bool,
): u64 {
  let mark: u64 = 0;
  for (let left = heads; left > 0; ) {
    const chunk = chunkOf(left);
    mark |= addChunk<T>(v, rowBytes, rows, weights, size, chunk, sums, skips);
    left -= chunk;
    weights += chunk * APART;
    sums += chunk * headBytes(size);
  }
  return mark;
}

/**
 * Adds `rows` rows that lie `rowBytes` apart, and as many `span` bytes behind them, weighed, to four accumulators: the same ones, or those of
 * the next key head.
 */
export function addRun4<T>(
  v: usize, span: usize, rowBytes: usize, rows: i32, sum: usize, sumStep: usize, bytes: usize, weights: usize, weightsStep: usize, step: usize,
  ahead: usize, aheadStep: usize,
): u64 {
  let mark: u64 = 0;
  for (const end = v + rows * rowBytes; v < end; v += rowBytes, sum += sumStep, weights += weightsStep, ahead += aheadStep) {
    touch(ahead);
    mark |= add2x4<T>(v, span, weights, step, sum, bytes);
  }
  return mark;
}

/** Runs `span` and `span2` bytes behind the first as well, to three accumulators. */
export function addRun3<T>(
  v: usize, span: usize, span2: usize, rowBytes: usize, rows: i32, sum: usize, bytes: usize, weights: usize, step: usize,
): u64 {
  let mark: u64 = 0;
  for (const end = v + rows * rowBytes; v < end; v += rowBytes, weights += 4) {
    mark |= markRows<T>(v, span, v + span2, 0, <i32>bytes >> 2);
    add3x3<T>(v, span, span2, weights, step, sum, bytes);
  }
  return mark;
}

/** A run `span` bytes behind the first, and two further ones from v2 on, to two accumulators. */
export function addRun2<T>(
  v: usize, span: usize, v2: usize, span2: usize, rowBytes: usize, rows: i32, sum: usize, bytes: usize, weights: usize, step: usize,
): u64 {
  let mark: u64 = 0;
  for (const end = v + rows * rowBytes; v < end; v += rowBytes, v2 += rowBytes, weights += 4) {
    mark |= markRows<T>(v, span, v2, span2, <i32>bytes >> 2);
    add4x2<T>(v, span, v2, span2, weights, step, sum, bytes);
  }
  return mark;
}

/** The same to one accumulator. */
export function addRun1<T>(
  v: usize, span: usize, v2: usize, span2: usize, rowBytes: usize, rows: i32, sum: usize, bytes: usize, weights: usize, step: usize,
): u64 {
  let mark: u64 = 0;
  for (const end = v + rows * rowBytes; v < end; v += rowBytes, v2 += rowBytes, weights += 4) {
    mark |= markRows<T>(v, span, v2, span2, <i32>bytes >> 2);
    add4x1<T>(v, span, v2, span2, weights, step, sum, bytes);
  }
  return mark;
}

/** The same for one chunk of heads. */
function addChunk<T>(
  v: usize, rowBytes: usize, rows: i32, weights: usize, size: i32, chunk: i32, sums: usize, skips: bool,
): u64 {
  const bytes = headBytes(size);
  const streams = streamsOf(chunk);
  let mark: u64 = 0;
  let left = rows;
  while (left >= streams && !(size & 3) && !skips) {
    const count = streamRows(left, streams);
    const span = <usize>count * rowBytes;
    const step = (<usize>count) << 2;
    if (chunk == 4) mark |= addRun4<T>(v, span, rowBytes, count, sums, 0, bytes, weights, 4, step, sums, 0);
    else if (chunk == 3) mark |= addRun3<T>(v, span, 2 * span, rowBytes, count, sums, bytes, weights, step);
    else if (chunk == 2) mark |= addRun2<T>(v, span, v + 2 * span, span, rowBytes, count, sums, bytes, weights, step);
    else mark |= addRun1<T>(v, span, v + 2 * span, span, rowBytes, count, sums, bytes, weights, step);
    v += streams * span;
    weights += streams * step;
    left -= streams * count;
  }
  for (; left > 0; left--, v += rowBytes, weights += 4) {
    mark |= markRow<T>(v, size);
    for (let head = 0; head < chunk; head++) {
      const weight = load<f32>(weights + head * APART);
      if (skips && weight == 0) continue;
      add1x1<T>(v, weight, sums + head * 16, chunk << 4, size);
    }
  }
  return mark;
}
