/**
 * What a model on pages is made like and what its inputs and outputs are called. Imports nothing: who runs such a model needs these words
 * and not the rewriter.
 */

/** What the pages hold: the model's own type, or bytes with a scale for each token and head. */
export type CacheType = "same" | "int8" | "float8e4m3fn" | "float8e5m2";

/** How pages are laid out: rows of all heads together, or the rows of each head. */
export type PageLayout = "Norm" | "NHSD";

/** How a model is turned to pages. */
export interface PagesOptions {
  /** "same" by default. */
  readonly cacheType?: CacheType;
  /** "NHSD" by default. */
  readonly layout?: PageLayout;
  /** Pages of one head each, with a block table and a length for every key/value head: heads may keep different rows. */
  readonly perHead?: boolean;
  /** Adds an input `logit_rows`, which says of which tokens logits are computed, where the model's last product can be told. */
  readonly logitRows?: boolean;
  /**
   * Adds an input `query_starts`: batches are packed, sequences of any number of tokens one behind the other, as many samples of one token each. One table
   * and one length a sequence. With `logitRows`, only where that can be had.
   */
  readonly packed?: boolean;
  /** Adds outputs `attention_sums.L`: how much attention each row got in a run. */
  readonly scores?: boolean;
}

/** The inputs that say where rows are written and read. */
export const pageInputs = { slots: "slot_mapping", tables: "block_tables", lengths: "seq_lens" } as const;

/** The input that says where each sequence's tokens begin in a packed batch, and where the last one's end. */
export const packedInput = "query_starts";

/** The input that says where each sequence's states without rows lie, one for each sample. */
export const stateInput = "state_slots";

/** The input that says of which tokens logits are computed: their numbers among all tokens of a run. */
export const logitRows = "logit_rows";

/** The name of the output with a layer's attention. */
export const sumsName = (layer: number | ""): string => `attention_sums.${layer}`;

/** How the outputs with a layer's probabilities begin; the layer's number follows. */
export const attentionScores = "attention_scores.";
