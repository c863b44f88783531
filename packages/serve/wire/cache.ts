/** `/v1/cache` and `/v1/cache/plan`: the pool of pages as one key may see it, and the plan's verdict on every cache of the model. */
import type { EnginePool } from "../engine.js";
import type { ServedModel } from "./served-model.js";

/** A letter for each block: free, kept for its contents, the key's own, shared by texts of the key, somebody else's. */
const letters = { free: ".", kept: "k", own: "o", shared: "s", other: "x" } as const;

/** The pool; without blocks where the engine has none. */
export function cacheBody(pool: EnginePool | undefined): object {
  if (pool === undefined) return { object: "cache", block_size: 0, row_bytes: 0, uses: "", rows: [], texts: [] };
  const { blockSize, rowBytes, blocks, texts } = pool;
  return {
    object: "cache",
    block_size: blockSize,
    row_bytes: rowBytes,
    uses: blocks.map(({ use }) => letters[use]).join(""),
    rows: blocks.map(({ rows }) => rows),
    texts,
  };
}

/** What the plan says of every cache; nothing where the model is not loaded. */
export function planBody(model: ServedModel | undefined): object {
  const caches = model?.lm.session.explain({ json: true }).caches ?? [];
  const data = caches.map(({ node, input, inPlace, reason }) => ({ node, input, in_place: inPlace, reason }));
  return { object: "list", data };
}
