/**
 * What a model on pages is made like and what its inputs and outputs are called. Imports nothing: who runs such a model needs these words
 * and not the rewriter.
 */

/** What the pages hold: the model's own type, or bytes with a scale for each token and head. */
export type CacheType = "same" | "int8" | "float8e4m3fn" | "float8e5m2";

/** How pages are laid out: rows of all heads together, or the rows of each head. */
export type PageLayout = "Norm" | "NHSD";

/** Options of `pages`. */
export interface PagesOptions {
  /**
   * What the pages hold: the model's own type, or 8 bits with a scale for each token and head.
   * @default "same"
   */
  readonly cacheType?: CacheType | undefined;
  /**
   * How the rows of a block are laid out.
   * @default "NHSD"
   */
  readonly layout?: PageLayout | undefined;
  /**
   * Gives every key/value head a block table and a length of its own, so that heads can keep different rows.
   * @default false
   */
  readonly perHead?: boolean | undefined;
  /**
   * Adds an input `logit_rows`: logits are computed for those tokens only.
   * @default false
   */
  readonly logitRows?: boolean | undefined;
  /**
   * Adds an input `query_starts`: sequences of any length lie one behind the other in a packed batch, with one table and one length for each sequence.
   * With `logitRows`, only where that is possible.
   * @default false
   */
  readonly packed?: boolean | undefined;
  /**
   * Reads long texts too, where the model has other rotary tables for them (LongRoPE): positions are rows of both tables, and those of long texts are fed
   * as many further on as the tables for short texts have. Without it texts must stay short.
   * @default false
   */
  readonly longTexts?: boolean | undefined;
  /**
   * Adds outputs `attention_sums.L`: how much attention each row got in a run.
   * @default false
   */
  readonly scores?: boolean | undefined;
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
