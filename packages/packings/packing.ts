/** Elements whose bytes lie in another order than they are counted in: units that are put in order each by itself. */
import { DeferredElements } from "#insitu/tensor/deferred.js";

/** How bytes lie. */
export interface Packing {
  /** The same for two that put bytes in order alike. */
  readonly key: string;
  /** Bytes that are put in order together; what is packed has so many, once or several times. */
  readonly unit: number;
  /** Puts a unit in order, where it lies. */
  readonly undo: (bytes: Uint8Array) => void;
}

/** Puts all units in order. */
export function unpack(bytes: Uint8Array, { unit, undo }: Packing): void {
  for (let at = 0; at < bytes.length; at += unit) undo(bytes.subarray(at, at + unit));
}

/** Bytes of units that are read at once, roughly. */
const atOnce = 2 ** 18;

/** Elements that are put in order as they are read. */
export function unpacked(elements: DeferredElements, packing: Packing): DeferredElements {
  const { type, size, byteLength, key, isOnHost, isInFiles } = elements;
  const units = Math.max(1, Math.floor(atOnce / packing.unit)) * packing.unit;
  const read = async (start: number, target: Uint8Array): Promise<void> => {
    const end = start + target.length;
    for (let at = start - (start % packing.unit); at < end; at += units) {
      const until = Math.min(at + units, byteLength, Math.ceil(end / packing.unit) * packing.unit);
      const part = new Uint8Array(until - at);
      await elements.read(at, part);
      unpack(part, packing);
      const [from, to] = [Math.max(at, start), Math.min(until, end)];
      target.set(part.subarray(from - at, to - at), from - start);
    }
  };
  return new DeferredElements(type, size, `${key} in order, ${packing.key}`, read, isOnHost, isInFiles);
}
