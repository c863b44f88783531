/** PairedTensorScatter on WebGPU: the rows of both caches moved by one dispatch where they lie alike, else by one each. */
import type { Operand } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { acceptsWrites, type CacheWrite, recordWrites } from "../shared/webgpu/cache-writes.js";
import { PairedTensorScatter } from "./op.js";

type Caches = Readonly<Record<"past_key" | "past_value" | "key" | "value", Operand>>;
type Presents = Readonly<Record<"present_key" | "present_value", Operand | undefined>>;

/** Those that are asked for. */
const writesOf = (inputs: Caches, outputs: Presents): readonly CacheWrite[] =>
  (["key", "value"] as const).flatMap((which) => {
    const present = outputs[`present_${which}`];
    return present === undefined ? [] : [{ past: inputs[`past_${which}`], rows: inputs[which], present }];
  });

/** Writes rows into both caches, in place; into copies of them where they must stay. */
export const scatterPairs: WebgpuKernel = webgpuKernel([PairedTensorScatter], {
  accepts: ({ inputs, outputs }) => acceptsWrites(writesOf(inputs, outputs)),
  record({ inputs, outputs, attrs }, recorder) {
    recordWrites(writesOf(inputs, outputs), { ...attrs, indices: inputs.write_indices }, recorder);
  },
});
