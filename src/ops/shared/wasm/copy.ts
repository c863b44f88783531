/** Strided copies as jobs: what fast paths of movers and of caches share. */
import type { Recorder } from "../../../wasm-kernels/wasm-kernel.js";

/** A copy of up to five dimensions. Strides in elements. */
interface StridedCopy {
  readonly source: number;
  readonly target: number;
  /** Bytes of an element. */
  readonly width: number;
  readonly shape: readonly number[];
  readonly from: readonly number[];
  readonly to: readonly number[];
}

/** Bytes from which on a copy is shared between threads. */
const worthSharing = 1 << 18;

/** Queues a copy; trailing dimensions that lie together on both sides are moved as one. */
export function recordCopy(recorder: Recorder, copy: StridedCopy): void {
  let { width } = copy;
  let rank = copy.shape.length;
  let together = 1; // elements that lie side by side so far
  while (
    rank > 0 &&
    (copy.shape[rank - 1] === 1 || (copy.from[rank - 1] === together && copy.to[rank - 1] === together))
  )
    together *= copy.shape[--rank];
  const bytes = copy.shape.reduce((product, dim) => product * dim, copy.width);
  if (bytes === 0) return;
  const element = copy.width;
  width *= together;
  const lead = 5 - rank;
  const size = (at: number): number => (at < lead ? 1 : copy.shape[at - lead]);
  const from = (at: number): number => (at < lead ? 0 : copy.from[at - lead] * element);
  const to = (at: number): number => (at < lead ? 0 : copy.to[at - lead] * element);
  recorder.run(
    "copyStrided",
    {
      source: copy.source,
      target: copy.target,
      width,
      size0: size(0),
      size1: size(1),
      size2: size(2),
      size3: size(3),
      size4: size(4),
      source0: from(0),
      source1: from(1),
      source2: from(2),
      source3: from(3),
      source4: from(4),
      target0: to(0),
      target1: to(1),
      target2: to(2),
      target3: to(3),
      target4: to(4),
    },
    bytes >= worthSharing ? recorder.threads : 1,
  );
}
