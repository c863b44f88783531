/** Which elements of an axis make each element of the resized one, and with which weights: Resize and Upsample, axis by axis. */

/** How a position in the result becomes one in the input. */
type CoordinateMode =
  | "half_pixel"
  | "half_pixel_symmetric"
  | "pytorch_half_pixel"
  | "align_corners"
  | "asymmetric"
  | "tf_half_pixel_for_nn"
  | "tf_crop_and_resize";

/** How one element is chosen; "simple" is what onnxruntime does before opset 11: up where the axis shrinks, else down. */
type NearestMode = "round_prefer_floor" | "round_prefer_ceil" | "floor" | "ceil" | "simple";

/** How an axis is resampled. */
export interface Filter {
  readonly mode: "nearest" | "linear" | "cubic";
  readonly nearest: NearestMode;
  readonly coordinates: CoordinateMode;
  readonly antialias: boolean;
  readonly cubic: number;
  readonly excludeOutside: boolean;
}

/** One axis: sizes, the factor between them, which may be no quotient of the two, and the region that is resampled. */
export interface Axis {
  readonly from: number;
  readonly to: number;
  readonly scale: number;
  readonly region: readonly [start: number, end: number];
}

/** For each element of the result `count` elements of the input with their weights. */
interface Taps {
  readonly count: number;
  readonly indices: Int32Array;
  readonly weights: Float64Array;
  /** Elements whose place lies outside of the input, where that counts; undefined for none. */
  readonly outside: Uint8Array | undefined;
}

/** True for an axis that stays as it is. */
export const isUnchanged = ({ from, to, scale, region: [start, end] }: Axis, { coordinates }: Filter): boolean =>
  from === to &&
  scale === 1 &&
  coordinates !== "tf_half_pixel_for_nn" &&
  (coordinates !== "tf_crop_and_resize" || (start === 0 && end === 1));

/** Where element `at` of the result lies in the input. `scale · from` is the width that was asked for, of which `to` is the whole part. */
function place(at: number, { from, to, scale, region: [start, end] }: Axis, coordinates: CoordinateMode): number {
  const width = scale * from;
  switch (coordinates) {
    case "half_pixel":
      return (at + 0.5) / scale - 0.5;
    case "half_pixel_symmetric":
      return (from / 2) * (1 - to / width) + (at + 0.5) / scale - 0.5;
    case "pytorch_half_pixel":
      return to > 1 ? (at + 0.5) / scale - 0.5 : 0;
    case "align_corners":
      return width === 1 ? 0 : (at * (from - 1)) / (width - 1);
    case "asymmetric":
      return at / scale;
    case "tf_half_pixel_for_nn":
      return (at + 0.5) / scale;
    case "tf_crop_and_resize": {
      const reach = (end - start) * (from - 1);
      return start * (from - 1) + (width === 1 ? reach / 2 : (at * reach) / (width - 1));
    }
    default:
      return coordinates satisfies never;
  }
}

function nearestTo(x: number, mode: NearestMode, shrinks: boolean): number {
  switch (mode) {
    case "round_prefer_floor":
      return Math.ceil(x - 0.5);
    case "round_prefer_ceil":
      return Math.floor(x + 0.5);
    case "floor":
      return Math.floor(x);
    case "ceil":
      return Math.ceil(x);
    case "simple":
      return shrinks ? Math.ceil(x) : Math.trunc(x);
    default:
      return mode satisfies never;
  }
}

const linearWeight = (distance: number): number => Math.max(0, 1 - Math.abs(distance));

function cubicWeight(distance: number, a: number): number {
  const x = Math.abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/** The taps of one axis, which has elements. */
export function tapsOf(axis: Axis, filter: Filter): Taps {
  const { from, to, scale } = axis;
  const { mode, nearest, coordinates, antialias, cubic, excludeOutside } = filter;
  // An axis that shrinks is seen through a wider filter.
  const stretch = antialias && mode !== "nearest" ? Math.min(scale, 1) : 1;
  const half = mode === "nearest" ? 0 : mode === "linear" ? 1 : 2;
  const first = mode === "nearest" ? 0 : Math.floor(-half / stretch) + 1;
  const count = mode === "nearest" ? 1 : 2 - 2 * first;
  const taps = { count, indices: new Int32Array(to * count), weights: new Float64Array(to * count) };
  const clamp = (index: number): number => Math.min(Math.max(index, 0), from - 1);
  const outside = coordinates === "tf_crop_and_resize" ? new Uint8Array(to) : undefined;
  for (let at = 0; at < to; at++) {
    const x = place(at, axis, coordinates);
    if (outside !== undefined && !(x >= 0 && x <= from - 1)) outside[at] = 1;
    if (mode === "nearest") {
      taps.indices[at] = clamp(nearestTo(x, nearest, scale < 1));
      taps.weights[at] = 1;
      continue;
    }
    const floor = Math.floor(x);
    let sum = 0;
    for (let tap = 0; tap < count; tap++) {
      const index = floor + first + tap;
      const distance = (index - x) * stretch;
      const isOutside = excludeOutside && (index < 0 || index >= from);
      const weight = isOutside ? 0 : mode === "linear" ? linearWeight(distance) : cubicWeight(distance, cubic);
      taps.indices[at * count + tap] = clamp(index);
      taps.weights[at * count + tap] = weight;
      sum += weight;
    }
    if (sum !== 0 && (stretch < 1 || excludeOutside))
      for (let tap = 0; tap < count; tap++) taps.weights[at * count + tap] /= sum;
  }
  return { ...taps, outside: outside?.includes(1) === true ? outside : undefined };
}
