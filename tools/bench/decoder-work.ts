/**
 * A decoder in the two forms that are compared: caches written in place by TensorScatter, and past in, present out by
 * GroupQueryAttention as published models have it. Both share their weights. Runs nothing.
 */
import { type DecoderSizes, generatedDecoder } from "../demo/decoder.js";
import { buildModel, float, node, value } from "#insitu/onnx/build.js";
import type { Model, ModelNode } from "#insitu/onnx/model.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { integers, type Tensors } from "./work.js";

/** A decoder, and the context that a step has before it. */
export interface DecoderLoad {
  readonly sizes: DecoderSizes;
  /** Positions that the caches of a state have room for. */
  readonly capacity: number;
  /** Tokens of a prompt. */
  readonly prompt: number;
  /** Valid rows after a decode step. */
  readonly context: number;
}

/** About 125 million parameters. */
export const fullDecoder: DecoderLoad = {
  sizes: {
    layers: 12,
    hidden: 768,
    heads: 12,
    keyValueHeads: 4,
    headSize: 64,
    intermediate: 2048,
    vocabulary: 32_000,
    positions: 8192,
    seed: 1,
  },
  capacity: 8192,
  prompt: 512,
  context: 4096,
};

/** For seeing that it works. */
export const tinyDecoder: DecoderLoad = {
  sizes: {
    layers: 2,
    hidden: 64,
    heads: 4,
    keyValueHeads: 2,
    headSize: 16,
    intermediate: 96,
    vocabulary: 96,
    positions: 64,
    seed: 1,
  },
  capacity: 64,
  prompt: 8,
  context: 24,
};

/** Numbers that the model is made of. */
export function parameterCount({ sizes }: DecoderLoad): number {
  const { layers, hidden, heads, keyValueHeads, headSize, intermediate, vocabulary } = sizes;
  const attention = 2 * hidden * heads * headSize + 2 * hidden * keyValueHeads * headSize;
  return layers * (attention + 3 * hidden * intermediate + 2 * hidden) + 2 * vocabulary * hidden + hidden;
}

/** insitu's form, with 8-bit weights. */
export const inPlaceDecoder = ({ sizes }: DecoderLoad): Model =>
  generatedDecoder(sizes, { weights: { bits: 8, blockSize: 32 }, caches: "heads" });

/**
 * The same decoder as published models have it: GroupQueryAttention with rotary embedding inside, past in and present out. Its products may
 * round activations to 8 bits at level 4, and compute on floats at level 0.
 */
