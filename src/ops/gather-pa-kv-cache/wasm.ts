/** GatherPaKvCache on WASM, where lengths are known before the run: bulk copies out of every layout and type. */
import type { Operand, Recorder, WasmKernel } from "../../kernels/wasm-kernel.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { indexBytes } from "../paged-wasm.js";
import { type PagedLayout, slotsOf } from "../paged.js";

/** Copies the rows of sequences out of the caches. */
export const gatherPages: WasmKernel = {
  op: "GatherPaKvCache",
  domain: "insitu",
  accepts({ inputs }) {
    return inputs.some((operand) => operand?.contiguous === false) ? "an operand has gaps" : true;
  },
  record({ inputs, outputs, attrs }, recorder) {
    const [keyCache, valueCache, tables, lengths, offsets] = inputs;
    const layout = attrs["cache_mode"] as PagedLayout;
    const cumulative = attrs["is_seq_lens_cumsum"] === true;
    for (const [cache, rows] of [
      [keyCache, outputs[0]],
      [valueCache, outputs[1]],
    ])
      if (cache !== undefined && rows !== undefined && rows.view.size > 0)
        gather(cache, rows, { tables: tables!, lengths: lengths!, offsets }, layout, cumulative, recorder);
  },
};

function gather(
  cache: Operand,
  rows: Operand,
  { tables, lengths, offsets }: { tables: Operand; lengths: Operand; offsets: Operand | undefined },
  layout: PagedLayout,
  cumulative: boolean,
  recorder: Recorder,
): void {
  const { blockSize, blockStep, rowStep, pieces, length, step } = slotsOf(layout, cache.shape);
  const width = byteLengthOf(cache.type, 1);
  recorder.run(
    "gatherPages",
    {
      source: recorder.address(cache),
      target: recorder.address(rows),
      tables: recorder.address(tables),
      tableBytes: indexBytes(tables),
      columns: tables.shape[1],
      lengths: recorder.address(lengths),
      lengthBytes: indexBytes(lengths),
      cumulative: cumulative ? 1 : 0,
      offsets: offsets === undefined ? 0 : recorder.address(offsets),
      batch: tables.shape[0],
      pieces,
      pieceBytes: length * width,
      blockSize,
      sourceBlock: blockStep * width,
      sourceRow: rowStep * width,
      sourcePiece: step * width,
    },
    byteLengthOf(rows.type, rows.view.size) > 1 << 18 ? recorder.threads : 1,
  );
}
