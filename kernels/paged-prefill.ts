/** Attention of many queries over pages: the tiles of attention-prefill, with rows where the tables say. */
import { prefill } from "./attention-prefill";

/** Parts take turns with the tiles; where the probabilities are summed, with the key heads. */
export function pagedPrefill(at: usize, part: i32, parts: i32, scratch: usize): void {
  prefill(at, part, parts, scratch, at);
}
