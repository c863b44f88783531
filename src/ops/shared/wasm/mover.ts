/** Fast paths of operators that only move elements, made from the moves that a call comes down to. */
import type { Operand } from "../../../graph/kernel.js";
import { wasmFamily } from "../../../wasm-kernels/wasm-kernel.js";
import { movable, type Move, recordMoves } from "./move.js";

/** Fast paths of operators that move elements. */
export const mover = wasmFamily<readonly Move[]>({
  accepts: movable,
  record: (moves, recorder) => recordMoves(recorder, moves),
});

/** The move behind an output that shows its operand under another shape: nothing to do unless the operand has gaps. */
export function shown(input: Operand, output: Operand): readonly Move[] | string {
  if (!output.contiguous) return "the output has gaps";
  return [
    { from: { operand: input, view: input.view }, to: { operand: output, view: output.view.reshape(input.shape) } },
  ];
}