export function pastPresentDecoder(load: DecoderLoad, accuracyLevel: 0 | 4 = 4): Model {
  const { layers, hidden, heads, keyValueHeads, headSize, intermediate, vocabulary } = load.sizes;
  const nodes: ModelNode[] = [];
  const microsoft = "com.microsoft";
  const linear = (input: string, name: string, K: number, N: number): string => {
    const attributes = { K, N, bits: 8, block_size: 32, accuracy_level: accuracyLevel };
    nodes.push(
      node("MatMulNBits", [input, `${name}.weight`, `${name}.scales`], [name], attributes, { domain: microsoft }),
    );
    return name;
  };
  /** Adds `x` to the residual where there is one, and normalises the sum: the two results. */
  const normed = (x: string, residual: string | undefined, name: string): readonly [normed: string, sum: string] => {
    const epsilon = float(1e-5);
    if (residual === undefined) {
      nodes.push(node("SimplifiedLayerNormalization", [x, `${name}.weight`], [name], { axis: -1, epsilon }));
      return [name, x];
    }
    const [sum, weight] = [`${name}.sum`, `${name}.weight`];
    const outputs = [name, undefined, undefined, sum];
    const more = { domain: microsoft };
    nodes.push(node("SkipSimplifiedLayerNormalization", [x, residual, weight], outputs, { epsilon }, more));
    return [name, sum];
  };
  nodes.push(node("Gather", ["embedding", "input_ids"], ["embedded"]));
  let [x, residual]: [string, string | undefined] = ["embedded", undefined];
  for (let layer = 0; layer < layers; layer++) {
    const at = (name: string): string => `layer.${layer}.${name}`;
    const [first, afterFirst] = normed(x, residual, at("attention_norm"));
    const [q, k, v] = [
      linear(first, at("q"), hidden, heads * headSize),
      linear(first, at("k"), hidden, keyValueHeads * headSize),
      linear(first, at("v"), hidden, keyValueHeads * headSize),
    ];
    nodes.push(
      node(
        "GroupQueryAttention",
        [q, k, v, `past.${layer}.key`, `past.${layer}.value`, "seqlens_k", "total_sequence_length", "cos", "sin"],
        [at("attention"), `present.${layer}.key`, `present.${layer}.value`],
        { num_heads: heads, kv_num_heads: keyValueHeads, do_rotary: 1, scale: float(1 / Math.sqrt(headSize)) },
        { domain: microsoft },
      ),
    );
    const [second, afterSecond] = normed(
      linear(at("attention"), at("o"), heads * headSize, hidden),
      afterFirst,
      at("mlp_norm"),
    );
    const gate = linear(second, at("gate"), hidden, intermediate);
    const up = linear(second, at("up"), hidden, intermediate);
    nodes.push(
      node("Sigmoid", [gate], [at("sigmoid")]),
      node("Mul", [gate, at("sigmoid")], [at("silu")]),
      node("Mul", [at("silu"), up], [at("product")]),
    );
    [x, residual] = [linear(at("product"), at("down"), intermediate, hidden), afterSecond];
  }
  linear(normed(x, residual, "norm")[0], "logits", hidden, vocabulary);
  const caches = (name: string, rows: string): ReturnType<typeof value>[] =>
    cacheNames(load, name).map((each) => value(each, "float32", ["batch", keyValueHeads, rows, headSize]));
  return buildModel({
    opset: { "": 21, "com.microsoft": 1 },
    inputs: [
      value("input_ids", "int64", ["batch", "sequence"]),
      value("seqlens_k", "int32", ["batch"]),
      value("total_sequence_length", "int32", []),
      ...caches("past", "past_sequence"),
    ],
    outputs: [value("logits", "float32", ["batch", "sequence", vocabulary]), ...caches("present", "total_sequence")],
    nodes,
    initializers: inPlaceDecoder(load).graph.initializers.filter(({ name }) => !name.startsWith("shape.")),
  });
}

/** The names of all caches, `past.0.key` and so on. */
export const cacheNames = ({ sizes }: DecoderLoad, name: string): string[] =>
  Array.from({ length: sizes.layers }, (_, layer) => [`${name}.${layer}.key`, `${name}.${layer}.value`]).flat();

/** Something that varies: element `inner` of a head's row in a cache. */
const element = (cache: number, head: number, row: number, inner: number): number =>
  (((cache * 31 + head * 17 + row * 13 + inner * 7) * 2_654_435_761) % 2 ** 16) / 2 ** 15 - 1;

/** Caches [1, heads, room, head] with contents in their first `rows` rows. */
export function filledCaches(load: DecoderLoad, rows: number, room: number): Tensors {
  const { keyValueHeads: heads, headSize: size } = load.sizes;
  return Object.fromEntries(
    cacheNames(load, "past").map((name, cache) => {
      const data = new Float32Array(room * heads * size);
      for (let head = 0; head < heads; head++)
        for (let row = 0; row < rows; row++) {
          const start = (head * room + row) * size;
          for (let inner = 0; inner < size; inner++) data[start + inner] = element(cache, head, row, inner);
        }
      return [name, new Tensor("float32", data, [1, heads, room, size])];
    }),
  );
}

const tokens = ({ sizes }: DecoderLoad, count: number): number[] =>
  Array.from({ length: count }, (_, at) => (at * 7919 + 11) % sizes.vocabulary);

const upTo = (start: number, end: number): number[] => Array.from({ length: end - start }, (_, at) => start + at);

/** insitu's feeds for the tokens from `start` to `end`; the caches are a state's. */
export const inPlaceFeeds = (load: DecoderLoad, start: number, end: number): Tensors => ({
  input_ids: integers("int64", tokens(load, end - start), [1, end - start]),
  position_ids: integers("int64", upTo(start, end), [1, end - start]),
  write_indices: integers("int64", [start], [1]),
  nonpad_kv_seqlen: integers("int64", [end], [1]),
});

/** The other form's feeds, with caches that have room for `room` rows. */
export const pastPresentFeeds = (load: DecoderLoad, start: number, end: number, room: number): Tensors => ({
  input_ids: integers("int64", tokens(load, end - start), [1, end - start]),
  seqlens_k: integers("int32", [end - 1], [1]),
  total_sequence_length: integers("int32", [end], []),
  ...filledCaches(load, start, room),
});
