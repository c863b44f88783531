/**
 * Attention sinks written out: a score a head joined behind those of the keys, the greatest taken away from all, and the weight of the last one cut off
 * behind Softmax.
 */
import { isKnown, sameDim } from "#insitu/graph/dim.js";
import type { Node, Value } from "#insitu/graph/graph.js";
import type { GraphIndex } from "#insitu/passes/graph-index.js";

/** Scores of keys alone, and the sinks beside them: a value that holds one a head, whatever dimensions of 1 it has. */
interface SinkScores {
  readonly scores: Value;
  readonly sinks: Value;
}

const isPlain = (node: Node | undefined, name: string): node is Node => node?.op.name === name && node.op.domain === "";

/** What enters a Softmax, taken apart; undefined where nothing is joined behind the scores, or not a score a head. */
export function sinkScores(entering: Value, index: GraphIndex): SinkScores | undefined {
  const joined = index.producerOf(withoutGreatest(entering, index));
  if (!isPlain(joined, "Concat") || joined.inputs.length !== 2) return undefined;
  const [scores, beside] = joined.inputs;
  const shape = scores?.fact?.shape;
  const axis = joined.attrs["axis"] as number;
  if (scores === undefined || beside === undefined || shape?.length !== 4 || (axis !== -1 && axis !== 3))
    return undefined;
  // One a head, the same for all samples and queries.
  const expand = index.producerOf(beside);
  const sinks = isPlain(expand, "Expand") ? expand.inputs[0] : beside;
  const [heads, own] = [shape[1], sinks?.fact?.shape];
  if (sinks === undefined || own === undefined || !isKnown(heads) || own.length < 3 || own.length > 4) return undefined;
  return own.every((dim, at) => dim === (at === own.length - 3 ? heads : 1)) ? { scores, sinks } : undefined;
}

/** The scores before the greatest of each row was taken away, which changes no weight; the value itself where none was. */
function withoutGreatest(value: Value, index: GraphIndex): Value {
  const less = index.producerOf(value);
  const [scores, greatest] = isPlain(less, "Sub") ? less.inputs : [];
  const reduced = greatest && index.producerOf(greatest);
  if (scores === undefined || !isPlain(reduced, "ReduceMax") || reduced.inputs[0] !== scores) return value;
  const [from, to] = [scores.fact?.shape, greatest?.fact?.shape];
  const isOfRows =
    from !== undefined &&
    to?.length === from.length &&
    to.every((dim, at) => (at === to.length - 1 ? dim === 1 : sameDim(dim, from[at])));
  return isOfRows ? scores : value;
}
