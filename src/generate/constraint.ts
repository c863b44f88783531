/** Texts that must obey a grammar: what tells which token may come next. Knows no grammar and no model. */

/** Which tokens may come next, for a text that must obey a grammar. One for each text. */
export interface TokenConstraint {
  /** Sets the bit of every token that may come next, and says whether any token is ruled out at all. */
  fillMask(mask: Uint32Array): boolean;
  /** The text goes on with this token; false where the grammar does not have it. */
  accept(token: number): boolean;
  /** Takes back the last tokens. */
  rollback(count: number): void;
  /** True once nothing but an end token may come. */
  readonly terminated: boolean;
}
