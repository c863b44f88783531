/** The rules of ScatterPaKvCache on types, ranks and dimensions: all that can be said without data. Symbols welcome. */
import { type Dim, isKnown, multiplyDims, productOf, type Shape, shapeText } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { fragmentLength, type PagedLayout } from "../shared/paged/layouts.js";
import { checkRank } from "../shared/rules/shapes.js";
import { isLeftOut, type Scenario, type ScatterAttributes, type ScatterOperands } from "./scenario.js";

/** What the rules on shapes look at. */
type ScatterShapes = CallContext & {
  readonly attrs: ScatterAttributes;
  readonly inputs: ScatterOperands<Fact>;
};

/** A dimension, or undefined where nothing is known of it. */
type Known = Dim | undefined;

/** A source of vectors and the cache they go to. */
interface Side {
  readonly name: "key" | "value";
  readonly rows: Fact;
  readonly cache: Fact;
}

/** The sizes that key and value have in common. */
interface Common {
  readonly batch: Known;
  /** Tokens, or the padded length of sequences. */
  readonly rows: Known;
  readonly heads: Known;
  readonly blocks: Known;
  readonly blockSize: Known;
}

const nothing: Shape = [];

/** Fails where types or shapes break a rule of the scenario. */
export function checkShapes(call: ScatterShapes, scenario: Scenario): void {
  const { key, key_cache, value, value_cache } = call.inputs;
  const check = scenario.kind === "runs" ? runSizes : scenario.strided ? bufferSizes : tokenSizes;
  const sizes = check(call, { name: "key", rows: key, cache: key_cache }, scenario);
  if (!isLeftOut(value)) {
    call.check(
      key.type === value!.type || call.attrs.cache_mode === "PA_NZ",
      () =>
        `key and value may differ in type with cache_mode "PA_NZ" only, got ${key.type} and ${value!.type}: give both one type`,
      "type-mismatch",
    );
    const others = check(call, { name: "value", rows: value!, cache: value_cache! }, scenario);
    agree(call, sizes.batch, others.batch, () => "key and value must have the same batch");
    agree(call, sizes.rows, others.rows, () => "key and value must have the same number of tokens");
    agree(call, sizes.heads, others.heads, () => "key and value must have the same num_head");
    agree(call, sizes.blocks, others.blocks, () => "key_cache and value_cache must have the same num_blocks");
    agree(call, sizes.blockSize, others.blockSize, () => "key_cache and value_cache must have the same block_size");
  }
  if (scenario.kind === "runs") checkPerHead(call, sizes, scenario.padded);
  else checkPerToken(call, sizes);
}

/** Fails where two dimensions are known to differ. */
function agree(call: CallContext, a: Known, b: Known, rule: () => string): void {
  if (typeof a === "number" && typeof b === "number" && a !== b) call.fail(`${rule()}, got ${a} and ${b}`);
}

function positive(call: CallContext, dim: Known, what: () => string): void {
  if (dim !== undefined && isKnown(dim) && dim < 1) call.fail(`${what()} must be at least 1, got ${dim}`);
}

const times = (a: Known, b: Known): Known => (a === undefined || b === undefined ? undefined : multiplyDims(a, b));

/** The dimensions of a cache, which must be positive. */
function placesOf(call: ScatterShapes, { name, cache }: Side, layout: PagedLayout): Shape {
  checkHifloat8(call, name, cache);
  if (layout === "PA_NZ") checkRank(call, `${name}_cache`, cache, 4, 5);
  else checkRank(call, `${name}_cache`, cache, 4);
  const places = cache.shape ?? nothing;
  for (const dim of places) positive(call, dim, () => `each dimension of ${name}_cache ${shapeText(places)}`);
  return places;
}

function checkHifloat8(call: ScatterShapes, name: string, { type }: Fact): void {
  call.check(
    !call.attrs.hifloat8 || type === "uint8",
    () => `hifloat8 says that the bytes are HiFloat8, which travels as uint8; ${name} is ${type}`,
    "type-mismatch",
  );
}

/** The dimensions of rows [(batch,) tokens, heads, size]; all but the number of tokens must be positive. */
function rowsOf(call: ScatterShapes, { name, rows }: Side, rank: 3 | 4): { count: Known; heads: Known; size: Known } {
  checkRank(call, name, rows, rank);
  const [count, heads, size] = rank === 3 ? (rows.shape ?? nothing) : (rows.shape ?? nothing).slice(1);
  positive(call, heads, () => `num_head of ${name}`);
  positive(call, size, () => `the head size of ${name}`);
  return { count, heads, size };
}

/** One slot a token: rows [tokens, heads, size]. */
function tokenSizes(call: ScatterShapes, side: Side, scenario: Scenario): Common {
  const { layout } = scenario as Scenario & { readonly kind: "tokens" };
  const places = placesOf(call, side, layout);
  const { count, heads, size } = rowsOf(call, side, 3);
  checkVectors(call, side, places, layout, heads, size);
  const blockSize = layout === "Norm" ? places[1] : places.at(-2);
  return { batch: undefined, rows: count, heads, blocks: places[0], blockSize };
}

