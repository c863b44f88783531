/** Tile on WASM: a copy whose source repeats. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { View } from "../../tensor/view.js";
import { mover } from "../shared/wasm/mover.js";
import { Tile } from "./op.js";

/** `input` repeated whole along each axis: every axis of the result is seen as (repeat, element). */
export const tile: WasmKernel = mover([Tile], ({ inputs: { input }, outputs: { output } }) => {
  const [from, to] = [input.view, output.view];
  if (to.size === 0) return [];
  const shape = from.shape.flatMap((dim, axis) => [to.shape[axis] / dim, dim]);
  const strides = from.strides.flatMap((stride) => [0, stride]);
  const repeated = new View(from.type, shape, from.data, from.offset, strides);
  return [{ from: { operand: input, view: repeated }, to: { operand: output, view: to.reshape(shape) } }];
});
