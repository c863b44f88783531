/** GatherPaKvCache on WASM, where lengths are known before the run: bulk copies out of every layout and type. */
import type { Operand } from "../../graph/kernel.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { indexBytes } from "../shared/wasm/pages.js";
import { type PagedLayout, slotsOf } from "../shared/paged/layouts.js";
import { GatherPaKvCache } from "./op.js";

/** What says which rows of a cache are gathered. */
interface Sequences {
  readonly tables: Operand;
  readonly lengths: Operand;
  readonly offsets: Operand | undefined;
  readonly layout: PagedLayout;
  readonly cumulative: boolean;
}

/** Copies the rows of sequences out of the caches. */
export const gatherPages: WasmKernel = wasmKernel([GatherPaKvCache], {
  accepts: ({ inputs }) =>
    Object.values(inputs).some((operand) => operand?.contiguous === false) ? "an operand has gaps" : true,
  record({ inputs, outputs, attrs }, recorder) {
    const sequences: Sequences = {
      tables: inputs.block_tables,
      lengths: inputs.seq_lens,
      offsets: inputs.seq_offset,
      layout: attrs.cache_mode,
      cumulative: attrs.is_seq_lens_cumsum,
    };
    gather(inputs.key_cache, outputs.key, sequences, recorder);
    gather(inputs.value_cache, outputs.value, sequences, recorder);
  },
});

function gather(
  cache: Operand | undefined,
  rows: Operand | undefined,
  { tables, lengths, offsets, layout, cumulative }: Sequences,
  recorder: Recorder,
): void {
  if (cache === undefined || rows === undefined || rows.view.size === 0) return;
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
