/** The nodes and weights of a published decoder while it is built, named as onnxruntime-genai's model builder names them. */
import { float, initializer, node } from "#insitu/onnx/build.js";
import type { ModelNode, ModelTensor } from "#insitu/onnx/model.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { RandomWeights, roundToBfloat16, type WeightType } from "./random-weights.js";

/** Products as MatMul, or as MatMulNBits with or without zero points. */
export type PublishedWeights =
  | "plain"
  | {
      readonly bits: 4 | 8;
      readonly blockSize: number;
      readonly zeroPoints?: boolean;
      /** How far activations may be rounded: 0, where left out, not at all; 4 to 8 bits, as the builder writes files for processors. */
      readonly accuracyLevel?: 0 | 4;
    };

/** The domain of onnxruntime's own operators. */
export const microsoft = "com.microsoft";

/** What is built so far. */
export class PublishedGraph {
  readonly nodes: ModelNode[] = [];
  readonly initializers: ModelTensor[] = [];
  readonly #constants = new Set<string>();
  readonly #held = new Map<string, object>();
  readonly random: RandomWeights;
  readonly type: WeightType;
  readonly weights: PublishedWeights;
  /** What norms add to the mean square. */
  readonly epsilon: number;

  constructor(seed: number, type: WeightType, weights: PublishedWeights, epsilon: number) {
    this.epsilon = epsilon;
    this.random = new RandomWeights(seed);
    this.type = type;
    this.weights = weights;
  }

  weight(tensor: ModelTensor): string {
    this.initializers.push(tensor);
    return tensor.name;
  }

  /** A node named like its first output, without the part `/output_0`; that output's name. */
  add(
    opType: string,
    name: string,
    inputs: readonly string[],
    attributes: Parameters<typeof node>[3] = {},
    { domain = "", outputs = [`${name}/output_0`] }: { domain?: string; outputs?: readonly string[] } = {},
  ): string {
    this.nodes.push(node(opType, inputs, outputs, attributes, { name, domain }));
    return outputs[0];
  }

  /** The integers of a Constant node: a number is a scalar. */
  integers(of: number | readonly number[]): string {
    const text = typeof of === "number" ? `${of}` : `[${of.join(", ")}]`;
    const name = `/model/constants/INT64/${text}`;
    if (this.#constants.has(name)) return name;
    this.#constants.add(name);
    const list = typeof of === "number" ? [of] : of;
    const tensor = new Tensor("int64", BigInt64Array.from(list, BigInt), typeof of === "number" ? [] : [list.length]);
    return this.add(
      "Constant",
      name.replace("constants", "constant_nodes"),
      [],
      { value: tensor },
      { outputs: [name] },
    );
  }

  /** The product of `input` with a weight [K, N]. */
  linear(name: string, input: string, K: number, N: number, output = `${name}/MatMul/output_0`): string {
    const scale = 1 / Math.sqrt(K);
    const [{ random, type }, weight] = [this, `${name.slice(1).replaceAll("/", ".")}.MatMul.weight`];
    const to = { outputs: [output] };
    if (this.weights === "plain")
      return this.add(
        "MatMul",
        `${name}/MatMul`,
        [input, this.weight(random.values(weight, type, [K, N], scale))],
        {},
        to,
      );
    const { bits, blockSize, zeroPoints = false, accuracyLevel = 0 } = this.weights;
    const blocks = Math.ceil(K / blockSize);
    // Whole numbers of 0 to 2^bits - 1, all alike, are this far from their middle.
    const deviation = 2 ** bits / Math.sqrt(12);
    const operands = [
      input,
      this.weight(random.blocks(`${weight}_Q${bits}`, [N, blocks, (blockSize * bits) / 8], bits)),
      this.weight(random.near(`${weight}_scales`, type, [N, blocks], scale / deviation, 0.25, roundToBfloat16)),
      ...(zeroPoints
        ? [this.weight(zeroPointsNearMiddle(`${weight}_zero_points`, N, Math.ceil((blocks * bits) / 8), bits))]
        : []),
    ];
    const attributes = { K, N, accuracy_level: accuracyLevel, bits, block_size: blockSize };
    return this.add("MatMulNBits", `${name}/MatMul_Q${bits}`, operands, attributes, { ...to, domain: microsoft });
  }

  /** What a product made, with a bias of `size`. */
  biased(name: string, input: string, size: number): string {
    const bias = `${name.slice(1).replaceAll("/", ".")}.Add.bias`;
    return this.add("Add", `${name}/Add`, [input, this.weight(this.random.values(bias, this.type, [size], 0.1))]);
  }

  /** Memory that several weights of the model are views of, by a name: it is filled for the first of them. */
  held<T extends object>(key: string, make: () => T): T {
    const known = this.#held.get(key) ?? make();
    this.#held.set(key, known);
    return known as T;
  }

  /** The norm of rows whose length is `size`. */
  norm(name: string, input: string, weight: string, size: number, output?: string): string {
    return this.add(
      "SimplifiedLayerNormalization",
      name,
      [input, this.weight(this.random.near(weight, this.type, [size], 1, 0.1))],
      { axis: -1, epsilon: float(this.epsilon), stash_type: 1 },
      output === undefined ? {} : { outputs: [output] },
    );
  }
}

/** One zero point for each block around the middle of the range: alternately one below and at it. */
function zeroPointsNearMiddle(name: string, N: number, bytes: number, bits: 4 | 8): ModelTensor {
  const data = new Uint8Array(N * bytes).fill(bits === 4 ? 0x87 : 0x80);
  if (bits === 8) for (let at = 0; at < data.length; at += 2) data[at] = 0x7f;
  return initializer(name, "uint8", data, [N, bytes]);
}
