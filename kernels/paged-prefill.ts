/** Attention of many queries over pages: the tiles of attention-prefill, with rows where the tables say. */
import { attentionPrefillScratch, KEYS, prefill } from "./attention-prefill";
import { headBytes } from "./attention-rows";
import { PagedAttention } from "./paged-decode";

/** Any number of queries. Parts take turns with the tiles; where the probabilities are summed, with the key heads. */
export function pagedPrefill(job: PagedAttention, part: i32, parts: i32, scratch: usize): void {
  prefill(changetype<usize>(job), part, parts, scratch, changetype<usize>(job));
}

/** A tile, and the rows of its keys or values that are unpacked. */
export function pagedPrefillScratch(job: PagedAttention): usize {
  return attentionPrefillScratch(job) + KEYS * max(headBytes(job.headSize), headBytes(job.valueSize));
}
