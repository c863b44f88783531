/** What an operator does to a buffer: three words, and no fourth. The planner acts on these and on nothing else. */

/** `view`: the same bytes. `reuse`: may take over an operand's buffer. `update`: the operand's buffer, partly written. */
export type Effect =
  | { readonly kind: "view"; readonly of: string }
  | { readonly kind: "reuse"; readonly of: readonly string[] }
  | { readonly kind: "update"; readonly of: string; readonly grows?: number };

/** The output is the input's bytes, unchanged. */
export const view = (of: string): Effect => ({ kind: "view", of });

/** The output may take the buffer of the first of these inputs that is free and fits. */
export const reuse = (...of: string[]): Effect => ({ kind: "reuse", of });

/** The output is the input's buffer, partly written; with `grows`, a longer view of it along that axis. */
export const update = (of: string, options: { grows?: number } = {}): Effect => ({ kind: "update", of, ...options });
