/** Shape rules that many operators share: broadcasting, axes, and rules that are the same as an operand's. Symbols welcome. */
import { type Dim, isKnown, maxDim, sameDim, type Shape, shapeText } from "../../../graph/dim.js";
import type { Fact } from "../../../graph/fact.js";
import type { CallContext } from "../../../graph/op.js";

/** One dimension broadcast against another. */
function broadcastDim(a: Dim, b: Dim): Dim | undefined {
  if (a === 1) return b;
  if (b === 1 || sameDim(a, b)) return a;
  if (isKnown(a) && isKnown(b)) return undefined;
  // A symbol against a number above 1 can only be that number (or 1, which broadcasts to it).
  if (isKnown(a)) return a;
  if (isKnown(b)) return b;
  return maxDim(a, b);
}

/** The shape that all given shapes broadcast to (numpy's rule); undefined where a rank is unknown. Fails where they do not fit. */
export function broadcastShapes(call: CallContext, shapes: readonly (Shape | undefined)[]): Shape | undefined {
  let result: Shape = [];
  for (const shape of shapes) {
    if (shape === undefined) return undefined;
    const rank = Math.max(result.length, shape.length);
    const next: Dim[] = [];
    for (let axis = 0; axis < rank; axis++) {
      const a = result[axis - rank + result.length] ?? 1;
      const b = shape[axis - rank + shape.length] ?? 1;
      const dim = broadcastDim(a, b);
      if (dim === undefined) {
        call.fail(
          `shapes ${shapes.map(shapeText).join(" and ")} do not broadcast: ${a} against ${b} at axis ${axis} of ${rank}`,
        );
      }
      next.push(dim);
    }
    result = next;
  }
  return result;
}

/** `axis` counted from the front. Fails outside [−rank, rank), or [−rank, rank] with `inclusive`. */
export function normalizeAxis(
  call: CallContext,
  axis: number,
  rank: number,
  options: { name?: string; inclusive?: boolean } = {},
): number {
  const { name = "axis", inclusive = false } = options;
  const end = inclusive ? rank : rank - 1;
  const normalized = axis < 0 ? axis + rank : axis;
  call.check(
    Number.isInteger(axis) && normalized >= 0 && normalized <= end,
    () => `${name} must lie in [${-rank}, ${end}] for rank ${rank}, got ${axis}`,
    "invalid-argument",
  );
  return normalized;
}

/** Axes counted from the front. Fails where one is out of range or comes twice. */
export function normalizeAxes(call: CallContext, axes: readonly number[], rank: number, name = "axes"): number[] {
  const normalized = axes.map((axis) => normalizeAxis(call, axis, rank, { name }));
  call.check(
    new Set(normalized).size === normalized.length,
    () => `${name} must differ, got [${axes.join(",")}]`,
    "invalid-argument",
  );
  return normalized;
}

/** Fails unless the fact's rank, where known, is one of `ranks`. */
export function checkRank(call: CallContext, name: string, fact: Fact | undefined, ...ranks: number[]): void {
  if (fact?.shape === undefined) return;
  const rank = fact.shape.length;
  call.check(
    ranks.includes(rank),
    () =>
      `${name} must have ${ranks.join(" or ")} dimension${ranks.length === 1 && ranks[0] === 1 ? "" : "s"}, got ${fact.type}${shapeText(fact.shape)}`,
  );
}

/** Fails where two dimensions are known to differ. Returns the better known of the two. */
export function unifyDims(call: CallContext, a: Dim, b: Dim, rule: string): Dim {
  if (isKnown(a) && isKnown(b)) call.check(a === b, () => `${rule}, got ${a} and ${b}`);
  return isKnown(a) ? a : isKnown(b) ? b : a;
}

/** A rule for outputs shaped as the input `name`. */
export function sameShapeAs<N extends string, O extends string>(
  input: N,
  output: O,
): (call: { readonly inputs: { readonly [K in N]: Fact } }) => { [K in O]: { shape: Shape | undefined } } {
  return (call) => ({ [output]: { shape: call.inputs[input].shape } }) as { [K in O]: { shape: Shape | undefined } };
}
