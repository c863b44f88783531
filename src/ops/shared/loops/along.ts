/** Walking a tensor along one axis: the positions of each line of elements. */

const product = (dims: readonly number[]): number => dims.reduce((size, dim) => size * dim, 1);

/** One line of elements along an axis: element i stands at the row-major position `start + i · step`. */
export interface Line {
  readonly start: number;
  readonly step: number;
  readonly length: number;
}

/** Calls `visit` for every line along `axis` of a tensor of this shape, in row-major order of what is left. */
export function forEachLine(shape: readonly number[], axis: number, visit: (line: Line, count: number) => void): void {
  const length = shape[axis];
  const step = product(shape.slice(axis + 1));
  const outer = product(shape.slice(0, axis));
  for (let row = 0, count = 0; row < outer; row++) {
    for (let inner = 0; inner < step; inner++, count++)
      visit({ start: row * length * step + inner, step, length }, count);
  }
}
