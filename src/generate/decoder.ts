/** What generating asks of a decoder and of what it has read, whatever the caches are. */
import type { DecoderStep } from "../cache/decoder.js";
import type { Logits } from "../cache/logits.js";
import type { BegunRun, BegunSeries, Drawing } from "../cache/token-drawer.js";

/** What a decoder has read, of one text or several: a session's state, or sequences on pages. */
export interface DecoderState {
  /** Rows of each sample. */
  readonly lengths: readonly number[];
  /** True if there is a row for each token that was read; states without rows do not count. */
  readonly countsRows: boolean;
  /** False if a part of it has no rows to go back to; true where left out. */
  readonly goesBack?: boolean;
  /** Bytes of the caches in their full capacity. */
  readonly byteLength: number;
  /** Bytes in use, where that is less. */
  readonly heldBytes?: number;
  readonly statistics: { readonly movedBytes: number };
  rewind(length: number | readonly number[]): void;
  fork(): DecoderState;
  save(): Promise<Uint8Array>;
  restore(bytes: Uint8Array): Promise<void>;
  /** Takes over what others have read of a text that goes on from a sample's, the first where left out; how many rows it has then. */
  share?(tokens: readonly number[], sample?: number): number;
  /** Tells samples the tokens of the first rows that were read before the host knew them; undefined for those that have none. */
  learn?(tokens: readonly (number | undefined)[]): void;
  /** Rows are shared in multiples of this. */
  readonly sharedRows?: number;
  release(): void;
}

/** Draws the tokens of texts where the model runs, and begins runs before the tokens that they read are known to the host. */
export interface StatefulDrawer {
  read(
    state: DecoderState,
    tokens: readonly (readonly number[])[],
    positions: readonly number[],
  ): Promise<{ readonly over: Promise<void> }>;
  draw(
    state: DecoderState,
    tokens: readonly (readonly number[])[] | undefined,
    positions: readonly number[],
    counter: number,
    /** Texts whose tokens nobody reads any more: where caches allow it, they take no row. */
    finished?: readonly boolean[],
  ): Promise<BegunRun>;
  /** Begins `count` runs at once, the first of which reads the tokens that were drawn last; left out where each is begun by itself. */
  drawSeries?(state: DecoderState, positions: readonly number[], counter: number, count: number): Promise<BegunSeries>;
}

/** A model that predicts the next token, on states of its own kind. */
export interface StatefulDecoder {
  /** True if each sample's rows have their own length and are written where the host says: samples may be rewound one by one. */
  readonly ragged: boolean;
  /** True if new rows may be written over old ones. */
  readonly overwrites: boolean;
  /** False if a sample's rows may have no padding in front of them; true where left out. */
  readonly padsFront?: boolean;
  /** True if one run may read more tokens of one sample than of another. */
  readonly uneven: boolean;
  /** Caches for `batch` samples of at most `capacity` tokens. */
  createState(batch: number, capacity: number): DecoderState;
  /** Runs tokens on a state; those of a decoder that reads unevenly may be any number for each sample, none included. */
  run(state: DecoderState, step: DecoderStep): Promise<Logits>;
  /** What draws the tokens of texts, where the model can: to be given back. */
  drawer?(drawing: Drawing): StatefulDrawer | undefined;
  giveBack?(drawer: StatefulDrawer): void;
  /** Lets go of all states that there are. */
  release?(): void;
}
