/** The arithmetic of DynamicQuantizeLinear, step by step in float32 as ONNX writes it down. */
import { numberReader } from "../../tensor/access.js";
import { roundToEven } from "../../tensor/float.js";
import { forEachIndex, type View } from "../../tensor/view.js";

/** Scale and zero point that a tensor's range asks for. */
interface Levels {
  readonly scale: number;
  readonly zeroPoint: number;
}

/** Brings a number into the range of uint8; NaN becomes 0. */
const saturate = (x: number): number => (x > 0 ? Math.min(x, 255) : 0);

/** The levels for the range of the data, widened to hold 0. Data that are all 0 take the range [0, 1]. */
export function dynamicLevels(x: View): Levels {
  let low = 0;
  let high = 0;
  const read = numberReader(x);
  forEachIndex(x, (index) => {
    low = Math.min(low, read(index));
    high = Math.max(high, read(index));
  });
  const range = low === high ? 1 : Math.fround(high - low);
  const scale = Math.fround(range / 255);
  return { scale, zeroPoint: roundToEven(saturate(-Math.fround(low / scale))) };
}

/** Writes the level of every element. */
export function writeLevels(x: View, y: View, { scale, zeroPoint }: Levels): void {
  const read = numberReader(x);
  const target = y.data as Uint8Array;
  forEachIndex(x, (index, position) => {
    target[y.offset + position] = saturate(roundToEven(Math.fround(read(index) / scale)) + zeroPoint);
  });
}
