/** TensorScatter on WebGPU: whole rows moved to indices that the device reads; every type of whole bytes, caches with gaps included. */
import { isInPlace } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { acceptsBytes, moveRows, placeOf } from "../shared/webgpu/rows.js";
import { TensorScatter } from "./op.js";

/** Writes rows into the cache, in place; into a copy of it where it must stay. */
export const scatterRows: WebgpuKernel = webgpuKernel([TensorScatter], {
  accepts({ inputs: { past_cache: past, update }, outputs: { present_cache: present } }) {
    if (update.place.buffer === present.place.buffer) return "the rows lie in the cache itself";
    return acceptsBytes(past.type);
  },
  record({ inputs, outputs: { present_cache: present }, attrs }, recorder) {
    const { past_cache: past, update, write_indices: indices } = inputs;
    const { type, shape } = past;
    const axis = attrs.axis < 0 ? attrs.axis + shape.length : attrs.axis;
    const target = placeOf(present);
    if (!isInPlace(past, present))
      for (const dispatch of moveRows(
        { name: "copyCache", type, shape, source: placeOf(past), target },
        recorder.device,
      ))
        recorder.dispatch(dispatch);
    const starts = indices && {
      axis,
      indices,
      step: 1 as const,
      add: 0,
      ...(attrs.mode === "circular" ? { wrapsAt: shape[axis] } : {}),
    };
    const rows = { name: "scatterRows", type, shape: update.shape, source: placeOf(update), target, starts };
    for (const dispatch of moveRows(rows, recorder.device)) recorder.dispatch(dispatch);
  },
});
