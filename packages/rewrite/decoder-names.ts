/** The inputs that a rewritten decoder has, by the names that generation code feeds. */
export const names = { starts: "write_indices", lengths: "nonpad_kv_seqlen", positions: "position_ids" } as const;
