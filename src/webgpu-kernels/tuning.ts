/**
 * The numbers of the WebGPU side that were tried out, each with its unit, what it trades and where it was found. What follows from shapes and limits alone is
 * computed where it is used. A device has the row of its adapter; `tools/measure/webgpu/tune.mjs` measures the numbers that matter on a new one and prints a row.
 *
 * "H200" is an NVIDIA H200 with Dawn on Vulkan, tokens of Qwen3-0.6B in 4 bits, by `insitu bench --backend webgpu` and `bench/webgpu/steps.mjs --times`.
 * "Not measured" numbers follow from a count of loads, registers or bytes, and were only shown to be right.
 */

/** Products of one row (GEMV): `projection-rows.ts`. */
interface OneRowTuning {
  /** Workgroups. From twice as many on, each takes several turns: the row is staged less often, and the last ones end less evenly. H200, 2026-11-15. */
  readonly enoughWorkgroups: number;
  /** Turns of a workgroup at most: as above. H200, 2026-11-15. */
  readonly mostTurns: number;
  /** Loads of 16 bytes that an invocation has under way: more hide memory's latency, and take registers from others. H200, 2026-11-15. */
  readonly mostLoads: number;
  /** Products of four that a shader writes out: more hide latency, and compile slower. H200, 2026-11-15. */
  readonly mostTerms: number;
  /** Invocations of a team that is a workgroup: more share a column's k, fewer wait for each other. H200, 2026-11-16. */
  readonly mostAlone: number;
}

/** Products of 2 to 8 rows: `few-rows-division.ts`. */
interface FewRowsTuning {
  /** Invocations: more bring rows in for more teams, fewer divide evenly over a device. Not measured. */
  readonly mostThreads: number;
  /** Workgroups that small products are divided into: more keep a device busy, fewer bring rows in less often. Not measured. */
  readonly enoughWorkgroups: number;
  /** Workgroups. From twice as many on, each takes several turns. Not measured. */
  readonly manyWorkgroups: number;
  /** Turns of a workgroup at most. Not measured. */
  readonly mostTurns: number;
  /** Loads and products of an invocation, as of one row. Not measured. */
  readonly mostLoads: number;
  readonly mostTerms: number;
}

/** A tile of a product: its rows and columns, `depth` of k at a time, by `down` times `across` invocations. */
export interface Tile {
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  readonly down: number;
  readonly across: number;
}

/**
 * A tile of attention: invocations of `lines` rows of queries times `sides` that share each, with so many rows each and four keys, or so many. Fewer rows where
 * heads are larger than 128. `chunk` vectors of 16 bytes of each query and key are staged at once.
 */
export interface AttentionTile {
  readonly lines: number;
  readonly sides: number;
  readonly rowsEach: number;
  readonly chunk: number;
}

/** The same in float16: `run` vectors of those are added up before float32 takes their sums, and the values of `step` keys, which are staged at once. */
export interface AttentionHalvesTile extends AttentionTile {
  readonly keysEach: 4 | 8;
  readonly run: number;
  readonly step: number;
}

