/** Parts of caches along their first axis, such as blocks of pages: copied, read and written as bytes in several caches at once. */
import type { ElementType } from "../tensor/element-type.js";
import { bytesIn, viewOfBytes } from "../tensor/view.js";
import type { Holding } from "./holding.js";

type ByteType = Exclude<ElementType, "string">;

/** Numbers that follow each other, as [first, behind the last]. */
function stretchesOf(numbers: readonly number[]): readonly (readonly [start: number, end: number])[] {
  const stretches: [start: number, end: number][] = [];
  for (const number of numbers) {
    const last = stretches.at(-1);
    if (last?.[1] === number) last[1]++;
    else stretches.push([number, number + 1]);
  }
  return stretches;
}

/** Part `to` becomes what part `from` is. Bytes that forks had to be given for it. */
export const copyPart = (holdings: readonly Holding[], from: number, to: number): number =>
  holdings.reduce(
    (moved, holding) =>
      moved + holding.move((buffer) => [{ from: buffer.slice(0, from, from + 1), to: buffer.slice(0, to, to + 1) }]),
    0,
  );

/** The bytes of parts, one after another, of one cache after the other; as they are when this is called. */
export async function readParts(holdings: readonly Holding[], parts: readonly number[]): Promise<Uint8Array[]> {
  // All are asked for before the first is waited for: no later run comes in between.
  const views = holdings.flatMap((holding) =>
    stretchesOf(parts).map(([start, end]) => holding.read(holding.buffer.slice(0, start, end))),
  );
  return (await Promise.all(views)).map(bytesIn);
}

/** Writes what `readParts` read, joined, to such parts. Bytes that forks had to be given for it. */
export function writeParts(holdings: readonly Holding[], parts: readonly number[], bytes: Uint8Array): number {
  let at = 0;
  return holdings.reduce((moved, holding) => {
    const { type, buffer } = holding;
    const moves = stretchesOf(parts).map(([start, end]) => {
      const to = buffer.slice(0, start, end);
      const from = viewOfBytes(type as ByteType, to.shape, bytes.subarray(at, at + to.byteLength));
      at += to.byteLength;
      return { from, start, end };
    });
    return moved + holding.move((own) => moves.map(({ from, start, end }) => ({ from, to: own.slice(0, start, end) })));
  }, 0);
}
