/**
 * The jobs that kernels read: for each kind the fields in memory order, every one 4 bytes wide. The classes of `kernels/jobs.ts`
 * repeat them for the kernels' side; a test keeps both alike. Not the kernels themselves: those are in exports.ts.
 *
 * Units: a `pointer` is a byte address in the memory; a `count` is an integer; a `number` is a float32. Strides count elements
 * unless the field's comment says bytes. The innermost stride is 1 where no field gives it. Pointers need no alignment.
 * An optional pointer is 0 when absent.
 */

/** What a field holds. */
export type FieldKind = "pointer" | "count" | "number";

/** The fields of a job, in memory order. */
export type JobLayout = Readonly<Record<string, FieldKind>>;

/** A value for every field. */
export type JobValues<Layout extends JobLayout> = { readonly [Name in keyof Layout]: number };

/** Element types in jobs. `bool` is for masks only. */
export const elementCode = { float32: 0, float16: 1, bfloat16: 2, bool: 3 } as const;

/** TensorScatter: rows of `source` into the cache `target`, from `indices[sample]` on, around its end when circular. */
export const scatterRowsJob = {
  source: "pointer", // [batch, outer, length, row]
  target: "pointer", // [batch, outer, capacity, row]
  indices: "pointer", // int64[batch], optional: 0 for every sample
  batch: "count",
  outer: "count", // product of the dimensions between the batch and the sequence axis
  length: "count",
  capacity: "count",
  rowBytes: "count",
  sourceSample: "count", // strides, in bytes
  sourceOuter: "count",
  sourceRow: "count",
  targetSample: "count",
  targetOuter: "count",
  targetRow: "count",
} as const;

/** Any strided copy of up to 5 dimensions: transposes, slices, concatenations, expansions. */
export const copyStridedJob = {
  source: "pointer",
  target: "pointer",
  width: "count", // bytes that lie together on both sides: an element, or a whole row
  size0: "count", // outermost; 1 for dimensions that are not there
  size1: "count",
  size2: "count",
  size3: "count",
  size4: "count",
  source0: "count", // strides, in bytes; 0 repeats
  source1: "count",
  source2: "count",
  source3: "count",
  source4: "count",
  target0: "count",
  target1: "count",
  target2: "count",
  target3: "count",
  target4: "count",
} as const;

/** Attention, in all its kernels. Strides serve [batch, heads, length, size] and [batch, length, heads · size] alike. */
export const attentionJob = {
  query: "pointer", // [batch, heads, queries, headSize]
  key: "pointer", // [batch, kvHeads, total, headSize]
  value: "pointer", // [batch, kvHeads, total, valueSize]
  output: "pointer", // [batch, heads, queries, valueSize]
  queryType: "count", // elementCode of query and output
  cacheType: "count", // elementCode of key and value
  batch: "count",
  heads: "count", // a multiple of kvHeads
  kvHeads: "count",
  queries: "count", // 1 for the decode kernels
  headSize: "count",
  valueSize: "count",
  querySample: "count",
  queryHead: "count",
  queryRow: "count",
  keySample: "count",
  keyHead: "count",
  keyRow: "count",
  valueSample: "count",
  valueHead: "count",
  valueRow: "count",
  outputSample: "count",
  outputHead: "count",
  outputRow: "count",
  lengths: "pointer", // int64[batch], optional: valid keys of each sample, this step's included (nonpad_kv_seqlen)
  total: "count", // keys of every sample where lengths is absent
  past: "count", // keys before the first query, where lengths is absent; with lengths it is lengths[sample] - queries
  causal: "count", // 0 or 1
  left: "count", // window sizes, -1 for none
  right: "count",
  mask: "pointer", // [batch, heads, queries, maskLength], optional
  maskType: "count", // elementCode; bool: 0 hides the key
  maskSample: "count", // strides; 0 broadcasts
  maskHead: "count",
  maskQuery: "count",
  maskKey: "count",
  maskLength: "count", // keys from here on are hidden
  scale: "number",
  softcap: "number", // 0 for none
  splits: "count", // decode: parts of the keys' range; more than 1 needs partials and attentionMerge
  partials: "pointer", // float32[batch, heads, splits, 2 + valueSize], optional with splits = 1
  newKey: "pointer", // [batch, kvHeads, 1, headSize], of cacheType: what scatterAttentionDecode writes first
  newValue: "pointer", // [batch, kvHeads, 1, valueSize]
  newKeySample: "count",
  newKeyHead: "count",
  newValueSample: "count",
  newValueHead: "count",
  indices: "pointer", // int64[batch]: the rows of the cache they go to; written and attended must be among the valid keys
} as const;

/**
 * Weights into panels: [ceil(n / 8)][k][8], the layout that `matmul` reads, of the same element type. Columns from n on are zero.
 * A range of k or of n can be packed at a time, so that weights may arrive in pieces.
 */
export const packPanelsJob = {
  source: "pointer", // the first element of the piece
  target: "pointer", // of the whole
  type: "count", // elementCode
  k: "count", // of the whole
  n: "count",
  kFrom: "count", // the piece
  kTo: "count",
  nFrom: "count", // a multiple of 8
  nTo: "count", // a multiple of 8, or n
  sourceK: "count", // strides: n, 1 for ONNX's [K, N]; 1, k for [N, K]
  sourceN: "count",
  batch: "count",
  sourceBatch: "count",
  targetBatch: "count",
} as const;

