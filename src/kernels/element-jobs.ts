/** The codes of the operators that kernels compute element by element or fold, and the instruction of an element-wise chain. */
export { instruction } from "./jobs.gen.js";

/** The operators of an element-wise chain. */
export const operationCode = {
  load: 0,
  store: 1,
  constant: 2,
  add: 3,
  subtract: 4,
  multiply: 5,
  divide: 6,
  minimum: 7,
  maximum: 8,
  negate: 9,
  absolute: 10,
  reciprocal: 11,
  squareRoot: 12,
  exponential: 13,
  sigmoid: 14,
  tanh: 15,
  silu: 16,
  gelu: 17, // by the error function
  geluTanh: 18,
  relu: 19,
  errorFunction: 20,
  square: 21,
  softplus: 22,
} as const;

/** What `elements` computes in. Bytes are bools, words elements of four bytes that are only chosen between; outputs of both lie together. */
export const registerKind = { integer: 0, unsigned: 1, double: 2, bytes: 3, words: 4 } as const;

/** The operators of `elements`. */
export const elementsOperation = {
  copy: 0,
  add: 1,
  subtract: 2,
  multiply: 3,
  divide: 4, // integers truncate; by 0 they give 0
  minimum: 5,
  maximum: 6,
  equal: 7,
  less: 8,
  lessOrEqual: 9,
  and: 10,
  or: 11,
  exclusiveOr: 12,
  not: 13, // of bytes: 1 - x; of integers: every bit
  select: 14, // first ? second : third
  negate: 15,
  absolute: 16,
  sign: 17,
  floor: 18,
  ceiling: 19,
  round: 20, // ties to even
  sine: 21,
  cosine: 22,
  modulo: 23, // integers; the divisor's sign, 0 by 0
  isNotANumber: 24, // floats
} as const;

/** How `reduce` and `scan` fold. */
export const foldOperation = {
  sum: 0,
  product: 1,
  minimum: 2,
  maximum: 3,
  mean: 4,
  absoluteSum: 5,
  squareSum: 6,
  norm: 7, // double only
} as const;
