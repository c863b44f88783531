/** QuantizedScatterPaKvCache on WASM: every layout and type, the same bytes as the slow truth's. */
import { elementCode, pageCode } from "../../kernels/jobs.js";
import type { Operand, Recorder, WasmKernel } from "../../kernels/wasm-kernel.js";
import { indexBytes, isInPlace, pageStrides } from "../paged-wasm.js";
import type { PagedLayout } from "../paged.js";

/** Elements above which threads share a write. */
const shared = 1 << 15;

/** Quantises vectors into the slots of the caches, in place. */
export const quantizedScatterPages: WasmKernel = {
  op: "QuantizedScatterPaKvCache",
  domain: "insitu",
  accepts({ inputs, outputs }) {
    const [key, keyCache, keyScale, slots, value, valueCache, valueScale] = inputs as Operand[];
    const caches = [keyCache, keyScale, valueCache, valueScale];
    for (const [at, past] of caches.entries()) {
      const present = outputs[at];
      if (present === undefined) return "an output is not asked for";
      if (!isInPlace(past, present)) return "a cache is not updated in place";
    }
    if ([key, value, slots, ...caches].some((operand) => !operand.contiguous)) return "an operand has gaps";
    return key.shape[2] <= 1 << 16 && value.shape[2] <= 1 << 16 ? true : "heads are larger than scratch";
  },
  record({ inputs, attrs }, recorder) {
    const [key, keyCache, keyScale, slots, value, valueCache, valueScale] = inputs as Operand[];
    const layout = attrs["cache_mode"] as PagedLayout;
    quantize(key, keyCache, keyScale, slots, layout, recorder);
    quantize(value, valueCache, valueScale, slots, layout, recorder);
  },
};

function quantize(
  rows: Operand,
  cache: Operand,
  scales: Operand,
  slots: Operand,
  layout: PagedLayout,
  recorder: Recorder,
): void {
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
