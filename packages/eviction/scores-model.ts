/** Model → Model: each Attention hands out its probabilities (qk_matmul_output, mode 3), for policies that go by attention. */
import { InsituError } from "#insitu/base/error.js";
import { attributes, value } from "#insitu/onnx/build.js";
import { valueText } from "#insitu/base/value-text.js";
import { isModel, type Model } from "#insitu/onnx/model.js";
import { attentionScores } from "#insitu/rewrite/page-names.js";
import { isCacheAttention } from "#insitu/rewrite/page-trail.js";

/**
 * Adds outputs `attention_scores.L` of [batch, heads, queries, rows] to a model: `InferenceSession.create(path, { change: withAttentionScores })`.
 */
export function withAttentionScores(model: Model): Model {
  if (!isModel(model))
    throw new InsituError("invalid-argument", `withAttentionScores takes a model, got ${valueText(model)}`);
  const outputs: string[] = [];
  const nodes = model.graph.nodes.map((node) => {
    if (!isCacheAttention(node)) return node;
    const name = `${attentionScores}${outputs.length}`;
    if (node.outputs[3])
      throw new InsituError(
        "invalid-graph",
        `Attention "${node.name || node.outputs[0]}" hands out its scores already`,
      );
    outputs.push(name);
    return {
      ...node,
      outputs: [...[0, 1, 2].map((at) => node.outputs[at] ?? ""), name],
      attributes: new Map([...node.attributes, ...attributes({ qk_matmul_output_mode: 3 })]),
    };
  });
  if (outputs.length === 0)
    throw new InsituError("invalid-graph", "the model has no Attention whose probabilities could be handed out");
  const added = outputs.map((name) => value(name, undefined, undefined));
  return { ...model, graph: { ...model.graph, nodes, outputs: [...model.graph.outputs, ...added] } };
}
