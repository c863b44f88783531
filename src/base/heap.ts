/** Heaps: numbers in an array of which the smallest is the first. */

/** Puts a larger number in the place of a heap's smallest. */
export function replaceRoot(heap: Float32Array | number[], score: number): void {
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && heap[child + 1] < heap[child]) child++;
    if (heap[child] >= score) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = score;
}