/** Products of many rows: `product-tiles.ts`, `product-slices.ts`, `product-matrices.ts`. */
interface ManyRowsTuning {
  /** Tiles from which on larger ones are taken: those read operands less often, and there are fewer of them. H200, 2026-11-15. */
  readonly enoughTiles: number;
  /** Tiles in float32 and in float16, tried in this order: the first that makes enough is taken. Larger ones read operands less often and take registers from others. H200, 2026-11-18, by `tiles.mjs`, 4,096 rows, 1,024 to 4,096: in float32 39 TFLOP/s of the first and 30 of 64 by 64, in float16 49 and 34. */
  readonly floatTiles: readonly Tile[];
  readonly halfTiles: readonly Tile[];
  /** The same in bytes, of 32 of k at a time. They are listed where `dot4I8Packed` is one instruction; where a device spells it out in many, which nothing tells, a row without any is faster. H200, 2026-11-19, the four products of a layer by `layers.mjs`: 4,096 rows take 1.83 ms with the first and 1.89 with the second, 512 rows 0.35 and 0.29. */
  readonly byteTiles: readonly Tile[];
  /** Workgroups from which on split-K takes 32 columns each, else 16. H200, 2026-11-15. */
  readonly enoughSlices: number;
  /** The same for tiles of subgroup matrices. H200, 2026-11-15. */
  readonly enoughMatrixTiles: number;
  /** Workgroups from which on attention in matrices takes 128 rows each, else 64: twice the rows share what is brought in. H200, 2026-11-18: 2,048 queries over 32,768 keys 5.6 to 4.5 ms, 512 over 4,096 0.18 to 0.29. */
  readonly manyAttentions: number;
  /** Tiles of attention without matrices, in float32 and in float16: the first that fits a workgroup's memory is taken. Larger ones use what is loaded more often, and take registers. H200, 2026-11-19, 4,096 queries of 16 heads of 128: in float32 2.8 ms, with the second 2.9, in float16 1.9 ms and 2.2 with the last. */
  readonly attentionTiles: readonly AttentionTile[];
  readonly attentionHalvesTiles: readonly AttentionHalvesTile[];
  /** Rows of a prompt that one run reads: more keep a device busier, take memory and let others wait. Where subgroups multiply no matrices, and where they do. H200, 2026-11-18: a prompt of 4,096 tokens in runs of 512, 1024, 2048, 4096 takes 88, 76, 67, 60 ms; without matrices, 2026-11-19, in runs of 512, 2048, 4096 28 layers take 200, 135, 121 ms. */
  readonly busyRows: number;
  readonly busyMatrixRows: number;
  /** Workgroups of streamed matrices from which on each has fewer loads under way: two steps of it. H200, 2026-11-15. */
  readonly manyStreams: number;
  readonly enoughStreams: number;
}

/** Attention of few queries: `attention-decode.ts`. */
interface DecodeTuning {
  /** Workgroups. From twice as many on, each goes over several tiles: queries are turned once for all of them. H200, 2026-11-16: 32 texts of 1,024 rows, 87 to 51 µs a layer. */
  readonly enoughWorkgroups: number;
  /** Tiles of a workgroup at most. As above. */
  readonly mostTilesAGroup: number;
  /** Bytes of scratch for the tiles of a call: beyond, prefill's dispatch takes it, slower and without scratch. Not measured. */
  readonly mostTileBytes: number;
  /** Tiles under way at a time where they are put together: more hide latency. H200, 2026-11-16: a token at context 4096, 9 to 11 % with all that went along. */
  readonly tilesAhead: number;
}

/** A row: what kernels take of a device. */
export interface Tuning {
  readonly oneRow: OneRowTuning;
  readonly fewRows: FewRowsTuning;
  readonly manyRows: ManyRowsTuning;
  readonly decode: DecodeTuning;
}

/** The row of an H200, and of every device that has none of its own: no other was measured. */
export const usualTuning: Tuning = {
  oneRow: { enoughWorkgroups: 2048, mostTurns: 8, mostLoads: 24, mostTerms: 256, mostAlone: 128 },
  fewRows: {
    mostThreads: 256,
    enoughWorkgroups: 96,
    manyWorkgroups: 1024,
    mostTurns: 8,
    mostLoads: 24,
    mostTerms: 256,
  },
  manyRows: {
    enoughTiles: 96,
    floatTiles: [
      { rows: 128, columns: 128, depth: 16, down: 16, across: 16 },
      { rows: 64, columns: 64, depth: 32, down: 16, across: 16 },
      { rows: 32, columns: 32, depth: 32, down: 8, across: 8 },
    ],
    halfTiles: [
      { rows: 128, columns: 128, depth: 32, down: 16, across: 16 },
      { rows: 64, columns: 64, depth: 32, down: 16, across: 8 },
      { rows: 32, columns: 32, depth: 32, down: 8, across: 8 },
    ],
    byteTiles: [
      { rows: 128, columns: 64, depth: 32, down: 16, across: 8 },
      { rows: 64, columns: 64, depth: 32, down: 16, across: 8 },
      { rows: 32, columns: 32, depth: 32, down: 8, across: 8 },
    ],
    enoughSlices: 96,
    enoughMatrixTiles: 96,
    manyAttentions: 192,
    attentionTiles: [
      { lines: 8, sides: 16, rowsEach: 8, chunk: 8 },
      { lines: 8, sides: 16, rowsEach: 4, chunk: 4 },
      { lines: 16, sides: 8, rowsEach: 4, chunk: 8 },
    ],
    attentionHalvesTiles: [
      { lines: 16, sides: 16, rowsEach: 4, keysEach: 8, chunk: 4, run: 4, step: 32 },
      { lines: 16, sides: 16, rowsEach: 4, keysEach: 4, chunk: 8, run: 4, step: 32 },
      { lines: 8, sides: 16, rowsEach: 4, keysEach: 8, chunk: 2, run: 2, step: 16 },
      { lines: 8, sides: 16, rowsEach: 4, keysEach: 4, chunk: 4, run: 4, step: 16 },
    ],
    busyRows: 512,
    busyMatrixRows: 2048,
    manyStreams: 160,
    enoughStreams: 96,
  },
  decode: { enoughWorkgroups: 1024, mostTilesAGroup: 4, mostTileBytes: 268_435_456, tilesAhead: 8 },
};

