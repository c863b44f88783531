/** Numbers of samples that recur: programs are made for shapes. */

/** A number of samples from `count` on, of few that there are: runs of the same number are prepared once. */
export function usualCount(count: number): number {
  if (count <= 4) return count;
  const power = 2 ** Math.floor(Math.log2(count));
  return count === power ? count : count <= 1.5 * power ? 1.5 * power : 2 * power;
}

/** A number of sequences from `count` on for a run that reads several tokens of some: of fewer still, since one without tokens costs next to nothing. */
export const usualSequences = (count: number): number => 4 ** Math.max(1, Math.ceil(Math.log2(count) / 2)) + 1;
