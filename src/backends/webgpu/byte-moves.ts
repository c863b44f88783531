/** Moves between places that hold their elements side by side, in whole words: bytes are written and copied, and no shader is bound for them. */
import { cloneView } from "../../tensor/copy.js";
import type { Placed } from "../../tensor/placed.js";
import { bytesIn, coversStorage, View } from "../../tensor/view.js";
import { keeping } from "../../webgpu-kernels/tuning.js";
import type { Move } from "../backend.js";
import { type DevicePlace, devicePlace, isDevicePlace } from "./buffers.js";
import type { WebgpuSession } from "./session.js";

/** A copy from place to place; what is read from a buffer that is written too waits elsewhere, from a byte on. */
interface ByteCopy {
  readonly from: DevicePlace;
  readonly to: DevicePlace;
  readonly waitsAt: number | undefined;
}

/** Moves as bytes. */
interface ByteMoves {
  readonly writes: readonly { readonly from: View; readonly to: DevicePlace }[];
  readonly copies: readonly ByteCopy[];
  /** Bytes that wait. */
  readonly waiting: number;
}

/** The first byte of a place of whole words. */
export const startOf = ({ offset, byteLength, size }: Placed): number => (offset * byteLength) / size;

/** True for a place on the device that is a run of whole words in one buffer. */
const isRun = (place: Placed): place is DevicePlace =>
  isDevicePlace(place) &&
  place.contiguous &&
  place.buffer.pieces.length === 1 &&
  place.byteLength % 4 === 0 &&
  startOf(place) % 4 === 0;

/** Moves to the device as bytes; undefined where one is more than a copy of bytes, or too many have to wait. */
export function byteMovesOf(moves: readonly Move[]): ByteMoves | undefined {
  const real = moves.filter(({ from }) => from.size > 0);
  if (!real.every(({ from, to }) => isRun(to) && (from instanceof View || isRun(from)))) return undefined;
  const written = new Set(real.map(({ to }) => to.buffer));
  const writes: ByteMoves["writes"][number][] = [];
  const copies: ByteCopy[] = [];
  let waiting = 0;
  for (const { from, to } of real)
    if (from instanceof View) writes.push({ from, to: devicePlace(to) });
    else {
      const waits = written.has(from.buffer);
      copies.push({ from: devicePlace(from), to: devicePlace(to), waitsAt: waits ? waiting : undefined });
      if (waits) waiting += from.byteLength;
    }
  return waiting > keeping.mostWaitingBytes ? undefined : { writes, copies, waiting };
}

/** Makes them, all as if at once. */
export function moveBytes(session: WebgpuSession, { writes, copies, waiting }: ByteMoves): void {
  const { device, memory } = session;
  const aside = waiting === 0 ? undefined : session.stagingOf(waiting).gpu;
  if (aside !== undefined)
    device.submit((encoder) => {
      for (const { from, waitsAt } of copies)
        if (waitsAt !== undefined)
          encoder.copyBufferToBuffer(from.buffer.gpu, startOf(from), aside, waitsAt, from.byteLength);
    });
  // What the queue writes comes before all that is submitted later.
  for (const { from, to } of writes)
    memory.uploadBytes(bytesIn(coversStorage(from) ? from : cloneView(from)), startOf(to), to.buffer);
  if (copies.length === 0) return;
  device.submit((encoder) => {
    for (const { from, to, waitsAt } of copies)
      encoder.copyBufferToBuffer(
        waitsAt === undefined ? from.buffer.gpu : aside!,
        waitsAt ?? startOf(from),
        to.buffer.gpu,
        startOf(to),
        to.byteLength,
      );
  });
}
