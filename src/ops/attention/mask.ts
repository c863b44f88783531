/** attn_mask: which shapes it may have, and the bias it adds to a score. −∞ means that the key takes no part. */
import { type Dim, isKnown, shapeText } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import { readNumbers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import { rowMajorStrides, type View } from "../../tensor/view.js";
import { rounder } from "./rounding.js";

/** How a mask's last dimension meets the keys: until opset 23 it broadcasts, from 24 on a shorter one is padded with −∞, 1 included. */
export type MaskEnd = "broadcast" | "pad";

/** The bias of one query and key. */
export type Bias = (sample: number, head: number, query: number, key: number) => number;

/** Fails unless the mask fits [batch, heads, queries, total], as far as the dimensions are known. */
export function checkMask(
  call: CallContext,
  mask: Fact,
  scores: readonly [batch: Dim, heads: Dim, queries: Dim, total: Dim],
  end: MaskEnd,
): void {
  const { shape } = mask;
  if (shape === undefined) return;
  const misfit = (rule: string): never =>
    call.fail(
      `attn_mask ${shapeText(shape)} must broadcast to [batch,heads,queries,keys] = ${shapeText(scores)}: ${rule}`,
    );
  if (shape.length > 4) misfit("it has more than 4 dimensions");
  shape.forEach((dim, at) => {
    const axis = at + 4 - shape.length;
    const target = scores[axis];
    if (!isKnown(dim) || !isKnown(target) || dim === target) return;
    if (axis === 3 && end === "pad") {
      if (dim > target) misfit(`it covers ${dim} keys of ${target}`);
    } else if (dim !== 1) misfit(`${dim} against ${target}`);
  });
}

/** The bias that a mask gives: 0 or −∞ for a boolean one, else the number itself, rounded to the type of the scores. */
export function biasOf(mask: View, scoreType: ElementType, end: MaskEnd): Bias {
  const values = readNumbers(mask);
  const { shape } = mask;
  const steps = rowMajorStrides(shape);
  // [batch, heads, queries, keys]: 0 where the mask broadcasts.
  const [sampleStep, headStep, queryStep, keyStep] = [0, 1, 2, 3].map((axis) => {
    const at = axis - 4 + shape.length;
    const spread = at < 0 || (shape[at] === 1 && (axis < 3 || end === "broadcast"));
    return spread ? 0 : steps[at];
  });
  const covered = keyStep === 0 ? Infinity : shape[shape.length - 1];
  const round = mask.type === scoreType ? (value: number): number => value : rounder(scoreType);
  const toBias = mask.type === "bool" ? (value: number): number => (value === 0 ? -Infinity : 0) : round;
  return (sample, head, query, key) =>
    key < covered
      ? toBias(values[sample * sampleStep + head * headStep + query * queryStep + key * keyStep])
      : -Infinity;
}
