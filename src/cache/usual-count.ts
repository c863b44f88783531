/** Numbers of samples that recur: programs are made for shapes. */

/** A number of samples from `count` on, of few that there are: runs of the same number are prepared once. */
export function usualCount(count: number): number {
  if (count <= 4) return count;
  const power = 2 ** Math.floor(Math.log2(count));
  return count === power ? count : count <= 1.5 * power ? 1.5 * power : 2 * power;
}
