/** TensorScatter on WebGPU: whole rows moved to indices that the device reads; every type of whole bytes, caches with gaps included. */
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { acceptsWrites, recordWrites } from "../shared/webgpu/cache-writes.js";
import { TensorScatter } from "./op.js";

/** Writes rows into the cache, in place; into a copy of it where it must stay. */
export const scatterRows: WebgpuKernel = webgpuKernel([TensorScatter], {
  accepts: ({ inputs: { past_cache: past, update }, outputs: { present_cache: present } }) =>
    acceptsWrites([{ past, rows: update, present }]),
  record({ inputs, outputs, attrs }, recorder) {
    const { past_cache: past, update: rows, write_indices: indices } = inputs;
    recordWrites([{ past, rows, present: outputs.present_cache }], { ...attrs, indices }, recorder);
  },
});
