/**
 * The operands of an attention that is written out: keys behind their transposition, heads behind a joined batch, masks in the form
 * that Attention takes. Patterns and questions for `fuse-attention`; no rewrite itself.
 */
import { multiplyDims, type Shape } from "../graph/dim.js";
import type { Node, Value } from "../graph/graph.js";
import { fitsInto, numberOf, orderOf, same, sameNumbers, shapeOf, typeOf } from "./facts.js";
import { isFiniteSum } from "./bounds.js";
import { joined as joinedAt, parted as partedAt } from "./heads.js";
import { either, op, type Pattern } from "./match.js";
import { ints } from "../graph/attribute-values.js";
import { type Edit } from "./rewrite.js";

const turns =
  (...order: readonly number[]) =>
  (node: Node): boolean =>
    sameNumbers(orderOf(node, order.length), order);

/** A Reshape that joins batch and heads of a value of 4 dimensions. */
export const joined = (pattern: Pattern): Pattern => joinedAt(pattern, 4, 0);

/** A Reshape that takes batch and heads apart again. */
export const parted = (pattern: Pattern): Pattern => partedAt(pattern, 4, 0);

/** Keys of 4 dimensions, transposed: at once, or with batch and heads joined meanwhile. `swapped` are keys as [batch, length, heads, size]. */
export const transposedKeys = (keys: Pattern, swapped: Pattern): Pattern =>
  either(
    op("Transpose", [keys], { where: turns(0, 1, 3, 2) }),
    parted(op("Transpose", [joined(keys)], { where: turns(0, 2, 1) })),
    op("Transpose", [swapped], { where: turns(0, 2, 3, 1) }),
  );

/** Keys whose batch and heads stay joined, transposed. */
export const transposedJoinedKeys = (keys: Pattern): Pattern =>
  op("Transpose", [joined(keys)], { where: turns(0, 2, 1) });

/** The scores' dimensions. */
export interface Scores {
  readonly batch: Shape[number];
  readonly heads: Shape[number];
  readonly queries: Shape[number];
  readonly keys: Shape[number];
}

/** One summand of the mask, in the form the scores had when it was added. */
export interface Added {
  readonly value: Value;
  readonly joined: boolean;
}

/**
 * The mask as Attention takes it, made through `edit`: undefined where there is none, "unfit" where it may broadcast in another way or
 * where a query may attend to nothing, which Attention answers with zeros and the written-out form, unless guarded, with NaN.
 */
export function maskOf(
  added: readonly Added[],
  scores: Scores,
  guarded: boolean,
  edit: Edit,
): Value | undefined | "unfit" {
  if (added.length === 0) return undefined;
  const summands = added.map(({ value }) => value);
  if (!guarded && !isFiniteSum(summands, edit)) return "unfit";
  const parts: Value[] = [];
  let spansKeys = false;
  for (const { value, joined: isJoined } of added) {
    const shape = shapeOf(value);
    if (shape === undefined) return "unfit";
    const part = isJoined && shape.length === 3 && shape[0] !== 1 ? partHeads(value, shape, scores, edit) : value;
    const own = part && shapeOf(part);
    if (part === undefined || own === undefined || !fitsScores(own, scores)) return "unfit";
    spansKeys ||= same(own.at(-1), scores.keys);
    parts.push(part);
  }
  // Attention hides the keys past a mask's end, where Add repeats a mask of length 1.
  if (!spansKeys) return "unfit";
  if (parts.length === 1) return visibleOf(parts[0], edit) ?? parts[0];
  return parts.reduce((sum, part) => edit.node("Add", [sum, part]));
}

/** [batch · heads, …] as [batch, heads, …]. */
function partHeads(value: Value, shape: Shape, { batch, heads }: Scores, edit: Edit): Value | undefined {
  if (typeof heads !== "number" || !same(shape[0], multiplyDims(batch, heads))) return undefined;
  const widened = edit.node("Unsqueeze", [value, edit.integers([1])]);
  return edit.node("Reshape", [widened, edit.integers([-1, heads, 0, 0])]);
}

/** True if a mask broadcasts to the scores, whatever the symbols stand for, its last dimension aside. */
function fitsScores(shape: Shape, { batch, heads, queries }: Scores): boolean {
  if (shape.length === 0 || shape.length > 4) return false;
  const [query, head, sample] = [shape.at(-2), shape.at(-3), shape.at(-4)];
  const fits = (own: Shape[number] | undefined, dim: Shape[number]): boolean => own === undefined || fitsInto(own, dim);
  return fits(query, queries) && fits(head, heads) && fits(sample, batch);
}

/** The booleans behind a mask of 0 and −∞: true where a key is seen. */
function visibleOf(mask: Value, edit: Edit): Value | undefined {
  const node = edit.producerOf(mask);
  if (node?.op.name !== "Where" || node.op.domain !== "") return undefined;
  const [condition, yes, no] = node.inputs;
  const numbers = [numberOf(yes), numberOf(no)];
  if (condition === undefined || typeOf(condition) !== "bool" || shapeOf(condition)?.length !== shapeOf(mask)?.length)
    return undefined;
  if (numbers[0] === 0 && numbers[1] === -Infinity) return condition;
  if (numbers[0] === -Infinity && numbers[1] === 0) return edit.node("Not", [condition]);
  return undefined;
}

/** [batch, length, heads, size] as [batch, heads, length, size]. */
export const swapHeads = (value: Value, edit: Edit): Value =>
  edit.node("Transpose", [value], { attributes: { perm: ints([0, 2, 1, 3]) } });
