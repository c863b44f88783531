/**
 * Model + Model → Model: a decoder that reads embeddings, and the model beside it that makes them of tokens, as one that reads tokens. What the
 * embedding would read of images or sound is given nothing of; each part keeps the opset that it was written for.
 */
import { InsituError } from "#insitu/base/error.js";
import { initializer, modelFunction, node as makeNode, value as makeValue } from "#insitu/onnx/build.js";
import type { Model, ModelDimension, ModelNode, ModelTensor, ModelValue } from "#insitu/onnx/model.js";
import { type ElementType, traitsOf } from "#insitu/tensor/element-type.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { View } from "#insitu/tensor/view.js";

const [domain, name] = ["insitu.embedding", "embed_tokens"];

/** What a decoder reads in the place of tokens. */
const embeddings = "inputs_embeds";
const tokens = "input_ids";

/** True for a decoder that reads embeddings and no tokens. */
export const readsEmbeddings = ({ graph: { inputs } }: Model): boolean =>
  inputs.some((input) => input.name === embeddings) && inputs.every((input) => input.name !== tokens);

/** The decoder with the embedding in front. Throws, naming the input, where the one does not make what the other reads. */
export function joinEmbedding(embedding: Model, decoder: Model): Model {
  const { graph } = embedding;
  const outputs = graph.outputs.map((output, at) => ({ output, input: inputFor(output, at, decoder) }));
  const made = new Map(outputs.flatMap(({ output, input }) => (input === undefined ? [] : [[input.name, output]])));
  if (!made.has(embeddings)) refuse(`no output of it is what the decoder reads as "${embeddings}"`);
  const inner = (own: string): string => `${name}/${own}`;
  const weights = graph.initializers.map((tensor): ModelTensor => ({ ...tensor, name: inner(tensor.name) }));
  const fed = graph.inputs.filter((input) => !graph.initializers.some((tensor) => tensor.name === input.name));
  const nothing = fed.filter((input) => input.name !== tokens).map((input) => empty(input, inner(input.name)));
  const formals = [...fed.map((input) => input.name), ...graph.initializers.map((tensor) => tensor.name)];
  const actuals = formals.map((formal) => (formal === tokens ? tokens : inner(formal)));
  const call = modelFunction({
    domain,
    name,
    opset: {},
    inputs: formals,
    outputs: graph.outputs.map((output) => output.name),
    nodes: graph.nodes,
  });
  const results = outputs.map(({ output, input }) => joint(output, input));
  const own = fed.find((input) => input.name === tokens) ?? refuse(`it reads no "${tokens}"`);
  const [batch, length] = shapeOf(decoder.graph.inputs.find((input) => input.name === embeddings)!);
  const inputs = [
    makeValue(tokens, typeOf(own) ?? "int64", [batch, length]),
    ...decoder.graph.inputs.filter((input) => !made.has(input.name) && input.name !== tokens),
  ];
  return {
    ...decoder,
    irVersion: Math.max(decoder.irVersion, embedding.irVersion, 10),
    opsets: new Map([...decoder.opsets, [domain, 1]]),
    functions: [...decoder.functions, ...embedding.functions, { ...call, opsets: embedding.opsets }],
    graph: {
      ...decoder.graph,
      inputs,
      initializers: [...decoder.graph.initializers, ...weights, ...nothing],
      nodes: [
        makeNode(
          name,
          actuals,
          results.map(({ result }) => result),
          {},
          { domain, name },
        ),
        ...results.flatMap(({ cast }) => cast),
        ...decoder.graph.nodes,
      ],
    },
  };
}

const refuse = (why: string): never => {
  throw new InsituError("invalid-model", `the model that makes embeddings does not fit the decoder: ${why}`);
};

/** The decoder's input that an output is for: of the same name, or the embeddings where it is the first. */
function inputFor({ name: output }: ModelValue, at: number, { graph: { inputs } }: Model): ModelValue | undefined {
  const named = inputs.find((input) => input.name === output);
  return named ?? (at === 0 ? inputs.find((input) => input.name === embeddings) : undefined);
}

/** The name of what an output gives, and the node that makes it the type that the decoder reads. */
function joint(output: ModelValue, input: ModelValue | undefined): { result: string; cast: readonly ModelNode[] } {
  if (input === undefined) return { result: "", cast: [] };
  const [from, to] = [typeOf(output), typeOf(input)];
  if (from === to || to === undefined) return { result: input.name, cast: [] };
  const result = `${name}/as made/${input.name}`;
  return { result, cast: [makeNode("Cast", [result], [input.name], { to: traitsOf(to).code })] };
}

/** A tensor of no rows: of images and sound there is nothing in a text. */
function empty(input: ModelValue, as: string): ModelTensor {
  const type = typeOf(input) ?? "float32";
  const [, ...others] = shapeOf(input);
  const dims = others.map((dim) =>
    typeof dim === "number" ? dim : refuse(`the shape of its input "${input.name}" is not known`),
  );
  return initializer(as, Tensor.fromView(View.allocate(type, [0, ...dims])));
}

const typeOf = ({ type }: ModelValue): ElementType | undefined =>
  type?.kind === "tensor" ? type.elementType : undefined;

const shapeOf = ({ type }: ModelValue): readonly ModelDimension[] =>
  type?.kind === "tensor" ? (type.shape ?? []) : [];
