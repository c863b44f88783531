// Nodes of a decoder under way.
import { initializer, node, type AttributeInput } from "../../../src/onnx/build.js";
import type { ModelNode, ModelTensor, ModelValue } from "../../../src/onnx/model.js";
import { seededRandom } from "../../../src/graph/call.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import { type Style, type StyleSizes } from "./style.js";

/** Nodes under way. */
export class Net {
  readonly nodes: ModelNode[] = [];
  readonly weights: ModelTensor[] = [];
  readonly inputs: ModelValue[] = [];
  readonly outputs: ModelValue[] = [];
  readonly sizes: StyleSizes;
  readonly #random = seededRandom(5);
  #count = 0;

  readonly unnamed: boolean;

  constructor(sizes: StyleSizes, unnamed: boolean) {
    this.sizes = sizes;
    this.unnamed = unnamed;
  }

  op(
    type: string,
    inputs: readonly (string | undefined)[],
    attributes: Record<string, AttributeInput> = {},
    more: { domain?: string; output?: string; outputs?: readonly (string | undefined)[] } = {},
  ): string {
    const output = more.output ?? `v${this.#count++}`;
    const outputs = more.outputs ?? [output];
    this.nodes.push(
      node(type, inputs, outputs, attributes, {
        name: this.unnamed ? "" : `${type}_${this.#count++}`,
        domain: more.domain ?? "",
      }),
    );
    return outputs[0]!;
  }

  weight(dims: readonly number[], scale = 0.4): string {
    const name = `w${this.#count++}`;
    const size = dims.reduce((product, dim) => product * dim, 1);
    this.weights.push(
      initializer(
        name,
        new Tensor(
          "float32",
          Float32Array.from({ length: size }, () => (this.#random() - 0.5) * 2 * scale),
          dims,
        ),
      ),
    );
    return name;
  }

  /** A product with weights, quantized where the style says so. */
  linear(of: string, inner: number, width: number, { quantized = false }: Style): string {
    if (!quantized) return this.op("MatMul", [of, this.weight([inner, width])]);
    const [codes, scales] = [`w${this.#count++}`, `w${this.#count++}`];
    const blocks = inner / 16;
    const bytes = Uint8Array.from({ length: width * blocks * 8 }, () => Math.floor(this.#random() * 256));
    const steps = Float32Array.from({ length: width * blocks }, () => 0.02 + 0.05 * this.#random());
    this.weights.push(initializer(codes, new Tensor("uint8", bytes, [width, blocks, 8])));
    this.weights.push(initializer(scales, new Tensor("float32", steps, [width * blocks])));
    const attributes = { K: inner, N: width, bits: 4, block_size: 16 };
    return this.op("MatMulNBits", [of, codes, scales], attributes, { domain: "com.microsoft" });
  }

  ints(list: readonly number[], dims: readonly number[] = [list.length]): string {
    const name = `i${this.#count++}`;
    this.weights.push(initializer(name, new Tensor("int64", BigInt64Array.from(list, BigInt), dims)));
    return name;
  }

  float(number: number): string {
    const name = `f${this.#count++}`;
    this.weights.push(initializer(name, new Tensor("float32", Float32Array.of(number), [])));
    return name;
  }

  size(of: string, axis: number): string {
    return this.op("Gather", [this.op("Shape", [of]), this.ints([axis])], { axis: 0 });
  }

  scalarSize(of: string, axis: number): string {
    return this.op("Squeeze", [this.size(of, axis)]);
  }

  range(start: string, end: string): string {
    return this.op("Range", [start, end, this.ints([1], [])]);
  }

  concat(list: readonly string[], axis: number): string {
    return this.op("Concat", list, { axis });
  }

  unsqueeze(of: string, ...axes: number[]): string {
    return this.op("Unsqueeze", [of, this.ints(axes)]);
  }

  reshape(of: string, ...shape: number[]): string {
    return this.op("Reshape", [of, this.ints(shape)]);
  }

  transpose(of: string, ...perm: number[]): string {
    return this.op("Transpose", [of], { perm });
  }
}

export interface Around {
  readonly net: Net;
  readonly style: Style;
  /** Scalars: new tokens, rows before them. */
  readonly length: string;
  readonly before: string;
  readonly usesMask: boolean;
}

export interface Operands {
  readonly q: string;
  readonly k: string;
  readonly v: string;
  readonly caches: readonly string[];
  readonly presents: readonly string[];
  readonly mask: string | undefined;
  readonly place: string | undefined;
  readonly count: number;
}
