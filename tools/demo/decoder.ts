/**
 * A decoder made by code, in the form of ONNX's in-place KV cache page: TensorScatter writes K and V, Attention-24 reads the whole
 * cache with nonpad_kv_seqlen. Random weights: it says nothing sensible, at any size that a demonstration or a benchmark wants.
 */
import { buildModel, float, initializer, node, value } from "#insitu/onnx/build.js";
import type { Model, ModelNode, ModelTensor } from "#insitu/onnx/model.js";
import { seededRandom } from "#insitu/graph/call.js";

/** The sizes of a generated decoder. */
export interface DecoderSizes {
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headSize: number;
  readonly intermediate: number;
  readonly vocabulary: number;
  /** Positions that the rotary tables reach. */
  readonly positions: number;
  readonly seed: number;
}

/** Small enough for the reference implementation: a few thousand steps take seconds. */
export const smallSizes: DecoderSizes = {
  layers: 2,
  hidden: 32,
  heads: 4,
  keyValueHeads: 2,
  headSize: 8,
  intermediate: 64,
  vocabulary: 128,
  positions: 2048,
  seed: 1,
};

/** What a generated decoder looks like. */
export interface DecoderForm {
  /** How the weights of products are kept: as they are, or in blocks of a few bits for MatMulNBits. */
  readonly weights?: "float32" | { readonly bits: 4 | 8; readonly blockSize: number };
  /** Caches of [batch, capacity, heads · head], or of [batch, heads, capacity, head]: then each head's rows lie together. */
  readonly caches?: "rows" | "heads";
}

