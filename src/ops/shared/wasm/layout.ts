/**
 * How operands of one shape lie together, in as few dimensions as all of them allow: what fast paths on WASM cut into jobs.
 * Knows shapes and strides, counted in elements; no kernel and no memory.
 */

/** A shape, and for each operand its strides; dimensions of 1 are gone, and those that lie together are joined. */
export interface Layout {
  readonly shape: readonly number[];
  /** [operand][dimension] */
  readonly strides: readonly (readonly number[])[];
}

/** Joins neighbouring dimensions wherever every operand allows it. */
export function joinDimensions(shape: readonly number[], strides: readonly (readonly number[])[]): Layout {
  const dims: number[] = [];
  const steps: number[][] = strides.map(() => []);
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const dim = shape[axis];
    if (dim === 1) continue;
    if (dims.length > 0 && strides.every((own, k) => own[axis] === steps[k][0] * dims[0])) {
      dims[0] *= dim;
      continue;
    }
    dims.unshift(dim);
    strides.forEach((own, k) => steps[k].unshift(own[axis]));
  }
  return { shape: dims, strides: steps };
}

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

/** An axis of a shape, counted from the front. */
export const fromFront = (axis: number, { length: rank }: readonly number[]): number => (axis < 0 ? axis + rank : axis);

/** The product of dimensions. */
export const productOf = (dims: readonly number[]): number => dims.reduce((product, dim) => product * dim, 1);
