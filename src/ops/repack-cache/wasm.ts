/** RepackCache on WASM: rows moved in place, each once nobody needs what its place holds; every type whose rows are whole bytes. */
import type { KernelCall, Operand, WasmKernel } from "../../kernels/wasm-kernel.js";
import { byteLengthOf, traitsOf } from "../../tensor/element-type.js";
import { indexBytes, isInPlace } from "../paged-wasm.js";
import { type PagedLayout, slotsOf } from "../paged.js";

const product = (dims: readonly number[]): number => dims.reduce((total, dim) => total * dim, 1);

/** Scratch that a thread surely has. */
const mostScratch = 1 << 20;

/** How rows lie, in elements: `pieces` of each, of `length`. */
interface Lines {
  readonly pieces: number;
  readonly length: number;
  readonly sample: number;
  readonly piece: number;
  readonly row: number;
  readonly block: number;
  readonly blockSize: number;
}

function linesOf({ inputs: [cache, rows, tables], attrs }: KernelCall): Lines {
  const { shape } = cache!;
  if (tables === undefined) {
    const axis = (attrs["axis"] as number) < 0 ? (attrs["axis"] as number) + shape.length : (attrs["axis"] as number);
    const length = product(shape.slice(axis + 1));
    const pieces = product(shape.slice(1, axis));
    const piece = shape[axis] * length;
    return { pieces, length, sample: pieces * piece, piece, row: length, block: 0, blockSize: 1 };
  }
  const layout = attrs["cache_mode"] as PagedLayout;
  const slots = slotsOf(layout, layout === "Norm" && shape.length === 3 ? [...shape, 1] : shape);
  const { blockSize, blockStep: block, rowStep: row } = slots;
  // Where each head has rows of its own, the heads of a Norm cache are pieces.
  const heads = rows!.shape.length === 3 && layout === "Norm" ? shape[2] : 1;
  const length = slots.length / heads;
  return {
    pieces: slots.pieces * heads,
    length,
    sample: 0,
    piece: heads > 1 ? length : slots.step,
    row,
    block,
    blockSize,
  };
}

/** Moves rows within a cache. */
export const repackRows: WasmKernel = {
  op: "RepackCache",
  domain: "insitu",
  accepts(call) {
    const [cache, rows, tables] = call.inputs;
    if (cache!.type === "string") return "strings live outside the memory";
    if (!isInPlace(cache!, call.outputs[0]!)) return "the cache is not updated in place";
    if ([cache, rows, tables].some((operand) => operand?.contiguous === false)) return "an operand has gaps";
    const { length, row, piece } = linesOf(call);
    const { bits } = traitsOf(cache!.type);
    if (bits < 8 && [length, row, piece].some((elements) => (elements * bits) % 8 !== 0))
      return "a row is not whole bytes";
    return 4 * rows!.shape.at(-1)! + byteLengthOf(cache!.type, length) + 64 <= mostScratch
      ? true
      : "the rows need more scratch than there is";
  },
  record(call, recorder) {
    const [cache, rows, tables] = call.inputs as [Operand, Operand, Operand | undefined];
    const { pieces, length, sample, piece, row, block, blockSize } = linesOf(call);
    const bytes = (elements: number): number => byteLengthOf(cache.type, elements);
    const count = rows.shape.at(-1)!;
    if (rows.view.size === 0 || cache.view.size === 0) return;
    recorder.run(
      "repackRows",
      {
        cache: recorder.address(cache),
        rows: recorder.address(rows),
        rowsBytes: indexBytes(rows),
        count,
        lists: rows.shape.length === 3 ? rows.shape[1] : 1,
        batch: rows.shape[0],
        pieces,
        pieceBytes: bytes(length),
        cacheSample: bytes(sample),
        cachePiece: bytes(piece),
        cacheRow: bytes(row),
        tables: tables === undefined ? 0 : recorder.address(tables),
        tableBytes: tables === undefined ? 4 : indexBytes(tables),
        columns: tables === undefined ? 0 : tables.shape[1],
        blockSize,
        cacheBlock: bytes(block),
      },
      rows.shape[0] * count * pieces * bytes(length) > 1 << 18 ? recorder.threads : 1,
    );
  },
};
