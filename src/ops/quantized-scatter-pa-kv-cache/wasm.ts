/** QuantizedScatterPaKvCache on WASM: every layout and type, the same bytes as the reference implementation's. */
import { elementCode, pageCode } from "../../wasm-kernels/jobs.js";
import { isInPlace, type Operand } from "../../graph/kernel.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { pageStrides } from "../shared/paged/strides.js";
import { indexBytes } from "../shared/wasm/pages.js";
import type { PagedLayout } from "../shared/paged/layouts.js";
import { QuantizedScatterPaKvCache } from "./op.js";

/** Elements above which threads share a write. */
const shared = 1 << 15;

/** Vectors, and the cache whose slots they go into. */
interface Rows {
  readonly rows: Operand;
  readonly cache: Operand;
  readonly scales: Operand;
}

/** Quantises vectors into the slots of the caches, in place. */
export const quantizedScatterPages: WasmKernel = wasmKernel([QuantizedScatterPaKvCache], {
  accepts({ inputs, outputs }) {
    const { key, value, slot_mapping: slots, key_cache, key_scale, value_cache, value_scale } = inputs;
    for (const [past, present] of [
      [key_cache, outputs.key_cache],
      [key_scale, outputs.key_scale],
      [value_cache, outputs.value_cache],
      [value_scale, outputs.value_scale],
    ] as const) {
      if (present === undefined) return "an output is not asked for";
      if (!isInPlace(past, present)) return "a cache is not updated in place";
    }
    const operands = [key, value, slots, key_cache, key_scale, value_cache, value_scale];
    if (operands.some((operand) => !operand.contiguous)) return "an operand has gaps";
    return key.shape[2] <= 1 << 16 && value.shape[2] <= 1 << 16 ? true : "heads are larger than scratch";
  },
  record({ inputs, attrs: { cache_mode: layout } }, recorder) {
    const { key, key_cache, key_scale, value, value_cache, value_scale, slot_mapping: slots } = inputs;
    quantize({ rows: key, cache: key_cache, scales: key_scale }, slots, layout, recorder);
    quantize({ rows: value, cache: value_cache, scales: value_scale }, slots, layout, recorder);
  },
});

function quantize({ rows, cache, scales }: Rows, slots: Operand, layout: PagedLayout, recorder: Recorder): void {
  const [tokens, heads, size] = rows.shape;
  if (rows.view.size === 0) return;
  const { blockSize, block, row, head, piece, pieceStep } = pageStrides(layout, cache.shape, heads);
  recorder.run(
    "quantizePages",
    {
      source: recorder.address(rows),
      target: recorder.address(cache),
      scales: recorder.address(scales),
      slots: recorder.address(slots),
      slotBytes: indexBytes(slots),
      sourceType: elementCode[rows.type as "float32"],
      type: pageCode[cache.type as "int8"],
      tokens,
      heads,
      size,
      blockSize,
      targetBlock: block,
      targetRow: row,
      targetHead: head,
      piece: piece === 0 ? size : piece,
      targetPiece: pieceStep,
    },
    rows.view.size > shared ? Math.min(recorder.threads, heads) : 1,
  );
}
