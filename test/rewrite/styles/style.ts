// How a decoder may look, and its sizes.
import { seededRandom } from "../../../src/graph/call.js";

export interface Style {
  readonly opset?: number;
  readonly layout?: "BNSH" | "BSNH" | "BSE" | "BNHS";
  /** The cache is joined in another layout than it enters and leaves the graph in. */
  readonly turned?: boolean;
  readonly growth?:
    | "concat"
    | "scatter-rows"
    | "scatter-nd"
    | "scatter-elements"
    | "scatter-slice"
    | "scatter-joined"
    | "stacked"
    | "side-by-side"
    | "attention"
    | "attention-packed"
    | "gqa"
    | "gqa-packed"
    | "mha";
  /** How rows of a static cache are numbered. */
  readonly counter?: "cache_position" | "arange" | "start";
  readonly attend?:
    | "written"
    | "node"
    | "node-packed"
    | "five"
    | "merged"
    | "guarded"
    | "capped"
    | "sinks"
    | "scaled-queries"
    | "div";
  readonly mask?:
    | "causal"
    | "triu"
    | "subtract"
    | "window"
    | "chunk"
    | "alibi"
    | "buckets"
    | "buckets-alike"
    | "input"
    | "none"
    | "cumulative"
    | "padding-only"
    | "where-scores"
    | "joined-triangle"
    | "by-position"
    | "chosen-by-input"
    | "random"
    | "tril-gather";
  readonly repeat?: "expand" | "tile" | "concat" | "gather" | "split" | "none";
  readonly positions?:
    | "input"
    | "flat"
    | "one-row"
    | "list"
    | "row"
    | "cumsum"
    | "none"
    | "cut"
    | "cut-row"
    | "looked-up"
    | "computed";
  readonly tokens?: "sequence" | 1;
  readonly batch?: "batch" | 1;
  readonly window?: number;
  /** The seed of a random mask. */
  readonly maskSeed?: number;
  readonly rotary?: boolean;
  /** Weights of 4 bits, in blocks. */
  readonly quantized?: boolean;
  /** The cache is a buffer of a fixed number of rows from the start. */
  readonly buffer?: boolean;
  /** GroupQueryAttention's lengths come from the mask, inside the graph. */
  readonly lengthsFromMask?: boolean;
  readonly maskType?: "int64" | "int32" | "bool" | "float32";
  readonly positionType?: "int64" | "int32";
  readonly idType?: "int64" | "int32";
  /** MultiHeadAttention gets the mask of padding as it is; GroupQueryAttention gets positions, or the weights of norms, as operands. */
  readonly operands?: "padding" | "positions" | "norms";
  /** Norms written out and one product for queries, keys and values, with operators whose form changed between opsets. */
  readonly block?: boolean;
  /** Attention in float16 over caches that enter and leave as float32. */
  readonly half?: boolean;
  /** Tokens come as embeddings. */
  readonly embeds?: boolean;
  /** Logits of the last token alone. */
  readonly last?: boolean;
  /** Nodes have no names. */
  readonly unnamed?: boolean;
  /** Keys and values of an encoder go in, and out again as they are. */
  readonly cross?: boolean;
  /** The last layer reads the caches of the one before it. */
  readonly shared?: boolean;
  /** How dimensions are declared: without names, as a sum, or not at all for outputs; `weights` are inputs as well. */
  readonly declared?: "anonymous" | "sum" | "no outputs" | "weights";
  /** Two graphs, with a past and without one, of which an input chooses. */
  readonly merged?: boolean;
  /** Sizes that are not left to chance. */
  readonly sizes?: Partial<StyleSizes>;
}

/** Sizes of a decoder. */
export interface StyleSizes {
  readonly vocabulary: number;
  readonly embedding: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly head: number;
  /** Values have heads of their own size. */
  readonly valueHead: number;
  readonly positions: number;
  readonly layers: number;
  readonly static: number;
}

const plainSizes: StyleSizes = {
  vocabulary: 24,
  embedding: 16,
  heads: 4,
  kvHeads: 2,
  head: 4,
  valueHead: 4,
  positions: 40,
  layers: 2,
  static: 32,
};

/** Sizes for a seed; 0 stands for the plain ones. What a style cannot do without is kept. */
export function sizesOf(style: Style, seed: number): StyleSizes {
  const given = { ...plainSizes, ...(style.block === true ? { kvHeads: plainSizes.heads } : {}), ...style.sizes };
  if (seed === 0) return given;
  const random = seededRandom(seed);
  const pick = (...list: readonly number[]): number => list[Math.floor(random() * list.length)];
  const kvHeads = pick(1, 2, 3);
  const head = 2 * pick(1, 2, 3, 5);
  return {
    vocabulary: pick(17, 24, 31),
    embedding: 16 * pick(1, 2),
    kvHeads,
    heads: kvHeads * (style.block === true ? 1 : style.attend === "node-packed" ? 2 : pick(1, 2, 3)),
    head: style.quantized === true ? 16 : head,
    valueHead: style.quantized === true ? 16 : head,
    positions: pick(40, 57),
    layers: pick(1, 2, 3),
    static: pick(32, 40),
    ...style.sizes,
  };
}
