/** What fast paths on WASM ask of every call: whether its types have kernels, and how many threads its work is worth. */
import { elementCode } from "../../../wasm-kernels/jobs.js";
import type { Operand } from "../../../graph/kernel.js";
import type { Recorder } from "../../../wasm-kernels/wasm-kernel.js";
import type { ElementType } from "../../../tensor/element-type.js";

/** The float types that kernels read and write. */
export type FloatType = "float32" | "float16" | "bfloat16";

/** True for the float types that kernels read and write. */
export const isFloatType = (type: ElementType): type is FloatType =>
  type === "float32" || type === "float16" || type === "bfloat16";

/** The code of a float type in jobs; only for types that `isFloatType` holds of. */
export const codeOf = (type: ElementType): number => elementCode[type as FloatType];

/** Why operands cannot be served for their types, if so; those left out are passed over. */
export function floatsOnly(operands: readonly (Operand | undefined)[]): true | string {
  const other = operands.find((operand) => operand !== undefined && !isFloatType(operand.type));
  return other === undefined ? true : `there is no kernel for ${other.type}`;
}

/** Why operands cannot be served by a kernel for one float type, if so. */
export function oneFloatType(operands: readonly (Operand | undefined)[]): true | string {
  const types = new Set(operands.flatMap((operand) => (operand === undefined ? [] : [operand.type])));
  return types.size > 1 ? `operands of ${[...types].join(" and ")} are mixed` : floatsOnly(operands);
}

/** Parts for each thread where work is long: a thread that is held up leaves what it has not begun to the others. */
export const partsEach = 4;

/** Work below this is done on the spot: handing it over costs about a tenth of it. */
const worthSharing = 10_000;

/** How many parts a job of about so many nanoseconds on one thread is cut into. */
export const partsFor = (recorder: Recorder, nanoseconds: number): number =>
  nanoseconds < worthSharing ? 1 : recorder.threads;
