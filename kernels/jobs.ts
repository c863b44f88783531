/**
 * The jobs as kernels see them: the fields of src/kernels/jobs.ts, which says what each one means, in the same order.
 * Every field is 4 bytes wide.
 */

@unmanaged
export class ScatterRows {
  source: usize;
  target: usize;
  indices: usize;
  batch: i32;
  outer: i32;
  length: i32;
  capacity: i32;
  rowBytes: i32;
  sourceSample: i32;
  sourceOuter: i32;
  sourceRow: i32;
  targetSample: i32;
  targetOuter: i32;
  targetRow: i32;
}

@unmanaged
export class CopyStrided {
  source: usize;
  target: usize;
  width: i32;
  size0: i32;
  size1: i32;
  size2: i32;
  size3: i32;
  size4: i32;
  source0: i32;
  source1: i32;
  source2: i32;
  source3: i32;
  source4: i32;
  target0: i32;
  target1: i32;
  target2: i32;
  target3: i32;
  target4: i32;
}

@unmanaged
export class Attention {
  query: usize;
  key: usize;
  value: usize;
  output: usize;
  queryType: i32;
  cacheType: i32;
  batch: i32;
  heads: i32;
  kvHeads: i32;
  queries: i32;
  headSize: i32;
  valueSize: i32;
  querySample: i32;
  queryHead: i32;
  queryRow: i32;
  keySample: i32;
  keyHead: i32;
  keyRow: i32;
  valueSample: i32;
  valueHead: i32;
  valueRow: i32;
  outputSample: i32;
  outputHead: i32;
  outputRow: i32;
  lengths: usize;
  total: i32;
  past: i32;
  causal: i32;
  left: i32;
  right: i32;
  mask: usize;
  maskType: i32;
  maskSample: i32;
  maskHead: i32;
  maskQuery: i32;
  maskKey: i32;
  maskLength: i32;
  scale: f32;
  softcap: f32;
  splits: i32;
  partials: usize;
  newKey: usize;
  newValue: usize;
  newKeySample: i32;
  newKeyHead: i32;
  newValueSample: i32;
  newValueHead: i32;
  indices: usize;
}

@unmanaged
export class PagedAttention {
  query: usize;
  key: usize;
  value: usize;
  output: usize;
  queryType: i32;
  cacheType: i32;
  batch: i32;
  heads: i32;
  kvHeads: i32;
  queries: i32;
  headSize: i32;
  valueSize: i32;
  querySample: i32;
  queryHead: i32;
  queryRow: i32;
  keySample: i32;
  keyHead: i32;
  keyRow: i32;
  valueSample: i32;
  valueHead: i32;
  valueRow: i32;
  outputSample: i32;
  outputHead: i32;
  outputRow: i32;
  lengths: usize;
  total: i32;
  past: i32;
  causal: i32;
  left: i32;
  right: i32;
  mask: usize;
  maskType: i32;
  maskSample: i32;
  maskHead: i32;
  maskQuery: i32;
  maskKey: i32;
  maskLength: i32;
  scale: f32;
  softcap: f32;
  splits: i32;
  partials: usize;
  newKey: usize;
  newValue: usize;
  newKeySample: i32;
  newKeyHead: i32;
  newValueSample: i32;
  newValueHead: i32;
  indices: usize;
  tables: usize;
  tableBytes: i32;
  tableSample: i32;
  tableHead: i32;
  lengthBytes: i32;
  lengthSample: i32;
  lengthHead: i32;
  blockSize: i32;
  keyBlock: i32;
  valueBlock: i32;
  piece: i32;
  keyPiece: i32;
  valuePiece: i32;
  keyScale: usize;
  valueScale: usize;
  pageHeads: i32;
  sums: usize;
  sumsHead: i32;
}

@unmanaged
export class ScatterPages {
  source: usize;
  target: usize;
  slots: usize;
  slotBytes: i32;
  tokens: i32;
  pieces: i32;
  pieceBytes: i32;
  sourceToken: i32;
  sourcePiece: i32;
  blockSize: i32;
  targetBlock: i32;
  targetRow: i32;
  targetPiece: i32;
}

@unmanaged
export class QuantizePages {
  source: usize;
  target: usize;
  scales: usize;
  slots: usize;
  slotBytes: i32;
  sourceType: i32;
  type: i32;
  tokens: i32;
  heads: i32;
  size: i32;
  blockSize: i32;
  targetBlock: i32;
  targetRow: i32;
  targetHead: i32;
  piece: i32;
  targetPiece: i32;
}

@unmanaged
export class GatherPages {
  source: usize;
  target: usize;
  tables: usize;
  tableBytes: i32;
  columns: i32;
  lengths: usize;
  lengthBytes: i32;
  cumulative: i32;
  offsets: usize;
  batch: i32;
  pieces: i32;
  pieceBytes: i32;
  blockSize: i32;
  sourceBlock: i32;
  sourceRow: i32;
  sourcePiece: i32;
}

@unmanaged
export class RepackRows {
  cache: usize;
  rows: usize;
  rowsBytes: i32;
  count: i32;
  lists: i32;
  batch: i32;
  pieces: i32;
  pieceBytes: i32;
  cacheSample: i32;
  cachePiece: i32;
  cacheRow: i32;
  tables: usize;
  tableBytes: i32;
  columns: i32;
  blockSize: i32;
  cacheBlock: i32;
}

