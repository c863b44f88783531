/** Where index operands of paged caches lie. */
import type { Operand } from "../../../graph/kernel.js";

/** Bytes of an element of an index operand. */
export const indexBytes = ({ type }: Operand): 4 | 8 => (type === "int64" ? 8 : 4);
