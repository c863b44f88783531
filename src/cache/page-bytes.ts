/**
 * What pages hold: rows moved in all layers at once, and the blocks of sequences as bytes, to be kept and taken over again by other pages of
 * the same model.
 */
import { InsituError } from "../base/error.js";
import type { Session } from "../session/session.js";
import type { State } from "../session/state.js";
import { int64 } from "../decoder/decoder-inputs.js";
import type { PagedState } from "./paged-state.js";
import type { Sequence } from "./sequence.js";

/** The operator that brings rows together. */
export const repacking = { operator: "RepackCache", domain: "insitu" } as const;

/** Says what the bytes are; the number is the version. */
const magic = 0x70616701;

/** Row i of a table becomes what row `sources[i]` was, in all layers. */
function moveRows(
  state: State,
  table: readonly number[],
  sources: readonly number[],
  layout: "Norm" | "NHSD",
): Promise<void> {
  const blockTables = int64(table, [1, table.length]);
  const rows = int64(sources, [1, sources.length]);
  // Scales are [blocks, rows, heads] in every layout.
  return state.edit(({ dims }) => ({
    ...repacking,
    attributes: { cache_mode: dims.length === 3 ? "Norm" : layout },
    inputs: { rows, block_tables: blockTables },
  }));
}

/** Keeps some rows of a sequence and moves them together. How many moved. Where that fails, the sequence has no rows: never wrong ones. */
export async function keepRows(
  state: State,
  sequence: Sequence,
  kept: readonly number[],
  layout: "Norm" | "NHSD",
): Promise<number> {
  state.requireIdle();
  let moves: Promise<void> | undefined;
  const moved = sequence.keep(kept, (sources) => {
    moves = moveRows(state, sequence.table, sources, layout);
  });
  try {
    await moves;
  } catch (error) {
    sequence.truncate(0);
    throw error;
  }
  return moved;
}

/** How a session's pools are laid out. */
export function pageLayout(session: Session, state: State): "Norm" | "NHSD" {
  const [pool] = state.names;
  const { shape } = session.inputMetadata.find(({ name }) => name === pool)!;
  return shape[1] === "block_size" ? "Norm" : "NHSD";
}

/** The blocks of sequences, with their lengths, as bytes: as they are when this is called. */
export async function readBlocks(
  { state, pool, blockBytes, pageNames, states, stateBytes, stateNames }: PagedState,
  sequences: readonly Sequence[],
): Promise<Uint8Array> {
  const evicted = sequences.find(({ length, position }) => position !== length);
  if (evicted !== undefined)
    throw new InsituError(
      "invalid-state",
      `sequence "${evicted.name}" cannot be saved: rows of it were evicted, and the saved form has no positions`,
    );
  const words = [magic, pool.blockSize, blockBytes, sequences.length, ...sequences.map(({ length }) => length)];
  const count = sequences.reduce((sum, { table }) => sum + table.length, 0);
  const bytes = new Uint8Array(4 * words.length + count * blockBytes + sequences.length * stateBytes);
  const header = new DataView(bytes.buffer);
  words.forEach((word, at) => header.setUint32(4 * at, word, true));
  let at = 4 * words.length;
  const blocks = state.readParts(
    sequences.flatMap(({ table }) => table),
    pageNames,
  );
  // Asked for before the blocks have come: no later run comes in between.
  const own = Promise.all(
    states === undefined ? [] : sequences.map((sequence) => state.readParts([states.own(sequence)], stateNames)),
  );
  for (const part of [...(await blocks), ...(await own).flat()]) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Takes over saved blocks into sequences that are empty, of `capacity` rows at most. Throws, with nothing changed, where they do not fit. */
export function writeBlocks(
  { state, pool, blockBytes, pageNames, states, stateBytes, stateNames }: PagedState,
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
  const blocksEnd = headLength + lengths.reduce((sum, length) => sum + Math.ceil(length / blockSize), 0) * blockBytes;
  const wanted = blocksEnd + count * stateBytes;
  if (bytes.length !== wanted) refuse(`are cut off or too long: they have ${bytes.length} bytes in place of ${wanted}`);
  pool.append(sequences.map((sequence, at) => ({ sequence, tokens: lengths[at] })));
  state.writeParts(
    sequences.flatMap(({ table }) => table),
    bytes.subarray(headLength, blocksEnd),
    pageNames,
  );
  for (const [at, sequence] of states === undefined ? [] : sequences.entries()) {
    const from = blocksEnd + at * stateBytes;
    state.writeParts([states!.own(sequence)], bytes.subarray(from, from + stateBytes), stateNames);
    states!.read(sequence, sequence.length);
  }
}

/** What blocks hold in all layers, the bytes of each: as they are when this is called. */
export function readEachBlock({ state, pageNames }: PagedState, blocks: readonly number[]): Promise<Uint8Array[]> {
  return Promise.all(
    blocks.map(async (block) => {
      const parts = await state.readParts([block], pageNames);
      const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
      let at = 0;
      for (const part of parts) {
        bytes.set(part, at);
        at += part.length;
      }
      return bytes;
    }),
  );
}
