/**
 * Windows that slide over the spatial axes of [batch, channels, …] tensors: attributes, padding, output sizes, and the walk
 * that convolutions make. What a window computes is its operator's affair.
 */
import { type Attribute, ints, oneOf } from "../../../graph/attribute.js";
import {
  addDims,
  ceilDivideDims,
  type Dim,
  floorDivideDims,
  isKnown,
  minDim,
  multiplyDims,
  type Shape,
  shapeText,
  subtractDims,
  unknownDim,
} from "../../../graph/dim.js";
import type { CallContext } from "../../../graph/op.js";

/** The attributes that say how a window slides. */
export const windowAttributes: {
  readonly auto_pad: Attribute<"NOTSET" | "SAME_UPPER" | "SAME_LOWER" | "VALID">;
  readonly dilations: Attribute<readonly number[] | undefined>;
  readonly kernel_shape: Attribute<readonly number[] | undefined>;
  readonly pads: Attribute<readonly number[] | undefined>;
  readonly strides: Attribute<readonly number[] | undefined>;
} = {
  auto_pad: oneOf(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"], "NOTSET"),
  dilations: ints(),
  kernel_shape: ints(),
  pads: ints(),
  strides: ints(),
};

/** The values of those attributes. */
export interface WindowChoice {
  readonly auto_pad: "NOTSET" | "SAME_UPPER" | "SAME_LOWER" | "VALID";
  readonly dilations?: readonly number[] | undefined;
  readonly pads?: readonly number[] | undefined;
  readonly strides?: readonly number[] | undefined;
}

/** A window with every default filled in, one entry a spatial axis. */
export interface Window {
  readonly strides: readonly number[];
  readonly dilations: readonly number[];
  /** Padding before and after; what the attribute says, before `auto_pad`. */
  readonly before: readonly number[];
  readonly after: readonly number[];
}

/** The number of spatial axes; fails unless there is at least one. */
export function spatialRank(call: CallContext, name: string, shape: Shape): number {
  call.check(
    shape.length >= 3,
    () => `${name} must have at least 3 dimensions, [batch, channels, …], got ${shapeText(shape)}`,
  );
  return shape.length - 2;
}

function entries(
  call: CallContext,
  name: string,
  values: readonly number[] | undefined,
  count: number,
  least: number,
  absent: number,
): readonly number[] {
  if (values === undefined) return new Array<number>(count).fill(absent);
  call.check(
    values.length === count,
    () => `${name} must have ${count} entries, got [${values.join(",")}]`,
    "invalid-argument",
  );
  call.check(
    values.every((value) => value >= least),
    () => `${name} must be at least ${least}, got [${values.join(",")}]`,
    "invalid-argument",
  );
  return values;
}

/** The window that the attributes describe for `rank` spatial axes. */
export function windowOf(call: CallContext, choice: WindowChoice, rank: number): Window {
  const pads = entries(call, "pads", choice.pads, 2 * rank, 0, 0);
  call.check(
    choice.auto_pad === "NOTSET" || pads.every((pad) => pad === 0),
    () => `pads cannot be given together with auto_pad ${choice.auto_pad}, got [${pads.join(",")}]`,
    "invalid-argument",
  );
  return {
    strides: entries(call, "strides", choice.strides, rank, 1, 1),
    dilations: entries(call, "dilations", choice.dilations, rank, 1, 1),
    before: pads.slice(0, rank),
    after: pads.slice(rank),
  };
}

/** The kernel's size: the attribute, checked against the weights' where both are there. */
export function kernelOf(
  call: CallContext,
  attribute: readonly number[] | undefined,
  weights: Shape | undefined,
  rank: number,
): Shape | undefined {
  const given = attribute && entries(call, "kernel_shape", attribute, rank, 1, 1);
  if (given !== undefined && weights !== undefined) {
    const fits = weights.length === rank && weights.every((dim, axis) => !isKnown(dim) || dim === given[axis]);
    call.check(
      fits,
      () => `kernel_shape must be that of the weights ${shapeText(weights)}, got [${given.join(",")}]`,
      "invalid-argument",
    );
  }
  const kernel = given ?? weights;
  call.check(
    kernel === undefined || kernel.length === rank,
    () => `the kernel must have ${rank} spatial dimensions, got ${shapeText(kernel)}`,
  );
  call.check(
    kernel === undefined || !kernel.includes(0),
    () => `the kernel must not be empty, got ${shapeText(kernel)}`,
  );
  return kernel;
}

/** How far a kernel of `size` entries reaches. */
const reachOf = (size: Dim, dilation: number): Dim => addDims(multiplyDims(subtractDims(size, 1), dilation), 1);

/** The output's spatial sizes; fails where a window does not fit into its padded input. */
export function slidingSizes(
  call: CallContext,
  window: Window,
  autoPad: WindowChoice["auto_pad"],
  input: Shape,
  kernel: Shape,
  ceil = false,
): Dim[] {
  return input.map((size, axis) => {
    const stride = window.strides[axis];
    if (autoPad === "SAME_UPPER" || autoPad === "SAME_LOWER") return ceilDivideDims(size, stride);
    const total = addDims(size, window.before[axis] + window.after[axis]);
    const reach = reachOf(kernel[axis], window.dilations[axis]);
    const room = subtractDims(total, reach);
    if (isKnown(room)) {
      call.check(
        room >= 0,
        () => `a window that reaches over ${reach} does not fit into ${total} along spatial axis ${axis}`,
      );
    }
    if (!ceil || autoPad === "VALID") return addDims(floorDivideDims(room, stride), 1);
    const count = addDims(ceilDivideDims(room, stride), 1);
    return roundedUp(count, addDims(size, window.before[axis]), stride, subtractDims(window.after[axis], reach));
  });
}

/**
 * The number of windows with ceil_mode: one fewer than `count` where the last would begin at or after `end`, where the padding
 * after the input starts. `beyond` is how far that padding exceeds a window.
 */
function roundedUp(count: Dim, end: Dim, stride: number, beyond: Dim): Dim {
  if (isKnown(count) && isKnown(end)) return (count - 1) * stride >= end ? count - 1 : count;
  if (!isKnown(beyond) || beyond > 0) return unknownDim();
  return beyond + stride <= 0 ? count : minDim(count, ceilDivideDims(end, stride));
}

/** The window with the padding that `auto_pad` asks for, now that all sizes are numbers. */
export function padded(
  window: Window,
  autoPad: WindowChoice["auto_pad"],
  input: readonly number[],
  kernel: readonly number[],
): Window {
  if (autoPad !== "SAME_UPPER" && autoPad !== "SAME_LOWER") return window;
  const total = input.map((size, axis) => {
    const stride = window.strides[axis];
    return Math.max(
      0,
      (Math.ceil(size / stride) - 1) * stride + (kernel[axis] - 1) * window.dilations[axis] + 1 - size,
    );
  });
  const smaller = total.map((pads) => Math.floor(pads / 2));
  const larger = total.map((pads, axis) => pads - smaller[axis]);
  const upper = autoPad === "SAME_UPPER";
  return { ...window, before: upper ? smaller : larger, after: upper ? larger : smaller };
}

/**
 * Visits every pair of places that a kernel entry connects, in runs along the last axis: `place · stride + entry · dilation −
 * before` in the large grid belongs to `place` in the small one. In a run the small index steps by 1, the large by the last stride.
 */
export function forEachRun(
  window: Window,
  small: readonly number[],
  large: readonly number[],
  kernel: readonly number[],
  visit: (entry: number, small: number, large: number, count: number) => void,
): void {
  const last = kernel.length - 1;
  const walk = (axis: number, entryBase: number, smallBase: number, largeBase: number): void => {
    const stride = window.strides[axis];
    for (let tap = 0; tap < kernel[axis]; tap++) {
      const shift = tap * window.dilations[axis] - window.before[axis];
      const first = Math.max(0, Math.ceil(-shift / stride));
      const end = Math.min(small[axis], Math.floor((large[axis] - 1 - shift) / stride) + 1);
      const entry = entryBase * kernel[axis] + tap;
      const smallRow = smallBase * small[axis];
      const largeRow = largeBase * large[axis] + shift;
      if (axis === last) {
        if (end > first) visit(entry, smallRow + first, largeRow + first * stride, end - first);
      } else {
        for (let place = first; place < end; place++)
          walk(axis + 1, entry, smallRow + place, largeRow + place * stride);
      }
    }
  };
  walk(0, 0, 0, 0);
}
