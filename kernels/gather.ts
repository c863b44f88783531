/** Rows of a table: as they are, or out of quantized blocks. */
import { readOne, readRow, widthOf, writeRow } from "./float-types";
import { shareStart } from "./share";

/** Rows of a table: Gather of embeddings, and GatherBlockQuantized. */
@unmanaged
export class GatherRows {
  table: usize; // [entries, width]
  indices: usize;
  output: usize; // [count, width]
  layout: i32; // tableLayout
  type: i32; // elementCode of the table, or of scales when it is quantized
  outputType: i32; // elementCode
  indexBytes: i32; // 4 or 8
  entries: i32; // negative indices count from here; others are the caller's to refuse
  width: i32;
  count: i32;
  outputRow: i32; // stride
  scales: usize; // [entries, blocks]
  zeros: usize; // as in matmulBlocks, packed; optional
  blockSize: i32;
  bits: i32; // 2, 4 or 8 for blocks, unsigned
}

/**
 * How a table lies: rows, or blocks of MatMulNBits.
 * @codes tableLayout
 */
const ROWS: i32 = 0;
const BLOCKS: i32 = 1;

/** Elements that pass through scratch at a time: a multiple of every block size that is smaller. */
const PIECE: i32 = 1024;

/** Gathers one part of the rows. */
export function gatherRows(job: GatherRows, part: i32, parts: i32, scratch: usize): void {
  const outputWidth = widthOf(job.outputType);
  const end = shareStart(job.count, part + 1, parts);
  for (let row = shareStart(job.count, part, parts); row < end; row++) {
    const entry = entryOf(job, row);
    const output = job.output + row * job.outputRow * outputWidth;
    if (job.layout == ROWS && job.type == job.outputType) {
      const bytes = <usize>job.width * outputWidth;
      memory.copy(output, job.table + <usize>entry * bytes, bytes);
      continue;
    }
    for (let first = 0; first < job.width; first += PIECE) {
      const count = min(PIECE, job.width - first);
      if (job.layout == ROWS) {
        const place = (<usize>entry * job.width + first) * widthOf(job.type);
        readRow(job.table + place, job.type, scratch, count);
      } else readBlocks(job, entry, first, count, scratch);
      writeRow(scratch, output + first * outputWidth, job.outputType, count);
    }
  }
}

/** A piece as float32. */
export function gatherRowsScratch(job: GatherRows): usize {
  return PIECE * 4;
}

// @ts-ignore: decorator
@inline
function entryOf(job: GatherRows, row: i32): i32 {
  const entry = job.indexBytes == 8 ? <i32>load<i64>(job.indices + ((<usize>row) << 3)) : load<i32>(job.indices + ((<usize>row) << 2));
  return entry < 0 ? entry + job.entries : entry;
}

/** (value - zero) · scale, block by block. */
function readBlocks(job: GatherRows, entry: i32, first: i32, count: i32, target: usize): void {
  const bits = job.bits;
  const mask = (1 << bits) - 1;
  const size = job.blockSize;
  const blocks = (job.width + size - 1) / size;
  const row = job.table + <usize>entry * blocks * ((<usize>size * bits) >> 3);
  const zeroRow = job.zeros + <usize>entry * ((blocks * bits + 7) >> 3);
  const scales = job.scales + <usize>entry * blocks * widthOf(job.type);
  for (const end = first + count; first < end; ) {
    const block = first / size;
    const scale = readOne(scales + block * widthOf(job.type), job.type);
    let zero = 1 << (bits - 1);
    if (job.zeros != 0) {
      const bit = block * bits;
      zero = (<i32>load<u8>(zeroRow + (bit >> 3)) >> (bit & 7)) & mask;
    }
    for (const stop = min(end, (block + 1) * size); first < stop; first++, target += 4) {
      const bit = first * bits;
      const value = (<i32>load<u8>(row + (bit >> 3)) >> (bit & 7)) & mask;
      store<f32>(target, <f32>(value - zero) * scale);
    }
  }
}
