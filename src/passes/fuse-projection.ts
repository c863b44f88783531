/**
 * Products with constant weights, and what stands around them, made one node each.
 *
 *     x, weight, … ──▶ MatMul, MatMulBias or MatMulNBits ──▶ y           ⇒   x, weight, … ──▶ Projection ──▶ y
 *     Projection of x ──▶ gate ─┐
 *     Projection of x ──▶ up ───┴▶ SwiGLU ──▶ y                            ⇒   Projection gated, its columns those of both in turn
 *     x, y ──▶ SkipSimplifiedLayerNormalization ─┬▶ sum                    ⇒   Add ──▶ sum ──▶ SimplifiedLayerNormalization ──▶ z
 *                                                ╰▶ z                          where Projections read z, so that it goes into them
 *     x ──▶ SimplifiedLayerNormalization scale ──▶ Projection ──▶ y        ⇒   Projection with norm_scale
 *     Projection ─┐
 *     addend ─────┴▶ Add ──▶ y                                             ⇒   Projection with addend
 *
 * Projection is insitu's own. Products that read one normalisation compute it each: there are few of them, once those that share an operand
 * are one. Only for backends that have a kernel for it.
 */
import type { Graph, Node, Value } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import type { View } from "../tensor/view.js";
import { axisOf, haveSameShape, isConstant, lastDim, shapeOf, typeOf } from "./facts.js";
import { type ColumnOrder, joinByColumn, joinViews } from "./join-weights.js";
import { bound, either, hole, op, type Pattern, shared, unordered } from "./match.js";
import { float, int } from "../graph/attribute-values.js";
import { type Edit, rewrite } from "./rewrite.js";

const own = { domain: "insitu" } as const;
const microsoft = { domain: "com.microsoft" } as const;

/** Positions of Projection's operands. */
const at = { A: 0, B: 1, scales: 2, zeroPoints: 3, bias: 4, normScale: 5, addend: 6 } as const;

const types: ReadonlySet<string | undefined> = new Set(["float32", "float16", "bfloat16"]);

const [x, weight, bias, scale, first, second, product, added] = Array.from({ length: 8 }, hole);

/** A Projection, whatever it reads. */
export const projection = (as: Pattern): Pattern => bound(as, op("Projection", [], { ...own, more: true }));

/** Makes a Projection like another one with some operands and attributes changed. */
function changed(
  edit: Edit,
  node: Node,
  operands: Readonly<Record<number, Value>>,
  attributes: Parameters<typeof edit.node>[2] & object,
): Value {
  const inputs = Array.from({ length: 7 }, (_, position) => operands[position] ?? node.inputs[position]);
  return edit.node("Projection", inputs, {
    ...own,
    ...attributes,
    attributes: { ...Object.fromEntries(node.attributes), ...attributes.attributes },
  });
}

/** Products with constant weights. */
const asProjections = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: either(
      op("MatMul", [x, weight]),
      op("MatMulBias", [x, weight, bias], own),
      op("MatMulNBits", [x, weight], { ...microsoft, more: true }),
    ),
    replace(match, edit, root) {
      const node = match.index.producerOf(root)!;
      const [a, b] = [match.value(x), match.value(weight)];
      const rank = shapeOf(a)?.length;
      if (!types.has(typeOf(a)) || rank === undefined || rank < 2 || !isConstant(b)) return false;
      if (node.op.name !== "MatMulNBits") {
        const [k, n] = shapeOf(b)!.length === 2 ? (shapeOf(b) as readonly number[]) : [0, 0];
        const added = match.find(bias);
        if (k === 0 || n === 0 || (added !== undefined && !isConstant(added))) return false;
        const inputs = [a, b, undefined, undefined, added];
        edit.node("Projection", inputs, { ...own, attributes: { K: int(k), N: int(n) }, outputs: [root] });
        return true;
      }
      const [, , scales, zeros, groups, added] = node.inputs;
      const constants = [scales, zeros, added].filter((value) => value !== undefined);
      if (groups !== undefined || !constants.every(isConstant)) return false;
      const { K, N, bits, block_size, accuracy_level } = numbers(node);
      edit.node("Projection", [a, b, scales, zeros, added], {
        ...own,
        attributes: {
          K: int(K),
          N: int(N),
          bits: int(bits),
          block_size: int(block_size),
          accuracy_level: int(accuracy_level),
        },
        outputs: [root],
      });
      return true;
    },
  });

type Numbers = Record<"K" | "N" | "bits" | "block_size" | "accuracy_level", number>;

const numbers = (node: Node): Numbers => node.attrs as Numbers;

/** True for a Projection that nothing was taken into yet. */
const isPlain = (node: Node): boolean =>
  node.inputs[at.normScale] === undefined && node.inputs[at.addend] === undefined && node.attrs["gated"] !== true;

/**
 * The constants of one Projection whose columns are those of several; undefined where they do not go together: other operands, types or
 * blocks, or a constant that only some have.
 */
