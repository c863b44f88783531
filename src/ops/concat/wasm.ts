/** Concat on WASM. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { whole } from "../wasm-move.js";
import { mover } from "../wasm-mover.js";

/** Tensors one after another along `axis`; the first may lie in its place already. */
export const concat: WasmKernel = mover("Concat", ({ inputs, outputs: [result], attrs }) => {
  const given = attrs["axis"] as number;
  const axis = given < 0 ? given + result!.shape.length : given;
  let start = 0;
  return inputs.map((input) => {
    const view = result!.view.slice(axis, start, start + input!.shape[axis]);
    start += input!.shape[axis];
    return { from: whole(input!), to: { operand: result!, view } };
  });
});
