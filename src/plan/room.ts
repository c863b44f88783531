/** How much memory is set aside for what is likely to grow. */

/**
 * Bytes for something that needs `bytes` and last had room for `before`. What grew a little will grow again: it gets room for that, more in
 * proportion where it is small. What grew to more than twice its size is another prompt, and gets what it needs.
 */
export function roomToGrow(bytes: number, before: number): number {
  if (bytes <= before || bytes > 2 * before) return bytes;
  return bytes + Math.ceil(Math.min(bytes / 2, Math.max(bytes / 8, 2 ** 16)));
}
