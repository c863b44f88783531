/**
 * The bytes of pages: blocks copied and rows moved in all layers at once, and the rows of sequences as bytes, to be kept and taken over
 * again by other pages of the same model.
 */
import { InsituError } from "../base/error.js";
import { repackCache } from "../functions/paged-attention.js";
import type { Session } from "../session/session.js";
import type { State } from "../session/state.js";
import type { ByteStorage } from "../tensor/element-type.js";
import type { Tensor } from "../tensor/tensor.js";
import { int64 } from "./decoder-run.js";
import type { PagedState } from "./paged-state.js";
import type { Sequence } from "./sequence.js";

/** Says what the bytes are; the number is the version. */
const magic = 0x70616701;

/** The bytes of a cache. */
export function cacheBytes(cache: Tensor): Uint8Array {
  const { data, offset, size } = cache.toView();
  const { buffer, byteOffset, BYTES_PER_ELEMENT } = data as ByteStorage;
  return new Uint8Array(buffer, byteOffset + offset * BYTES_PER_ELEMENT, size * BYTES_PER_ELEMENT);
}

/** Copies a block into another one, in all layers. */
export function copyBlock(state: State, from: number, to: number): void {
  state.edit((cache) => {
    const bytes = cacheBytes(cache);
    const size = bytes.length / cache.dims[0];
    bytes.copyWithin(to * size, from * size, (from + 1) * size);
  });
}

/** Row i of a table becomes what row `sources[i]` was, in all layers. */
export function moveRows(
  state: State,
  table: readonly number[],
  sources: readonly number[],
  layout: "Norm" | "NHSD",
): void {
  const blockTables = int64(table, [1, table.length]);
  const rows = int64(sources, [1, sources.length]);
  // Scales are [blocks, rows, heads] in every layout.
  state.edit((cache) =>
    repackCache({ cache, rows, blockTables }, { cacheMode: cache.dims.length === 3 ? "Norm" : layout, inPlace: true }),
  );
}

/** How a session's pools are laid out. */
export function pageLayout(session: Session, state: State): "Norm" | "NHSD" {
  const [pool] = state.names;
  const { shape } = session.inputMetadata.find(({ name }) => name === pool)!;
  return shape[1] === "block_size" ? "Norm" : "NHSD";
}

/** The blocks of sequences, with their lengths, as bytes. */
export function readBlocks({ state, pool, blockBytes }: PagedState, sequences: readonly Sequence[]): Uint8Array {
  const evicted = sequences.find(({ length, position }) => position !== length);
  if (evicted !== undefined)
    throw new InsituError(
      "invalid-state",
      `sequence "${evicted.name}" cannot be saved: rows of it were evicted, and the saved form has no positions`,
    );
  const words = [magic, pool.blockSize, blockBytes, sequences.length, ...sequences.map(({ length }) => length)];
  const count = sequences.reduce((sum, { table }) => sum + table.length, 0);
  const bytes = new Uint8Array(4 * words.length + count * blockBytes);
  const header = new DataView(bytes.buffer);
  words.forEach((word, at) => header.setUint32(4 * at, word, true));
  let at = 4 * words.length;
  for (const name of state.names) {
    const cache = state.get(name);
    const source = cacheBytes(cache);
    const size = source.length / cache.dims[0];
    for (const block of sequences.flatMap(({ table }) => table)) {
      bytes.set(source.subarray(block * size, (block + 1) * size), at);
      at += size;
    }
  }
  return bytes;
}

/** Takes over saved blocks into sequences that are empty, of `capacity` rows at most. Throws, with nothing changed, where they do not fit. */
export function writeBlocks(
  { state, pool, blockBytes }: PagedState,
  sequences: readonly Sequence[],
  bytes: Uint8Array,
  capacity: number,
): void {
  const refuse = (why: string): never => {
    throw new InsituError("invalid-state", `the saved pages ${why}`);
  };
  if (!(bytes instanceof Uint8Array)) refuse("must be a Uint8Array");
  const filled = sequences.find(({ length }) => length > 0);
  if (filled !== undefined) refuse(`cannot be taken over by sequence "${filled.name}", which has rows of its own`);
  const headLength = 4 * (4 + sequences.length);
  if (bytes.length < headLength) refuse(`are cut off: they have ${bytes.length} bytes`);
  const header = new DataView(bytes.buffer, bytes.byteOffset, headLength);
  const words = Array.from({ length: headLength / 4 }, (_, at) => header.getUint32(4 * at, true));
  const [found, blockSize, size, count, ...lengths] = words;
  if (found !== magic) refuse("were not written by insitu");
  if (blockSize !== pool.blockSize || size !== blockBytes || count !== sequences.length)
    refuse(
      `hold ${count} sequences in blocks of ${blockSize} rows and ${size} bytes, these ${sequences.length} in blocks of ${pool.blockSize} rows and ${blockBytes} bytes`,
    );
  const long = lengths.find((length) => length > capacity);
  if (long !== undefined) refuse(`have a sequence of ${long} rows, these hold ${capacity}`);
  const wanted = headLength + lengths.reduce((sum, length) => sum + Math.ceil(length / blockSize), 0) * blockBytes;
  if (bytes.length !== wanted) refuse(`are cut off or too long: they have ${bytes.length} bytes in place of ${wanted}`);
  pool.append(sequences.map((sequence, at) => ({ sequence, tokens: lengths[at] })));
  let at = headLength;
  state.edit((cache) => {
    const target = cacheBytes(cache);
    const width = target.length / cache.dims[0];
    for (const block of sequences.flatMap(({ table }) => table)) {
      target.set(bytes.subarray(at, at + width), block * width);
      at += width;
    }
  });
}
