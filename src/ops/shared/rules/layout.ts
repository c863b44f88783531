/**
 * How operands of one shape lie together, in as few dimensions as all of them allow. Knows shapes and strides, counted in elements; no kernel, no
 * device and no memory.
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

/** An axis of a shape, counted from the front. */
export const fromFront = (axis: number, { length: rank }: readonly number[]): number => (axis < 0 ? axis + rank : axis);

/** The product of dimensions. */
export const productOf = (dims: readonly number[]): number => dims.reduce((product, dim) => product * dim, 1);
