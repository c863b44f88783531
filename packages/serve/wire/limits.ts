/** How much one request may ask for. */

/** Bounds that an operator may set on what one request asks for. */
export interface RequestLimits {
  /**
   * The most messages, or items of an input.
   * @default 2048
   */
  readonly messages: number;
  /**
   * The most completions for one request: `n` times the prompts.
   * @default 16
   */
  readonly choices: number;
  /**
   * The most new tokens of one completion.
   * @default no limit
   */
  readonly newTokens: number;
  /**
   * How far from 0 the priority of a request may be; 0 allows no priorities.
   * @default 0
   */
  readonly priority: number;
}
