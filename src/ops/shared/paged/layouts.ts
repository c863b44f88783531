/**
 * Paged caches: where the vector of one slot lies in a cache of blocks, in each layout, and how such vectors are moved.
 * Knows addresses and bytes; the rules of the operators are theirs.
 */
import { type Attribute, oneOf } from "../../../graph/attribute.js";
import { type ByteStorage, byteLengthOf, type ElementType } from "../../../tensor/element-type.js";
import type { View } from "../../../tensor/view.js";

/**
 * How a cache of blocks is laid out. `Norm`: [blocks, block_size, heads, head_size]. `NHSD`: [blocks, heads, block_size,
 * head_size]. `PA_NZ`: [blocks, heads * head_size / c, block_size, c] with pieces of c elements that take 32 bytes.
 */
export type PagedLayout = "Norm" | "PA_NZ" | "NHSD";

/** The element types that paged caches hold. HiFloat8 travels as uint8. */
export const pagedTypes: readonly ElementType[] = [
  "float16",
  "bfloat16",
  "float32",
  "int8",
  "uint8",
  "int16",
  "uint16",
  "int32",
  "uint32",
  "float8e4m3fn",
  "float8e5m2",
];

/** The types of pages that hold a scale for each token and head beside them. */
export const quantizedTypes: readonly ElementType[] = ["int8", "float8e4m3fn", "float8e5m2"];

/** The types of pages that attention reads. */
export const attentionPageTypes: readonly ElementType[] = ["float32", "float16", "bfloat16", ...quantizedTypes];

/** Elements of a type in the 32 bytes that a piece of a PA_NZ cache takes. */
export const fragmentLength = (type: ElementType): number => 32 / byteLengthOf(type, 1);

/** Where the slots of a cache lie, counted in elements. */
interface Slots {
  readonly count: number;
  readonly blockSize: number;
  /** Distance between blocks, and between neighbouring slots of one block. */
  readonly blockStep: number;
  readonly rowStep: number;
  /** A slot's vector is cut into this many pieces of `length` elements, whose starts lie `step` apart. */
  readonly pieces: number;
  readonly length: number;
  readonly step: number;
}

/** The slots of a cache by its layout and shape; PA_NZ may also be seen as [blocks, heads, head_size / c, block_size, c]. */
export function slotsOf(layout: PagedLayout, shape: readonly number[]): Slots {
  switch (layout) {
    case "Norm": {
      const [blocks, blockSize, heads, size] = shape;
      const length = heads * size;
      const blockStep = blockSize * length;
      return { count: blocks * blockSize, blockSize, blockStep, rowStep: length, pieces: 1, length, step: length };
    }
    case "NHSD": {
      const [blocks, pieces, blockSize, length] = shape;
      const step = blockSize * length;
      return { count: blocks * blockSize, blockSize, blockStep: pieces * step, rowStep: length, pieces, length, step };
    }
    case "PA_NZ": {
      const [blockSize, length] = shape.slice(-2);
      const pieces = shape.slice(1, -2).reduce((product, dim) => product * dim, 1);
      const step = blockSize * length;
      const count = shape[0] * blockSize;
      return { count, blockSize, blockStep: pieces * step, rowStep: length, pieces, length, step };
    }
    default:
      return layout satisfies never;
  }
}

/** The element at which a slot's vector begins. */
export const startOf = ({ blockSize, blockStep, rowStep }: Slots, slot: number): number => {
  const block = Math.floor(slot / blockSize);
  return block * blockStep + (slot - block * blockSize) * rowStep;
};

/** The blocks of a cache that hold these slots, each once; negative slots are skipped. */
export function blocksWith(cache: View, blockSize: number, slots: Iterable<number>): View[] {
  const blocks = new Set<number>();
  for (const slot of slots) if (slot >= 0) blocks.add(Math.floor(slot / blockSize));
  return [...blocks].map((block) => cache.slice(0, block, block + 1));
}

/** Where the elements of one head lie in a cache. */
interface HeadPlaces {
  readonly blockSize: number;
  /** Elements of a head. */
  readonly size: number;
  /** The storage index of element `i` of a head in a slot. */
  readonly addressOf: (slot: number, head: number, i: number) => number;
}

/** Where the heads of a cache's slots lie. Strides are the view's own; of a PA_NZ cache only `heads` tells how pieces belong. */
export function headPlacesOf(layout: PagedLayout, cache: View, heads: number): HeadPlaces {
  const { shape, strides, offset } = cache;
  const places = (
    blockSize: number,
    size: number,
    [block, row, head]: readonly number[],
    within: (i: number) => number,
  ): HeadPlaces => ({
    blockSize,
    size,
    addressOf: (slot, at, i) => {
      const page = Math.floor(slot / blockSize);
      return offset + page * block + (slot - page * blockSize) * row + at * head + within(i);
    },
  });
  switch (layout) {
    case "Norm":
      return places(shape[1], shape[3], [strides[0], strides[1], strides[2]], (i) => i * strides[3]);
    case "NHSD":
      return places(shape[2], shape[3], [strides[0], strides[2], strides[1]], (i) => i * strides[3]);
    case "PA_NZ": {
      const [pieceStep, row, step] = strides.slice(-3);
      const length = shape.at(-1)!;
      const pieces = shape.slice(1, -2).reduce((product, dim) => product * dim, 1) / heads;
      return places(shape.at(-2)!, pieces * length, [strides[0], row, pieces * pieceStep], (i) => {
        const piece = Math.floor(i / length);
        return piece * pieceStep + (i - piece * length) * step;
      });
    }
    default:
      return layout satisfies never;
  }
}

