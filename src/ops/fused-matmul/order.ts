/** The order in which FusedMatMul reads the axes of its operands. */

/**
 * The axes of an operand in the order that the product reads them. With `batch` the first axis moves behind the batch axes, so that
 * [m, …, k] is read as […, m, k]; with `matrix` the last two change places after that. A vector stays as it is.
 */
export function orderOf(rank: number, batch: boolean, matrix: boolean): number[] {
  const order = Array.from({ length: rank }, (_, axis) => axis);
  if (rank < 2) return order;
  if (batch) order.splice(rank - 2, 0, order.shift()!);
  if (matrix) [order[rank - 2], order[rank - 1]] = [order[rank - 1], order[rank - 2]];
  return order;
}
