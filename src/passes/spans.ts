/** Parts of a value along its last axis, whether Slice or Split cut them out. A pattern for them; no rewrite itself. */
import type { Node, Value } from "../graph/graph.js";
import { axisOf, integersOf, lastDim, shapeOf } from "./facts.js";
import type { GraphIndex } from "./graph-index.js";
import type { Pattern } from "./match.js";

/** Every `step`-th element of the last axis, which has `size` of them. */
export interface Span {
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
  readonly step: number;
  readonly size: number;
}

/** A part of what the pattern fits, cut out along the last axis as `accepts` says. */
export function part(pattern: Pattern, accepts: (span: Span) => boolean): Pattern {
  return function* (value, match) {
    const node = match.index.producerOf(value);
    const source = node?.inputs[0];
    const span = node && spanOf(value, match.index);
    if (source !== undefined && span !== undefined && accepts(span)) yield* pattern(source, match.with(node!));
  };
}

/** The span that a value is of its producer's first operand. */
export function spanOf(value: Value, index: GraphIndex): Span | undefined {
  const node = index.producerOf(value);
  const size = lastDim(node?.inputs[0]);
  if (node === undefined || node.op.domain !== "" || size === undefined) return undefined;
  return node.op.name === "Slice"
    ? slicedSpan(node, size)
    : node.op.name === "Split"
      ? splitSpan(node, value, size)
      : undefined;
}

function slicedSpan(node: Node, size: number): Span | undefined {
  const rank = shapeOf(node.inputs[0])!.length;
  const listed = (name: string, position: number): readonly number[] | undefined =>
    node.inputs.length > 1
      ? integersOf(node.inputs[position])
      : (node.attrs[name] as readonly (number | bigint)[] | undefined)?.map(Number);
  const [starts, ends] = [listed("starts", 1), listed("ends", 2)];
  const axes = listed("axes", 3) ?? (node.inputs[3] === undefined ? [0] : undefined);
  const steps = listed("steps", 4) ?? (node.inputs[4] === undefined ? [1] : undefined);
  if (starts?.length !== 1 || ends?.length !== 1 || axes?.length !== 1 || steps?.length !== 1) return undefined;
  if (axisOf(axes[0], rank) !== rank - 1 || steps[0] < 1) return undefined;
  const clamp = (at: number): number => Math.min(Math.max(at < 0 ? at + size : at, 0), size);
  return { from: clamp(starts[0]), to: clamp(ends[0]), step: steps[0], size };
}

function splitSpan(node: Node, value: Value, size: number): Span | undefined {
  const rank = shapeOf(node.inputs[0])!.length;
  if (axisOf(node.attrs["axis"] as number, rank) !== rank - 1) return undefined;
  let from = 0;
  for (const output of node.outputs) {
    const width = lastDim(output);
    if (width === undefined) return undefined;
    if (output === value) return { from, to: from + width, step: 1, size };
    from += width;
  }
  return undefined;
}
