/**
 * The rules of RepackCache, on shapes and on data: reads rows and tables, checks them all, and says which row goes where. Writes
 * nothing, so that whatever fails here leaves the cache as it was.
 */
import { type Dim, divideExactly, isKnown, isKnownShape, multiplyDims, type Shape } from "../../graph/dim.js";
import { type Fact, factText } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import type { PagedLayout } from "../shared/paged/layouts.js";
import { fragmentLength } from "../shared/paged/layouts.js";
import { numbersOf } from "../shared/paged/tables.js";
import { checkRank, normalizeAxis, unifyDims } from "../shared/rules/shapes.js";

/** What the rules look at. */
type RepackCall = CallContext & {
  readonly attrs: { readonly axis: number; readonly cache_mode: PagedLayout };
  readonly inputs: { readonly cache: Fact; readonly rows: Fact; readonly block_tables: Fact | undefined };
};

/** Rows that move within one sample, and within one head of it where heads differ. */
export interface Moves {
  readonly sample: number;
  /** Undefined: the rows of all heads move together. */
  readonly head: number | undefined;
  /** Row `targets[i]` becomes what row `sources[i]` was: slots of a paged cache, rows along the axis of a linear one. */
  readonly targets: readonly number[];
  readonly sources: readonly number[];
}

/** The dimensions of a cache by meaning. */
interface Sizes {
  /** Samples, or undefined for pages. */
  readonly batch: Dim | undefined;
  /** Heads that may have rows of their own; undefined where the cache does not tell any. */
  readonly heads: Dim | undefined;
  /** Rows of a sample. */
  readonly capacity: Dim;
}

/** Fails where shapes break a rule. */
export function checkShapes(call: RepackCall): void {
  const { cache, rows, block_tables } = call.inputs;
  checkRank(call, "rows", rows, 2, 3);
  checkRank(call, "block_tables", block_tables, 2);
  if (cache.shape === undefined) return;
  const { batch, heads, capacity } = sizesOf(call, cache.shape);
  if (rows.shape === undefined) return;
  if (batch !== undefined) unifyDims(call, rows.shape[0], batch, "rows needs one list a sample of the cache");
  if (block_tables?.shape !== undefined)
    unifyDims(call, rows.shape[0], block_tables.shape[0], "rows needs one list a row of block_tables");
  if (rows.shape.length === 3) {
    const own = rows.shape[1];
    if (heads === undefined) {
      call.check(
        block_tables !== undefined,
        () => `rows ${factText(rows)} for each head need a cache with its heads as dimension 1, before the axis`,
      );
      // Pieces of PA_NZ belong to heads evenly.
      const pieces = cache.shape.slice(1, -2).reduce<Dim>(multiplyDims, 1);
      if (isKnown(pieces) && isKnown(own))
        call.check(
          own > 0 && pieces % own === 0,
          () => `rows ${factText(rows)} for each head must divide the ${pieces} pieces of the cache, got ${own} heads`,
        );
    } else unifyDims(call, own, heads, "rows [batch, heads, n] needs one list a head of the cache");
  }
  const count = rows.shape[rows.shape.length - 1];
  if (isKnown(count) && isKnown(capacity))
    call.check(count <= capacity, () => `rows names ${count} rows of a sample, the cache holds ${capacity}`);
}

function sizesOf(call: RepackCall, shape: Shape): Sizes {
  const { cache, block_tables } = call.inputs;
  const { cache_mode, axis } = call.attrs;
  if (block_tables === undefined) {
    call.check(shape.length >= 2, () => `cache must have at least 2 dimensions, got ${factText(cache)}`);
    const along = normalizeAxis(call, axis, shape.length);
    call.check(along !== 0, "axis must not be 0: that is the batch dimension", "invalid-argument");
    return { batch: shape[0], heads: along >= 2 ? shape[1] : undefined, capacity: shape[along] };
  }
  checkRank(call, "cache", cache, ...(cache_mode === "Norm" ? [3, 4] : cache_mode === "PA_NZ" ? [4, 5] : [4]));
  for (const dim of shape)
    if (isKnown(dim)) call.check(dim >= 1, () => `each dimension of cache ${factText(cache)} must be at least 1`);
  if (cache_mode === "PA_NZ")
    unifyDims(
      call,
      shape.at(-1)!,
      fragmentLength(cache.type),
      `cache ${factText(cache)} must have 32 bytes of ${cache.type} as its last dimension`,
    );
  const blockSize = shape[blockAxis(cache_mode, shape.length)];
  const columns = block_tables.shape?.[1];
  const capacity = columns === undefined ? multiplyDims(shape[0], blockSize) : multiplyDims(columns, blockSize);
  return { batch: undefined, heads: pageHeads(cache_mode, shape), capacity };
}

