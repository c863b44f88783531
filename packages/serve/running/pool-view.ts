/** The pool of pages as one key may see it: whose blocks are its own, which it shares, and of the others only that they are taken. */
import type { PagedState } from "#insitu/cache/paged-state.js";
import type { PagedRows } from "#insitu/engine/paged-rows.js";
import type { EngineText } from "#insitu/engine/text.js";
import type { EnginePool } from "../engine.js";

/** What the owner of these texts sees. */
export function poolSeenBy(owned: readonly EngineText[], pages: PagedState): EnginePool {
  const { blockSize } = pages.pool;
  const own = new Map(owned.map(({ owner, context }) => [(context.rows as PagedRows).sequence.name, owner.id]));
  const texts = new Map<string, { id: string; rows: number; blocks: number[] }>();
  const blocks = pages.pool.describe().map(({ block, state, references, rows, holders }) => {
    let isOwn = false;
    for (const { sequence, column } of holders) {
      const id = own.get(sequence);
      if (id === undefined) continue;
      isOwn = true;
      const text = texts.get(sequence) ?? { id, rows: 0, blocks: [] };
      text.blocks[column] = block;
      text.rows = Math.max(text.rows, column * blockSize + rows);
      texts.set(sequence, text);
    }
    if (state !== "used") return { use: state, rows };
    // How full the blocks of others are is theirs.
    if (!isOwn) return { use: "other" as const, rows: blockSize };
    return { use: references > 1 ? ("shared" as const) : ("own" as const), rows };
  });
  return { blockSize, rowBytes: pages.blockBytes / blockSize, blocks, texts: [...texts.values()] };
}
