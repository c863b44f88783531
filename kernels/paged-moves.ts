/** Moving rows into, out of and within paged caches, and within linear ones. Bytes only. */
import { readIndex, readSlot } from "./pages";
import { shareStart } from "./share";

/** Vectors into the slots of a paged cache. Negative slots are skipped; of two vectors in one slot the last stays. */
@unmanaged
export class ScatterPages {
  source: usize;
  target: usize;
  slots: usize; // [tokens]
  slotBytes: i32; // 4 or 8
  tokens: i32;
  pieces: i32; // a vector lies in so many pieces
  pieceBytes: i32;
  sourceToken: i32; // strides, in bytes
  sourcePiece: i32;
  blockSize: i32;
  targetBlock: i32;
  targetRow: i32;
  targetPiece: i32;
}

/** The rows of sequences out of a paged cache, one sequence after the other; rows past a table are zeros. */
@unmanaged
export class GatherPages {
  source: usize;
  target: usize; // [rows, pieces · pieceBytes]
  tables: usize; // [batch, columns]
  tableBytes: i32; // 4 or 8
  columns: i32;
  lengths: usize; // [batch], or cumulative [batch + 1]
  lengthBytes: i32;
  cumulative: i32;
  offsets: usize; // [batch], of tableBytes, optional: rows before the first; whole blocks of them are skipped
  batch: i32;
  pieces: i32;
  pieceBytes: i32;
  blockSize: i32;
  sourceBlock: i32; // strides, in bytes
  sourceRow: i32;
  sourcePiece: i32;
}

/** RepackCache: row i becomes what row rows[i] was, in every piece of every sample. Any order; -1 leaves the row. */
@unmanaged
export class RepackRows {
  cache: usize;
  rows: usize; // [batch, lists, count]
  rowsBytes: i32; // 4 or 8
  count: i32;
  lists: i32; // divides the pieces: those of a share follow one list
  batch: i32;
  pieces: i32;
  pieceBytes: i32;
  cacheSample: i32; // strides, in bytes; 0 for pages
  cachePiece: i32;
  cacheRow: i32;
  tables: usize; // [batch, columns], optional: rows are counted through them
  tableBytes: i32;
  columns: i32;
  blockSize: i32;
  cacheBlock: i32;
}

/** Copies bytes that do not overlap: few of them without a call. */
// @ts-ignore: decorator
@inline
function copyBytes(target: usize, source: usize, bytes: i32): void {
  if (bytes > 256) {
    memory.copy(target, source, bytes);
    return;
  }
  for (; bytes >= 16; bytes -= 16, source += 16, target += 16) v128.store(target, v128.load(source));
  for (; bytes > 0; bytes--, source++, target++) store<u8>(target, load<u8>(source));
}

/** Vectors into slots, in the tokens' order. Parts share the pieces of a vector, or the bytes of its only one. */
export function scatterPages(job: ScatterPages, part: i32, parts: i32, scratch: usize): void {
  if (job.pieces == 1) return scatterVectors(job, part, parts);
  const tokens = job.tokens, blockSize = job.blockSize, bytes = job.pieceBytes;
  const from = shareStart(job.pieces, part, parts);
  const to = shareStart(job.pieces, part + 1, parts);
  for (let token = 0; token < tokens; token++) {
    const slot = readSlot(job.slots, job.slotBytes, token);
    if (slot < 0) continue;
    const block = slot / blockSize;
    let source = job.source + <usize>token * job.sourceToken + <usize>from * job.sourcePiece;
    let target =
      job.target + <usize>block * job.targetBlock + <usize>(slot - block * blockSize) * job.targetRow + <usize>from * job.targetPiece;
    if (bytes == 32) {
      for (let piece = from; piece < to; piece++, source += job.sourcePiece, target += job.targetPiece) {
        v128.store(target, v128.load(source));
        v128.store(target, v128.load(source, 16), 16);
      }
    } else {
      for (let piece = from; piece < to; piece++, source += job.sourcePiece, target += job.targetPiece)
        copyBytes(target, source, bytes);
    }
  }
}

/** Vectors in one piece: neighbours that go to neighbouring slots are moved together. */
function scatterVectors(job: ScatterPages, part: i32, parts: i32): void {
  const tokens = job.tokens, slotBytes = job.slotBytes, slots = job.slots;
  const from = parts == 1 ? 0 : shareStart(job.pieceBytes >> 6, part, parts) << 6;
  const to = part == parts - 1 ? job.pieceBytes : shareStart(job.pieceBytes >> 6, part + 1, parts) << 6;
  const bytes = to - from;
  if (bytes == 0) return;
  const whole = parts == 1 && job.sourceToken == job.pieceBytes;
  // Slots of a cache whose vectors lie in one piece follow each other across blocks.
  const row = <usize>job.targetRow;
  for (let token = 0; token < tokens; ) {
    const slot = readSlot(slots, slotBytes, token);
    let count = 1;
    if (whole && slot >= 0) while (token + count < tokens && readSlot(slots, slotBytes, token + count) == slot + count) count++;
    if (slot >= 0) {
      const source = job.source + <usize>token * job.sourceToken + from;
      memory.copy(job.target + <usize>slot * row + from, source, <usize>count * bytes);
    }
    token += count;
  }
}