/** Moves `count` pieces: their starts lie `sourceStep` apart where they come from and `targetStep` apart where they go. */
type MovePieces = (source: number, target: number, count: number, sourceStep: number, targetStep: number) => void;

/** Shorter pieces are moved word by word: the fixed cost of a bulk copy outweighs them. */
const bulkBytes = 512;

/**
 * A function that moves pieces of `length` elements between two contiguous views of one type that do not overlap. Starts and
 * steps count from each view's own first element; all are multiples of the length.
 */
export function pieceMover(from: View, to: View, length: number): MovePieces {
  const width = byteLengthOf(from.type, 1);
  const bytes = length * width;
  const source = bytesOf(from);
  const target = bytesOf(to);
  const { buffer, byteOffset } = source;
  const bulk: MovePieces = (start, at, count, sourceStep, targetStep) => {
    if (sourceStep === length && targetStep === length)
      return target.set(new Uint8Array(buffer, byteOffset + start * width, count * bytes), at * width);
    for (let piece = 0; piece < count; piece++)
      target.set(
        new Uint8Array(buffer, byteOffset + (start + piece * sourceStep) * width, bytes),
        (at + piece * targetStep) * width,
      );
  };
  if (bytes >= bulkBytes) return bulk;
  const byWords = bytes % 4 === 0;
  const sourceWords = byWords ? wordsOf(source) : undefined;
  const targetWords = byWords ? wordsOf(target) : undefined;
  return (start, at, count, sourceStep, targetStep) => {
    if (sourceStep === length && targetStep === length && count * bytes >= bulkBytes)
      bulk(start, at, count, sourceStep, targetStep);
    else if (sourceWords === undefined || targetWords === undefined)
      moveBytes(source, start * width, sourceStep * width, target, at * width, targetStep * width, bytes, count);
    else
      moveWords(
        sourceWords,
        (start * width) >>> 2,
        (sourceStep * width) >>> 2,
        targetWords,
        (at * width) >>> 2,
        (targetStep * width) >>> 2,
        bytes >>> 2,
        count,
      );
  };
}

/** Moves pieces word by word; floats too, since reading a float may change the bits of a NaN. */
function moveWords(
  source: Int32Array,
  start: number,
  sourceStep: number,
  target: Int32Array,
  at: number,
  targetStep: number,
  words: number,
  count: number,
): void {
  let first = start;
  let into = at;
  for (let piece = 0; piece < count; piece++) {
    let i = 0;
    // Eight words are a piece of PA_NZ.
    for (; i + 8 <= words; i += 8) {
      target[into + i] = source[first + i];
      target[into + i + 1] = source[first + i + 1];
      target[into + i + 2] = source[first + i + 2];
      target[into + i + 3] = source[first + i + 3];
      target[into + i + 4] = source[first + i + 4];
      target[into + i + 5] = source[first + i + 5];
      target[into + i + 6] = source[first + i + 6];
      target[into + i + 7] = source[first + i + 7];
    }
    for (; i < words; i++) target[into + i] = source[first + i];
    first += sourceStep;
    into += targetStep;
  }
}

/** Moves pieces that do not lie on words. */
function moveBytes(
  source: Uint8Array,
  start: number,
  sourceStep: number,
  target: Uint8Array,
  at: number,
  targetStep: number,
  bytes: number,
  count: number,
): void {
  let first = start;
  let into = at;
  for (let piece = 0; piece < count; piece++) {
    for (let i = 0; i < bytes; i++) target[into + i] = source[first + i];
    first += sourceStep;
    into += targetStep;
  }
}

/** The bytes of a contiguous view. */
export function bytesOf({ data, offset, size, type }: View): Uint8Array {
  const { buffer, byteOffset } = data as ByteStorage;
  return new Uint8Array(buffer, byteOffset + byteLengthOf(type, offset), byteLengthOf(type, size));
}

/** The same bytes in words of four, where they begin on one; what is left at the end is part of no piece. */
function wordsOf({ buffer, byteOffset, byteLength }: Uint8Array): Int32Array | undefined {
  return byteOffset % 4 === 0 ? new Int32Array(buffer, byteOffset, Math.floor(byteLength / 4)) : undefined;
}

/** A string out of a closed set, for which the empty string stands for the default. */
export function modeOf<const S extends readonly string[]>(choices: S, absent: S[number]): Attribute<S[number]> {
  const attribute = oneOf(choices, absent);
  return {
    ...attribute,
    read: (value) => (value.kind === "string" && value.value === "" ? { ok: absent } : attribute.read(value)),
  };
}
