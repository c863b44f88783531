/** Attention of many queries over pages: the tiles of attention-prefill, with rows where the tables say. */
import { prefill } from "./attention-prefill";
import { PagedAttention } from "./paged-decode";

/** Any number of queries. Parts take turns with the tiles; where the probabilities are summed, with the key heads. */
export function pagedPrefill(job: PagedAttention, part: i32, parts: i32, scratch: usize): void {
  prefill(changetype<usize>(job), part, parts, scratch, changetype<usize>(job));
}
