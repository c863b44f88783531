/** RotaryEmbedding: pairs of a head's values turned by the angles of their position, in float32. */
import { FLOAT32 } from "./codes";
import { readRow, widthOf, writeRow } from "./float-types";
import { shareStart } from "./share";

/** RotaryEmbedding: turns the first 2 · pairs values of each head, copies the rest. */
@unmanaged
export class Rotate {
  source: usize; // [batch, heads, length, size]
  output: usize; // may be source
  cos: usize; // [positions, pairs], or [batch, length, pairs] without positions
  sin: usize;
  positions: usize; // int64[batch, length], optional
  type: i32; // elementCode of all
  batch: i32;
  heads: i32;
  length: i32;
  size: i32;
  pairs: i32;
  interleaved: i32; // 1: pairs are neighbours; 0: halves
  sourceSample: i32; // strides
  sourceHead: i32;
  sourceRow: i32;
  outputSample: i32;
  outputHead: i32;
  outputRow: i32;
  positionSample: i32; // stride; 0 with one offset for all
  positionStep: i32; // 1: one position a token; 0: positions[sample] is the first, the others follow
  angleRow: i32; // stride of cos and sin
}

/** Turns one part of the heads, token after token; the angles of a token serve all its heads. */
export function rotate(job: Rotate, part: i32, parts: i32, scratch: usize): void {
  const type = job.type;
  const width = widthOf(type);
  const pairs = job.pairs;
  const turned = pairs * 2;
  const heads = job.heads;
  const pairBytes = ((<usize>pairs + 3) >> 2) << 4;
  // Scratch, where the type is not float32: cosines, sines, the turned part of a head.
  const row = scratch + 2 * pairBytes;
  let known = -1; // the token whose angles are at hand
  let cos: usize = 0;
  let sin: usize = 0;
  const end = shareStart(job.batch * job.length * heads, part + 1, parts);
  for (let task = shareStart(job.batch * job.length * heads, part, parts); task < end; task++) {
    const token = task / heads; // [batch, length]
    const head = task % heads;
    const sample = token / job.length;
    const step = token % job.length;
    if (token != known) {
      known = token;
      const angles = positionOf(job, sample, step, token) * job.angleRow * width;
      cos = job.cos + angles;
      sin = job.sin + angles;
      if (type != FLOAT32) {
        readRow(cos, type, scratch, pairs);
        readRow(sin, type, scratch + pairBytes, pairs);
        cos = scratch;
        sin = scratch + pairBytes;
      }
    }
    const source = job.source + (sample * job.sourceSample + head * job.sourceHead + step * job.sourceRow) * width;
    const output = job.output + (sample * job.outputSample + head * job.outputHead + step * job.outputRow) * width;
    let from = source;
    let to = output;
    if (type != FLOAT32) {
      readRow(source, type, row, turned);
      from = to = row;
    }
    if (job.interleaved) turnNeighbours(from, to, cos, sin, pairs);
    else turnHalves(from, to, cos, sin, pairs);
    if (type != FLOAT32) writeRow(row, output, type, turned);
    if (source != output) memory.copy(output + turned * width, source + turned * width, (job.size - turned) * width);
  }
}

/** Cosines, sines, the turned part of a head. */
export function rotateScratch(job: Rotate): usize {
  return 2 * (((<usize>job.pairs + 3) >> 2) << 4) + (((<usize>job.pairs * 2 + 3) >> 2) << 4);
}

/** The row of the angles for a token. */
// @ts-ignore: decorator
@inline
function positionOf(job: Rotate, sample: i32, step: i32, token: i32): i32 {
  if (job.positions == 0) return token;
  if (job.positionStep == 0) return <i32>load<i64>(job.positions + ((<usize>(sample * job.positionSample)) << 3)) + step;
  return <i32>load<i64>(job.positions + ((<usize>(sample * job.positionSample + step)) << 3));
}

/** Value i turns with value i + pairs. Products are rounded before they are added, as the operator's definition has it. */
function turnHalves(from: usize, to: usize, cos: usize, sin: usize, pairs: i32): void {
  const apart = (<usize>pairs) << 2;
  let i: usize = 0;
  for (const end = ((<usize>pairs) >> 2) << 4; i < end; i += 16) {
    const a = v128.load(from + i);
    const b = v128.load(from + apart + i);
    const c = v128.load(cos + i);
    const s = v128.load(sin + i);
    v128.store(to + i, f32x4.sub(f32x4.mul(c, a), f32x4.mul(s, b)));
    v128.store(to + apart + i, f32x4.add(f32x4.mul(s, a), f32x4.mul(c, b)));
  }
  for (; i < apart; i += 4) turnPair(from + i, from + apart + i, to + i, to + apart + i, load<f32>(cos + i), load<f32>(sin + i));
}

/** Value 2 · i turns with value 2 · i + 1. */
function turnNeighbours(from: usize, to: usize, cos: usize, sin: usize, pairs: i32): void {
  let left = pairs;
  for (; left >= 4; left -= 4, from += 32, to += 32, cos += 16, sin += 16) {
    const low = v128.load(from);
    const high = v128.load(from, 16);
    const a = v128.shuffle<i32>(low, high, 0, 2, 4, 6);
    const b = v128.shuffle<i32>(low, high, 1, 3, 5, 7);
    const c = v128.load(cos);
    const s = v128.load(sin);
    const x = f32x4.sub(f32x4.mul(c, a), f32x4.mul(s, b));
    const y = f32x4.add(f32x4.mul(s, a), f32x4.mul(c, b));
    v128.store(to, v128.shuffle<i32>(x, y, 0, 4, 1, 5));
    v128.store(to, v128.shuffle<i32>(x, y, 2, 6, 3, 7), 16);
  }
  for (; left > 0; left--, from += 8, to += 8, cos += 4, sin += 4)
    turnPair(from, from + 4, to, to + 4, load<f32>(cos), load<f32>(sin));
}

// @ts-ignore: decorator
@inline
function turnPair(first: usize, second: usize, toFirst: usize, toSecond: usize, c: f32, s: f32): void {
  const a = load<f32>(first);
  const b = load<f32>(second);
  store<f32>(toFirst, c * a - s * b);
  store<f32>(toSecond, s * a + c * b);
}
