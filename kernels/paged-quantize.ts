/** The write of keys or values into pages of bytes, with a scale for each token and head: symmetric, to the nearest even. */
import { PAGE_FLOAT8E4M3FN as PAGE_E4M3, PAGE_INT8 } from "./codes";
import { readRow, widthOf } from "./float-types";
import { readSlot } from "./pages";
import { shareStart } from "./share";
import { largest, zero } from "./simd";

/** Vectors into the slots of a paged cache, quantised: bytes, and a scale for each token and head. Slots as in scatterPages. */
@unmanaged
export class QuantizePages {
  source: usize; // [tokens, heads, size]
  target: usize;
  scales: usize; // float32[blocks, blockSize, heads]
  slots: usize;
  slotBytes: i32;
  sourceType: i32; // elementCode
  type: i32; // pageCode of the bytes
  tokens: i32;
  heads: i32;
  size: i32;
  blockSize: i32;
  targetBlock: i32; // strides
  targetRow: i32;
  targetHead: i32;
  piece: i32; // elements of a head that lie together: size, or less
  targetPiece: i32;
}

/** Parts share the heads: of two vectors in one slot the later one stays. */
export function quantizePages(job: QuantizePages, part: i32, parts: i32, scratch: usize): void {
  const from = shareStart(job.heads, part, parts);
  const to = shareStart(job.heads, part + 1, parts);
  const size = job.size, width = widthOf(job.sourceType);
  for (let token = 0; token < job.tokens; token++) {
    const slot = readSlot(job.slots, job.slotBytes, token);
    if (slot < 0) continue;
    const block = slot / job.blockSize;
    const place =
      job.target + <usize>block * job.targetBlock + <usize>(slot - block * job.blockSize) * job.targetRow;
    for (let head = from; head < to; head++) {
      // The row's end is zero up to whole vectors.
      v128.store(scratch + ((((<usize>size) + 3) >> 2) << 4) - 16, zero());
      readRow(job.source + <usize>((token * job.heads + head) * size) * width, job.sourceType, scratch, size);
      const scale = <f32>(largestOf(scratch, size) / limitOf(job.type));
      store<f32>(job.scales + ((<usize>(slot * job.heads + head)) << 2), scale);
      writeCodes(job, scratch, place + <usize>head * job.targetHead, scale);
    }
  }
}

/** A row as float32, in whole vectors. */
export function quantizePagesScratch(job: QuantizePages): usize {
  return ((<usize>job.size + 3) >> 2) << 4;
}

// @ts-ignore: decorator
@inline
function limitOf(type: i32): f32 {
  return type == PAGE_INT8 ? 127 : type == PAGE_E4M3 ? 448 : 57344;
}

/** The largest magnitude; NaN if there is one. */
function largestOf(row: usize, size: i32): f32 {
  let top = zero();
  for (; size > 0; size -= 4, row += 16) top = f32x4.max(top, f32x4.abs(v128.load(row)));
  return largest(top);
}

function writeCodes(job: QuantizePages, row: usize, target: usize, scale: f32): void {
  const usable = scale > 0 && scale < Infinity;
  const divisor = f32x4.splat(usable ? scale : 1);
  const type = job.type;
  for (let left = job.size; left > 0; left -= job.piece, target += job.targetPiece) {
    let count = min(left, job.piece);
    let p = target;
    for (; count > 0; count -= 4, row += 16, p += 4) {
      const ratio = usable ? f32x4.div(v128.load(row), divisor) : zero();
      let codes = type == PAGE_INT8 ? toInt8(ratio) : type == PAGE_E4M3 ? toE4m3(ratio) : toE5m2(ratio);
      codes = v128.and(codes, i32x4.splat(0xff));
      const shorts = i16x8.narrow_i32x4_u(codes, codes);
      const bytes = i8x16.narrow_i16x8_u(shorts, shorts);
      if (count >= 4) v128.store_lane<u32>(p, bytes, 0);
      else {
        const word = i32x4.extract_lane(bytes, 0);
        for (let i = 0; i < count; i++) store<u8>(p + i, <u8>(word >> (i << 3)));
      }
    }
  }
}

// @ts-ignore: decorator
@inline
function toInt8(ratio: v128): v128 {
  const rounded = i32x4.trunc_sat_f32x4_s(f32x4.nearest(ratio));
  return i32x4.max_s(i32x4.min_s(rounded, i32x4.splat(127)), i32x4.splat(-127));
}

/** To the nearest even: the steps of the normal numbers by their bits, those of the subnormal ones by adding `magic`. */
// @ts-ignore: decorator
@inline
function toFloat8(a: v128, shift: i32, bias: i32, magic: f32, top: i32): v128 {
  const magnitude = v128.and(a, i32x4.splat(0x7fffffff));
  const sign = v128.and(i32x4.shr_u(a, 24), i32x4.splat(0x80));
  const odd = v128.and(i32x4.shr_u(magnitude, shift), i32x4.splat(1));
  const half = (1 << (shift - 1)) - 1 - (bias << 23);
  const normal = i32x4.shr_u(i32x4.add(i32x4.add(magnitude, odd), i32x4.splat(half)), shift);
  const small = i32x4.sub(f32x4.add(magnitude, f32x4.splat(magic)), f32x4.splat(magic));
  const code = v128.bitselect(small, normal, i32x4.lt_s(magnitude, i32x4.splat((bias + 1) << 23)));
  return v128.or(i32x4.min_s(code, i32x4.splat(top)), sign);
}

// @ts-ignore: decorator
@inline
function toE4m3(a: v128): v128 {
  return toFloat8(a, 20, 120, 16384.0, 0x7e);
}

// @ts-ignore: decorator
@inline
function toE5m2(a: v128): v128 {
  return toFloat8(a, 21, 112, 128.0, 0x7b);
}