/** Builds the decoder. Inputs: input_ids, position_ids, write_indices, nonpad_kv_seqlen, past.L.key/value; outputs: logits, present.L.key/value. */
export function generatedDecoder(
  sizes: DecoderSizes = smallSizes,
  { weights = "float32", caches: layout = "rows" }: DecoderForm = {},
): Model {
  const { layers, hidden, heads, keyValueHeads, headSize, intermediate, vocabulary, positions } = sizes;
  const random = seededRandom(sizes.seed);
  const initializers: ModelTensor[] = [];
  const nodes: ModelNode[] = [];
  const weight = (name: string, dims: readonly number[], scale: number): string => {
    const data = new Float32Array(dims.reduce((product, dim) => product * dim, 1));
    for (let at = 0; at < data.length; at++) data[at] = (random() * 2 - 1) * scale;
    initializers.push(initializer(name, "float32", data, dims));
    return name;
  };
  const ones = (name: string, size: number): string => {
    initializers.push(initializer(name, "float32", new Float32Array(size).fill(1), [size]));
    return name;
  };
  const add = (
    op: string,
    inputs: string[],
    output: string,
    attributes: Parameters<typeof node>[3] = {},
    domain = "",
  ): string => {
    nodes.push(node(op, inputs, [output], attributes, { name: output, domain }));
    return output;
  };
  const integers = (values: readonly number[]): string => {
    const name = `shape.${values.join(".")}`;
    if (!initializers.some((known) => known.name === name))
      initializers.push(initializer(name, "int64", BigInt64Array.from(values, BigInt), [values.length]));
    return name;
  };
  const linear = (input: string, name: string, rows: number, columns: number): string => {
    const scale = Math.sqrt(3 / rows);
    if (weights === "float32") return add("MatMul", [input, weight(`${name}.weight`, [rows, columns], scale)], name);
    const { bits, blockSize } = weights;
    const shape = { K: rows, N: columns, bits, block_size: blockSize };
    const [blocks, scales] = [`${name}.weight`, `${name}.scales`];
    initializers.push(...randomBlocks(blocks, scales, shape, scale, random));
    return add("MatMulNBits", [input, blocks, scales], name, { ...shape, accuracy_level: 4 }, "com.microsoft");
  };
  rotaryTables(positions, headSize, initializers);

  let x = add("Gather", [weight("embedding", [vocabulary, hidden], 1), "input_ids"], "embedded"); // [batch, sequence, hidden]
  for (let layer = 0; layer < layers; layer++) {
    const at = (name: string): string => `layer.${layer}.${name}`;
    const normed = add("RMSNormalization", [x, ones(at("attention_norm.weight"), hidden)], at("attention_norm"), {
      axis: -1,
    });
    const rotate = (input: string, count: number): string =>
      add("RotaryEmbedding", [input, "cos", "sin", "position_ids"], `${input}.rotated`, { num_heads: count });
    // 3-D operands carry heads side by side, 4-D ones have them before the sequence.
    const head = (name: string, count: number): string => {
      const flat = linear(normed, at(name), hidden, count * headSize);
      if (layout === "rows") return flat;
      const apart = add("Reshape", [flat, integers([0, 0, count, headSize])], `${flat}.heads`);
      return add("Transpose", [apart], `${flat}.transposed`, { perm: [0, 2, 1, 3] });
    };
    const q = rotate(head("q", heads), heads);
    const k = rotate(head("k", keyValueHeads), keyValueHeads);
    const v = head("v", keyValueHeads);
    const write = (which: string, rows: string): string => {
      const operands = [`past.${layer}.${which}`, rows, "write_indices"];
      return add("TensorScatter", operands, `present.${layer}.${which}`, { axis: layout === "rows" ? 1 : 2 });
    };
    const operands = [q, write("key", k), write("value", v), "", "", "", "nonpad_kv_seqlen"];
    let attended = add("Attention", operands, at("attention"), {
      is_causal: 1,
      scale: float(1 / Math.sqrt(headSize)),
      ...(layout === "rows" ? { q_num_heads: heads, kv_num_heads: keyValueHeads } : {}),
    });
    if (layout === "heads") {
      const together = add("Transpose", [attended], `${attended}.transposed`, { perm: [0, 2, 1, 3] });
      attended = add("Reshape", [together, integers([0, 0, heads * headSize])], `${attended}.rows`);
    }
    x = add("Add", [x, linear(attended, at("o"), heads * headSize, hidden)], at("after_attention"));
    const second = add("RMSNormalization", [x, ones(at("mlp_norm.weight"), hidden)], at("mlp_norm"), { axis: -1 });
    const gate = linear(second, at("gate"), hidden, intermediate);
    const gated = add("Mul", [gate, add("Sigmoid", [gate], at("sigmoid"))], at("silu"));
    const product = add("Mul", [gated, linear(second, at("up"), hidden, intermediate)], at("product"));
    x = add("Add", [x, linear(product, at("down"), intermediate, hidden)], at("after_mlp"));
  }
  const last = add("RMSNormalization", [x, ones("norm.weight", hidden)], "norm", { axis: -1 });
  linear(last, "logits", hidden, vocabulary);
  const cache = (name: string, layer: number, which: string): ReturnType<typeof value> =>
    value(
      `${name}.${layer}.${which}`,
      "float32",
      layout === "rows"
        ? ["batch", "capacity", keyValueHeads * headSize]
        : ["batch", keyValueHeads, "capacity", headSize],
    );
  const caches = (name: string): ReturnType<typeof value>[] =>
    Array.from({ length: layers }, (_, layer) => ["key", "value"].map((which) => cache(name, layer, which))).flat();
  return buildModel({
    name: "generated_decoder",
    opset: weights === "float32" ? 24 : { "": 24, "com.microsoft": 1 },
    inputs: [
      value("input_ids", "int64", ["batch", "sequence"]),
      value("position_ids", "int64", ["batch", "sequence"]),
      value("write_indices", "int64", ["batch"]),
      value("nonpad_kv_seqlen", "int64", ["batch"]),
      ...caches("past"),
    ],
    outputs: [value("logits", "float32", ["batch", "sequence", vocabulary]), ...caches("present")],
    nodes,
    initializers,
  });
}

/** Random weights between -scale and scale as MatMulNBits takes them: whole numbers around 2^(bits - 1), and a scale for each block. */
function randomBlocks(
  name: string,
  scalesName: string,
  {
    K,
    N,
    bits,
    block_size,
  }: { readonly K: number; readonly N: number; readonly bits: number; readonly block_size: number },
  scale: number,
  random: () => number,
): ModelTensor[] {
  const count = Math.ceil(K / block_size);
  const blob = (block_size * bits) / 8;
  const data = new Uint8Array(N * count * blob);
  for (let at = 0; at < data.length; at++) data[at] = random() * 256;
  const scales = Float32Array.from({ length: N * count }, () => (scale / 2 ** (bits - 1)) * (0.75 + random() / 2));
  return [initializer(name, "uint8", data, [N, count, blob]), initializer(scalesName, "float32", scales, [N * count])];
}

/** cos and sin of every position and frequency: [positions, head / 2]. */
function rotaryTables(positions: number, headSize: number, initializers: ModelTensor[]): void {
  const half = headSize / 2;
  const angle = (index: number): number => Math.floor(index / half) / 10_000 ** ((index % half) / half);
  for (const [name, of] of [
    ["cos", Math.cos],
    ["sin", Math.sin],
  ] as const) {
    initializers.push(
      initializer(
        name,
        "float32",
        Float32Array.from({ length: positions * half }, (_, index) => of(angle(index))),
        [positions, half],
      ),
    );
  }
}
