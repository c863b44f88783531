/**
 * Constant matrices that exporters transpose, since embedding and head are one, read as they lie.
 *
 *     weight ──▶ Transpose [1,0] ─┐
 *     x ──────────────────────────┴▶ MatMul ──▶ y            ⇒   x, weight ──▶ FusedMatMul transB ──▶ y
 *     weight ──▶ Transpose [1,0] ─┐
 *     indices ────────────────────┴▶ Gather ──▶ y            ⇒   weight, indices ──▶ Gather axis 1 ──▶ Transpose ──▶ y
 *
 * The same with MatMulBias, whose bias is then added to the product. A transposed matrix would be held a second time, and made anew in each run.
 */
import type { Graph, Value } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { int, ints } from "../graph/attribute-values.js";
import { axisOf, isConstant, orderOf, shapeOf } from "./facts.js";
import { bound, either, hole, type Match, op } from "./match.js";
import { rewrite } from "./rewrite.js";

const [x, weight, bias, turned, indices] = Array.from({ length: 5 }, hole);
const transposed = bound(turned, op("Transpose", [weight]));

/** The constant matrix that a match transposes; undefined where it does less, or something else. */
function matrixOf(match: Match): Value | undefined {
  const matrix = match.value(weight);
  if (!isConstant(matrix) || shapeOf(matrix)?.length !== 2) return undefined;
  return orderOf(match.node(turned), 2)[0] === 1 ? matrix : undefined;
}

/** Products with transposed weights. */
const products = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: either(op("MatMul", [x, transposed]), op("MatMulBias", [x, transposed, bias], { domain: "insitu" })),
    keepsInner: true, // other readers have their own ways
    replace(match, edit, root) {
      const [matrix, added] = [matrixOf(match), match.find(bias)];
      if (matrix === undefined || (shapeOf(match.value(x))?.length ?? 0) < 2) return false;
      const how = { domain: "com.microsoft", attributes: { transB: int(1) } } as const;
      const operands = [match.value(x), matrix];
      if (added === undefined) edit.node("FusedMatMul", operands, { ...how, outputs: [root] });
      else edit.node("Add", [edit.node("FusedMatMul", operands, how), added], { outputs: [root] });
      return true;
    },
  });

/** Rows of transposed tables. */
const rows = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: op("Gather", [transposed, indices]),
    keepsInner: true,
    replace(match, edit, root) {
      const [matrix, rank] = [matrixOf(match), shapeOf(match.value(indices))?.length];
      const axis = axisOf(match.index.producerOf(root)!.attrs["axis"] as number, 2);
      if (matrix === undefined || rank === undefined || axis !== 0) return false;
      const columns = edit.node("Gather", [matrix, match.value(indices)], { attributes: { axis: int(1) } });
      const perm = ints([...Array.from({ length: rank }, (_, at) => at + 1), 0]);
      edit.node("Transpose", [columns], { attributes: { perm }, outputs: [root] });
      return true;
    },
  });

/** The graph without transposed weights where their readers can read them otherwise. */
export const readTurnedWeights = (graph: Graph, operators: OperatorSet): Graph =>
  [products, rows].reduce((before, pass) => pass(before, operators), graph);
