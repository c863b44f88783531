/**
 * One token of each sample on pages, each in a row that nobody else reads: what lets it be written and attended over in one dispatch. Which runs are such
 * the host tells by their numbers; where the row lies shaders find by the same.
 */
import { isWide } from "../../../tensor/access.js";
import { contiguous } from "../../../tensor/copy.js";
import type { ByteStorage } from "../../../tensor/element-type.js";
import type { View } from "../../../tensor/view.js";
import type { Measure } from "../../../webgpu-kernels/measures.js";
import type { ShaderPart } from "../../../webgpu-kernels/shader-part.js";
import { type Table, tableVariable } from "./tables.js";

/** `newRow(sample)`: the last row of a sample, where its token is written; for one that is not, a row that no sample has. */
export function lastRowPart({ slots, lengths }: Readonly<Record<"slots" | "lengths", Table>>): ShaderPart {
  const [slot, length] = [
    tableVariable(slots).loadIndex("p.slotOffset + sample"),
    tableVariable(lengths).loadIndex("p.lengthOffset + sample"),
  ];
  return {
    uses: [tableVariable(slots), tableVariable(lengths)],
    code: `
fn newRow(sample: u32) -> u32 { return select(0xffffffffu, u32(${length}) - 1u, ${slot} >= 0); }`,
    parameters: { slotOffset: slots.offset, lengthOffset: lengths.offset },
  };
}

const measures = new Map<number, Measure>();

/**
 * Of slots, tables, lengths, and starts where a batch is packed: 1 where each sample has one token, which is written to the last of its rows or not at all,
 * in a block that no other sample sees, nor this one twice; else 0.
 */
export function writesApart(blockSize: number): Measure {
  const known = measures.get(blockSize);
  if (known !== undefined) return known;
  const measure: Measure = ([slots, tables, lengths, starts]) => {
    const samples = lengths.size;
    if (starts !== undefined && !isOneEach(starts)) return 0;
    const [slotAt, blockAt, lengthAt] = [slots, tables, lengths].map(numbersOf);
    const columns = tables.shape[1];
    const written = new Set<number>();
    for (let sample = 0; sample < samples; sample++) {
      const slot = slotAt(sample);
      if (slot < 0) continue;
      const row = lengthAt(sample) - 1;
      const block = Math.floor(slot / blockSize);
      if (row < 0 || slot % blockSize !== row % blockSize || written.has(block)) return 0;
      if (blockAt(sample * columns + Math.floor(row / blockSize)) !== block) return 0;
      written.add(block);
    }
    const isWritten = new Uint8Array(Math.max(-1, ...written) + 1);
    for (const block of written) isWritten[block] = 1;
    for (let sample = 0; sample < samples; sample++) {
      // The last column of a sample that writes is where it does.
      const seen = Math.ceil(lengthAt(sample) / blockSize) - (slotAt(sample) < 0 ? 0 : 1);
      for (let column = 0; column < seen; column++) if (isWritten[blockAt(sample * columns + column)] === 1) return 0;
    }
    return 1;
  };
  measures.set(blockSize, measure);
  return measure;
}

function isOneEach(starts: View): boolean {
  const startAt = numbersOf(starts);
  for (let at = 1; at < starts.size; at++) if (startAt(at) - startAt(at - 1) !== 1) return false;
  return true;
}

/** Indices by their position, as shaders read them: of two words the lower one. */
function numbersOf(view: View): (at: number) => number {
  const { type, data, offset, size } = contiguous(view);
  const { buffer, byteOffset } = data as ByteStorage;
  const step = isWide(type) ? 2 : 1;
  const words = new Int32Array(buffer, byteOffset + offset * step * 4, size * step);
  return (at) => words[at * step];
}
