/** The pool of pages as one tenant may see it: its own texts with their blocks, and of others how many blocks they have. */
import type { PagedState } from "../../cache/paged-state.js";
import type { PagedRows } from "../../engine/paged-rows.js";
import type { EngineText } from "../../engine/text.js";
import type { EnginePool } from "../engine.js";

export function poolFor(pages: PagedState, texts: readonly EngineText[], tenant: string): EnginePool {
  const { blockSize } = pages.pool;
  const own = new Map<string, string>();
  for (const { owner, context } of texts)
    if (owner.tenant === tenant) own.set((context.rows as PagedRows).sequence.name, owner.id);
  const found = new Map<string, { id: string; rows: number; blocks: number[] }>();
  const blocks = pages.pool.describe().map(({ block, state, references, rows, holders }) => {
    let isOwn = false;
    for (const { sequence, column } of holders) {
      const id = own.get(sequence);
      if (id === undefined) continue;
      isOwn = true;
      const text = found.get(sequence) ?? { id, rows: 0, blocks: [] };
      text.blocks[column] = block;
      text.rows = Math.max(text.rows, column * blockSize + rows);
      found.set(sequence, text);
    }
    if (state !== "used") return { use: state, rows };
    // How full the blocks of others are is theirs.
    if (!isOwn) return { use: "other" as const, rows: blockSize };
    return { use: references > 1 ? ("shared" as const) : ("own" as const), rows };
  });
  return { blockSize, rowBytes: pages.blockBytes / blockSize, blocks, texts: [...found.values()] };
}
