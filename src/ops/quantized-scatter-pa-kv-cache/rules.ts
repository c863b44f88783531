/** The rules of QuantizedScatterPaKvCache: on shapes, and on the slots. Nothing is written before all of them were asked. */
import { type Dim, divideExactly, isKnown, multiplyDims, productOf, type Shape, unknownDim } from "../../graph/dim.js";
import { type Fact, factText } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import { fragmentLength, type PagedLayout } from "../shared/paged/layouts.js";
import { numbersOf } from "../shared/paged/tables.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";

/** What the rules look at. */
type QuantizedScatterCall = CallContext & {
  readonly attrs: { readonly cache_mode: PagedLayout };
  readonly inputs: {
    readonly key: Fact;
    readonly key_cache: Fact;
    readonly key_scale: Fact;
    readonly slot_mapping: Fact;
    readonly value: Fact;
    readonly value_cache: Fact;
    readonly value_scale: Fact;
  };
};

/** What both sides have in common. */
interface Common {
  readonly tokens: Dim;
  readonly heads: Dim;
  readonly blocks: Dim;
  readonly blockSize: Dim;
}

const dimsOf = (fact: Fact, rank: number): Shape => fact.shape ?? Array.from({ length: rank }, unknownDim);

/** Fails where shapes break a rule. Returns the number of slots. */
export function checkShapes(call: QuantizedScatterCall): Dim {
  const { slot_mapping } = call.inputs;
  const [keys, values] = [sideOf(call, "key"), sideOf(call, "value")];
  const tokens = unifyDims(call, keys.tokens, values.tokens, "key and value must have the same number of tokens");
  unifyDims(call, keys.heads, values.heads, "key and value must have the same num_head");
  const blocks = unifyDims(call, keys.blocks, values.blocks, "key_cache and value_cache must have the same num_blocks");
  const blockSize = unifyDims(
    call,
    keys.blockSize,
    values.blockSize,
    "key_cache and value_cache must have the same block_size",
  );
  checkRank(call, "slot_mapping", slot_mapping, 1);
  unifyDims(call, dimsOf(slot_mapping, 1)[0], tokens, "slot_mapping needs one entry a token");
  return multiplyDims(blocks, blockSize);
}

/** The dimensions of one source of vectors and its cache, which must fit each other. */
function sideOf(call: QuantizedScatterCall, name: "key" | "value"): Common {
  const { [name]: rows, [`${name}_cache` as const]: cache, [`${name}_scale` as const]: scale } = call.inputs;
  const mode = call.attrs.cache_mode;
  checkRank(call, name, rows, 3);
  checkRank(call, `${name}_cache`, cache, ...(mode === "PA_NZ" ? [4, 5] : [4]));
  checkRank(call, `${name}_scale`, scale, 3);
  const [tokens, heads, size] = dimsOf(rows, 3);
  const shape = dimsOf(cache, 4);
  for (const dim of shape)
    if (isKnown(dim))
      call.check(dim >= 1, () => `each dimension of ${name}_cache ${factText(cache)} must be at least 1`);
  const must = (what: string): string => `${name}_cache ${factText(cache)} must have ${what}`;
  const blockSize = shape[mode === "Norm" ? 1 : shape.length - 2];
  if (mode === "PA_NZ") {
    const piece = fragmentLength(cache.type);
    unifyDims(call, shape.at(-1)!, piece, must(`32 bytes of ${cache.type} as its last dimension`));
    if (isKnown(size))
      call.check(
        size % piece === 0,
        () =>
          `cache_mode "PA_NZ" needs heads of a multiple of ${piece} elements of ${cache.type}, got ${name} with ${size}`,
      );
    const pieces = divideExactly(multiplyDims(heads, size), piece) ?? unknownDim();
    unifyDims(call, productOf(shape.slice(1, -2)), pieces, must(`the pieces of ${name} between blocks and block_size`));
  } else {
    const headAxis = mode === "Norm" ? 2 : 1;
    unifyDims(call, shape[headAxis], heads, must(`the num_head of ${name} as dimension ${headAxis}`));
    unifyDims(call, shape[3], size, must(`the head size of ${name} as dimension 3`));
  }
  [shape[0], blockSize, heads].forEach((dim, axis) =>
    unifyDims(
      call,
      dimsOf(scale, 3)[axis],
      dim,
      `${name}_scale ${factText(scale)} must be [num_blocks, block_size, num_head] in dimension ${axis}`,
    ),
  );
  return { tokens, heads, blocks: shape[0], blockSize };
}

/** The slots, all of them inside the pool or negative; undefined where they are not known yet. */
export function readSlots(call: QuantizedScatterCall, count: Dim): ArrayLike<number> | undefined {
  const slots = numbersOf(call.inputs.slot_mapping);
  if (slots === undefined || !isKnown(count)) return undefined;
  for (let token = 0; token < slots.length; token++)
    if (slots[token] >= count)
      call.fail(
        `slot_mapping[${token}] must be below num_blocks * block_size = ${count}, got ${slots[token]}`,
        "invalid-argument",
      );
  return slots;
}
