/** ScatterPaKvCache on WASM: one slot a token, in every layout and type, as bulk copies. What compresses stays with the reference implementation. */
import { isInPlace, type CallOf, type Operand } from "../../graph/kernel.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { indexBytes } from "../shared/wasm/pages.js";
import { type PagedLayout, slotsOf } from "../shared/paged/layouts.js";
import { ScatterPaKvCache } from "./op.js";

/** Bytes above which threads share a write. */
const shared = 1 << 18;

const layoutOf = ({ attrs }: CallOf<typeof ScatterPaKvCache>): PagedLayout =>
  attrs.scatter_mode === "NHSD" ? "NHSD" : attrs.cache_mode;

/** Why rows cannot be written into a cache, if so; nothing is written where there are none. */
function reasonAgainst(
  rows: Operand | undefined,
  past: Operand | undefined,
  present: Operand | undefined,
): string | undefined {
  if (rows === undefined || past === undefined || past.shape.length === 0) return undefined;
  if (present === undefined) return "an output is not asked for";
  if (!isInPlace(past, present)) return "a cache is not updated in place";
  return rows.contiguous && past.contiguous ? undefined : "a cache or its rows have gaps";
}

/** Copies vectors into the slots of the caches, in place. */
export const scatterPages: WasmKernel = wasmKernel([ScatterPaKvCache], {
  accepts({ inputs, outputs, attrs: { scatter_mode: mode } }) {
    if (mode !== "None" && mode !== "NHSD") return `scatter_mode "${mode}" is left to the reference implementation`;
    const { compress_lens, compress_seq_offset, seq_lens } = inputs;
    if ([compress_lens, compress_seq_offset, seq_lens].some((operand) => operand !== undefined))
      return "compressing is left to the reference implementation";
    const reason =
      reasonAgainst(inputs.key, inputs.key_cache, outputs.key_cache) ??
      reasonAgainst(inputs.value, inputs.value_cache, outputs.value_cache);
    return reason ?? (inputs.slot_mapping.contiguous ? true : "slot_mapping has gaps");
  },
  record(call, recorder) {
    const { key, key_cache: keys, slot_mapping: slots, value, value_cache: values } = call.inputs;
    scatter(key, keys, slots, layoutOf(call), recorder);
    if (value !== undefined && values !== undefined && values.shape.length > 0)
      scatter(value, values, slots, layoutOf(call), recorder);
  },
});

function scatter(rows: Operand, cache: Operand, slots: Operand, layout: PagedLayout, recorder: Recorder): void {
  const { blockSize, blockStep, rowStep, pieces, length, step } = slotsOf(layout, cache.shape);
  const width = byteLengthOf(cache.type, 1);
  const tokens = slots.shape[0];
  const vector = pieces * length * width;
  if (tokens === 0 || vector === 0) return;
  recorder.run(
    "scatterPages",
    {
      source: recorder.address(rows),
      target: recorder.address(cache),
      slots: recorder.address(slots),
      slotBytes: indexBytes(slots),
      tokens,
      pieces,
      pieceBytes: length * width,
      sourceToken: vector,
      sourcePiece: length * width,
      blockSize,
      targetBlock: blockStep * width,
      targetRow: rowStep * width,
      targetPiece: step * width,
    },
    tokens * vector > shared ? recorder.threads : 1,
  );
}
