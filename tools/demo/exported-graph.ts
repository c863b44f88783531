/**
 * The nodes and weights of a transformer while it is built, in the small operators that PyTorch's exporter writes: products with biases added,
 * norms and attention step by step, heads by Reshape and Transpose. Random float32 weights; a weight that is asked for twice is made once.
 */
import { float, initializer, node } from "#insitu/onnx/build.js";
import type { ModelNode, ModelTensor } from "#insitu/onnx/model.js";
import { RandomWeights } from "./random-weights.js";

type Attributes = Parameters<typeof node>[3];

/** Weights by name: several graphs of one model have them in common. */
export class ExportedWeights {
  readonly #random: RandomWeights;
  readonly #tensors = new Map<string, ModelTensor>();

  constructor(seed: number) {
    this.#random = new RandomWeights(seed);
  }

  get all(): readonly ModelTensor[] {
    return [...this.#tensors.values()];
  }

  /** Values whose mean square is about `scale` squared. */
  values(name: string, dims: readonly number[], scale: number): string {
    return this.#once(name, () => this.#random.values(name, "float32", dims, scale));
  }

  /** Values near 1. */
  ones(name: string, size: number): string {
    return this.#once(name, () => this.#random.near(name, "float32", [size], 1, 0.1));
  }

  /** Whole numbers; a number alone is a scalar. */
  integers(of: number | readonly number[]): string {
    const list = typeof of === "number" ? [of] : of;
    const name = `constant.int64.${typeof of === "number" ? of : `[${of.join(",")}]`}`;
    const dims = typeof of === "number" ? [] : [list.length];
    return this.#once(name, () => initializer(name, "int64", BigInt64Array.from(list, BigInt), dims));
  }

  number(of: number): string {
    const name = `constant.float32.${of}`;
    return this.#once(name, () => initializer(name, "float32", Float32Array.of(of), []));
  }

  #once(name: string, make: () => ModelTensor): string {
    if (!this.#tensors.has(name)) this.#tensors.set(name, make());
    return name;
  }
}

/** One graph that is being built; its values are named by where they are made. */
export class ExportedGraph {
  readonly nodes: ModelNode[] = [];
  readonly weights: ExportedWeights;
  /** Stands before the name of every value, so that graphs beside each other have no two alike. */
  readonly prefix: string;

  constructor(weights: ExportedWeights, prefix = "") {
    this.weights = weights;
    this.prefix = prefix;
  }

  /** A node and its output, which is named like it. */
  add(opType: string, name: string, inputs: readonly string[], attributes: Attributes = {}, output?: string): string {
    const made = output ?? `${this.prefix}/${name}/${opType}_output_0`;
    this.nodes.push(node(opType, inputs, [made], attributes, { name: `${this.prefix}/${name}/${opType}` }));
    return made;
  }

  integers(of: number | readonly number[]): string {
    return this.weights.integers(of);
  }

  number(of: number): string {
    return this.weights.number(of);
  }

  /** `input` times a weight [from, to], and a bias where there is one. */
  linear(name: string, input: string, from: number, to: number, hasBias = true, output?: string): string {
    const weight = this.weights.values(`${name}.weight`, [from, to], 1 / Math.sqrt(from));
    if (!hasBias) return this.add("MatMul", name, [input, weight], {}, output);
    const product = this.add("MatMul", name, [input, weight]);
    return this.add("Add", name, [this.weights.values(`${name}.bias`, [to], 0.1), product], {}, output);
  }

  layerNorm(name: string, input: string, size: number, output?: string): string {
    const { weights } = this;
    const operands = [input, weights.ones(`${name}.weight`, size), weights.values(`${name}.bias`, [size], 0.1)];
    return this.add("LayerNormalization", name, operands, { axis: -1, epsilon: float(1e-5) }, output);
  }

  /** A norm without a mean and a bias, written out. */
  rootMeanSquareNorm(name: string, input: string, size: number, output?: string): string {
    const squares = this.add("Pow", name, [input, this.number(2)]);
    const mean = this.add("ReduceMean", name, [squares, this.integers([-1])]);
    const root = this.add("Sqrt", name, [this.add("Add", name, [mean, this.number(1e-6)])]);
    const scaled = this.add("Div", name, [input, root]);
    return this.add("Mul", name, [this.weights.ones(`${name}.weight`, size), scaled], {}, output);
  }

  /** Gelu by the error function. */
  gelu(name: string, input: string): string {
    const scaled = this.add("Div", name, [input, this.number(Math.fround(Math.SQRT2))]);
    const shifted = this.add("Add", name, [this.add("Erf", name, [scaled]), this.number(1)]);
    const product = this.add("Mul", name, [input, shifted]);
    return this.add("Mul", `${name}/half`, [product, this.number(0.5)]);
  }

  /** [batch, tokens, heads * size] as [batch, heads, tokens, size]. */
  heads(name: string, input: string, heads: number, size: number, output?: string): string {
    const apart = this.add("Reshape", name, [input, this.integers([0, -1, heads, size])]);
    return this.add("Transpose", name, [apart], { perm: [0, 2, 1, 3] }, output);
  }

  /** Queries over keys and values of as many heads, scores scaled and with a bias added; [batch, tokens, heads * size]. */
  attend(
    name: string,
    [queries, keys, values]: readonly [string, string, string],
    width: number,
    { scale, bias }: { readonly scale?: number; readonly bias?: string | undefined },
  ): string {
    const turned = this.add("Transpose", `${name}/keys`, [keys], { perm: [0, 1, 3, 2] });
    let scores = this.add("MatMul", `${name}/scores`, [queries, turned]);
    if (scale !== undefined) scores = this.add("Div", name, [scores, this.number(scale)]);
    if (bias !== undefined) scores = this.add("Add", name, [scores, bias]);
    const weights = this.add("Softmax", name, [scores], { axis: -1 });
    const attended = this.add("MatMul", `${name}/values`, [weights, values]);
    const joined = this.add("Transpose", name, [attended], { perm: [0, 2, 1, 3] });
    return this.add("Reshape", name, [joined, this.integers([0, -1, width])]);
  }

  /** What is added to scores: 0 where an entry of a mask [batch, keys] is 1, and as little as a float can be elsewhere; [batch, 1, 1, keys]. */
  maskBias(name: string, mask: string): string {
    const floats = this.add("Cast", name, [mask], { to: 1 });
    const absent = this.add("Sub", name, [this.number(1), floats]);
    const bias = this.add("Mul", name, [absent, this.number(-3.4028234663852886e38)]);
    return this.add("Unsqueeze", name, [bias, this.integers([1, 2])]);
  }
}
