/** A model made ready to be driven: its decoder, the engine over it, and empty contexts of its layout. */
import { Decoder } from "../decoder/decoder.js";
import type { LongTexts } from "../decoder/whole-model.js";
import type { Session } from "../session/session.js";
import { Context, type ContextOptions } from "./context.js";
import { LinearLayout } from "./linear-layout.js";
import { PagedDecoder, type PagedOptions } from "./paged-decoder.js";
import { PagedLayout } from "./paged-layout.js";
import { type EngineWatch, TokenEngine } from "./token-engine.js";
import { budget } from "./tuning.js";

/** How texts are read. */
export interface ReadingOptions {
  /** Tokens that prompt and text may take together. */
  readonly capacity: number;
  /** Prompt tokens of one run at most; by the device where left out. */
  readonly chunk: number | undefined;
  /** Tokens at the beginning that stay when a context slides. */
  readonly sinks: number;
  /** Texts that are read otherwise, from their first token on; left out where there is one kind of text. */
  readonly longTexts?: LongTexts | undefined;
}

/** A model that texts are made with. */
export interface DecoderEngine {
  readonly engine: TokenEngine;
  /** Its pages, where texts lie on such. */
  readonly paged: PagedDecoder | undefined;
  /** An empty context for texts of a salt, whose rows are restored from bytes where some are given. */
  open(salt?: string): Context;
  restore(bytes: Uint8Array, tokens: readonly number[]): Promise<Context>;
  /** Empty contexts for texts that are made together, behind prompts of these lengths, of at most `capacity` tokens each, which may `slide`. */
  readonly openTogether: (prompts: readonly number[], capacity: number, slide: boolean) => readonly Context[];
  /** Lets go of all contexts that there are. */
  release(): void;
}

/** An engine over linear caches. Throws for a model that is no text decoder. */
export function linearEngine(session: Session, { capacity, chunk, sinks, longTexts }: ReadingOptions): DecoderEngine {
  const decoder = new Decoder(session, { overwriteLogits: true });
  const longFrom = longTexts?.from;
  const { isDevice } = session;
  const reading = {
    chunk: chunk ?? session.busyRows?.usual ?? budget.hostChunk,
    longChunk: chunk ?? session.busyRows?.long,
    recurs: isDevice,
  };
  const shape = { sinks, longFrom, overwrites: decoder.overwrites, isWhole: decoder.ragged };
  // Without lengths of their own and without padding in front, texts are read one by one.
  const isApart = decoder.fixesBatch || (!decoder.ragged && !decoder.padsFront);
  const open = (): Context => LinearLayout.open(decoder, { capacity, ...shape })[0];
  return {
    engine: new TokenEngine(new LinearLayout(decoder, reading, isDevice)),
    paged: undefined,
    open,
    restore: (bytes, tokens) => restored(open(), { capacity, ...shape }, bytes, tokens),
    openTogether(prompts, most, slide) {
      const options = { ...shape, capacity: most };
      // Texts in one state are not read anew one by one, nor over old rows.
      return isApart || slide || most > (longFrom ?? Infinity)
        ? prompts.flatMap(() => LinearLayout.open(decoder, options))
        : LinearLayout.open(decoder, options, prompts);
    },
    release: () => {},
  };
}

/** An engine over pages. `apart`: a token comes out alike whatever it is read with. */
export function pagedEngine(
  session: Session,
  paged: PagedOptions,
  { capacity, chunk, sinks, longTexts }: ReadingOptions,
  apart: boolean,
  watch: EngineWatch,
): DecoderEngine {
  const decoder = new PagedDecoder(session, paged, { context: capacity, longTexts, apart });
  const tokenBudget = chunk ?? decoder.usualTokens;
  const promptBudget = chunk ?? decoder.promptTokens;
  const learnsBudget = chunk === undefined && decoder.goesAhead;
  const settings = { tokenBudget, promptBudget, learnsBudget, mostRunning: Infinity, watermark: 0, mostPreemptions: 3 };
  const shape = PagedLayout.shapeOf(decoder, capacity, sinks);
  const open = (salt?: string): Context => PagedLayout.open(decoder, shape, salt);
  return {
    engine: new TokenEngine(new PagedLayout(decoder, settings), watch),
    paged: decoder,
    open,
    restore: (bytes, tokens) => restored(open(), shape, bytes, tokens),
    openTogether: (prompts) => prompts.map(() => open()),
    release: () => decoder.release(),
  };
}

/** An empty context with saved rows of these tokens; the caller looks at how many rows there are. */
async function restored(
  empty: Context,
  options: ContextOptions,
  bytes: Uint8Array,
  tokens: readonly number[],
): Promise<Context> {
  try {
    empty.expect(tokens.length);
    await empty.rows.restore(bytes);
  } catch (error) {
    empty.release();
    throw error;
  }
  return new Context(empty.rows, options, tokens);
}
