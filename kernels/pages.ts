/**
 * Where the rows of paged caches lie, and rows that do not lie as they are computed with: in pieces, or as bytes with a scale.
 * Addresses are looked up once for a block of rows; what reads the rows then goes by a table of addresses.
 */
import { FLOAT32, PAGE_FLOAT8E4M3FN as PAGE_E4M3, PAGE_INT4, PAGE_INT8 } from "./codes";
import { fromFloat16, readRow, widthOf } from "./float-types";
import { PagedAttention } from "./paged-decode";

/** Bytes of an element of a page. */
// @ts-ignore: decorator
@inline
export function pageWidth(type: i32): i32 {
  return type >= PAGE_INT8 ? 1 : widthOf(type);
}

/** The integer at position `i` of an array of int32 or int64, which was checked to lie within a cache. */
// @ts-ignore: decorator
@inline
export function readIndex(array: usize, bytes: i32, i: i32): i32 {
  return bytes == 8 ? <i32>load<i64>(array + ((<usize>i) << 3)) : load<i32>(array + ((<usize>i) << 2));
}

/** The slot at position `i` of such an array; any negative one, which stands for none, is -1. */
// @ts-ignore: decorator
@inline
export function readSlot(array: usize, bytes: i32, i: i32): i32 {
  return bytes == 8 ? <i32>max<i64>(-1, load<i64>(array + ((<usize>i) << 3))) : load<i32>(array + ((<usize>i) << 2));
}

/** The valid rows of a head of a sample. */
// @ts-ignore: decorator
@inline
export function pageLength(job: PagedAttention, sample: i32, kvHead: i32): i32 {
  return readIndex(job.lengths, job.lengthBytes, sample * job.lengthSample + kvHead * job.lengthHead);
}

/** True if rows are unpacked before they are computed with. */
// @ts-ignore: decorator
@inline
export function unpacks(job: PagedAttention): bool {
  return job.piece != 0 || job.cacheType >= PAGE_INT8;
}

/**
 * The addresses of `count` rows from `from` on, of the head that is first in its page: keys, values, and their slots. Each table has
 * an entry of 4 bytes a row.
 */
export function locateRows(
  job: PagedAttention, sample: i32, kvHead: i32, from: i32, count: i32, keys: usize, values: usize, slots: usize,
): void {
  const width = <usize>pageWidth(job.cacheType);
  const blockSize = job.blockSize;
  const tableBytes = job.tableBytes;
  const keyBlock = <usize>job.keyBlock * width, keyRow = <usize>job.keyRow * width;
  const valueBlock = <usize>job.valueBlock * width, valueRow = <usize>job.valueRow * width;
  const table = job.tables + <usize>(sample * job.tableSample + kvHead * job.tableHead) * tableBytes;
  let column = from / blockSize;
  let within = from - column * blockSize;
  while (count > 0) {
    const block = readIndex(table, tableBytes, column);
    const rows = min(count, blockSize - within);
    let key = job.key + <usize>block * keyBlock + <usize>within * keyRow;
    let value = job.value + <usize>block * valueBlock + <usize>within * valueRow;
    let slot = block * blockSize + within;
    for (let row = 0; row < rows; row++) {
      store<usize>(keys, key);
      store<usize>(values, value);
      store<i32>(slots, slot);
      keys += 4;
      values += 4;
      slots += 4;
      key += keyRow;
      value += valueRow;
      slot++;
    }
    count -= rows;
    within = 0;
    column++;
  }
}

/** The scale of a slot's head; 1 where pages have none. */
// @ts-ignore: decorator
@inline
export function scaleOf(job: PagedAttention, scales: usize, slot: i32, head: i32): f32 {
  return scales ? load<f32>(scales + ((<usize>(slot * job.pageHeads + head)) << 2)) : 1;
}

