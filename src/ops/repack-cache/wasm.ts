/** RepackCache on WASM: rows moved in place, each once nobody needs what its place holds; every type whose rows are whole bytes. */
import { isInPlace } from "../../graph/kernel.js";
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf, traitsOf } from "../../tensor/element-type.js";
import { indexBytes } from "../shared/wasm/pages.js";
import { linesOf } from "./lines.js";
import { RepackCache } from "./op.js";

/** Scratch that a thread surely has. */
const mostScratch = 1 << 20;

/** Moves rows within a cache. */
export const repackRows: WasmKernel = wasmKernel([RepackCache], {
  accepts(call) {
    const { cache, rows, block_tables: tables } = call.inputs;
    if (cache.type === "string") return "strings live outside the memory";
    if (!isInPlace(cache, call.outputs.cache)) return "the cache is not updated in place";
    if ([cache, rows, tables].some((operand) => operand?.contiguous === false)) return "an operand has gaps";
    const { length, row, piece } = linesOf(call);
    const { bits } = traitsOf(cache.type);
    if (bits < 8 && [length, row, piece].some((elements) => (elements * bits) % 8 !== 0))
      return "a row is not whole bytes";
    return 4 * rows.shape.at(-1)! + byteLengthOf(cache.type, length) + 64 <= mostScratch
      ? true
      : "the rows need more scratch than there is";
  },
  record(call, recorder) {
    const { cache, rows, block_tables: tables } = call.inputs;
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
});
