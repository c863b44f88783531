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

/** Element types in jobs. Most kernels know the first three; masks are bool too, and `elements`, `reduce` and `scan` know all. */
export const elementCode = {
  float32: 0,
  float16: 1,
  bfloat16: 2,
  bool: 3,
  int8: 4,
  uint8: 5,
  int16: 6,
  uint16: 7,
  int32: 8,
  uint32: 9,
  int64: 10,
  uint64: 11,
  float64: 12,
} as const;

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
  past: "count", // keys before the first query, where lengths is absent; with lengths it is lengths[sample] - queries, or 0 if this is -1
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

/** Types of pages in jobs: those of elementCode, and bytes with a scale for each token and head. */
export const pageCode = { float32: 0, float16: 1, bfloat16: 2, int8: 20, float8e4m3fn: 21, float8e5m2: 22 } as const;

const pageFields = {
  tables: "pointer", // the blocks of each sample, in order; entries behind the last valid row are not read
  tableBytes: "count", // 4 or 8
  tableSample: "count", // strides
  tableHead: "count", // 0: one table for all heads; a page then has all of them
  lengthBytes: "count", // 4 or 8
  lengthSample: "count", // strides
  lengthHead: "count", // 0: one length for all heads
  blockSize: "count",
  keyBlock: "count", // strides between blocks
  valueBlock: "count",
  piece: "count", // elements of a head that lie together; 0: all of them
  keyPiece: "count", // strides between pieces
  valuePiece: "count",
  keyScale: "pointer", // float32[blocks, blockSize, pageHeads], for bytes
  valueScale: "pointer",
  pageHeads: "count",
  sums: "pointer", // float32[batch, heads, sumsHead], optional: probabilities summed over the queries
  sumsHead: "count",
} as const;

/**
 * Attention over pages. Where a row lies its table says: key and value are the pools, keyRow and keyHead strides within a block.
 * cacheType is a pageCode, lengths are of lengthBytes. keySample, valueSample, total, past, the mask and the new rows are not looked at.
 */
export const pagedAttentionJob: typeof attentionJob & typeof pageFields = { ...attentionJob, ...pageFields };

/** Vectors into the slots of a paged cache. Negative slots are skipped; of two vectors in one slot the last stays. */
export const scatterPagesJob = {
  source: "pointer",
  target: "pointer",
  slots: "pointer", // [tokens]
  slotBytes: "count", // 4 or 8
  tokens: "count",
  pieces: "count", // a vector lies in so many pieces
  pieceBytes: "count",
  sourceToken: "count", // strides, in bytes
  sourcePiece: "count",
  blockSize: "count",
  targetBlock: "count",
  targetRow: "count",
  targetPiece: "count",
} as const;

/** The same, quantised: bytes, and a scale for each token and head. */
export const quantizePagesJob = {
  source: "pointer", // [tokens, heads, size]
  target: "pointer",
  scales: "pointer", // float32[blocks, blockSize, heads]
  slots: "pointer",
  slotBytes: "count",
  sourceType: "count", // elementCode
  type: "count", // pageCode of the bytes
  tokens: "count",
  heads: "count",
  size: "count",
  blockSize: "count",
  targetBlock: "count", // strides
  targetRow: "count",
  targetHead: "count",
  piece: "count", // elements of a head that lie together: size, or less
  targetPiece: "count",
} as const;

/** The rows of sequences out of a paged cache, one sequence after the other; rows past a table are zeros. */
export const gatherPagesJob = {
  source: "pointer",
  target: "pointer", // [rows, pieces · pieceBytes]
  tables: "pointer", // [batch, columns]
  tableBytes: "count", // 4 or 8
  columns: "count",
  lengths: "pointer", // [batch], or cumulative [batch + 1]
  lengthBytes: "count",
  cumulative: "count",
  offsets: "pointer", // [batch], of tableBytes, optional: rows before the first; whole blocks of them are skipped
  batch: "count",
  pieces: "count",
  pieceBytes: "count",
  blockSize: "count",
  sourceBlock: "count", // strides, in bytes
  sourceRow: "count",
  sourcePiece: "count",
} as const;

/** RepackCache: row i becomes what row rows[i] was, in every piece of every sample. Any order; -1 leaves the row. */
export const repackRowsJob = {
  cache: "pointer",
  rows: "pointer", // [batch, lists, count]
  rowsBytes: "count", // 4 or 8
  count: "count",
  lists: "count", // divides the pieces: those of a share follow one list
  batch: "count",
  pieces: "count",
  pieceBytes: "count",
  cacheSample: "count", // strides, in bytes; 0 for pages
  cachePiece: "count",
  cacheRow: "count",
  tables: "pointer", // [batch, columns], optional: rows are counted through them
  tableBytes: "count",
  columns: "count",
  blockSize: "count",
  cacheBlock: "count",
} as const;

/**
 * c = a · b + bias; c is float32. For few rows `rows` is 0, and b has contiguous rows or columns: the former may be divided into ranges with sums
 * of their own, which matmulMerge joins. For many rows packRows, run before on the same job, puts a form of a into `rows`.
 */
export const matmulJob = {
  a: "pointer", // [batch, m, k]
  b: "pointer", // [batch, k, n]
  c: "pointer", // float32[batch, m, n]
  bias: "pointer", // float32[n], optional
  rows: "pointer", // packedRowBytes, or 0
  partials: "pointer", // float32[batch, splits, m, n], optional with splits = 1
  aType: "count", // elementCode
  bType: "count", // elementCode of a float type, or levelCode
  m: "count",
  n: "count",
  k: "count",
  aRow: "count", // strides
  aColumn: "count",
  bK: "count", // n, 1 for ONNX's [K, N]; 1, k for [N, K]
  bN: "count",
  cRow: "count",
  batch: "count",
  aBatch: "count",
  bBatch: "count", // 0 to share
  cBatch: "count",
  splits: "count", // of k, for few rows and bN = 1; else 1
  scale: "pointer", // float32, for a levelCode: b is [k, n], batch is 1; for few rows a is float32 with contiguous rows
  zero: "pointer", // of b's type, optional
  scaleK: "count", // strides of both: from block to block, and from column to column, which is 0 or 1
  scaleN: "count",
  block: "count", // rows of b that share them
  panels: "count", // of eight columns that are packed at a time, for many rows: panelsAtOnce
} as const;

/** Types of weights in jobs that have a scale, beside those of elementCode. */
export const levelCode = { int8: 4, uint8: 5, int4: 30, uint4: 31 } as const;

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

/** (a - aZero) · (b - bZero) in 32-bit integers: MatMulInteger. */
export const matmulIntegerJob = {
  a: "pointer", // [m, k] bytes
  b: "pointer", // [k, n] bytes
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

/** How a table lies: rows, or blocks of MatMulNBits. */
export const tableLayout = { rows: 0, blocks: 1 } as const;

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
