/** TensorScatter on WebGPU: whole rows moved to indices that the device reads; every type of whole bytes, caches with gaps included. */
import { isInPlace } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { acceptsBytes, moveRows, placeOf } from "../shared/webgpu/rows.js";
import { TensorScatter } from "./op.js";

/** Writes rows into the cache, in place; into a copy of it where it must stay. */
export const scatterRows: WebgpuKernel = webgpuKernel([TensorScatter], {
  accepts: ({ inputs: { past_cache: past, update }, outputs: { present_cache: present } }) =>
    present.place.buffer === update.place.buffer ? "the rows lie in the cache itself" : acceptsBytes(past.type),
  record({ inputs, outputs, attrs }, recorder) {
    const { past_cache: past, update, write_indices: indices } = inputs;
    const { type, shape } = past;
    const target = placeOf(outputs.present_cache);
    const axis = attrs.axis < 0 ? attrs.axis + shape.length : attrs.axis;
    const wraps = attrs.mode === "circular" ? { wrapsAt: shape[axis] } : {};
    const starts = indices && { axis, indices, step: 1 as const, add: 0, ...wraps };
    const copy = { name: "copyCache", type, shape, source: placeOf(past), target };
    const write = { name: "scatterRows", type, shape: update.shape, source: placeOf(update), target, starts };
    for (const move of isInPlace(past, outputs.present_cache) ? [write] : [copy, write])
      for (const dispatch of moveRows(move, recorder.device)) recorder.dispatch(dispatch);
  },
});
