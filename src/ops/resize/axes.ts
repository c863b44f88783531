/** What a Resize or an Upsample is asked for, axis by axis: from scales or sizes, for all axes or some, keeping proportions or not. */
import {
  type Dim,
  floorDivideDims,
  isKnown,
  isKnownShape,
  multiplyDims,
  type Shape,
  shapeText,
  unknownDim,
} from "../../graph/dim.js";
import { type Fact, factOfView } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import { readNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { lengthOf, listOf } from "../shared/rules/operands.js";
import { checkRank, normalizeAxes } from "../shared/rules/shapes.js";
import type { Axis } from "./taps.js";

/** What is known of a call. */
export interface Asked {
  readonly X: Fact;
  readonly roi?: Fact | undefined;
  readonly scales?: Fact | undefined;
  readonly sizes?: Fact | undefined;
  /** Scales that an attribute gives. */
  readonly given?: readonly number[] | undefined;
  readonly axes?: readonly number[] | undefined;
  readonly policy: "stretch" | "not_larger" | "not_smaller";
  /** True if the region counts. */
  readonly crops: boolean;
}

/** An operand without elements is left out. */
const present = (fact: Fact | undefined): Fact | undefined =>
  fact === undefined || fact.shape?.includes(0) === true ? undefined : fact;

/** The axes that are spoken of, in order; undefined where the rank is unknown. */
function axesOf(call: CallContext, { X, axes }: Asked): readonly number[] | undefined {
  if (X.shape === undefined) return undefined;
  return axes === undefined ? [...X.shape.keys()] : normalizeAxes(call, axes, X.shape.length);
}

function checkLength(call: CallContext, name: string, length: number | undefined, expected: number): void {
  call.check(
    length === undefined || length === expected,
    () => `${name} needs ${expected} entries, got ${length}`,
    "invalid-argument",
  );
}

/** The scales that are asked for, where they are known. */
function scalesOf(call: CallContext, asked: Asked, count: number): readonly number[] | undefined {
  const fact = present(asked.scales);
  checkRank(call, "scales", fact, 1);
  if (fact !== undefined) checkLength(call, "scales", lengthOf(fact), count);
  const scales = asked.given ?? (fact?.constant && Array.from(readNumbers(fact.constant)));
  if (scales === undefined) return undefined;
  checkLength(call, "scales", scales.length, count);
  call.check(
    scales.every((scale) => scale > 0 && Number.isFinite(scale)),
    () => `scales must be greater than 0, got [${scales.join(",")}]`,
    "invalid-argument",
  );
  return scales;
}

/** The sizes that are asked for, where they are known. */
function sizesOf(call: CallContext, asked: Asked, count: number): readonly Dim[] | undefined {
  const fact = present(asked.sizes);
  if (fact === undefined) return undefined;
  checkLength(call, "sizes", lengthOf(fact), count);
  const sizes = listOf(call, "sizes", fact);
  for (const size of sizes ?? [])
    call.check(
      !isKnown(size) || size >= 0,
      () => `sizes must not be negative, got ${shapeText(sizes)}`,
      "invalid-argument",
    );
  return sizes;
}

/** One scale for all axes, so that none becomes longer (or shorter) than asked for; undefined where sizes stay as they are. */
function commonScale({ policy }: Asked, sizes: readonly number[], from: readonly number[]): number | undefined {
  if (policy === "stretch") return undefined;
  const scales = sizes.map((size, at) => size / from[at]);
  return policy === "not_larger" ? Math.min(...scales) : Math.max(...scales);
}

/** floor(dim · scale), in float32 as onnxruntime and ONNX's own inference have it. */
function scaled(dim: Dim, scale: number): Dim {
  if (isKnown(dim)) return Math.floor(Math.fround(dim * scale));
  if (Number.isInteger(scale)) return multiplyDims(dim, scale);
  return Number.isInteger(1 / scale) ? floorDivideDims(dim, 1 / scale) : unknownDim();
}

/** The shape of the result. Every check on arguments is made here. */
export function resizedShape(call: CallContext, asked: Asked): Shape | undefined {
  const { X, given, roi, crops } = asked;
  const [hasScales, hasSizes] = [
    given !== undefined || present(asked.scales) !== undefined,
    present(asked.sizes) !== undefined,
  ];
  call.check(
    hasScales !== hasSizes,
    () => `one of scales and sizes must be given, got ${hasScales ? "both" : "none"}`,
    "invalid-argument",
  );
  const axes = axesOf(call, asked);
  if (axes === undefined || X.shape === undefined) return undefined;
  if (crops) {
    call.check(present(roi) !== undefined, "tf_crop_and_resize needs roi", "invalid-argument");
    checkLength(call, "roi", roi && lengthOf(roi), 2 * axes.length);
  }
  const shape: Dim[] = [...X.shape];
  if (hasScales) {
    const scales = scalesOf(call, asked, axes.length);
    axes.forEach((axis, at) => (shape[axis] = scales === undefined ? unknownDim() : scaled(shape[axis], scales[at])));
  } else {
    const sizes = sizesOf(call, asked, axes.length);
    const from = axes.map((axis) => X.shape![axis]);
    const known = sizes !== undefined && isKnownShape(sizes) && isKnownShape(from);
    const common = known ? commonScale(asked, sizes, from) : undefined;
    const kept = sizes !== undefined && asked.policy === "stretch";
    axes.forEach((axis, at) => {
      if (common !== undefined) shape[axis] = Math.floor(common * (from[at] as number) + 0.5);
      else shape[axis] = kept ? sizes[at] : unknownDim();
    });
  }
  X.shape.forEach((dim, axis) =>
    call.check(
      dim !== 0 || !isKnown(shape[axis]) || shape[axis] === 0,
      () => `axis ${axis} of X has no elements that could be resized to ${shape[axis]}`,
      "invalid-argument",
    ),
  );
  return shape;
}

/** Every axis in numbers, for operands whose contents are known. */
export function axesInNumbers(
  call: CallContext,
  asked: Asked,
  from: readonly number[],
  to: readonly number[],
): readonly Axis[] {
  const axes = axesOf(call, asked)!;
  const scales = scalesOf(call, asked, axes.length);
  const sizes = scales === undefined ? (sizesOf(call, asked, axes.length) as readonly number[] | undefined) : undefined;
  const common =
    sizes &&
    commonScale(
      asked,
      sizes,
      axes.map((axis) => from[axis]),
    );
  const region = asked.crops && asked.roi?.constant !== undefined ? readNumbers(asked.roi.constant) : undefined;
  return from.map((size, axis): Axis => {
    const at = axes.indexOf(axis);
    if (at === -1) return { from: size, to: to[axis], scale: 1, region: [0, 1] };
    return {
      from: size,
      to: to[axis],
      scale: scales?.[at] ?? common ?? (size === 0 ? 1 : to[axis] / size),
      region: region === undefined ? [0, 1] : [region[at], region[at + axes.length]],
    };
  });
}

/** What is known of a view that may be left out. */
export const factOf = (view: View | undefined): Fact | undefined => view && factOfView(view);