/** Fails unless a cache's remaining dimensions hold vectors of heads * size in its layout. */
function checkVectors(
  call: CallContext,
  { name, rows, cache }: Side,
  places: Shape,
  layout: PagedLayout,
  heads: Known,
  size: Known,
): void {
  const must = (what: string) => (): string => `${name}_cache ${cache.type}${shapeText(cache.shape)} must have ${what}`;
  switch (layout) {
    case "Norm":
      agree(call, places[2], heads, must(`the num_head of ${name} as dimension 2`));
      agree(call, places[3], size, must(`the head size of ${name} as dimension 3`));
      return;
    case "NHSD":
      agree(call, places[1], heads, must(`the num_head of ${name} as dimension 1`));
      agree(call, places[3], size, must(`the head size of ${name} as dimension 3`));
      return;
    case "PA_NZ": {
      const piece = fragmentLength(rows.type);
      agree(call, places.at(-1), piece, must(`32 bytes of ${rows.type} as its last dimension`));
      if (size === undefined || !isKnown(size)) return;
      call.check(
        byteLengthOf(rows.type, size) % 32 === 0,
        () => `cache_mode "PA_NZ" needs heads of a multiple of 32 bytes, got ${name} with ${size} of ${rows.type}`,
      );
      if (places.length === 5) {
        agree(call, places[1], heads, must(`the num_head of ${name} as dimension 1`));
        agree(call, places[2], size / piece, must(`the pieces of a head of ${name} as dimension 2`));
      } else agree(call, places[1], times(heads, size / piece), must(`the pieces of ${name} as dimension 1`));
      return;
    }
    default:
      layout satisfies never;
  }
}

/** One slot a token, rows inside a buffer of any shape: strides and offsets must leave every vector inside it. */
function bufferSizes(call: ScatterShapes, side: Side): Common {
  const { name, rows } = side;
  const places = placesOf(call, side, "Norm");
  const { strides, offsets } = call.attrs;
  const least = isLeftOut(call.inputs.value) ? 1 : 2;
  for (const [what, list, smallest] of [
    ["strides", strides, 1],
    ["offsets", offsets, 0],
  ] as const) {
    call.check(
      list.length >= least && list.length <= 2,
      () => `${what} needs 2 entries, for key and for value, got [${list.join(",")}]`,
      "invalid-argument",
    );
    call.check(
      list.every((entry) => entry >= smallest),
      () => `${what} must be at least ${smallest}, got [${list.join(",")}]`,
      "invalid-argument",
    );
  }
  const [blocks, blockSize, heads, size] = places;
  const tokens = call.inputs.slot_mapping.shape?.[0];
  const vector = times(heads, size);
  const room = rows.shape && productOf(rows.shape);
  const at = name === "key" ? 0 : 1;
  if (typeof tokens === "number" && typeof vector === "number" && typeof room === "number" && tokens > 0) {
    call.check(
      offsets[at] + (tokens - 1) * strides[at] + vector <= room,
      () =>
        `${name} ${rows.type}${shapeText(rows.shape)} must hold offset + (tokens - 1) * stride + num_head * head size elements, got ${offsets[at]} + ${tokens - 1} * ${strides[at]} + ${vector} > ${room}`,
      "invalid-argument",
    );
  }
  return { batch: undefined, rows: undefined, heads, blocks, blockSize };
}

/** A run of slots for each head of each sequence: caches [blocks, block_size, 1, size]. */
function runSizes(call: ScatterShapes, side: Side, scenario: Scenario): Common {
  const { padded } = scenario as Scenario & { readonly kind: "runs" };
  const { name, cache } = side;
  const places = placesOf(call, side, "Norm");
  const { count, heads, size } = rowsOf(call, side, padded ? 4 : 3);
  const must = (what: string) => (): string => `${name}_cache ${cache.type}${shapeText(cache.shape)} must have ${what}`;
  agree(call, places[2], 1, must("1 as dimension 2, since a slot holds one head"));
  agree(call, places[3], size, must(`the head size of ${name} as dimension 3`));
  const batch = padded ? side.rows.shape?.[0] : undefined;
  return { batch, rows: count, heads, blocks: places[0], blockSize: places[1] };
}

function checkPerToken(call: ScatterShapes, { rows, blocks, blockSize }: Common): void {
  const { slot_mapping } = call.inputs;
  checkRank(call, "slot_mapping", slot_mapping, 1);
  const tokens = slot_mapping.shape?.[0];
  agree(call, tokens, rows, () => "slot_mapping needs one entry a token");
  const room = times(blocks, blockSize);
  if (typeof tokens === "number" && typeof room === "number" && tokens > room)
    call.fail(`${tokens} tokens need as many slots, got num_blocks * block_size = ${room}`);
}

function checkPerHead(call: ScatterShapes, { batch, heads }: Common, padded: boolean): void {
  const { slot_mapping, compress_lens, compress_seq_offset, seq_lens } = call.inputs;
  checkRank(call, "seq_lens", seq_lens, 1);
  checkRank(call, "slot_mapping", slot_mapping, padded ? 2 : 1);
  checkRank(call, "compress_lens", compress_lens, 1, 2);
  checkRank(call, "compress_seq_offset", compress_seq_offset, 1, 2);
  const sequences = seq_lens?.shape?.[0];
  agree(call, sequences, batch, () => "seq_lens needs one entry a sequence of key");
  for (const [name, fact] of Object.entries({ slot_mapping, compress_lens, compress_seq_offset })) {
    const shape = fact?.shape;
    if (shape === undefined) continue;
    if (shape.length === 1) {
      agree(call, shape[0], times(sequences, heads), () => `${name} needs one entry a sequence and head`);
      continue;
    }
    agree(call, shape[0], sequences, () => `${name} ${shapeText(shape)} needs one row a sequence`);
    agree(call, shape[1], heads, () => `${name} ${shapeText(shape)} needs one column a head`);
  }
}