/** c = a · b + bias, with b in panels; c is float32. */
export const matmulJob = {
  a: "pointer", // [batch, m, k]
  b: "pointer", // panels, see packPanels
  c: "pointer", // float32[batch, m, n]
  bias: "pointer", // float32[n], optional
  aType: "count", // elementCode
  bType: "count", // elementCode
  m: "count",
  n: "count",
  k: "count",
  aRow: "count", // strides
  aColumn: "count",
  cRow: "count",
  batch: "count",
  aBatch: "count",
  bBatch: "count", // in elements of the panels: ceil(n / 8) · 8 · k, or 0 to share
  cBatch: "count",
} as const;

/**
 * Activations for `matmulBlocks`: rows in blocks of `blockSize`, each with its own scale. Rows lie in the order that the weights' bits
 * want; for many rows four of them are woven together. The three targets are as large as `quantizedBytes` says.
 */
export const quantizeRowsJob = {
  source: "pointer", // [m, k]
  values: "pointer",
  scales: "pointer",
  sums: "pointer",
  type: "count", // elementCode of source
  m: "count",
  k: "count",
  sourceRow: "count", // stride
  blockSize: "count", // of the weights
  bits: "count", // of the weights: 2, 4, 8
  precision: "count", // bits of the activations: 16, or 8 (weights of 4 bits, blocks of 32 or more, the relaxed build only)
} as const;

/** c = a · dequantized(b)ᵀ + bias: MatMulNBits with b as ONNX lays it out. */
export const matmulBlocksJob = {
  values: "pointer", // what quantizeRows made, with the same m, k, blockSize, bits, precision
  aScales: "pointer",
  aSums: "pointer",
  b: "pointer", // uint8[n, blocks, blockSize · bits / 8]
  scales: "pointer", // [n, blocks]
  zeros: "pointer", // [n, ceil(blocks · bits / 8)] packed, or [n, blocks] of zerosType; optional: 2 ^ (bits - 1)
  bias: "pointer", // float32[n], optional
  c: "pointer", // float32[m, n]
  scaleType: "count", // elementCode
  zerosType: "count", // -1 for packed uint8, else elementCode
  m: "count",
  n: "count",
  k: "count",
  cRow: "count", // stride
  blockSize: "count",
  bits: "count",
  precision: "count",
} as const;

/** (a - aZero) · (b - bZero) in 32-bit integers: MatMulInteger, with b transposed to [n, k]. */
export const matmulIntegerJob = {
  a: "pointer", // [m, k] bytes
  b: "pointer", // [n, k] bytes: copyStrided with width 1 makes them from [k, n], once for weights
  c: "pointer", // int32[m, n]
  aZero: "pointer", // optional bytes, 0 if absent
  bZero: "pointer",
  aSigned: "count", // 1 for int8, 0 for uint8
  bSigned: "count",
  aZeroStep: "count", // 0: one for all; 1: one a row
  bZeroStep: "count", // 0: one for all; 1: one a column
  m: "count",
  n: "count",
  k: "count",
  cRow: "count", // stride
} as const;

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

/** RotaryEmbedding: turns the first 2 · pairs values of each head, copies the rest. */
export const rotateJob = {
  source: "pointer", // [batch, heads, length, size]
  output: "pointer", // may be source
  cos: "pointer", // [positions, pairs], or [batch, length, pairs] without positions
  sin: "pointer",
  positions: "pointer", // int64[batch, length], optional
  type: "count", // elementCode of all
  batch: "count",
  heads: "count",
  length: "count",
  size: "count",
  pairs: "count",
  interleaved: "count", // 1: pairs are neighbours; 0: halves
  sourceSample: "count", // strides
  sourceHead: "count",
  sourceRow: "count",
  outputSample: "count",
  outputHead: "count",
  outputRow: "count",
  positionSample: "count", // stride; 0 with one offset for all
  positionStep: "count", // 1: one position a token; 0: positions[sample] is the first, the others follow
  angleRow: "count", // stride of cos and sin
} as const;

/** Rows of a table: Gather of embeddings, and GatherBlockQuantized. */
export const gatherRowsJob = {
  table: "pointer", // [entries, width]
  indices: "pointer",
  output: "pointer", // [count, width]
  layout: "count", // tableLayout
  type: "count", // elementCode of the table, or of scales when it is quantized
  outputType: "count", // elementCode
  indexBytes: "count", // 4 or 8
  entries: "count", // negative indices count from here; others are the caller's to refuse
  width: "count",
  count: "count",
  outputRow: "count", // stride
  scales: "pointer", // [entries, blocks]
  zeros: "pointer", // as in matmulBlocks, packed; optional
  blockSize: "count",
  bits: "count", // 2, 4 or 8 for blocks, unsigned
} as const;

/** How a table lies: rows, the panels of packPanels (k = width, n = entries), or blocks of MatMulNBits. */
export const tableLayout = { rows: 0, panels: 1, blocks: 2 } as const;

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

/** Bytes that a job takes. */
export const jobBytes = (layout: JobLayout): number => 4 * Object.keys(layout).length;

/** Writes a job at a byte address that is a multiple of 4. `words` and `numbers` are views of the whole memory. */
export function writeJob<Layout extends JobLayout>(
  words: Int32Array,
  numbers: Float32Array,
  address: number,
  layout: Layout,
  values: JobValues<Layout>,
): void {
  let at = address >>> 2;
  for (const name of Object.keys(layout)) {
    if (layout[name] === "number") numbers[at++] = values[name];
    else words[at++] = values[name];
  }
}
