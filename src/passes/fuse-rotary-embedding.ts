/**
 * Rotary embedding written out, made one node.
 *
 *     f ──▶ Concat f,f ─┬▶ Cos ──▶ cos ─────────┐                                  f ─┬▶ Cos ─┐
 *                       ╰▶ Sin ──▶ sin ────┐    │                                     ╰▶ Sin ─┤
 *     x ─┬──────────────────────────────── │ ─▶ Mul ─┐                        ⇒     x ────────┴▶ RotaryEmbedding ──▶ y
 *        ╰▶ −x₂, x₁ (Slice, Neg, Concat) ─▶ Mul ─────┴▶ Add ──▶ y
 *
 * Pairs may be halves or neighbours; the heads' first values alone may be turned, the others joined on behind; heads may stand before or
 * behind the length. The same, spelled out for either half: x₁·cos − x₂·sin and x₁·sin + x₂·cos, joined.
 */
import { isKnown, type Shape } from "../graph/dim.js";
import type { Graph, Node, Value } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { axisOf, lastDim, same, shapeOf } from "./facts.js";
import { bound, either, hole, type Match, op, type Pattern, provided, unordered } from "./match.js";
import { int } from "../graph/attribute-values.js";
import { type Edit, rewrite } from "./rewrite.js";
import { forEverySample, halfOf, type Pairing } from "./rotary-angles.js";
import { part, type Span } from "./spans.js";

const [x, turned, cos, sin] = [hole(), hole(), hole(), hole()];

const atLastAxis = (node: Node): boolean => {
  const rank = shapeOf(node.inputs[0])?.length;
  return rank !== undefined && axisOf(node.attrs["axis"] as number, rank) === rank - 1;
};
const joinedAtLast = (...parts: readonly Pattern[]): Pattern => op("Concat", parts, { where: atLastAxis });

/** Where the first and the second value of each pair lie. */
const spans: Readonly<Record<Pairing, readonly ((span: Span) => boolean)[]>> = {
  halves: [
    ({ from, to, step, size }) => from === 0 && 2 * to === size && step === 1,
    ({ from, to, step, size }) => 2 * from === size && to === size && step === 1,
  ],
  neighbours: [
    ({ from, to, step, size }) => from === 0 && to >= size - 1 && step === 2 && size % 2 === 0,
    ({ from, to, step, size }) => from === 1 && to === size && step === 2 && size % 2 === 0,
  ],
};

/** The firsts and the seconds of all pairs, joined to one value again. */
const rejoined: Readonly<Record<Pairing, (first: Pattern, second: Pattern) => Pattern>> = {
  halves: (first, second) => joinedAtLast(first, second),
  neighbours: (first, second) => {
    const last = (pattern: Pattern): Pattern =>
      provided(op("Unsqueeze", [pattern], { more: true }), (value) => {
        const shape = shapeOf(value);
        return shape !== undefined && shape.length > 1 && shape.at(-1) === 1;
      });
    return provided(op("Reshape", [joinedAtLast(last(first), last(second))], { more: true }), (value, match) => {
      const pairs = shapeOf(match.index.producerOf(value)?.inputs[0]);
      const whole = shapeOf(value);
      return (
        pairs !== undefined &&
        whole?.length === pairs.length - 1 &&
        pairs.slice(0, -2).every((dim, axis) => same(dim, whole[axis]))
      );
    });
  },
};

/** x·cos + (−x₂, x₁)·sin */
function byRotation(source: Pattern, pairing: Pairing): Pattern {
  const [first, second] = spans[pairing];
  const again = rejoined[pairing](op("Neg", [part(source, second)]), part(source, first));
  return unordered("Add", unordered("Mul", again, sin), unordered("Mul", source, cos));
}

/** x₁·cos − x₂·sin, x₁·sin + x₂·cos */
function byParts(source: Pattern, pairing: Pairing): Pattern {
  const [first, second] = spans[pairing].map((accepts) => part(source, accepts));
  return rejoined[pairing](
    op("Sub", [unordered("Mul", first, cos), unordered("Mul", second, sin)]),
    unordered("Add", unordered("Mul", first, sin), unordered("Mul", second, cos)),
  );
}

