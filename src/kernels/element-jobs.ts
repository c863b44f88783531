/**
 * The jobs of the kernels that compute element by element, row by row, or fold elements, and of those that move bytes by index: fields as in jobs.ts,
 * with the codes of their operators. `kernels/jobs.ts` repeats them for the kernels' side; a test keeps both alike.
 */

/** RMSNormalization and LayerNormalization over rows, with the residual's addition of the Skip variants. */
export const normalizeJob = {
  source: "pointer", // [rows, size]
  skip: "pointer", // [rows, size], optional: added before
  sum: "pointer", // [rows, size], optional: where source + skip + addend goes; may be source or skip
  scale: "pointer", // [size], optional
  bias: "pointer", // [size], optional
  output: "pointer", // [rows, size]; may be source
  type: "count", // elementCode of all
  rows: "count",
  size: "count",
  sourceRow: "count", // strides
  skipRow: "count",
  sumRow: "count",
  outputRow: "count",
  epsilon: "number",
  addend: "pointer", // [size], optional: added to every row before, and part of sum
  mean: "pointer", // float32[rows], optional: where each row's mean goes
  inverse: "pointer", // float32[rows], optional: where 1 / √(variance or mean square + epsilon) goes
} as const;

/** Softmax of rows. */
export const softmaxRowsJob = {
  source: "pointer", // [rows, size]
  output: "pointer", // may be source
  type: "count", // elementCode of both
  rows: "count",
  size: "count",
  sourceRow: "count", // strides
  outputRow: "count",
} as const;

/** Between float types, float16 and bfloat16 rounded to the nearest even. */
export const convertJob = {
  source: "pointer",
  target: "pointer",
  sourceType: "count", // elementCode
  targetType: "count",
  count: "count",
} as const;

/**
 * A chain of element-wise operators over [rows, columns]: a little program for eight registers. A register that was loaded is read
 * from its memory as long as it is used: a store to that memory comes after its last use.
 */
export const elementwiseJob = {
  program: "pointer", // instructions, each as instruction lays it out
  instructions: "count",
  rows: "count",
  columns: "count",
} as const;

/** One instruction of an element-wise chain. */
export const instruction = {
  operation: "count", // operationCode
  target: "count", // the register that is written, 0 to 7
  first: "count", // registers that are read
  second: "count",
  address: "pointer", // load and store
  type: "count", // load and store: elementCode
  rowStride: "count", // load and store: a row alone has 0 and 1, a column 1 and 0, a scalar 0 and 0
  columnStride: "count", // 0 or 1; stores have 1
  immediate: "number", // constant: the value
} as const;

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

/**
 * One element-wise operator on any type, all operands by strides. A `layout` holds the sizes of the dimensions, then for each
 * operand, the output first, its strides in bytes: as many words as there are dimensions, each.
 */
export const elementsJob = {
  operation: "count", // elementsOperation
  kind: "count", // registerKind
  output: "pointer",
  outputType: "count", // elementCode
  first: "pointer",
  firstType: "count",
  second: "pointer", // optional, like third
  secondType: "count",
  third: "pointer",
  thirdType: "count",
  rank: "count", // at least 1; no size is 0
  layout: "pointer", // output, first, second, third
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

/** A reduction: every result folds `rows` rows of `length` elements. */
export const reduceJob = {
  operation: "count", // foldOperation
  kind: "count", // registerKind: integer, unsigned or double
  source: "pointer",
  output: "pointer",
  type: "count", // elementCode of both
  count: "count", // results
  keptRank: "count",
  kept: "pointer", // layout of the results: output, source
  outerRank: "count",
  outer: "pointer", // layout of the rows: source
  rows: "count",
  length: "count",
  step: "count", // bytes between elements of a row
} as const;

/** Running sums or products along lines. */
export const scanJob = {
  operation: "count", // foldOperation: sum or product
  kind: "count",
  source: "pointer", // the first element that is folded: with negative steps the last of its line
  output: "pointer",
  type: "count", // elementCode of both
  lines: "count",
  rank: "count",
  layout: "pointer", // of the lines: output, source
  length: "count",
  sourceStep: "count", // bytes
  outputStep: "count",
  exclusive: "count", // 1: an element is not part of its own sum
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

/** Runs of bytes that tuples of indices point at: Gather along any axis, GatherND. Indices are in range, negative ones from the end. */
export const gatherRunsJob = {
  data: "pointer",
  indices: "pointer", // [batch, rows, depth]
  output: "pointer", // [batch, rows, width]
  indexBytes: "count", // 4 or 8
  width: "count", // bytes of a run
  batch: "count",
  rows: "count",
  depth: "count",
  layout: "pointer", // the sizes that indices point into, and their strides in bytes
  dataSample: "count", // bytes
  indexSample: "count", // tuples; 0 when all samples share them
} as const;

/** One element for each index: GatherElements. */
export const gatherAlongJob = {
  data: "pointer",
  indices: "pointer",
  output: "pointer",
  indexBytes: "count", // 4 or 8
  width: "count", // bytes of an element
  rank: "count",
  layout: "pointer", // the sizes of indices and output, and the strides of data in bytes, 0 for the axis
  rows: "count", // product of all sizes but the last
  axisSize: "count",
  axisStride: "count", // bytes
} as const;

/** Trilu: matrices with a triangle of zeros. */
export const triangleJob = {
  source: "pointer", // [lines, columns]
  target: "pointer", // may be source
  diagonal: "pointer", // int64, optional: 0
  width: "count", // bytes of an element
  lines: "count",
  rows: "count", // lines of a matrix
  columns: "count",
  upper: "count", // 1: what lies below the diagonal is zeroed; 0: above it
} as const;

/** Scale and zero point that float32 data ask for by their range, 0 in it: DynamicQuantizeLinear. */
export const findLevelsJob = {
  source: "pointer",
  count: "count",
  scale: "pointer", // float32, optional
  zero: "pointer", // uint8, optional
} as const;

/** float32 to bytes by one scale, rounded to the nearest even. */
export const writeLevelsJob = {
  source: "pointer",
  output: "pointer",
  scale: "pointer", // float32
  zero: "pointer", // a byte, optional
  isSigned: "count", // 1 for int8, 0 for uint8
  count: "count",
} as const;
