/**
 * GroupQueryAttention's caches as short as the window on WASM. A token goes behind the rows that are held, or takes the place of what has left the window; of
 * several, the first may see rows that the cache has no room for afterwards, so that all rows of the step are attended to beside it.
 */
import type { Recorder } from "../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf, type ElementType } from "../../tensor/element-type.js";
import { type Heads, takeOver, temporaryHeads } from "../shared/wasm/attention.js";
import { partsFor } from "../shared/wasm/work.js";

/** Nanoseconds that a byte takes to be moved, about. */
const moving = 0.1;

/** One step of a window cache: the rows to attend to, and where their number in each sample is, int64[batch]. */
export function slideHeads<Type extends ElementType>(
  recorder: Recorder,
  past: Heads<Type>,
  fresh: Heads<Type>,
  present: Heads<Type> | undefined,
  { lengths, window }: { readonly lengths: number; readonly window: number },
): { readonly rows: Heads<Type>; readonly counts: number } {
  const { batch, heads, rows, type } = fresh;
  const bytes = (elements: number): number => byteLengthOf(type, elements);
  if (present !== undefined) takeOver(recorder, past, present);
  // What the present holds now is the past.
  const from = present ?? past;
  const isOne = rows === 1 && present !== undefined;
  const all = isOne ? undefined : temporaryHeads(recorder, { ...fresh, rows: past.rows + rows });
  const counts = recorder.temporary(8 * batch);
  const moved = batch * heads * (past.rows + rows) * bytes(fresh.size);
  recorder.run(
    "slideHeads",
    {
      fresh: fresh.address,
      cache: from.address,
      all: all?.address ?? 0,
      lengths,
      counts,
      batch,
      heads,
      rows,
      capacity: past.rows,
      window,
      rowBytes: bytes(fresh.size),
      writes: present === undefined ? 0 : 1,
      freshSample: bytes(fresh.sample),
      freshHead: bytes(fresh.head),
      freshRow: bytes(fresh.row),
      cacheSample: bytes(from.sample),
      cacheHead: bytes(from.head),
      cacheRow: bytes(from.row),
    },
    Math.min(batch * heads, partsFor(recorder, moved * moving)),
  );
  return { rows: all ?? present!, counts };
}
