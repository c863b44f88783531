/** Layouts as the rows that compiled kernels walk: what fast paths on WASM cut into jobs. */
import type { Layout } from "../rules/layout.js";

/** Rows at a fixed distance, several times over. */
export interface Rows {
  readonly rows: number;
  /** One an operand. */
  readonly rowStrides: readonly number[];
  /** Where each repetition begins: [repetition][operand]. */
  readonly starts: readonly (readonly number[])[];
}

/** The most jobs that one call is cut into. */
export const mostJobs = 256;

/** The layout as rows: the longest dimension is walked by a kernel, the others become jobs. Undefined where those are too many. */
export function rowsOf({ shape, strides }: Layout): Rows | undefined {
  const longest = shape.indexOf(Math.max(...shape));
  const others = shape.map((_, axis) => axis).filter((axis) => axis !== longest);
  if (others.reduce((count, axis) => count * shape[axis], 1) > mostJobs) return undefined;
  let starts: (readonly number[])[] = [strides.map(() => 0)];
  for (const axis of others) {
    starts = starts.flatMap((start) =>
      Array.from({ length: shape[axis] }, (_, index) => start.map((at, k) => at + index * strides[k][axis])),
    );
  }
  return {
    rows: longest < 0 ? 1 : shape[longest],
    rowStrides: strides.map((own) => (longest < 0 ? 0 : own[longest])),
    starts,
  };
}