/** Rows by what adapters tell of themselves: `vendor architecture`, in small letters. */
const rows: Readonly<Record<string, Tuning>> = {};

/** The row of an adapter. */
export const tuningFor = ({ vendor, architecture }: Pick<GPUAdapterInfo, "vendor" | "architecture">): Tuning =>
  rows[`${vendor} ${architecture}`.toLowerCase()] ?? usualTuning;

/** How runs are submitted to a device that waits for them. Of the host's, the same for every device. */
export const submitting = {
  /** Runs of a session under way from which on what is begun at once is submitted at once: with fewer each run is by itself, so that the device has the first while the next is encoded. Not measured. */
  fewRuns: 2,
  /** Dispatches of the first submission of a run that finds the device idle, each further one has twice as many: fewer are there sooner, and each submission costs the host some dispatches. Not measured. */
  firstDispatches: 64,
} as const;

/** What the backend keeps, and how long. Of the host's, the same for every device. */
export const keeping = {
  /** Programs of one model: a server's runs come in some eighty shapes, and binding one anew takes 20 ms; each holds bind groups. H200. */
  mostPrograms: 128,
  /** Programs bound to caches in different places, each: more conversations take turns without being bound anew, which takes milliseconds; each holds bind groups. Not measured. */
  mostBound: 16,
  /** Milliseconds that a device without sessions waits for the next one, with its pipelines. Half a second is less than a busy machine takes to read the next model. */
  deviceMilliseconds: 2_000,
  /** Shaders that are compiled at once: more take memory, and wait inside of the driver. H200, nothing in the driver's cache, 24 shaders at once: 1.8 s for 4.8 s of processors, fewer than three at work. */
  mostCompilations: 4,
  /** Runs after which numbers of a step count as lasting, and sets of numbers in a row that get pipelines of their own. Two tell a past that grows from one that stays. Not measured. */
  lastingRuns: 2,
  mostInARow: 2,
  /** Bytes of an upload that is compared with the one before, to be spared where it is the same. Comparing costs the host less than a write up to here. Not measured. */
  mostComparedBytes: 256,
  /** Bytes that are put aside where copies read what they write: beyond, shaders copy with memory of their own. Tokens of a run take some hundred. Not measured. */
  mostWaitingBytes: 65_536,
  /** Steps that others are recorded like: a decoder has some ten kinds in each program. More hold more text of shaders. Not measured. */
  mostLikeSteps: 2048,
  /** Bytes of memory that is mapped in vain, and runs of a series up to which it is: series come in many lengths. Not measured. */
  spareBytes: 65_536,
  spareRuns: 16,
  /** Bytes of a cache from which on its buffer waits for the next state, and milliseconds that it does. H200: 56 buffers of 75 MB take 150 ms. */
  leastSpareCacheBytes: 4_194_304,
  spareCacheMilliseconds: 1_000,
  /** Bytes of weights from which on it is tried whether the device holds them, before a model is brought there. Not measured. */
  triedBytes: 67_108_864,
  /** Bytes of a piece of memory that weights are read into on their way to the device, and pieces in all: more go on where the host is busy, and take memory. H200: 657 MB take 48 ms in 4 pieces, and 321 ms written by the queue; 4, 8 and 16 pieces load a model in one time. */
  pieceBytes: 4_194_304,
  mostPieces: 4,
} as const;
