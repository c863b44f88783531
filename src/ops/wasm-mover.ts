/** Fast paths of operators that only move elements, made from the moves that a call comes down to. */
import type { KernelCall, WasmKernel } from "../kernels/wasm-kernel.js";
import { movable, type Move, recordMoves } from "./wasm-move.js";

/** The fast path of an operator that moves elements; a text in place of the moves says why there is none. */
export const mover = (op: string, movesOf: (call: KernelCall) => readonly Move[] | string): WasmKernel => ({
  op,
  accepts(call) {
    const moves = movesOf(call);
    return typeof moves === "string" ? moves : movable(moves);
  },
  record(call, recorder) {
    const moves = movesOf(call);
    if (typeof moves !== "string") recordMoves(recorder, moves);
  },
});

/** The fast path of an operator whose output shows its operand under another shape: nothing to do unless the operand has gaps. */
export const shower = (op: string): WasmKernel =>
  mover(op, ({ inputs: [input], outputs: [output] }) => {
    const { view } = output!;
    if (!output!.contiguous) return "the output has gaps";
    return [
      { from: { operand: input!, view: input!.view }, to: { operand: output!, view: view.reshape(input!.shape) } },
    ];
  });
