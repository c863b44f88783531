/**
 * Rows: the elements of a tensor regrouped so that those along some axes lie next to each other.
 * What reductions, softmax and the normalisations have in common. Knows views, not operators.
 */
import { type Numbers, readNumbers, writeNumbers } from "../../../tensor/access.js";
import type { View } from "../../../tensor/view.js";
import { float64Scratch } from "./scratch.js";

/** The product of dimensions that are known in numbers. */
export const product = (dims: readonly number[]): number => dims.reduce((size, dim) => size * dim, 1);

/** The view with the given axes moved to the end, both parts in their old order. */
export function axesLast(view: View, axes: readonly number[]): View {
  const all = view.shape.map((_, axis) => axis);
  return view.transpose([...all.filter((axis) => !axes.includes(axis)), ...all.filter((axis) => axes.includes(axis))]);
}

/** How many rows a tensor has when the given axes form one row, and how long each is. */
export function rowsAlong(shape: readonly number[], axes: readonly number[]): { rows: number; length: number } {
  return {
    rows: product(shape.filter((_, axis) => !axes.includes(axis))),
    length: product(shape.filter((_, axis) => axes.includes(axis))),
  };
}

/** Computes one row: reads `length` numbers of `values` from `start` and writes as many to the same places of `result`. */
export type RowRule = (values: Numbers, start: number, length: number, result: Float64Array) => void;

/** Applies a rule to every row of `from` along the axes and writes the results to `to`, which may share its bytes. */
export function mapRows(from: View, to: View, axes: readonly number[], rule: RowRule): void {
  const { rows, length } = rowsAlong(from.shape, axes);
  const values = readNumbers(axesLast(from, axes));
  const result = float64Scratch(values.length);
  if (length > 0) for (let row = 0; row < rows; row++) rule(values, row * length, length, result);
  writeNumbers(axesLast(to, axes), result);
}

/** The mean of the squares of `length` numbers from `start`. */
export function meanSquare(values: Numbers, start: number, length: number): number {
  let squares = 0;
  for (let i = start; i < start + length; i++) squares += values[i] * values[i];
  return squares / length;
}

/** Mean and variance of `length` numbers from `start`; the variance is that of a whole population. */
export function moments(values: Numbers, start: number, length: number): { mean: number; variance: number } {
  const end = start + length;
  let sum = 0;
  for (let i = start; i < end; i++) sum += values[i];
  const mean = sum / length;
  let squares = 0;
  for (let i = start; i < end; i++) squares += (values[i] - mean) ** 2;
  return { mean, variance: squares / length };
}
