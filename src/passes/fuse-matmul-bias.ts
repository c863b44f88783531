/**
 * A matrix product and the bias added to its rows, made one node.
 *
 *     x, weight ──▶ MatMul ─┐                              x, weight, bias ──▶ MatMulBias ──▶ y
 *     bias ─────────────────┴▶ Add ──▶ y            ⇒
 *     x, … ──▶ MatMulNBits ─┐                              x, …, bias ──▶ MatMulNBits ──▶ y
 *     bias ─────────────────┴▶ Add ──▶ y
 *
 * MatMulBias is insitu's own, since Gemm takes matrices alone. Only in float32: narrower types round the product before the addition.
 */
import type { Graph } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { haveSameShape, same, shapeOf, typeOf } from "./facts.js";
import { bound, either, hole, op, type Pattern, unordered } from "./match.js";
import { rewrite } from "./rewrite.js";

const [x, weight, bias, product] = [hole(), hole(), hole(), hole()];
/** Where MatMulNBits takes its bias. */
const biasPosition = 5;

const products: Pattern = either(
  op("MatMul", [x, weight]),
  op("MatMulNBits", [x, weight], {
    domain: "com.microsoft",
    more: true,
    where: (node) => node.inputs.length <= biasPosition,
  }),
);

/** The graph with biases taken into the products they are added to. */
export const fuseMatmulBias = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: unordered("Add", bound(product, products), bias),
    replace(match, edit, root) {
      const node = match.node(product);
      const [added, columns] = [match.value(bias), shapeOf(match.value(product))?.at(-1)];
      const shape = shapeOf(added);
      if (typeOf(added) !== "float32" || shape?.length !== 1 || !same(shape[0], columns)) return false;
      if (!haveSameShape(match.value(product), root)) return false;
      if (node.op.name === "MatMulNBits") {
        const operands = Array.from({ length: biasPosition }, (_, at) => node.inputs[at]);
        edit.node(node.op.name, [...operands, added], {
          domain: node.op.domain,
          opset: node.opset,
          attributes: Object.fromEntries(node.attributes),
          outputs: [root],
        });
        return true;
      }
      const rank = shapeOf(match.value(x))?.length;
      if (rank === undefined || rank < 2) return false;
      edit.node("MatMulBias", [match.value(x), match.value(weight), added], { domain: "insitu", outputs: [root] });
      return true;
    },
  });
