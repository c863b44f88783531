/**
 * Random weights by the hundred million: bit patterns straight from a generator, with no number in between. A value's sign and fraction are
 * random and its exponent is not, so that the mean square is known and nothing overflows.
 */
import { initializer } from "#insitu/onnx/build.js";
import type { ModelTensor } from "#insitu/onnx/model.js";
import { writeNumbers } from "#insitu/tensor/access.js";
import { decodeTable, encodeBfloat16 } from "#insitu/tensor/float.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { View } from "#insitu/tensor/view.js";

/** The types that a decoder computes in. */
export type WeightType = "float32" | "float16";

/** The square root of the mean square of ±[1, 2). */
const rootMeanSquare = Math.sqrt(7 / 3);

const sizeOf = (dims: readonly number[]): number => dims.reduce((product, dim) => product * dim, 1);

/** Makes the tensors of a model, in an order that its seed decides. */
export class RandomWeights {
  #next: number;

  constructor(seed: number) {
    this.#next = seed;
  }

  /** The next 32-bit words, no two tensors from the same start: Marsaglia's xorshift of period 2^32 - 1. */
  #fill(words: Uint32Array, mask: number, set: number): void {
    let state = Math.imul((this.#next = (this.#next + 0x9e3779b9) | 0) ^ 0x6a09e667, 0x85ebca6b) | 1;
    for (let skip = 0; skip < 8; skip++) state = xorshift(state);
    for (let at = 0; at < words.length; at++) {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      words[at] = (state & mask) | set;
    }
  }

  /** Values whose mean square is about `scale` squared. */
  values(name: string, type: WeightType, dims: readonly number[], scale: number): ModelTensor {
    const count = sizeOf(dims);
    const exponent = Math.round(Math.log2(scale / rootMeanSquare));
    if (type === "float32") {
      const words = new Uint32Array(count);
      this.#fill(words, 0x807f_ffff, (exponent + 127) << 23);
      return initializer(name, "float32", new Float32Array(words.buffer), dims);
    }
    const words = new Uint32Array(Math.ceil(count / 2));
    const bits = (exponent + 15) << 10;
    this.#fill(words, 0x83ff_83ff, (bits << 16) | bits);
    return initializer(name, "float16", new Uint16Array(words.buffer, 0, count), dims);
  }

  /** Values between 1 - `spread` and 1 + `spread`, for norms and scales. */
  near(
    name: string,
    type: WeightType,
    dims: readonly number[],
    one: number,
    spread: number,
    rounded: (value: number) => number = (value) => value,
  ): ModelTensor {
    const words = new Uint32Array(sizeOf(dims));
    this.#fill(words, -1, 0);
    return written(name, type, dims, (at) => rounded(one * (1 + spread * (words[at] / 2 ** 31 - 1))));
  }

  /**
   * Weights in blocks, as bytes of any value; those of 4 bits lie evenly around 8, their middle: the least has nothing that makes up for it, and becomes
   * the middle. Else every product would have the sum of its input in all of its results, and a deep decoder the same token behind every text.
   */
  blocks(name: string, dims: readonly number[], bits: 4 | 8): ModelTensor {
    const count = sizeOf(dims);
    const words = new Uint32Array(Math.ceil(count / 4));
    this.#fill(words, -1, 0);
    if (bits === 4)
      for (let at = 0; at < words.length; at++) {
        const word = words[at];
        const zeros = ~(word | (word >>> 1) | (word >>> 2) | (word >>> 3)) & 0x1111_1111;
        words[at] = word | (zeros << 3);
      }
    return initializer(name, "uint8", new Uint8Array(words.buffer, 0, count), dims);
  }
}

/**
 * A value with as many bits as bfloat16 has. The scale of a block that is quantized evenly around zero is its largest magnitude over a power
 * of two: where weights were trained in bfloat16, as those of published decoders are, so are the scales.
 */
export const roundToBfloat16 = (value: number): number => decodeTable("bfloat16")[encodeBfloat16(value)];

function xorshift(state: number): number {
  state ^= state << 13;
  state ^= state >>> 17;
  return state ^ (state << 5);
}

/** A tensor of the numbers that a function gives. */
export function written(
  name: string,
  type: WeightType,
  dims: readonly number[],
  of: (at: number) => number,
): ModelTensor {
  const view = View.allocate(type, dims);
  const numbers = new Float32Array(view.size);
  for (let at = 0; at < numbers.length; at++) numbers[at] = of(at);
  writeNumbers(view, numbers);
  return initializer(name, Tensor.fromView(view));
}
