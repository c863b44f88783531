/** What the scheduler asks of the blocks that texts lie in: a pool of pages, or a test's own account of them. Blocks are named by nobody. */

/** The blocks of all texts. Rows are tokens that were read; a text of n rows holds ⌈n / block size⌉ blocks, shared ones included. */
export interface TextBlocks {
  /** Blocks that can be taken right now. */
  readonly available: number;
  /**
   * Takes over blocks that others have written with the beginning of a text, all but its last token, where they hold more of it than the
   * text has; how many of its tokens are read then.
   */
  share(text: string): number;
  /** A number for each full block of a text among these rows; blocks that will hold the same beginning have the same number. */
  names(text: string, from: number, to: number): readonly number[];
  /** Gives everything back that a text has. */
  release(text: string): void;
}
