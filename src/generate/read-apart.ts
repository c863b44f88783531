/**
 * The prompts of several texts, each read from where it differs from what has been read before: what prompts have in common is read once. For
 * decoders that read unevenly, and states whose samples take over what others have read.
 */
import type { DecoderState } from "./decoder.js";

/** How prompts are read. */
interface ReadingApart {
  readonly state: DecoderState;
  readonly prompts: readonly (readonly number[])[];
  /** How far each is read, of its tokens. */
  readonly ends: readonly number[];
  /** Tokens of a text that one run reads. */
  readonly chunk: number;
  /** Reads the tokens of each text that come next: none of those that take no part. */
  readonly read: (tokens: readonly (readonly number[])[], starts: readonly number[]) => Promise<void>;
}

/** Reads them. */
export async function readApart({ state, prompts, ends, chunk, read }: ReadingApart): Promise<void> {
  const readTo = async (wanted: readonly number[]): Promise<boolean> => {
    const starts = state.lengths;
    const tokens = prompts.map((prompt, sample) =>
      prompt.slice(starts[sample], Math.min(starts[sample] + chunk, wanted[sample])),
    );
    if (tokens.every(({ length }) => length === 0)) return false;
    await read(tokens, starts);
    return true;
  };
  for (const [sample, prompt] of prompts.entries()) {
    // The last token must be read: its logits are wanted.
    state.share?.(prompt.slice(0, -1), sample);
    const common = Math.max(0, ...prompts.slice(sample + 1).map((later) => commonLength(prompt, later)));
    const wanted = state.sharedRows === undefined ? 0 : common - (common % state.sharedRows);
    const end = Math.min(wanted, ends[sample]);
    while (await readTo(prompts.map((_, other) => (other === sample ? end : 0))));
  }
  while (await readTo(ends));
}

/** How many tokens two prompts begin with alike. */
function commonLength(a: readonly number[], b: readonly number[]): number {
  const differs = a.findIndex((token, at) => token !== b[at]);
  return differs < 0 ? a.length : differs;
}
