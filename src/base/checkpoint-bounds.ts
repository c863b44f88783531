/** How many checkpoints of states without rows a text keeps: taken by engines, told by `explain`. More of them are more memory, and less that is read again. */
const checkpointBounds = {
  /** Checkpoints of one text at most: a chat of ten turns has three a turn. */
  most: 32,
  /** So many, however large the state is: the last turns can be taken back. */
  least: 4,
  /** Bytes that those of one text take at most, beyond the least. */
  bytes: 268_435_456,
} as const;

/** Checkpoints that a text keeps at most, where each takes so many bytes. */
export const mostCheckpoints = (bytes: number): number =>
  Math.min(
    checkpointBounds.most,
    Math.max(checkpointBounds.least, Math.floor(checkpointBounds.bytes / Math.max(1, bytes))),
  );
