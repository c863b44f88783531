/**
 * A product with constant weights that are dequantized first, made one node that reads them as they are.
 *
 *     weight, scale, zero ──▶ DequantizeLinear ─┐           x, weight, scale, zero ──▶ DequantizeMatMul ──▶ y
 *     x ────────────────────────────────────────┴▶ MatMul ──▶ y            ⇒
 *
 * The same with MatMulBias, whose bias comes along. DequantizeMatMul is insitu's own. Only 8 and 4 bits, in float32: other types round the
 * dequantized weights.
 */
import type { Graph } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { axisOf, isConstant, shapeOf, typeOf } from "./facts.js";
import { bound, either, hole, op } from "./match.js";
import { int } from "../graph/attribute-values.js";
import { rewrite } from "./rewrite.js";

const [x, weight, scale, bias, dequantized] = [hole(), hole(), hole(), hole(), hole()];
const weights = bound(dequantized, op("DequantizeLinear", [weight, scale], { more: true }));
const kept: ReadonlySet<string> = new Set(["int8", "uint8", "int4", "uint4"]);

/** The graph with dequantization of weights taken into the products. */
export const keepQuantizedWeights = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: either(op("MatMul", [x, weights]), op("MatMulBias", [x, weights, bias], { domain: "insitu" })),
    keepsInner: true, // other readers go on reading floats
    replace(match, edit, root) {
      const [quantized, scales, zero] = match.node(dequantized).inputs;
      const { attrs } = match.node(dequantized);
      const rank = shapeOf(match.value(x))?.length;
      if (rank === undefined || rank < 2 || shapeOf(quantized)?.length !== 2 || !kept.has(typeOf(quantized)!))
        return false;
      if (![quantized, scales].every(isConstant) || (zero !== undefined && !isConstant(zero))) return false;
      if (typeOf(scales) !== "float32" || typeOf(match.value(dequantized)) !== "float32") return false;
      const axis = axisOf(Number(attrs["axis"] ?? 1), 2);
      edit.node("DequantizeMatMul", [match.value(x), quantized, scales, zero, match.find(bias)], {
        domain: "insitu",
        attributes: { axis: int(axis), block_size: int(Number(attrs["block_size"] ?? 0)) },
        outputs: [root],
      });
      return true;
    },
  });
