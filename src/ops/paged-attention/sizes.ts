/** The rules of PagedAttention on types, ranks and dimensions, and the sizes that follow from them. Symbols welcome. */
import {
  addDims,
  type Dim,
  divideExactly,
  isKnown,
  multiplyDims,
  productOf,
  type Shape,
  unknownDim,
} from "../../graph/dim.js";
import { type Fact, factText } from "../../graph/fact.js";
import { flag, float, int } from "../../graph/attribute.js";
import { type AttributeResults, type CallContext, optional, type PerParameter, tensor } from "../../graph/op.js";
import { headsOf } from "../attention/heads.js";
import { checkSinks } from "../attention/infer.js";
import { fragmentLength, modeOf, quantizedTypes } from "../shared/paged/layouts.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";

/** The operands, in order. */
export const inputs = {
  query: tensor("T"),
  key_cache: tensor("C"),
  value_cache: tensor("C"),
  block_tables: tensor("B"),
  seq_lens: tensor("L"),
  key_scale: optional(tensor("float32")),
  value_scale: optional(tensor("float32")),
  query_starts: optional(tensor("S")),
  head_sink: optional(tensor("T")),
};

/** The attributes. */
export const attrs = {
  cache_mode: modeOf(["Norm", "PA_NZ", "NHSD"], "Norm"),
  is_causal: flag(false),
  kv_num_heads: int(),
  q_num_heads: int(),
  scale: float(),
  softcap: float(0),
  left_window_size: int(-1),
  right_window_size: int(-1),
};

/** Operands by name, as facts or as views. */
export type PagedOperands<V> = PerParameter<typeof inputs, V>;

/** Attributes by name. */
export type PagedAttributes = AttributeResults<typeof attrs>;

/** What the rules look at. */
export type PagedCall = CallContext & { readonly inputs: PagedOperands<Fact>; readonly attrs: PagedAttributes };

/** The dimensions of a call by meaning. */
export interface PagedSizes {
  /** Samples: those that have tables. */
  readonly batch: Dim;
  readonly heads: Dim;
  /** The batch and the rows of `query`. With query_starts they hold the tokens of all samples, one sample behind the other. */
  readonly queryBatch: Dim;
  readonly queries: Dim;
  readonly size: Dim;
  readonly valueSize: Dim;
  readonly kvHeads: Dim;
  /** Heads in a page: kvHeads, or 1 where every head has a table of its own. */
  readonly pageHeads: Dim;
  readonly blocks: Dim;
  readonly blockSize: Dim;
  /** Entries of a table. */
  readonly columns: Dim;
}

const dimsOf = (fact: Fact, rank: number): Shape => fact.shape ?? Array.from({ length: rank }, unknownDim);

/** The sizes of a call. Fails where operands and attributes do not go together. */
export function sizesOf(call: PagedCall): PagedSizes {
  const { inputs, attrs } = call;
  checkAttributes(call);
  checkTypes(call);
  checkRank(call, "query", inputs.query, 3, 4);
  const query = headsOf(call, "query", inputs.query, { attribute: "q_num_heads", count: attrs.q_num_heads });
  if (attrs.q_num_heads !== undefined)
    unifyDims(call, query.heads, attrs.q_num_heads, "q_num_heads must be the number of heads of query");
  checkRank(call, "block_tables", inputs.block_tables, 2, 3);
  const tables = dimsOf(inputs.block_tables, 2);
  const perHead = tables.length === 3;
  const [keys, values] = [pagesOf(call, "key_cache", query.size), pagesOf(call, "value_cache", undefined)];
  const pageHeads = unifyDims(
    call,
    keys.heads,
    values.heads ?? keys.heads,
    "key_cache and value_cache must have the same number of heads",
  );
  if (perHead)
    unifyDims(call, pageHeads, 1, "with a table for each head, [batch, kv_heads, columns], a page must hold one head");
  let kvHeads = perHead ? tables[1] : pageHeads;
  if (attrs.kv_num_heads !== undefined)
    kvHeads = unifyDims(call, kvHeads, attrs.kv_num_heads, "kv_num_heads must be the number of heads of the caches");
  if (isKnown(query.heads) && isKnown(kvHeads)) {
    const [all, shared] = [query.heads, kvHeads];
    call.check(
      shared > 0 && all % shared === 0,
      () => `the number of heads of query must be a multiple of that of the caches, got ${all} and ${shared}`,
    );
  }
  unifyDims(call, query.size, keys.size(pageHeads), "query and key_cache must have the same head size");
  const blocks = unifyDims(call, keys.blocks, values.blocks, "key_cache and value_cache must have the same num_blocks");
  const blockSize = unifyDims(
    call,
    keys.blockSize,
    values.blockSize,
    "key_cache and value_cache must have the same block_size",
  );
  const batch =
    inputs.query_starts === undefined
      ? unifyDims(call, query.batch, tables[0], "query and block_tables must agree in the batch")
      : tables[0];
  if (inputs.query_starts !== undefined) checkStarts(call, inputs.query_starts, batch, [query.batch, query.length]);
  checkLengths(call, batch, kvHeads);
  checkScales(call, [blocks, blockSize, pageHeads]);
  if (inputs.head_sink !== undefined) checkSinks(call, inputs.head_sink, query.heads);
  return {
    batch,
    heads: query.heads,
    queryBatch: query.batch,
    queries: query.length,
    size: query.size,
    valueSize: values.size(pageHeads),
    kvHeads,
    pageHeads,
    blocks,
    blockSize,
    columns: tables[tables.length - 1],
  };
}

