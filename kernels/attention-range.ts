/** Which keys a query may see for its position alone, and the mask's bias on their scores. */
import { Attention } from "./attention-decode";
import { BOOL, FLOAT16, FLOAT32 } from "./codes";
import { fromFloat16, readOne } from "./float-types";

/** The valid keys of a sample. */
// @ts-ignore: decorator
@inline
export function lengthOf(job: Attention, sample: i32): i32 {
  return job.lengths ? <i32>load<i64>(job.lengths + ((<usize>sample) << 3)) : job.total;
}

/** The position of a sample's first query among its keys. */
// @ts-ignore: decorator
@inline
export function positionOf(job: Attention, sample: i32): i32 {
  if (job.past < 0) return 0;
  return job.lengths ? lengthOf(job, sample) - job.queries : job.past;
}

/** The first key that the query at `position` may see. */
// @ts-ignore: decorator
@inline
export function firstKey(job: Attention, position: i32): i32 {
  return job.left < 0 ? 0 : max(0, position - job.left);
}

/** The key behind the last one that the query at `position` may see; not above firstKey where there is none. */
// @ts-ignore: decorator
@inline
export function endKey(job: Attention, length: i32, position: i32): i32 {
  let end = length;
  if (job.causal) end = min(end, position + 1);
  if (job.right >= 0) end = min(end, position + job.right + 1);
  if (job.mask) end = min(end, job.maskLength);
  return end;
}

/** The mask's first entry for a query. */
// @ts-ignore: decorator
@inline
export function maskRow(job: Attention, sample: i32, head: i32, query: i32): usize {
  const width = job.maskType == BOOL ? 1 : job.maskType == FLOAT32 ? 4 : 2;
  return job.mask + (sample * job.maskSample + head * job.maskHead + query * job.maskQuery) * width;
}

/** True if the mask leaves a query any of the keys from `from` to `to`. */
export function takesPart(job: Attention, sample: i32, head: i32, query: i32, from: i32, to: i32): bool {
  if (!job.mask) return from < to;
  const row = maskRow(job, sample, head, query);
  for (let key = from; key < to; key++) if (biasOf(job, row, key) != -Infinity) return true;
  return false;
}

/** What the mask adds to the score of a key. */
function biasOf(job: Attention, row: usize, key: i32): f32 {
  const at = key * job.maskKey, type = job.maskType;
  if (type == BOOL) return load<u8>(row + at) ? 0 : -Infinity;
  return readOne(row + at * (type == FLOAT32 ? 4 : 2), type);
}

/**
 * Adds the mask's entries from `key` on to `count` scores; a key it hides gets -infinity, whatever its score was.
 * Returns how many were hidden.
 */
export function addMask(job: Attention, row: usize, key: i32, scores: usize, count: i32): i32 {
  let hidden = 0;
  const type = job.maskType;
  if (job.maskKey == 1 && type != BOOL) {
    const never = f32x4.splat(-Infinity);
    let mask = row + <usize>key * (type == FLOAT32 ? 4 : 2);
    for (; count >= 4; count -= 4, scores += 16) {
      let bias: v128;
      if (type == FLOAT32) {
        bias = v128.load(mask);
        mask += 16;
      } else {
        const bits = v128.load_ext<u16>(mask);
        bias = type == FLOAT16 ? fromFloat16(bits) : i32x4.shl(bits, 16);
        mask += 8;
      }
      const hides = f32x4.eq(bias, never);
      hidden += popcnt(i32x4.bitmask(hides));
      v128.store(scores, v128.bitselect(never, f32x4.add(v128.load(scores), bias), hides));
      key += 4;
    }
  }
  for (; count > 0; count--, key++, scores += 4) {
    const bias = biasOf(job, row, key);
    if (bias == -Infinity) hidden++;
    store<f32>(scores, bias == -Infinity ? bias : load<f32>(scores) + bias);
  }
  return hidden;
}
