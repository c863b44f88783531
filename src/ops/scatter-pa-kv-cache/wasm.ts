/** ScatterPaKvCache on WASM: one slot a token, in every layout and type, as bulk copies. What compresses stays with the slow truth. */
import type { KernelCall, Operand, Recorder, WasmKernel } from "../../kernels/wasm-kernel.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { indexBytes, isInPlace } from "../paged-wasm.js";
import { type PagedLayout, slotsOf } from "../paged.js";

/** Bytes above which threads share a write. */
const shared = 1 << 18;

const layoutOf = ({ attrs }: KernelCall): PagedLayout =>
  attrs["scatter_mode"] === "NHSD" ? "NHSD" : (attrs["cache_mode"] as "Norm" | "PA_NZ");

/** Copies vectors into the slots of the caches, in place. */
export const scatterPages: WasmKernel = {
  op: "ScatterPaKvCache",
  domain: "insitu",
  accepts({ inputs, outputs, attrs }) {
    const [key, keyCache, slots, value, valueCache, ...compressing] = inputs;
    const mode = attrs["scatter_mode"] as string;
    if (mode !== "None" && mode !== "NHSD") return `scatter_mode "${mode}" is left to the slow truth`;
    if (compressing.some((operand) => operand !== undefined)) return "compressing is left to the slow truth";
    for (const [rows, past, present] of [
      [key, keyCache, outputs[0]],
      [value, valueCache, outputs[1]],
    ]) {
      if (rows === undefined || past === undefined || past.shape.length === 0) continue;
      if (present === undefined) return "an output is not asked for";
      if (!isInPlace(past, present)) return "a cache is not updated in place";
      if (!rows.contiguous || !past.contiguous) return "a cache or its rows have gaps";
    }
    return slots!.contiguous ? true : "slot_mapping has gaps";
  },
  record(call, recorder) {
    const [key, keyCache, slots, value, valueCache] = call.inputs;
    scatter(key!, keyCache!, slots!, layoutOf(call), recorder);
    if (value !== undefined && valueCache !== undefined && valueCache.shape.length > 0)
      scatter(value, valueCache, slots!, layoutOf(call), recorder);
  },
};

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