@unmanaged
export class MatMul {
  a: usize;
  b: usize;
  c: usize;
  bias: usize;
  rows: usize;
  partials: usize;
  aType: i32;
  bType: i32;
  m: i32;
  n: i32;
  k: i32;
  aRow: i32;
  aColumn: i32;
  bK: i32;
  bN: i32;
  cRow: i32;
  batch: i32;
  aBatch: i32;
  bBatch: i32;
  cBatch: i32;
  splits: i32;
  scale: usize;
  zero: usize;
  scaleK: i32;
  scaleN: i32;
  block: i32;
  panels: i32;
}

@unmanaged
export class QuantizeRows {
  source: usize;
  values: usize;
  scales: usize;
  sums: usize;
  type: i32;
  m: i32;
  k: i32;
  sourceRow: i32;
  blockSize: i32;
  bits: i32;
  precision: i32;
}

@unmanaged
export class MatMulBlocks {
  values: usize;
  aScales: usize;
  aSums: usize;
  b: usize;
  scales: usize;
  zeros: usize;
  bias: usize;
  c: usize;
  scaleType: i32;
  zerosType: i32;
  m: i32;
  n: i32;
  k: i32;
  cRow: i32;
  blockSize: i32;
  bits: i32;
  precision: i32;
}

@unmanaged
export class MatMulInteger {
  a: usize;
  b: usize;
  c: usize;
  aZero: usize;
  bZero: usize;
  aSigned: i32;
  bSigned: i32;
  aZeroStep: i32;
  bZeroStep: i32;
  m: i32;
  n: i32;
  k: i32;
  cRow: i32;
}

@unmanaged
export class Normalize {
  source: usize;
  skip: usize;
  sum: usize;
  scale: usize;
  bias: usize;
  output: usize;
  type: i32;
  rows: i32;
  size: i32;
  sourceRow: i32;
  skipRow: i32;
  sumRow: i32;
  outputRow: i32;
  epsilon: f32;
  addend: usize;
  mean: usize;
  inverse: usize;
}

@unmanaged
export class SoftmaxRows {
  source: usize;
  output: usize;
  type: i32;
  rows: i32;
  size: i32;
  sourceRow: i32;
  outputRow: i32;
}

@unmanaged
export class Rotate {
  source: usize;
  output: usize;
  cos: usize;
  sin: usize;
  positions: usize;
  type: i32;
  batch: i32;
  heads: i32;
  length: i32;
  size: i32;
  pairs: i32;
  interleaved: i32;
  sourceSample: i32;
  sourceHead: i32;
  sourceRow: i32;
  outputSample: i32;
  outputHead: i32;
  outputRow: i32;
  positionSample: i32;
  positionStep: i32;
  angleRow: i32;
}

@unmanaged
export class GatherRows {
  table: usize;
  indices: usize;
  output: usize;
  layout: i32;
  type: i32;
  outputType: i32;
  indexBytes: i32;
  entries: i32;
  width: i32;
  count: i32;
  outputRow: i32;
  scales: usize;
  zeros: usize;
  blockSize: i32;
  bits: i32;
}

@unmanaged
export class Convert {
  source: usize;
  target: usize;
  sourceType: i32;
  targetType: i32;
  count: i32;
}

@unmanaged
export class Elementwise {
  program: usize;
  instructions: i32;
  rows: i32;
  columns: i32;
}

@unmanaged
export class Instruction {
  operation: i32;
  target: i32;
  first: i32;
  second: i32;
  address: usize;
  type: i32;
  rowStride: i32;
  columnStride: i32;
  immediate: f32;
}

@unmanaged
export class Elements {
  operation: i32;
  kind: i32;
  output: usize;
  outputType: i32;
  first: usize;
  firstType: i32;
  second: usize;
  secondType: i32;
  third: usize;
  thirdType: i32;
  rank: i32;
  layout: usize;
}

@unmanaged
export class Reduce {
  operation: i32;
  kind: i32;
  source: usize;
  output: usize;
  type: i32;
  count: i32;
  keptRank: i32;
  kept: usize;
  outerRank: i32;
  outer: usize;
  rows: i32;
  length: i32;
  step: i32;
}

@unmanaged
export class Scan {
  operation: i32;
  kind: i32;
  source: usize;
  output: usize;
  type: i32;
  lines: i32;
  rank: i32;
  layout: usize;
  length: i32;
  sourceStep: i32;
  outputStep: i32;
  exclusive: i32;
}

@unmanaged
export class GatherRuns {
  data: usize;
  indices: usize;
  output: usize;
  indexBytes: i32;
  width: i32;
  batch: i32;
  rows: i32;
  depth: i32;
  layout: usize;
  dataSample: i32;
  indexSample: i32;
}

@unmanaged
export class GatherAlong {
  data: usize;
  indices: usize;
  output: usize;
  indexBytes: i32;
  width: i32;
  rank: i32;
  layout: usize;
  rows: i32;
  axisSize: i32;
  axisStride: i32;
}

@unmanaged
export class Triangle {
  source: usize;
  target: usize;
  diagonal: usize;
  width: i32;
  lines: i32;
  rows: i32;
  columns: i32;
  upper: i32;
}

@unmanaged
export class FindLevels {
  source: usize;
  count: i32;
  scale: usize;
  zero: usize;
}

@unmanaged
export class WriteLevels {
  source: usize;
  output: usize;
  scale: usize;
  zero: usize;
  isSigned: i32;
  count: i32;
}