/** The turned values with the others behind them, where only a part is turned. */
const partly = (turn: (source: Pattern) => Pattern): Pattern =>
  joinedAtLast(
    turn(
      bound(
        turned,
        part(x, ({ from, step }) => from === 0 && step === 1),
      ),
    ),
    part(x, ({ to, step, size }) => to === size && step === 1),
  );

/** The axis of the heads: 1 for [batch, heads, length, size], 2 for [batch, length, heads, size]. */
function headAxis(shape: Shape, angles: Shape): 1 | 2 | undefined {
  const padded = [...Array.from({ length: 4 - angles.length }, () => 1), ...angles];
  if (padded.length !== 4 || !(padded[0] === 1 || same(padded[0], shape[0]))) return undefined;
  if (padded[1] === 1 && same(padded[2], shape[2])) return 1;
  return padded[2] === 1 && same(padded[1], shape[1]) ? 2 : undefined;
}

/** Angles as [batch, length, pairs]. */
function anglesOf(
  value: Value,
  axis: 1 | 2,
  pairing: Pairing | undefined,
  source: Value,
  edit: Edit,
): Value | undefined {
  const half = pairing === undefined ? value : halfOf(value, pairing, edit);
  const rank = shapeOf(half)?.length;
  if (half === undefined || rank === undefined) return undefined;
  // Dimensions that are missing in front are 1.
  const squeezed = axis - (4 - rank);
  const single = squeezed < 0 ? half : edit.node("Squeeze", [half, edit.integers([squeezed])]);
  const flat = shapeOf(single)?.length === 2 ? edit.node("Unsqueeze", [single, edit.integers([0])]) : single;
  return forEverySample(flat, source, edit);
}

function replace(match: Match, edit: Edit, root: Value, pairing: Pairing, anglesTwice: boolean): boolean {
  const source = match.value(x);
  const [shape, angles] = [shapeOf(source), shapeOf(match.value(cos))];
  const size = lastDim(source);
  const rotated = lastDim(match.find(turned) ?? source);
  if (shape?.length !== 4 || angles === undefined || size === undefined || rotated === undefined) return false;
  if (angles.at(-1) !== (anglesTwice ? rotated : rotated / 2)) return false;
  const axis = headAxis(shape, angles);
  const other = shapeOf(match.value(sin));
  if (axis === undefined || other === undefined || headAxis(shape, other) !== axis) return false;
  if (other.at(-1) !== angles.at(-1)) return false;
  const heads = shape[axis];
  const tables = [cos, sin].map((table) =>
    anglesOf(match.value(table), axis, anglesTwice ? pairing : undefined, source, edit),
  );
  if (tables.includes(undefined) || !isKnown(heads)) return false;
  const attributes = {
    ...(pairing === "neighbours" ? { interleaved: int(1) } : {}),
    ...(rotated === size ? {} : { rotary_embedding_dim: int(rotated) }),
  };
  if (axis === 1) {
    edit.node("RotaryEmbedding", [source, ...tables], { attributes, outputs: [root] });
    return true;
  }
  const packed = edit.node("Reshape", [source, edit.integers([0, 0, heads * size])]);
  const result = edit.node("RotaryEmbedding", [packed, ...tables], {
    attributes: { ...attributes, num_heads: int(heads) },
  });
  edit.node("Reshape", [result, edit.integers([0, 0, heads, size])], { outputs: [root] });
  return true;
}

/** The graph with its written-out rotary embeddings as nodes. */
export function fuseRotaryEmbedding(graph: Graph, operators: OperatorSet): Graph {
  let result = graph;
  for (const pairing of ["halves", "neighbours"] as const)
    for (const [form, twice] of [
      [byRotation, true],
      [byParts, false],
    ] as const) {
      const turn = (source: Pattern): Pattern => form(source, pairing);
      result = rewrite(result, operators, {
        pattern: either(partly(turn), turn(x)),
        replace: (match, edit, root) => replace(match, edit, root, pairing, twice),
      });
    }
  return result;
}
