/** What is told of a model's inputs and outputs. */
import { InsituError } from "../base/error.js";
import { isKnown } from "../graph/dim.js";
import type { Value } from "../graph/graph.js";
import type { ElementType } from "../tensor/element-type.js";

/** What is known about an input or output before a run. */
export interface ValueMetadata {
  /** The name in the model. */
  readonly name: string;
  /** True: models with other kinds of values are refused. */
  readonly isTensor: true;
  /** The element type. */
  readonly type: ElementType;
  /** Numbers, and the model's own symbols as text; an unknown rank is an empty list. */
  readonly shape: readonly (number | string)[];
}

/** What is known of a graph's input or output. */
export function metadataOf(value: Value): ValueMetadata {
  const { fact } = value;
  if (fact === undefined) throw new InsituError("internal", `value "${value.name}" has no fact`);
  const shape = (fact.shape ?? []).map((dim) => (isKnown(dim) ? dim : String(dim)));
  return { name: value.name, isTensor: true, type: fact.type, shape };
}
