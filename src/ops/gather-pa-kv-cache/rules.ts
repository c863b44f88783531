/** The rules of GatherPaKvCache: on shapes, and on the lengths, offsets and block tables that say what is read. */
import { type Dim, isKnown, productOf, type Shape, shapeText, unknownDim } from "../../graph/dim.js";
import { type Fact, knownView } from "../../graph/fact.js";
import { type CallContext, optional, type PerParameter, tensor } from "../../graph/op.js";
import { readNumbers } from "../../tensor/access.js";
import { fragmentLength, type PagedLayout } from "../shared/paged/layouts.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";

/** The operands, in order. */
export const inputs = {
  key_cache: tensor("K"),
  value_cache: optional(tensor("V")),
  block_tables: tensor("I"),
  seq_lens: tensor("I"),
  seq_offset: optional(tensor("I")),
};

/** What the rules look at. */
type GatherCall = CallContext & {
  readonly attrs: { readonly cache_mode: PagedLayout; readonly is_seq_lens_cumsum: boolean };
  readonly inputs: PerParameter<typeof inputs, Fact>;
};

/** Where the tokens of each sequence are: the blocks its table names, from a column on. */
export interface Sequences {
  readonly tokens: number;
  readonly lengths: readonly number[];
  /** The first column of each sequence's table that is read. */
  readonly columns: readonly number[];
  readonly tables: ArrayLike<number>;
  /** Columns of a table. Tokens past it read as zero. */
  readonly width: number;
}

const dimsOf = (fact: Fact, rank: number): Shape => fact.shape ?? Array.from({ length: rank }, unknownDim);

const blockSizeOf = (mode: PagedLayout, shape: Shape): Dim => shape[mode === "Norm" ? 1 : shape.length - 2];

/** Fails where shapes break a rule. */
export function checkShapes(call: GatherCall): void {
  const { key_cache, value_cache, block_tables, seq_lens, seq_offset } = call.inputs;
  const { cache_mode, is_seq_lens_cumsum } = call.attrs;
  const caches = [["key_cache", key_cache] as const, ...(value_cache ? [["value_cache", value_cache] as const] : [])];
  let blocks: Dim = unknownDim();
  let blockSize: Dim = unknownDim();
  let heads: Dim = unknownDim();
  for (const [name, cache] of caches) {
    checkRank(call, name, cache, ...(cache_mode === "PA_NZ" ? [4, 5] : [4]));
    const shape = dimsOf(cache, 4);
    blocks = unifyDims(call, blocks, shape[0], "key_cache and value_cache must have the same num_blocks");
    const rule = "key_cache and value_cache must have the same block_size";
    blockSize = unifyDims(call, blockSize, blockSizeOf(cache_mode, shape), rule);
    for (const [axis, dim] of shape.entries())
      if (isKnown(dim))
        call.check(dim >= 1, () => `dimension ${axis} of ${name} ${shapeText(shape)} must be at least 1`);
    if (cache_mode === "PA_NZ")
      unifyDims(
        call,
        shape.at(-1)!,
        fragmentLength(cache.type),
        `${name} ${shapeText(shape)} must have 32 bytes of ${cache.type} as its last dimension`,
      );
    else
      heads = unifyDims(
        call,
        heads,
        shape[cache_mode === "Norm" ? 2 : 1],
        "key_cache and value_cache must have the same num_head",
      );
  }
  checkRank(call, "block_tables", block_tables, 2);
  checkRank(call, "seq_lens", seq_lens, 1);
  checkRank(call, "seq_offset", seq_offset, 1);
  const [batch] = dimsOf(block_tables, 2);
  const [count] = dimsOf(seq_lens, 1);
  if (isKnown(count) && is_seq_lens_cumsum)
    call.check(count >= 1, "seq_lens with is_seq_lens_cumsum needs at least one entry, the 0 it starts with");
  const entries = is_seq_lens_cumsum && isKnown(count) ? count - 1 : is_seq_lens_cumsum ? unknownDim() : count;
  unifyDims(
    call,
    entries,
    batch,
    `block_tables needs one row a sequence of seq_lens${is_seq_lens_cumsum ? ", which has one more entry with is_seq_lens_cumsum" : ""}`,
  );
  if (seq_offset !== undefined)
    unifyDims(call, dimsOf(seq_offset, 1)[0], batch, "seq_offset needs one entry a row of block_tables");
}