function checkAttributes({ attrs, check }: PagedCall): void {
  const { softcap } = attrs;
  check(softcap >= 0, () => `softcap must not be negative, got ${softcap}`, "invalid-argument");
  for (const side of ["left_window_size", "right_window_size"] as const)
    check(attrs[side] >= -1, () => `${side} must be -1 or not negative, got ${attrs[side]}`, "invalid-argument");
  for (const count of ["q_num_heads", "kv_num_heads"] as const)
    check((attrs[count] ?? 1) > 0, () => `${count} must be positive, got ${attrs[count]}`, "invalid-argument");
}

/** Pages hold what queries are made of, or bytes with a scale for each token and head. */
function checkTypes(call: PagedCall): void {
  const { query, key_cache, key_scale, value_scale } = call.inputs;
  const quantized = quantizedTypes.includes(key_cache.type);
  call.check(
    quantized || key_cache.type === query.type,
    () =>
      `key_cache and value_cache must have the type of query, ${query.type}, or be ${quantizedTypes.join(", ")} with scales; got ${key_cache.type}`,
    "type-mismatch",
  );
  for (const [name, scale] of Object.entries({ key_scale, value_scale }))
    call.check(
      (scale !== undefined) === quantized,
      () =>
        quantized
          ? `caches of ${key_cache.type} need ${name}, float32 [num_blocks, block_size, heads]`
          : `${name} goes with caches of ${quantizedTypes.join(", ")}; these are ${key_cache.type}`,
      "invalid-argument",
    );
}

interface Pages {
  readonly blocks: Dim;
  readonly blockSize: Dim;
  /** Undefined where only the other cache tells. */
  readonly heads: Dim | undefined;
  size(heads: Dim): Dim;
}

/** The dimensions of one cache. PA_NZ tells its heads only where the head size is known. */
function pagesOf(call: PagedCall, name: "key_cache" | "value_cache", size: Dim): Pages & { readonly heads: Dim };
function pagesOf(call: PagedCall, name: "key_cache" | "value_cache", size: undefined): Pages;
function pagesOf(call: PagedCall, name: "key_cache" | "value_cache", size: Dim | undefined): Pages {
  const cache = call.inputs[name];
  const mode = call.attrs.cache_mode;
  checkRank(call, name, cache, ...(mode === "PA_NZ" ? [4, 5] : [4]));
  const shape = dimsOf(cache, 4);
  for (const dim of shape)
    if (isKnown(dim)) call.check(dim >= 1, () => `each dimension of ${name} ${factText(cache)} must be at least 1`);
  if (mode === "Norm") return { blocks: shape[0], blockSize: shape[1], heads: shape[2], size: () => shape[3] };
  if (mode === "NHSD") return { blocks: shape[0], blockSize: shape[2], heads: shape[1], size: () => shape[3] };
  unifyDims(
    call,
    shape.at(-1)!,
    fragmentLength(cache.type),
    `${name} ${factText(cache)} must have 32 bytes of ${cache.type} as its last dimension`,
  );
  const vector = multiplyDims(productOf(shape.slice(1, -2)), fragmentLength(cache.type));
  const divided = (by: Dim, what: string): Dim => {
    if (isKnown(vector) && isKnown(by))
      call.check(
        by > 0 && vector % by === 0 && (vector / by) % 1 === 0,
        () =>
          `${name} ${factText(cache)} holds ${vector} elements a slot, which must be a multiple of the ${what}, got ${by}`,
      );
    return divideExactly(vector, by) ?? unknownDim();
  };
  const heads = shape.length === 5 ? shape[1] : size === undefined ? undefined : divided(size, "head size");
  return { blocks: shape[0], blockSize: shape.at(-2)!, heads, size: (count) => divided(count, "number of heads") };
}

function checkLengths(call: PagedCall, batch: Dim, kvHeads: Dim): void {
  const { seq_lens } = call.inputs;
  checkRank(call, "seq_lens", seq_lens, 1, 2);
  const [samples, heads] = dimsOf(seq_lens, 1);
  unifyDims(call, samples, batch, "seq_lens needs one entry a sample of the batch");
  if (heads !== undefined)
    unifyDims(call, heads, kvHeads, "seq_lens [batch, kv_heads] needs one column a head of the caches");
}

/** Tokens stand in one row, so that they are counted along it. */
function checkStarts(call: PagedCall, starts: Fact, batch: Dim, [rows, tokens]: readonly [Dim, Dim]): void {
  if (isKnown(rows) && isKnown(tokens))
    call.check(
      rows === 1 || tokens === 1,
      () => `with query_starts, the batch of query or its length must be 1, got ${rows} and ${tokens}`,
    );
  checkRank(call, "query_starts", starts, 1);
  unifyDims(
    call,
    dimsOf(starts, 1)[0],
    addDims(batch, 1),
    "query_starts needs an entry a sample of block_tables and one for the end",
  );
}

function checkScales(call: PagedCall, dims: readonly Dim[]): void {
  for (const name of ["key_scale", "value_scale"] as const) {
    const scale = call.inputs[name];
    if (scale === undefined) continue;
    checkRank(call, name, scale, 3);
    dimsOf(scale, 3).forEach((dim, axis) =>
      unifyDims(
        call,
        dim,
        dims[axis],
        `${name} must be [num_blocks, block_size, heads]: dimension ${axis} must be the cache's`,
      ),
    );
  }
}