/** Bits of float8e4m3fn in the low byte of each lane to float32. */
// @ts-ignore: decorator
@inline
function fromE4m3(bits: v128): v128 {
  const magnitude = v128.and(bits, i32x4.splat(0x7f));
  const sign = i32x4.shl(v128.and(bits, i32x4.splat(0x80)), 24);
  const scaled = f32x4.mul(i32x4.shl(magnitude, 20), f32x4.splat(1329227995784915872903807060280344576.0)); // 2^120
  const special = v128.and(i32x4.eq(magnitude, i32x4.splat(0x7f)), i32x4.splat(0x7fc00000));
  return v128.or(v128.or(scaled, special), sign);
}

/** Four bytes as float32. */
// @ts-ignore: decorator
@inline
function fromBytes(bits: v128, type: i32): v128 {
  if (type == PAGE_INT8) return f32x4.convert_i32x4_s(i32x4.shr_s(i32x4.shl(bits, 24), 24));
  return type == PAGE_E4M3 ? fromE4m3(bits) : fromFloat16(i32x4.shl(bits, 8));
}

/** Integers of 4 bits, two to a byte with 8 added, as float32: their scales are elsewhere. */
function unpackNibbles(source: usize, target: usize, count: i32): void {
  const eight = i16x8.splat(8), mask = i16x8.splat(15);
  for (; count >= 16; count -= 16, source += 8, target += 64) {
    const bytes = v128.load_ext<u8>(source);
    const low = i16x8.sub(v128.and(bytes, mask), eight), high = i16x8.sub(i16x8.shr_u(bytes, 4), eight);
    const first = v128.shuffle<i16>(low, high, 0, 8, 1, 9, 2, 10, 3, 11);
    const second = v128.shuffle<i16>(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
    v128.store(target, f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(first)));
    v128.store(target, f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(first)), 16);
    v128.store(target, f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(second)), 32);
    v128.store(target, f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(second)), 48);
  }
  for (let i = 0; i < count; i++, target += 4) {
    const nibble = (<i32>load<u8>(source + (i >> 1)) >> ((i & 1) << 2)) & 15;
    store<f32>(target, <f32>(nibble - 8));
  }
}

/** `count` elements of a page, which lie together, as float32, times `factor`. */
function unpackPiece(source: usize, type: i32, target: usize, count: i32, factor: f32): void {
  if (type == FLOAT32) {
    for (; count >= 4; count -= 4, source += 16, target += 16) v128.store(target, v128.load(source));
    for (; count > 0; count--, source += 4, target += 4) store<f32>(target, load<f32>(source));
    return;
  }
  if (type < PAGE_INT8) return readRow(source, type, target, count);
  if (type == PAGE_INT4) return unpackNibbles(source, target, count);
  const f = f32x4.splat(factor);
  if (type == PAGE_INT8) {
    for (; count >= 8; count -= 8, source += 8, target += 32) {
      const wide = v128.load_ext<i8>(source);
      v128.store(target, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(wide)), f));
      v128.store(target, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(wide)), f), 16);
    }
  } else {
    for (; count >= 8; count -= 8, source += 8, target += 32) {
      const wide = v128.load_ext<u8>(source);
      v128.store(target, f32x4.mul(fromBytes(i32x4.extend_low_i16x8_u(wide), type), f));
      v128.store(target, f32x4.mul(fromBytes(i32x4.extend_high_i16x8_u(wide), type), f), 16);
    }
  }
  for (; count > 0; count--, source++, target += 4) {
    const value = fromBytes(i32x4.splat(<i32>load<u8>(source)), type);
    store<f32>(target, f32x4.extract_lane(f32x4.mul(value, f), 0));
  }
}

/** One row of a head as float32, times `factor`; `piece` elements lie together (0: all), pieces `step` bytes apart. */
export function unpackRow(source: usize, type: i32, target: usize, size: i32, piece: i32, step: usize, factor: f32): void {
  if (piece == 0) return unpackPiece(source, type, target, size, factor);
  if (type == FLOAT32) {
    // Pieces are 32 bytes.
    for (; size > 0; size -= 8, source += step, target += 32) {
      v128.store(target, v128.load(source));
      v128.store(target, v128.load(source, 16), 16);
    }
    return;
  }
  for (; size > 0; size -= piece, source += step, target += (<usize>piece) << 2) {
    unpackPiece(source, type, target, min(piece, size), factor);
  }
}
