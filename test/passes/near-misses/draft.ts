// Small graphs written node by node, with the numbers that they are run on: what passes are to take, and what differs from it in one detail.
import { seededRandom } from "../../../src/graph/call.js";
import { type AttributeInput, buildModel, initializer, node, value } from "../../../src/onnx/build.js";
import type { Model, ModelNode, ModelTensor, ModelValue } from "../../../src/onnx/model.js";
import { writeNumbers } from "../../../src/tensor/access.js";
import type { ElementType } from "../../../src/tensor/element-type.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import { View } from "../../../src/tensor/view.js";

/** A model and what it is fed. */
export interface Drawn {
  readonly model: Model;
  readonly feeds: Readonly<Record<string, Tensor>>;
}

type Dim = number | string;

const countOf = (dims: readonly number[]): number => dims.reduce((product, dim) => product * dim, 1);

/** A tensor of numbers of any type. */
export function tensorOf(type: ElementType, dims: readonly number[], numbers: readonly number[]): Tensor {
  if (type === "int64") return new Tensor("int64", BigInt64Array.from(numbers, BigInt), dims);
  const view = View.allocate(type, dims);
  writeNumbers(view, numbers);
  return Tensor.fromView(view);
}

/** A graph that is being written. Sizes are those that symbols stand for in the run. */
export class Draft {
  readonly #nodes: ModelNode[] = [];
  readonly #constants: ModelTensor[] = [];
  readonly #inputs: ModelValue[] = [];
  readonly #feeds: Record<string, Tensor> = {};
  readonly #sizes: Readonly<Record<string, number>>;
  readonly #opset: number;
  readonly #random: () => number;
  #count = 0;

  constructor(sizes: Readonly<Record<string, number>> = {}, { opset = 24, seed = 7 } = {}) {
    this.#sizes = sizes;
    this.#opset = opset;
    this.#random = seededRandom(seed);
  }

  /** Numbers around 0. */
  #draw(count: number): number[] {
    return Array.from({ length: count }, () => Math.fround((this.#random() + this.#random() - 1) * 2));
  }

  /** An input, fed random numbers where none are given. */
  input(name: string, dims: readonly Dim[], type: ElementType = "float32", numbers?: readonly number[]): string {
    const shape = dims.map((dim) => (typeof dim === "number" ? dim : this.#sizes[dim]));
    this.#inputs.push(value(name, type, dims));
    this.#feeds[name] = tensorOf(type, shape, numbers ?? this.#draw(countOf(shape)));
    return name;
  }

  /** A constant of given numbers. */
  constant(numbers: number | readonly number[], dims?: readonly number[], type: ElementType = "float32"): string {
    const list = typeof numbers === "number" ? [numbers] : numbers;
    const name = `c${this.#count++}`;
    this.#constants.push(
      initializer(name, tensorOf(type, dims ?? (typeof numbers === "number" ? [] : [list.length]), list)),
    );
    return name;
  }

  /** A constant of random numbers. */
  weights(...dims: readonly number[]): string {
    return this.constant(this.#draw(countOf(dims)), dims);
  }

  /** A constant of random bytes. */
  bytes(dims: readonly number[], type: ElementType = "uint8", most = 256, least = 0): string {
    const draw = (): number => least + Math.floor(this.#random() * most);
    return this.constant(Array.from({ length: countOf(dims) }, draw), dims, type);
  }

  /** A constant list of integers. */
  list(...numbers: readonly number[]): string {
    return this.constant(numbers, [numbers.length], "int64");
  }

  /** A node's first output. */
  op(
    type: string,
    inputs: readonly (string | undefined)[],
    attributes: Readonly<Record<string, AttributeInput>> = {},
    domain = "",
  ): string {
    return this.ops(1, type, inputs, attributes, domain)[0];
  }

  /** A node's outputs. */
  ops(
    outputs: number,
    type: string,
    inputs: readonly (string | undefined)[],
    attributes: Readonly<Record<string, AttributeInput>> = {},
    domain = "",
  ): string[] {
    const names = Array.from({ length: outputs }, () => `v${this.#count++}`);
    this.#nodes.push(node(type, inputs, names, attributes, { domain, name: `${type} ${names[0]}` }));
    return names;
  }

  /** The graph with these outputs. */
  drawn(...outputs: readonly string[]): Drawn {
    const model = buildModel({
      opset: { "ai.onnx": this.#opset, "com.microsoft": 1, insitu: 1 },
      inputs: this.#inputs,
      outputs: outputs.map((name) => value(name)),
      nodes: this.#nodes,
      initializers: this.#constants,
    });
    return { model, feeds: this.#feeds };
  }
}

/** A graph that a pass takes, and near misses of it that are written by hand. */
export interface Base {
  /** The file of src/passes, without its ending. */
  readonly pass: string;
  /** How the graph is written where a pass takes several forms. */
  readonly form: string;
  /** The operator that the pass makes, or that there are fewer of behind it. */
  readonly makes?: string;
  readonly takes?: string;
  /** The backends for which the pass makes it; all when left out. */
  readonly on?: readonly ("wasm" | "webgpu")[];
  readonly drawn: Drawn;
  /** Near misses that no change of one node or constant makes. */
  readonly others?: Readonly<Record<string, Drawn>>;
}
