/** Infinities and NaN among float16 operands: kernels that stream them take them for numbers unless they are told to look. */
import type { Operand } from "../../../graph/kernel.js";
import type { View } from "../../../tensor/view.js";

/** What was found in weights, which are looked through once. */
const found = new WeakMap<View, boolean>();

/** False for float16 weights that hold none; true where they do, or where only a run can tell. */
export function holdsSpecials({ known, contiguous, view }: Operand): boolean {
  if (!known || !contiguous) return true;
  let holds = found.get(view);
  if (holds === undefined) {
    holds = isAnySpecial(view.data as Uint16Array, view.offset, view.size);
    found.set(view, holds);
  }
  return holds;
}

function isAnySpecial(bits: Uint16Array, offset: number, count: number): boolean {
  for (let at = offset; at < offset + count; at++) if ((bits[at] & 0x7c00) === 0x7c00) return true;
  return false;
}