export function joinedOperands(
  edit: Edit,
  nodes: readonly Node[],
  order: ColumnOrder,
): { readonly inputs: readonly (Value | undefined)[]; readonly N: number } | undefined {
  const [{ inputs, attrs }] = nodes;
  const alike = nodes.every(
    (node) =>
      isPlain(node) &&
      node.inputs[at.A] === inputs[at.A] &&
      (["K", "bits", "block_size", "accuracy_level"] as const).every((name) => node.attrs[name] === attrs[name]) &&
      [at.B, at.scales, at.zeroPoints, at.bias].every(
        (position) =>
          typeOf(node.inputs[position]) === typeOf(inputs[position]) &&
          (node.inputs[position]?.initializer?.contiguous ?? true),
      ),
  );
  if (!alike) return undefined;
  const columns = nodes.map((node) => numbers(node).N);
  if (order === "inTurn" && columns.some((count) => count !== columns[0])) return undefined;
  const isMatrix = inputs[at.scales] === undefined;
  const joined = [at.B, at.scales, at.zeroPoints, at.bias].map((position) => {
    const parts = nodes.flatMap((node) => node.inputs[position]?.initializer ?? []);
    if (parts.length === 0) return undefined;
    const make = (): View =>
      position === at.B && isMatrix ? joinViews(parts, 1, order) : joinByColumn(parts, columns, order);
    return edit.constant(
      `${inputs[position]!.name} joined`,
      make,
      `${order} ${columns.join(",")}`,
      nodes[0].outputs[0],
    );
  });
  return { inputs: [inputs[at.A], ...joined], N: columns.reduce((sum, count) => sum + count, 0) };
}

/** Gates of feed-forward blocks. */
const gated = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: op("SwiGLU", [projection(first), projection(second)], { where: ({ attrs }) => attrs["alpha"] === 1 }),
    replace(match, edit, root) {
      const nodes = [match.node(first), match.node(second)];
      const operands = joinedOperands(edit, nodes, "inTurn");
      if (operands === undefined) return false;
      const attributes = { ...Object.fromEntries(nodes[0].attributes), N: int(operands.N), gated: int(1) };
      edit.node("Projection", operands.inputs, { ...own, attributes, outputs: [root] });
      return true;
    },
  });

const isProjection = (node: Node): boolean => node.op.name === "Projection" && node.op.domain === own.domain;

/** True if all that read a value are Projections that have no norm yet, and read it as what they multiply. */
function goesIntoProjections(value: Value, readers: ReadonlySet<Node>): boolean {
  return (
    readers.size > 0 &&
    [...readers].every(
      (node) =>
        isProjection(node) &&
        node.inputs[at.A] === value &&
        node.inputs.filter((input) => input === value).length === 1 &&
        node.inputs[at.normScale] === undefined,
    )
  );
}

/** Residuals whose sum is normalized for Projections alone: an addition for the product before, a norm for those behind. */
const apart = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: op("SkipSimplifiedLayerNormalization", [first, second, scale], microsoft),
    replace(match, edit, root) {
      const node = match.index.producerOf(root)!;
      const [, mean, inverse, sum] = node.outputs;
      const [left, right] = [match.value(first), match.value(second)];
      if (mean !== undefined || inverse !== undefined || !haveSameShape(left, right)) return false;
      if (match.index.isOutput(root) || !goesIntoProjections(root, match.index.readersOf(root))) return false;
      const total = edit.node("Add", [left, right], sum === undefined ? {} : { outputs: [sum] });
      edit.node("SimplifiedLayerNormalization", [total, match.value(scale)], {
        attributes: { axis: int(-1), epsilon: float(node.attrs["epsilon"] as number) },
        outputs: [root],
      });
      return true;
    },
  });

/** Normalisations over the last axis, read by Projections alone. */
const normalized: Pattern = shared(
  bound(product, either(op("SimplifiedLayerNormalization", [x, scale]), op("RMSNormalization", [x, scale]))),
);

const normsInside = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: op("Projection", [normalized], {
      ...own,
      more: true,
      where: (node) => node.inputs[at.normScale] === undefined,
    }),
    keepsInner: true,
    replace(match, edit, root) {
      const [node, norm] = [match.index.producerOf(root)!, match.node(product)];
      const rank = shapeOf(match.value(x))?.length ?? 0;
      const width = lastDim(match.value(x));
      if (axisOf(norm.attrs["axis"] as number, rank) !== rank - 1) return false;
      const weights = match.value(scale);
      if (!isConstant(weights) || shapeOf(weights)?.length !== 1 || shapeOf(weights)?.[0] !== width) return false;
      if (typeOf(match.value(x)) !== typeOf(root) || typeOf(weights) !== typeOf(root)) return false;
      if (norm.outputs.slice(1).some((value) => value !== undefined)) return false;
      const readers = match.index.readersOf(match.value(product));
      const rest = [...readers].every((reader) => isProjection(reader) && reader.inputs[at.A] === match.value(product));
      if (!rest || match.index.isOutput(match.value(product))) return false;
      changed(
        edit,
        node,
        { [at.A]: match.value(x), [at.normScale]: weights },
        { outputs: [root], attributes: { epsilon: float(norm.attrs["epsilon"] as number) } },
      );
      return true;
    },
  });

/** What is added to a product. */
const addendsInside = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: unordered("Add", projection(product), added),
    replace(match, edit, root) {
      const node = match.node(product);
      if (node.inputs[at.addend] !== undefined || match.value(added) === match.value(product)) return false;
      if (!haveSameShape(match.value(product), match.value(added)) || isConstant(match.value(added))) return false;
      changed(edit, node, { [at.addend]: match.value(added) }, { outputs: [root] });
      return true;
    },
  });

/** Products as Projections, gates among them. */
export const fuseProjections = (graph: Graph, operators: OperatorSet): Graph =>
  [asProjections, gated].reduce((before, pass) => pass(before, operators), graph);

/** Norms and residuals taken into Projections. */
export const fuseAroundProjections = (graph: Graph, operators: OperatorSet): Graph =>
  [apart, normsInside, addendsInside].reduce((before, pass) => pass(before, operators), graph);
