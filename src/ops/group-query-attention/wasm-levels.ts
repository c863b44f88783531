/**
 * GroupQueryAttention's quantized caches on WASM. Rows are written as integers and read as they lie; the scales of keys are multiplied into the queries
 * and those of values into the result, so that no row is unpacked that is not attended to, and none is kept in floats.
 */
import type { CallOf, Operand } from "../../graph/kernel.js";
import type { Recorder } from "../../wasm-kernels/wasm-kernel.js";
import type { Heads } from "../shared/wasm/attention.js";
import { temporaryHeads } from "../shared/wasm/attention.js";
import { runElements } from "../shared/wasm/elements.js";
import { codeOf, partsFor } from "../shared/wasm/work.js";
import type { GroupQueryAttention } from "./op.js";

/** Rows of bytes: `size` counts them. */
export type ByteHeads = Heads<"int8" | "uint8">;

/** How a cache is quantized. */
export interface Levels {
  readonly type: "int8" | "int4";
  readonly keyScale: Operand;
  readonly valueScale: Operand;
  readonly perChannel: boolean;
}

/** The quantization of a call; undefined for caches of floats, a sentence where there is no kernel. */
export function levelsOf({
  inputs,
  attrs,
}: Pick<CallOf<typeof GroupQueryAttention>, "inputs" | "attrs">): Levels | string | undefined {
  if (attrs.kv_cache_bit_width === 0) return undefined;
  const { k_scale: keyScale, v_scale: valueScale, attention_bias: bias } = inputs;
  if (keyScale === undefined || valueScale === undefined) return "a scale is missing";
  if (!keyScale.contiguous || !valueScale.contiguous) return "scales have gaps";
  if (bias !== undefined) return "there is no kernel for a bias over quantized caches";
  const type = attrs.kv_cache_bit_width === 8 ? "int8" : "int4";
  return { type, keyScale, valueScale, perChannel: attrs.k_quant_type === "PER_CHANNEL" };
}

/** Nanoseconds that an element takes to be quantized, about. */
const quantizing = 0.7;

/** Writes fresh rows into a cache from `starts[sample]` on, int64 at this address; 0 where it is 0. */
export function quantizeHeads(
  recorder: Recorder,
  fresh: Heads,
  target: ByteHeads,
  starts: number,
  { type, perChannel }: Levels,
  scale: Operand,
): void {
  const { batch, heads, rows, size } = fresh;
  recorder.run(
    "quantizeHeads",
    {
      source: fresh.address,
      target: target.address,
      starts,
      scales: recorder.address(scale),
      type: codeOf(fresh.type),
      bits: type === "int8" ? 8 : 4,
      batch,
      heads,
      rows,
      size,
      sourceSample: fresh.sample,
      sourceHead: fresh.head,
      sourceRow: fresh.row,
      targetSample: target.sample,
      targetHead: target.head,
      targetRow: target.row,
      scaleHead: perChannel ? size : 0,
      scaleStep: perChannel ? 1 : 0,
    },
    Math.min(batch * heads, partsFor(recorder, batch * heads * rows * size * quantizing)),
  );
}

/** Query heads, or results, times the scales of the key heads that they share: into `to`. */
export function scaleHeads(
  recorder: Recorder,
  from: Heads,
  to: Heads,
  kvHeads: number,
  { perChannel }: Levels,
  scale: Operand,
): void {
  const { batch, heads, rows, size } = from;
  const group = heads / kvHeads;
  const strides = ({ sample, head, row }: Heads): readonly number[] => [sample, head * group, head, row, 1];
  runElements(recorder, {
    operation: "multiply",
    kind: "double",
    shape: [batch, kvHeads, group, rows, size],
    output: { address: to.address, type: to.type, strides: strides(to) },
    inputs: [
      { address: from.address, type: from.type, strides: strides(from) },
      {
        address: recorder.address(scale),
        type: "float32",
        strides: perChannel ? [0, size, 0, 0, 1] : [0, 0, 0, 0, 0],
      },
    ],
  });
}

/** Heads of the same sizes, in float32. */
export const floatHeads = (recorder: Recorder, heads: Heads): Heads =>
  temporaryHeads(recorder, { ...heads, type: "float32" });

/** Sinks in float32, as scaled queries are. */
export function floatSinks(recorder: Recorder, sinks: Operand): number {
  if (sinks.type === "float32") return recorder.address(sinks);
  const count = sinks.view.size;
  const address = recorder.temporary(4 * count);
  runElements(recorder, {
    operation: "copy",
    kind: "double",
    shape: [count],
    output: { address, type: "float32", strides: [1] },
    inputs: [{ address: recorder.address(sinks), type: sinks.type as Heads["type"], strides: [1] }],
  });
  return address;
}
