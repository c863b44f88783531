/**
 * Model → Model: a decoder that draws its own next token, so that it need not come to the host before it is read.
 *
 * before: … → logits
 * after:  … → logits → SampleToken(…, options, top_k, seed, counter, seen) → next_token, next_input_ids, next_sampling_seen
 *                     → Gather(sampling_host_rows) → host_logits
 */
import { initializer, node, value } from "#insitu/onnx/build.js";
import type { Model, ModelValue } from "#insitu/onnx/model.js";
import type { ElementType } from "#insitu/tensor/element-type.js";
import { logitsOf } from "./logits-output.js";
import { hostLogits, hostRows, samplingInputs, samplingOutputs, seenWords } from "./sampling-names.js";

const shapeOf = (value: ModelValue | undefined): readonly unknown[] | undefined =>
  value?.type?.kind === "tensor" ? value.type.shape : undefined;
const typeOf = (value: ModelValue | undefined): ElementType | undefined =>
  value?.type?.kind === "tensor" ? value.type.elementType : undefined;

/** Types of logits that devices draw from. */
const logitTypes: readonly (string | undefined)[] = ["float32", "float16", "bfloat16"];

/** The model with its sampler; the same model where it is no decoder with int64 tokens and float logits of [batch, rows, vocabulary]. */
export function withSampling(model: Model): Model {
  const { graph, opsets } = model;
  const tokens = graph.inputs.find(({ name }) => name === "input_ids");
  const logits = logitsOf(model);
  const values = [...graph.inputs, ...graph.outputs, ...graph.initializers].map(({ name }) => name);
  const named = new Set([...values, ...graph.nodes.flatMap((each) => each.outputs)]);
  const [inputs, outputs] = [Object.values(samplingInputs), Object.values(samplingOutputs)];
  if (logits === undefined || (shapeOf(logits)?.length ?? 3) !== 3 || shapeOf(tokens)?.length !== 2) return model;
  if (typeOf(tokens) !== "int64" || !logitTypes.includes(typeOf(logits))) return model;
  if ([...inputs, ...outputs, hostRows, hostLogits].some((name) => named.has(name))) return model;
  const { options, topK, seed, counter, seen } = samplingInputs;
  const vocabulary = shapeOf(logits)?.[2];
  if (typeof vocabulary !== "number") return model;
  const words = seenWords(vocabulary);
  return {
    ...model,
    opsets: new Map([...opsets, ["insitu", opsets.get("insitu") ?? 1]]),
    graph: {
      ...graph,
      inputs: [
        ...graph.inputs,
        value(options, "float32", [undefined, 4]),
        value(topK, "int64", [undefined]),
        value(seed, "int64", [undefined]),
        value(counter, "int64", [undefined]),
        value(seen, "int32", [undefined, words]),
        value(hostRows, "int64", [undefined]),
      ],
      initializers: [
        ...graph.initializers,
        initializer(options, "float32", [0, 1, 0, 1], [1, 4]),
        initializer(topK, "int64", [0n], [1]),
        initializer(seed, "int64", [0n], [1]),
        initializer(counter, "int64", [0n], [1]),
        initializer(seen, "int32", new Array<number>(words).fill(0), [1, words]),
        initializer(hostRows, "int64", [0n], [1]),
      ],
      nodes: [
        ...graph.nodes,
        node("SampleToken", [logits.name, ...inputs], outputs, {}, { name: "sample_token", domain: "insitu" }),
        node("Gather", [logits.name, hostRows], [hostLogits], { axis: 0 }, { name: "pick_host_logits" }),
      ],
      outputs: [
        ...graph.outputs,
        value(samplingOutputs.token, "int64", [undefined, 1]),
        value(samplingOutputs.input, "int64", [undefined, 1]),
        value(samplingOutputs.seen, "int32", [undefined, words]),
        value(hostLogits, typeOf(logits)!, [undefined, undefined, vocabulary]),
      ],
    },
  };
}
