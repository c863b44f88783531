/** What an operator does to a buffer: three words, and no fourth. The planner acts on these and on nothing else. */

/** `view`: the same bytes. `reuse`: may take over an operand's buffer. `update`: the operand's buffer, partly written. */
export type Effect =
  | { readonly kind: "view"; readonly of: string }
  | { readonly kind: "reuse"; readonly of: readonly string[] }
  | ({ readonly kind: "update"; readonly of: string } & UpdateOptions);

/** The output is the input's bytes, unchanged. */
export const view = (of: string): Effect => ({ kind: "view", of });

/** The output may take the buffer of the first of these inputs that is free and fits. */
export const reuse = (...of: string[]): Effect => ({ kind: "reuse", of });

/** What more an operator can say about an update. */
interface UpdateOptions {
  /** The output is longer than the operand along this axis: a longer view of the same reserved buffer. */
  readonly grows?: number;
  /**
   * Where the attribute `where` is set, the output does not grow: it has the operand's shape, and of what was written the last rows at least, as
   * many as the attribute `rows` says.
   */
  readonly keeps?: { readonly where: string; readonly rows: string };
  /** The attribute that names the axis of the sequence, along which rows are written: none where it is left out. */
  readonly along?: string;
  /**
   * The input that brings the rows, and which of its axes counts them: the cache's own where that is left out. Without it, the first that is
   * shaped like the cache.
   */
  readonly brings?: { readonly input: string; readonly axis?: number };
  /** The operator writes many things beside caches: reported as a cache's update only where it writes a graph input. */
  readonly general?: boolean;
}

/** The output is the input's buffer, partly written. */
export const update = (of: string, options: UpdateOptions = {}): Effect => ({ kind: "update", of, ...options });