/** The axis of the slots of a block. */
export const blockAxis = (mode: PagedLayout, rank: number): number => (mode === "Norm" ? 1 : rank - 2);

const pageHeads = (mode: PagedLayout, shape: Shape): Dim | undefined =>
  mode === "Norm" ? shape[2] : mode === "NHSD" || shape.length === 5 ? shape[1] : undefined;

/** Reads and checks what moves where; undefined where operands or shapes are not known yet. Rows that stay are left out. */
export function readMoves(call: RepackCall): readonly Moves[] | undefined {
  const { cache, rows, block_tables } = call.inputs;
  const given = numbersOf(rows);
  const tables = numbersOf(block_tables);
  if (!isKnownShape(cache.shape) || !isKnownShape(rows.shape) || given === undefined) return undefined;
  if (block_tables !== undefined && (tables === undefined || !isKnownShape(block_tables.shape))) return undefined;
  const count = rows.shape.at(-1)!;
  const heads = rows.shape.length === 3 ? rows.shape[1] : undefined;
  const slotsOf = block_tables === undefined ? undefined : slotFinder(call, cache.shape, tables!, block_tables);
  const capacity = sizesOf(call, cache.shape).capacity as number;
  const all: Moves[] = [];
  for (let list = 0; list < rows.shape[0] * (heads ?? 1); list++) {
    const sample = Math.floor(list / (heads ?? 1));
    const head = heads === undefined ? undefined : list % heads;
    const [targets, sources]: [number[], number[]] = [[], []];
    for (let row = 0; row < count; row++) {
      const source = given[list * count + row];
      const at = (): string => `rows[${[sample, ...(head === undefined ? [] : [head]), row].join(",")}]`;
      if (!(source >= -1 && source < capacity))
        call.fail(
          `${at()} must be -1, to leave the row as it is, or lie in [0, ${capacity - 1}], got ${source}`,
          "invalid-argument",
        );
      if (source === -1 || source === row) continue;
      targets.push(slotsOf === undefined ? row : slotsOf(sample, row, at));
      sources.push(slotsOf === undefined ? source : slotsOf(sample, source, at));
    }
    if (targets.length > 0) all.push({ sample, head, targets, sources });
  }
  if (block_tables !== undefined) checkOwners(call, all, cache.shape, tables!, block_tables);
  return all;
}

/** The slot of a sample's row through its table. Fails where the entry lies outside the pool. */
function slotFinder(
  call: RepackCall,
  shape: readonly number[],
  tables: ArrayLike<number>,
  { shape: tableShape }: Fact,
): (sample: number, row: number, at: () => string) => number {
  const blockSize = shape[blockAxis(call.attrs.cache_mode, shape.length)];
  const columns = tableShape![1] as number;
  const blocks = shape[0];
  return (sample, row, at) => {
    const column = Math.floor(row / blockSize);
    const block = tables[sample * columns + column];
    if (!(block >= 0 && block < blocks))
      call.fail(
        `block_tables[${sample},${column}] must lie in [0, ${blocks - 1}], the blocks of the pool, since ${at()} needs row ${row}; got ${block}`,
        "invalid-argument",
      );
    return block * blockSize + (row - column * blockSize);
  };
}

/** Fails where a block that is written stands in the tables twice: its other owner's rows would change. */
function checkOwners(
  call: RepackCall,
  moves: readonly Moves[],
  shape: readonly number[],
  tables: ArrayLike<number>,
  { shape: tableShape }: Fact,
): void {
  const blockSize = shape[blockAxis(call.attrs.cache_mode, shape.length)];
  const columns = tableShape![1] as number;
  const written = new Set(moves.flatMap(({ targets }) => targets.map((slot) => Math.floor(slot / blockSize))));
  const owners = new Map<number, number>();
  for (let at = 0; at < tables.length; at++) {
    if (!written.has(tables[at])) continue;
    const before = owners.get(tables[at]);
    const place = (entry: number): string => `block_tables[${Math.floor(entry / columns)},${entry % columns}]`;
    if (before !== undefined)
      call.fail(
        `block ${tables[at]} is written and must stand in the tables once, got ${place(before)} and ${place(at)}; give one of them a copy of the block`,
        "invalid-argument",
      );
    owners.set(tables[at], at);
  }
}

/** The pieces of a PA_NZ cache that belong to one of `heads` heads. */
export const piecesOf = (shape: readonly number[], heads: number): number =>
  divideExactly(
    shape.slice(1, -2).reduce((product, dim) => product * dim, 1),
    heads,
  ) as number;