/** Rows of sequences, in order. Parts share the pieces of each row where there are several, else the sequences. */
export function gatherPages(job: GatherPages, part: i32, parts: i32, scratch: usize): void {
  const blockSize = job.blockSize;
  const vector = <usize>job.pieces * job.pieceBytes;
  let row = 0;
  for (let sequence = 0; sequence < job.batch; sequence++) {
    const before = job.cumulative ? readIndex(job.lengths, job.lengthBytes, sequence) : 0;
    const length = readIndex(job.lengths, job.lengthBytes, sequence + job.cumulative) - before;
    const start = job.offsets ? startOf(job, sequence) : 0;
    const table = job.tables + <usize>(sequence * job.columns) * job.tableBytes;
    // Blocks are dealt in turn.
    for (let first = part * blockSize; first < length; first += parts * blockSize) {
      const column = start + first / blockSize;
      const count = min(blockSize, length - first);
      let target = job.target + <usize>(row + first) * vector;
      if (column >= job.columns) {
        memory.fill(target, 0, <usize>count * vector);
        continue;
      }
      let source = job.source + <usize>readIndex(table, job.tableBytes, column) * job.sourceBlock;
      if (job.pieces == 1 && job.sourceRow == job.pieceBytes) {
        memory.copy(target, source, <usize>count * vector);
        continue;
      }
      for (let i = 0; i < count; i++, source += job.sourceRow) {
        let from = source;
        for (let piece = 0; piece < job.pieces; piece++, from += job.sourcePiece, target += job.pieceBytes)
          copyBytes(target, from, job.pieceBytes);
      }
    }
    row += length;
  }
}

/** The column of its table at which a sequence starts; that behind the last one where its offset lies past the table. */
function startOf(job: GatherPages, sequence: i32): i32 {
  const at = job.offsets + <usize>sequence * job.tableBytes;
  const offset = job.tableBytes == 8 ? load<i64>(at) : <i64>load<i32>(at);
  return <i32>min(offset / job.blockSize, <i64>job.columns);
}

/** Marks a row of a list as written. */
const DONE: i32 = -1;

/**
 * Moves rows so that each becomes what its source was before. A row is written once nobody needs what it holds: chains are followed
 * from their ends, and what is left then are rings, each of which needs one row put aside. Parts share samples and pieces.
 */
export function repackRows(job: RepackRows, part: i32, parts: i32, scratch: usize): void {
  const tasks = job.batch * job.pieces;
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const sample = task / job.pieces;
    const piece = task % job.pieces;
    repackPiece(job, sample, piece, scratch);
  }
}

/** The readers of each row, and a row that is put aside. */
export function repackRowsScratch(job: RepackRows): usize {
  return ((<usize>job.count) << 2) + 16 + job.pieceBytes;
}

/** The address of a row's piece. */
// @ts-ignore: decorator
@inline
function placeOf(job: RepackRows, start: usize, table: usize, row: i32): usize {
  if (!job.tables) return start + <usize>row * job.cacheRow;
  const column = row / job.blockSize;
  const block = readIndex(table, job.tableBytes, column);
  return start + <usize>block * job.cacheBlock + <usize>(row - column * job.blockSize) * job.cacheRow;
}

function repackPiece(job: RepackRows, sample: i32, piece: i32, scratch: usize): void {
  const count = job.count, bytes = job.pieceBytes, rowsBytes = job.rowsBytes;
  const list = job.rows + <usize>((sample * job.lists + (piece * job.lists) / job.pieces) * count) * rowsBytes;
  const start = job.cache + <usize>sample * job.cacheSample + <usize>piece * job.cachePiece;
  const table = job.tables + <usize>(sample * job.columns) * job.tableBytes;
  const readers = scratch; // of each row that is written: how many rows still need what it holds
  const aside = scratch + (((<usize>count) << 2) + 15 & ~15);
  memory.fill(readers, 0, (<usize>count) << 2);
  for (let row = 0; row < count; row++) {
    const source = readIndex(list, rowsBytes, row);
    if (source < 0 || source == row) store<i32>(readers + ((<usize>row) << 2), i32.MIN_VALUE);
  }
  for (let row = 0; row < count; row++) {
    const source = readIndex(list, rowsBytes, row);
    if (source < 0 || source == row || source >= count) continue;
    const at = readers + ((<usize>source) << 2);
    if (load<i32>(at) >= 0) store<i32>(at, load<i32>(at) + 1);
  }
  for (let row = 0; row < count; row++) {
    let target = row;
    while (load<i32>(readers + ((<usize>target) << 2)) == 0) {
      const source = readIndex(list, rowsBytes, target);
      copyBytes(placeOf(job, start, table, target), placeOf(job, start, table, source), bytes);
      store<i32>(readers + ((<usize>target) << 2), DONE);
      if (source >= count) break;
      const at = readers + ((<usize>source) << 2);
      const left = load<i32>(at);
      if (left <= 0) break; // a row that stays
      store<i32>(at, left - 1);
      target = source;
    }
  }
  for (let row = 0; row < count; row++) {
    if (load<i32>(readers + ((<usize>row) << 2)) <= 0) continue;
    copyBytes(aside, placeOf(job, start, table, row), bytes);
    let target = row;
    for (;;) {
      const source = readIndex(list, rowsBytes, target);
      store<i32>(readers + ((<usize>target) << 2), DONE);
      if (source == row) break;
      copyBytes(placeOf(job, start, table, target), placeOf(job, start, table, source), bytes);
      target = source;
    }
    copyBytes(placeOf(job, start, table, target), aside, bytes);
  }
}
