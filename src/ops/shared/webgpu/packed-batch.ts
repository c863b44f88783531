/**
 * Packed (variable-length) batches on WebGPU: queries of samples of any number, one sample behind the other. Where each begins, which samples a dispatch serves, and tiles of
 * rows that belong to one sample. Functions in WGSL; no dispatch. A batch that is not packed is the plain case of each.
 */
import type { Operand } from "../../../graph/kernel.js";
import type { ShaderPart } from "../../../webgpu-kernels/shader-part.js";
import { largestStep } from "../../../webgpu-kernels/measures.js";
import type { Dispatch, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import type { AttentionWork } from "./attention-parts.js";
import { laidEachRun, type Table, tableVariable } from "./tables.js";

/** A packed batch: the queries of all samples stand one sample behind the other, as the rows of one batch. */
export interface Packed {
  /** Where each sample's queries begin, and the end. */
  readonly starts: Table;
  readonly samples: number;
  /** The samples that a dispatch serves: those of one query, of several, or all. */
  readonly serves: "one" | "several" | "all";
}

interface PackedInputs {
  readonly seq_lens: Operand;
  readonly query_starts: Operand | undefined;
}

/** How an attention's batch is packed, and the array of its lengths, one with the starts where the host knows both; undefined where it is not. */
export function packedBatch(
  { seq_lens: lengths, query_starts: starts }: PackedInputs,
  recorder: WebgpuRecorder,
): { readonly packed: Packed | undefined; readonly table: Table | undefined } {
  if (starts === undefined) return { packed: undefined, table: undefined };
  const tables = laidEachRun("spans", { lengths, starts }, recorder);
  return { packed: { starts: tables.starts, samples: lengths.shape[0], serves: "all" }, table: tables.lengths };
}

/** Where `row` of `sample` stands among all rows of queries. */
export const tokenAt = ({ packed }: Pick<AttentionWork, "packed">): string =>
  packed === undefined ? "row" : "(firstQuery(sample) + row)";

/** `queriesOf(sample)`: how many a sample has; and `firstQuery(sample)`, where they begin, in a packed batch. */
export function queriesPart({ query, packed }: Pick<AttentionWork, "query" | "packed">): ShaderPart {
  if (packed === undefined)
    return {
      code: "fn queriesOf(sample: u32) -> u32 { return p.queries; }",
      parameters: { queries: query.rows },
    };
  const { starts, samples } = packed;
  const array = tableVariable(starts);
  return {
    uses: [array],
    code: `
fn firstQuery(sample: u32) -> u32 { return u32(${array.loadIndex("p.startsOffset + sample")}); }
fn queriesOf(sample: u32) -> u32 { return firstQuery(sample + 1u) - firstQuery(sample); }`,
    parameters: { queries: query.rows, samples, startsOffset: starts.offset },
  };
}

/** Queries in tiles of rows that share a key head, none of which has rows of two samples. */
interface QueryTiles {
  /** Tiles of one of `samples`, at most; a packed batch counts as one. */
  readonly count: number;
  readonly samples: number;
  /** Functions. */
  readonly code: string;
  /** From the number of a tile to its `sample`, the `first` of its rows and `groupRows`, those of the sample. Without such a tile, main ends there. */
  readonly find: (tileAt: string) => string;
}

/** The tiles of so many rows. */
export function queryTiles({ query, key, packed }: AttentionWork, rows: number): QueryTiles {
  const group = query.heads / key.heads;
  if (packed === undefined)
    return {
      count: Math.ceil((group * query.rows) / rows),
      samples: query.batch,
      code: "",
      find: (tileAt) => `let sample = place.z;
  let first = (${tileAt}) * ${rows}u;
  let groupRows = p.groupRows;`,
    };
  const least = packed.serves === "several" ? 2 : 1;
  return {
    // Each sample fills up one tile at most.
    count: Math.floor((group * query.rows) / rows) + Math.min(packed.samples, Math.ceil(query.rows / least)),
    samples: 1,
    code: `
fn tileOf(tileAt: u32) -> vec2u {
  var left = tileAt;
  for (var sample = 0u; sample < p.samples; sample++) {
    let queries = queriesOf(sample);
    let tiles = select(0u, (queries * p.group + ${rows - 1}u) / ${rows}u, queries >= ${least}u);
    if (left < tiles) { return vec2u(sample, left * ${rows}u); }
    left -= tiles;
  }
  return vec2u(p.samples, 0u);
}`,
    find: (tileAt) => `let found = tileOf(${tileAt});
  let sample = found.x;
  if (sample == p.samples) { return; }
  let first = found.y;
  let groupRows = queriesOf(sample) * p.group;`,
  };
}

/**
 * What a tile of `queryTiles` sees: the keys from `low` to `high`, and all of its rows those from `everyFrom` to `everyTo`. What a row sees grows with its
 * query: the first and the last bound them all. The last rows see the most keys: they begin.
 */
export const tileSight = ({ find }: QueryTiles, rows: number): string => `${find("places.x - 1u - place.x")}
  let keyHead = place.y;
  let early = visible(sample, keyHead, first / p.group);
  let late = visible(sample, keyHead, (min(first + ${rows}u, groupRows) - 1u) / p.group);
  let low = max(min(early.x, late.x), 0);
  let high = max(early.y, late.y);
  let everyFrom = max(early.x, late.x);
  let everyTo = min(early.y, late.y);`;

/** For dispatches over tiles of samples with several queries: done in runs in which there is such a sample, where the host knows. */
export const onlySeveral = (
  { packed }: Pick<AttentionWork, "packed">,
  recorder: Pick<WebgpuRecorder, "isOnHost">,
): Pick<Dispatch, "only"> =>
  packed?.serves === "several" && recorder.isOnHost(packed.starts.operand)
    ? { only: [{ of: [packed.starts.operand], measure: largestStep, least: 2, most: Infinity }] }
    : {};

/** True where the numbers of a dispatch last from run to run: those of pages change with the samples, and one pipeline serves all. */
export const isLasting = ({ packed, query, key }: Pick<AttentionWork, "packed" | "query" | "key">): boolean =>
  (packed?.samples ?? (key.pages === undefined ? 1 : query.batch)) === 1;

/** Leaves a function where a sample is none that the dispatch serves one by one. */
export const unserved = (packed: Packed | undefined, result: string): string =>
  packed?.serves === "one" ? `if (queriesOf(sample) != 1u) { return ${result}; }` : "";