/** The shape of what is gathered: [tokens, heads, size], or [tokens, heads * size] where a cache does not tell its heads. */
export function rowShape(mode: PagedLayout, cache: Fact, tokens: Dim): Shape {
  const shape = dimsOf(cache, 4);
  switch (mode) {
    case "Norm":
      return [tokens, shape[2], shape[3]];
    case "NHSD":
      return [tokens, shape[1], shape[3]];
    case "PA_NZ":
      return [tokens, cache.shape === undefined ? unknownDim() : productOf([...shape.slice(1, -2), shape.at(-1)!])];
    default:
      return mode satisfies never;
  }
}

/** The integers of an operand as numbers, where they are known. */
function numbersOf(fact: Fact | undefined): ArrayLike<number> | undefined {
  const view = fact && knownView(fact);
  return view && readNumbers(view);
}

/** Reads and checks what is asked for; undefined where operands or shapes are not known yet. */
export function readSequences(call: GatherCall): Sequences | undefined {
  const { key_cache, block_tables, seq_lens, seq_offset } = call.inputs;
  const { cache_mode, is_seq_lens_cumsum } = call.attrs;
  const given = numbersOf(seq_lens);
  const tables = numbersOf(block_tables);
  const offsets = numbersOf(seq_offset);
  const width = block_tables.shape?.[1];
  const blocks = key_cache.shape?.[0];
  const blockSize = key_cache.shape && blockSizeOf(cache_mode, key_cache.shape);
  if (given === undefined || tables === undefined || (seq_offset !== undefined && offsets === undefined))
    return undefined;
  if (!isNumber(width) || !isNumber(blocks) || !isNumber(blockSize)) return undefined;
  const lengths = lengthsOf(call, given, is_seq_lens_cumsum);
  const columns = lengths.map((_, sequence) => {
    const offset = offsets?.[sequence] ?? 0;
    call.check(offset >= 0, () => `seq_offset[${sequence}] must not be negative, got ${offset}`, "invalid-argument");
    return Math.floor(offset / blockSize);
  });
  lengths.forEach((length, sequence) => {
    const end = Math.min(columns[sequence] + Math.ceil(length / blockSize), width);
    for (let column = columns[sequence]; column < end; column++) {
      const block = tables[sequence * width + column];
      call.check(
        block >= 0 && block < blocks,
        () => `block_tables[${sequence},${column}] must lie in [0, ${blocks - 1}], got ${block}`,
        "invalid-argument",
      );
    }
  });
  return { tokens: lengths.reduce((sum, length) => sum + length, 0), lengths, columns, tables, width };
}

const isNumber = (dim: Dim | undefined): dim is number => typeof dim === "number";

function lengthsOf(call: CallContext, given: ArrayLike<number>, cumulative: boolean): number[] {
  const lengths: number[] = [];
  if (cumulative)
    call.check(
      given[0] === 0,
      () => `seq_lens with is_seq_lens_cumsum must start with 0, got ${given[0]}`,
      "invalid-argument",
    );
  for (let at = cumulative ? 1 : 0; at < given.length; at++) {
    const length = cumulative ? given[at] - given[at - 1] : given[at];
    call.check(
      length >= 0,
      () =>
        cumulative
          ? `seq_lens with is_seq_lens_cumsum must not fall, got ${given[at - 1]} and then ${given[at]}`
          : `seq_lens[${at}] must not be negative, got ${length}`,
      "invalid-argument",
    );
    lengths.push(length);
  }
  return lengths;
}
