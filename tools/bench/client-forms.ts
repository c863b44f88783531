/**
 * The embedded model as programs of others feed it: the lengths that GroupQueryAttention asks for are counted from attention_mask, as
 * onnxruntime-genai's builder does it, and the batch has the name that transformers.js looks for. Runs nothing.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { attributes, initializer, node, value } from "#insitu/onnx/build.js";
import type { Model, ModelNode, ModelValue } from "#insitu/onnx/model.js";
import { readModel } from "#insitu/onnx/read.js";
import { embeddedModel } from "#insitu/platform/embedded-model.js";
import { type EmbeddedSizes, type PastPresentForm, pastPresentForm } from "./embedded-forms.js";

/** What the embedded model's config.json says. */
export function embeddedSizes(): EmbeddedSizes {
  const config = JSON.parse(readFileSync(join(embeddedModel(), "config.json"), "utf8")) as Record<string, number>;
  return {
    layers: config["num_hidden_layers"],
    heads: config["num_attention_heads"],
    keyValueHeads: config["num_key_value_heads"],
    headSize: config["head_dim"],
    vocabulary: config["vocab_size"],
    ropeTheta: config["rope_theta"],
    positions: 2 * config["max_position_embeddings"],
  };
}

/** The form of the embedded model that clients run; its products round activations to 8 bits at level 4, and compute on floats at level 0. */
export function embeddedClientForm(form: PastPresentForm, accuracyLevel: 0 | 4): Model {
  const bytes = new Uint8Array(readFileSync(join(embeddedModel(), "onnx/model.onnx")));
  const model = pastPresentForm(readModel(bytes), embeddedSizes(), form);
  const { graph } = model;
  const counted = form === "GroupQueryAttention";
  const lengths = counted ? ["seqlens_k", "total_sequence_length"] : [];
  const inputs = graph.inputs.filter(({ name }) => !lengths.includes(name));
  const mask = counted ? [value("attention_mask", "int64", ["batch_size", "total_length"])] : [];
  return {
    ...model,
    graph: {
      ...graph,
      nodes: [...(counted ? lengthNodes : []), ...graph.nodes.map((each) => atLevel(each, accuracyLevel))],
      initializers: [
        ...graph.initializers,
        ...(counted
          ? [initializer("lengths.one", "int64", [1n], [1]), initializer("lengths.axis", "int64", [1n], [])]
          : []),
      ],
      inputs: [...inputs.map(withBatchSize), ...mask],
      outputs: graph.outputs.map(withBatchSize),
    },
  };
}

const lengthNodes: readonly ModelNode[] = [
  node("ReduceSum", ["attention_mask", "lengths.one"], ["lengths.valid"], { keepdims: 0 }),
  node("Sub", ["lengths.valid", "lengths.one"], ["lengths.last"]),
  node("Cast", ["lengths.last"], ["seqlens_k"], { to: 6 }),
  node("Shape", ["attention_mask"], ["lengths.shape"]),
  node("Gather", ["lengths.shape", "lengths.axis"], ["lengths.columns"], { axis: 0 }),
  node("Cast", ["lengths.columns"], ["total_sequence_length"], { to: 6 }),
];

const atLevel = (each: ModelNode, accuracy_level: number): ModelNode =>
  each.attributes.has("accuracy_level")
    ? { ...each, attributes: new Map([...each.attributes, ...attributes({ accuracy_level })]) }
    : each;

function withBatchSize(each: ModelValue): ModelValue {
  if (each.type?.kind !== "tensor" || each.type.shape === undefined) return each;
  return value(each.name, each.type.elementType, ["batch_size", ...each.type.shape.slice(1)]);
}
