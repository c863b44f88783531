/** How much one request may ask for. */

/** Bounds that an operator may set on what one request asks for. */
export interface RequestLimits {
  /** Messages, or items of an input. */
  readonly messages: number;
  /** Texts for one request: `n` times the prompts. */
  readonly choices: number;
  /** New tokens of one text. */
  readonly newTokens: number;
  /** How far from 0 a request may say that its texts come before those of others, or after: 0 lets none. */
  readonly priority: number;
}
