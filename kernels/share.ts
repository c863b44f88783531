/** How parts share work: part p of `parts` has the tasks from shareStart(p) to shareStart(p + 1). */

// @ts-ignore: decorator
@inline
export function shareStart(tasks: i32, part: i32, parts: i32): i32 {
  return <i32>((<i64>tasks * part) / parts);
}

/** Rows below which a range of keys is not split further: how a range is split follows its own length, never the capacity around it. */
const SPLIT_ROWS: i32 = 256;

/** How many of `splits` splits a range of `keys` keys has: the others are empty. */
// @ts-ignore: decorator
@inline
export function splitsUsed(keys: i32, splits: i32): i32 {
  return min(splits, max(1, keys / SPLIT_ROWS));
}

/** Where a split of a range of `keys` keys begins. */
export function splitStart(keys: i32, split: i32, splits: i32): i32 {
  const used = splitsUsed(keys, splits);
  return split >= used ? keys : shareStart(keys, split, used);
}
