/** Block-quantized weights as MatMulNBits lays them out, [n, blocks, blob]: where scales and zero points are, and what they are. */
import { FLOAT16, FLOAT32 } from "./codes";
import { fromFloat16, readOne, widthOf } from "./float-types";
import { MatMulBlocks } from "./matmul-blocks";
import { load4 } from "./simd";

/** The scale at p in every lane; float16 divided by 2^112, see load4. */
// @ts-ignore: decorator
@inline
export function splatScale<S>(p: usize): v128 {
  if (isFloat<S>()) return v128.load_splat<f32>(p);
  const bits = <i32>load<i16>(p);
  if (isSigned<S>()) return i32x4.splat(bits << 16);
  return i32x4.splat((bits << 13) & 0x8fffe000);
}

/** Blocks of a row. Block sizes are powers of two. */
// @ts-ignore: decorator
@inline
export function blocksOf(job: MatMulBlocks): i32 {
  return (job.k + job.blockSize - 1) >> ctz(job.blockSize);
}

/** Bytes of a row of weights. */
// @ts-ignore: decorator
@inline
export function weightBytes(job: MatMulBlocks): i32 {
  return job.bRow ? job.bRow : (blocksOf(job) * job.blockSize * job.bits) >> 3;
}

/** The zero point of a column's block. */
export function zeroOf(job: MatMulBlocks, column: i32, block: i32): f32 {
  if (!job.zeros) return <f32>(1 << (job.bits - 1));
  const type = job.zerosType;
  if (type >= 0) return readOne(job.zeros + <usize>(column * blocksOf(job) + block) * widthOf(type), type);
  const row = job.zerosRow ? 0 : (blocksOf(job) * job.bits + 7) >> 3;
  const bit = column * job.zerosRow + block * job.bits;
  return <f32>((<i32>load<u8>(job.zeros + <usize>(column * row + (bit >> 3))) >> (bit & 7)) & ((1 << job.bits) - 1));
}

/** The zero points of four blocks from `block` on, a multiple of 4. */
function zeros4(job: MatMulBlocks, column: i32, block: i32): v128 {
  const type = job.zerosType;
  if (type == FLOAT32) return v128.load(job.zeros + ((<usize>(column * blocksOf(job) + block)) << 2));
  if (type >= 0) {
    const bits = v128.load_ext<u16>(job.zeros + ((<usize>(column * blocksOf(job) + block)) << 1));
    return type == FLOAT16 ? fromFloat16(bits) : i32x4.shl(bits, 16);
  }
  const row = (blocksOf(job) * job.bits + 7) >> 3;
  const at = job.zeros + <usize>(column * row + ((block * job.bits) >> 3));
  if (job.bits == 8) {
    const bytes = v128.load_zero<i32>(at);
    return f32x4.convert_i32x4_u(i32x4.extend_low_i16x8_u(i16x8.extend_low_i8x16_u(bytes)));
  }
  if (job.bits == 4) {
    // Each lane's nibble is moved to the same place by a multiplication.
    const moved = i32x4.mul(i32x4.splat(<i32>load<u16>(at)), i32x4(4096, 256, 16, 1));
    return f32x4.convert_i32x4_u(v128.and(i32x4.shr_u(moved, 12), i32x4.splat(15)));
  }
  const moved = i32x4.mul(i32x4.splat(<i32>load<u8>(at)), i32x4(64, 16, 4, 1));
  return f32x4.convert_i32x4_u(v128.and(i32x4.shr_u(moved, 6), i32x4.splat(3)));
}

/** -Σ scale · zero point · sum over the blocks of a column, whose scales are at p; spread over the lanes, in splatScale's units. */
export function zeroTerm<S>(job: MatMulBlocks, column: i32, p: usize, sums: usize): v128 {
  const count = blocksOf(job);
  if (job.zeros) return zeroTermOf<S>(job, column, p, sums, 0);
  if (count & 7) return evenZeroTerm<S>(job, p, sums);
  let a = i32x4.splat(0), b = a;
  const end = p + <usize>count * sizeof<S>();
  do {
    a = f32x4.add(a, f32x4.mul(load4<S>(p), v128.load(sums)));
    b = f32x4.add(b, f32x4.mul(load4<S>(p + 4 * sizeof<S>()), v128.load(sums, 16)));
    p += 8 * sizeof<S>();
    sums += 32;
  } while (p < end);
  return f32x4.mul(f32x4.add(a, b), f32x4.splat(-(<f32>(1 << (job.bits - 1)))));
}

/** The same for few blocks that all have the middle of their range as zero point. */
// @ts-ignore: decorator
@inline
function evenZeroTerm<S>(job: MatMulBlocks, p: usize, sums: usize): v128 {
  let total = i32x4.splat(0);
  for (const end = p + <usize>blocksOf(job) * sizeof<S>(); p < end; p += sizeof<S>(), sums += 4) {
    total = f32x4.add(total, f32x4.mul(splatScale<S>(p), v128.load_zero<f32>(sums)));
  }
  return f32x4.mul(total, f32x4.splat(-(<f32>(1 << (job.bits - 1)))));
}

/** The same for any zero points, as far as they differ from `base`. */
export function zeroTermOf<S>(job: MatMulBlocks, column: i32, p: usize, sums: usize, base: f32): v128 {
  const count = blocksOf(job);
  let block = 0;
  let total = i32x4.splat(0);
  for (; block + 4 <= count && job.zeros; block += 4, p += 4 * sizeof<S>(), sums += 16) {
    const zeros = f32x4.sub(zeros4(job, column, block), f32x4.splat(base));
    total = f32x4.sub(total, f32x4.mul(f32x4.mul(load4<S>(p), v128.load(sums)), zeros));
  }
  for (; block < count; block++, p += sizeof<S>(), sums += 4) {
    const term = load<f32>(sums) * (zeroOf(job, column, block) - base);
    total = f32x4.sub(total, f32x4.mul(splatScale<S>(p), f32x4.replace_lane(i32x4.splat(0), 0, term)));
  }
  return total;
}
