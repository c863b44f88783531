/** What a check of a rewritten model goes by: how far results may lie apart, and which tokens the model has. */
import { isKnown } from "#insitu/graph/dim.js";
import type { Value } from "#insitu/graph/graph.js";
import type { Analysis } from "./analysis.js";

/** How far results of the two forms may differ: models that compute in fewer bits, or quantize what they compute, differ by more. */
export function toleranceOf({ graph, trails, attentions }: Analysis): number {
  const calls = (...names: readonly string[]): boolean => graph.nodes.some(({ op }) => names.includes(op.name));
  if (calls("DynamicQuantizeLinear", "MatMulInteger")) return 5e-2;
  const types = [...trails.map(({ past }) => past.fact?.type), ...attentions.map(({ query }) => query.type)];
  if (types.some((type) => type !== "float32")) return 3e-2;
  return calls("MatMulNBits") ? 2e-2 : 2e-4;
}

/** Tokens that the model has embeddings for: the rows of the tables that its inputs look up. */
export function vocabularyOf({ graph, index }: Analysis): number {
  let most = Infinity;
  const visit = (value: Value, depth: number): void => {
    for (const node of index.readersOf(value)) {
      const rows = node.inputs[0]?.fact?.shape?.[0];
      if (node.op.name.startsWith("Gather") && node.inputs[1] === value && rows !== undefined && isKnown(rows))
        most = Math.min(most, rows);
      else if (depth < 4 && ["Reshape", "Cast", "Identity"].includes(node.op.name)) visit(node.outputs[0]!, depth + 1);
    }
  };
  for (const value of graph.inputs) if (!/position|mask/i.test(value.name)) visit(value, 0);
  return Number.isFinite(most) ? most : 16;
}
