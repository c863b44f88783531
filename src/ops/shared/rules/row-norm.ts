/** Norms of rows, as their kernels on any backend take them: what LayerNormalization, RMSNormalization and their kin ask for. */
import type { Operand } from "../../../graph/kernel.js";

/** One norm over the axes from `axis` on, of source + skip + addend. */
export interface RowNorm {
  /** True if the mean is taken away first; else the root of the mean square alone is brought to 1. */
  readonly centered: boolean;
  readonly source: Operand;
  /** Broadcast to the source and added first. */
  readonly skip?: Operand | undefined;
  /** One for each place of a row: added first too. */
  readonly addend?: Operand | undefined;
  /** Where source + skip + addend goes. */
  readonly sum?: Operand | undefined;
  readonly scale: Operand;
  readonly bias?: Operand | undefined;
  readonly output: Operand;
  readonly mean?: Operand | undefined;
  readonly inverse?: Operand | undefined;
  readonly axis: number;
  readonly epsilon: number;
}

/** True if scale, bias and addend hold one value for each place of a row, the same in all rows. */
export const hasRowFactors = ({ source: { shape: whole }, scale, bias, addend, axis }: RowNorm): boolean =>
  [scale, bias, addend].every((operand) => {
    if (operand === undefined) return true;
    const lead = whole.length - operand.shape.length;
    const isAlong = (dim: number, at: number): boolean =>
      (at < lead ? 1 : operand.shape[at - lead]) === (at < axis ? 1 : dim);
    return operand.contiguous && whole.every(isAlong);
  });
