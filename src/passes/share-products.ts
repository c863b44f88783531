/**
 * Products of one value with weights quantized in blocks, made one node.
 *
 *     x ─┬▶ MatMulNBits ──▶ q                       x ──▶ SharedProducts ─┬▶ q
 *        ├▶ MatMulNBits ──▶ k            ⇒                                ├▶ k
 *        ╰▶ MatMulNBits ──▶ v                                             ╰▶ v
 *
 * Weights stay as they are. Where more than three read the value, as all layers read what an encoder made, they stay apart: results would
 * wait for their readers. SharedProducts is insitu's own: only for backends that have a kernel for it.
 */
import type { Graph, Node } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { int } from "../graph/attribute-values.js";
import { isConstant, typeOf } from "./facts.js";
import { hole, op } from "./match.js";
import { rewrite } from "./rewrite.js";

const microsoft = { domain: "com.microsoft" } as const;
const most = 3;

/** Positions of MatMulNBits' operands. */
const at = { A: 0, B: 1, scales: 2, zeroPoints: 3, groups: 4, bias: 5 } as const;

const isProduct = (node: Node): boolean =>
  node.op.name === "MatMulNBits" && node.op.domain === microsoft.domain && node.inputs[at.groups] === undefined;

/** What must be the same for products that are computed alike. */
function formOf({ inputs, attrs }: Node): string {
  const { K, bits, block_size, accuracy_level } = attrs;
  const types = [at.scales, at.zeroPoints, at.bias].map((position) => inputs[position] && typeOf(inputs[position]));
  return [K, bits, block_size, accuracy_level, ...types.map(String)].join(" ");
}

const x = hole();

/** The graph with one node for the products that share an operand. */
export const shareProducts = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: op("MatMulNBits", [x], { ...microsoft, more: true }),
    replace(match, edit, root) {
      const [node, a] = [match.index.producerOf(root)!, match.value(x)];
      const products = [...match.index.readersOf(a)].filter((reader) => isProduct(reader) && reader.inputs[at.A] === a);
      if (products.length < 2 || products.length > most || !products.includes(node)) return false;
      if (
        !products.every(
          (each) =>
            formOf(each) === formOf(node) &&
            each.inputs.slice(1).every((value) => value === undefined || isConstant(value)),
        )
      )
        return false;
      const { K, bits, block_size, accuracy_level } = node.attrs as Record<string, number>;
      const columns = products.map((each, index) => [`N${index + 1}`, int(each.attrs["N"] as number)] as const);
      const operands = products.flatMap(({ inputs }) =>
        [at.B, at.scales, at.zeroPoints, at.bias].map((position) => inputs[position]),
      );
      edit.node("SharedProducts", [a, ...operands], {
        domain: "insitu",
        attributes: {
          K: int(K),
          bits: int(bits),
          block_size: int(block_size),
          accuracy_level: int(accuracy_level),
          ...Object.fromEntries(columns),
        },
        outputs: products.map(({ outputs }) => outputs[0]),
      });
      return true;
    },
  });
