/**
 * A published decoder as llama.cpp reads it: the same weights in a GGUF file, products as float16 (or float32), as Q4_0, whose blocks of 32
 * are MatMulNBits' own with their halves apart, or as Q8_0; experts as MXFP4 (`gguf-experts.ts`). Knows the names that tools/demo gives to weights.
 */
import { closeSync, openSync, writeSync } from "node:fs";
import type { PublishedSizes } from "../../demo/published-decoder.js";
import { expertBlocks, readBlocksAsFloats } from "./gguf-experts.js";
import { rotaryDivisors } from "../../demo/rotary-frequencies.js";
import type { Model, ModelTensor } from "#insitu/onnx/model.js";
import { tensorView } from "#insitu/onnx/model.js";
import { readNumbers } from "#insitu/tensor/access.js";
import { encodeFloat16 } from "#insitu/tensor/float.js";

/** GGUF's numbers for what metadata are, and for types of tensors. */
const kinds = { uint32: 4, int32: 5, float32: 6, string: 8, array: 9 } as const;
const types = { float32: 0, float16: 1, Q4_0: 2, Q8_0: 8, MXFP4: 39 } as const;
const alignment = 32;

interface Part {
  readonly name: string;
  readonly type: keyof typeof types;
  /** The fastest dimension first. */
  readonly dims: readonly number[];
  readonly bytes: () => Uint8Array;
  readonly byteLength: number;
}

/** Bytes that are put one behind the other. */
class Bytes {
  readonly #parts: Uint8Array[] = [];
  length = 0;

  raw(bytes: Uint8Array): this {
    this.#parts.push(bytes);
    this.length += bytes.length;
    return this;
  }
  uint32(value: number): this {
    return this.raw(new Uint8Array(Uint32Array.of(value).buffer));
  }
  uint64(value: number): this {
    return this.raw(new Uint8Array(BigUint64Array.of(BigInt(value)).buffer));
  }
  float32(value: number): this {
    return this.raw(new Uint8Array(Float32Array.of(value).buffer));
  }
  string(value: string): this {
    const bytes = new TextEncoder().encode(value);
    return this.uint64(bytes.length).raw(bytes);
  }
  whole(): Uint8Array {
    return Buffer.concat(this.#parts);
  }
}

const sizeOf = (dims: readonly number[]): number => dims.reduce((product, dim) => product * dim, 1);

const bytesOf = (view: ArrayBufferView): Uint8Array => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

/** A matrix [rows, columns] turned: in squares, which stay in the processor's cache. */
function turned<T extends Uint16Array | Float32Array>(from: T, to: T, rows: number, columns: number): T {
  const side = 32;
  for (let top = 0; top < rows; top += side)
    for (let left = 0; left < columns; left += side)
      for (let row = top; row < Math.min(top + side, rows); row++)
        for (let column = left; column < Math.min(left + side, columns); column++)
          to[column * rows + row] = from[row * columns + column];
  return to;
}

/** Blocks of MatMulNBits as Q4_0: a float16 scale, then 16 bytes of which each has an element of either half. */
function blocksAsQ4(blocks: Uint8Array, scales: ModelTensor): Uint8Array {
  const factors =
    scales.type === "float16"
      ? (scales.data as Uint16Array)
      : Uint16Array.from(readNumbers(tensorView(scales)), encodeFloat16);
  const result = new Uint8Array(factors.length * 18);
  for (let block = 0; block < factors.length; block++) {
    const [from, to] = [block * 16, block * 18];
    result[to] = factors[block] & 255;
    result[to + 1] = factors[block] >> 8;
    for (let pair = 0; pair < 8; pair++) {
      const [low, high] = [blocks[from + pair], blocks[from + 8 + pair]];
      result[to + 2 + 2 * pair] = (low & 15) | ((high & 15) << 4);
      result[to + 3 + 2 * pair] = (low >> 4) | (high & 240);
    }
  }
  return result;
}

/** Blocks of bytes around 128, of any multiple of 32, as Q8_0: a float16 scale before each 32 of them, around 0. */
function blocksAsQ8({ data, dims: [, , blockSize] }: ModelTensor, scales: ModelTensor): Uint8Array {
  const bytes = data as Uint8Array;
  const factors = Uint16Array.from(readNumbers(tensorView(scales)), encodeFloat16);
  const result = new Uint8Array((bytes.length / 32) * 34);
  for (let from = 0, to = 0; from < bytes.length; from += 32, to += 34) {
    const factor = factors[Math.floor(from / blockSize)];
    result[to] = factor & 255;
    result[to + 1] = factor >> 8;
    for (let at = 0; at < 32; at++) result[to + 2 + at] = bytes[from + at] - 128;
  }
  return result;
}

/** What llama.cpp calls the kinds of decoders: with norms of each head's queries and keys, with experts and sinks, and with neither. */
type Architecture = "qwen3" | "gpt-oss" | "llama";

/** Writes the decoder to a file; where the embedding has the head's values, one tensor can serve for both. */
export function writeGguf(
  path: string,
  { graph }: Model,
  sizes: PublishedSizes,
  embedding: "own" | "head" = "own",
): void {
  const weights = new Map(graph.initializers.map((tensor) => [tensor.name, tensor]));
  // With no tensor of its own for the head, llama.cpp takes the embedding.
  if (embedding === "head") weights.delete("model.embed_tokens.weight");
  const architecture = weights.has("model.layers.0.attn.q_norm.layernorm.weight")
    ? "qwen3"
    : weights.has("model.layers.0.attn.sinks")
      ? "gpt-oss"
      : "llama";
  const parts = [...partsOf(weights, sizes, architecture)];
  const head = new Bytes().raw(new TextEncoder().encode("GGUF")).uint32(3).uint64(parts.length);
  const metadata = metadataOf(sizes, architecture);
  head.uint64(metadata.length);
  for (const write of metadata) write(head);
  let offset = 0;
  for (const { name, type, dims, byteLength } of parts) {
    head.string(name).uint32(dims.length);
    for (const dim of dims) head.uint64(dim);
    head.uint32(types[type]).uint64(offset);
    offset = Math.ceil((offset + byteLength) / alignment) * alignment;
  }
  const file = openSync(path, "w");
  let written = 0;
  const put = (bytes: Uint8Array): void => {
    for (let at = 0; at < bytes.length;) at += writeSync(file, bytes, at);
    written += bytes.length;
  };
  const pad = (): void => put(new Uint8Array(Math.ceil(written / alignment) * alignment - written));
  put(head.whole());
  for (const { bytes } of parts) {
    pad();
    put(bytes());
  }
  pad();
  closeSync(file);
}

/** The rows of each head in the order in which llama.cpp's "llama" turns them: pairs side by side, where ONNX has their halves apart. */
function pairedRows(headSize: number): (row: number) => number {
  const half = headSize / 2;
  return (row) => {
    const within = row % headSize;
    return row - within + (within & 1) * half + (within >> 1);
  };
}

/** Rows of a matrix in another order. */
function ordered(bytes: Uint8Array, rows: number, order: (row: number) => number): Uint8Array {
  const wide = bytes.length / rows;
  const result = new Uint8Array(bytes.length);
  for (let row = 0; row < rows; row++) {
    const from = order(row);
    result.set(bytes.subarray(from * wide, (from + 1) * wide), row * wide);
  }
  return result;
}

function* partsOf(
  weights: ReadonlyMap<string, ModelTensor>,
  sizes: PublishedSizes,
  architecture: Architecture,
): Generator<Part> {
  const { layers, hidden, vocabulary, headSize, heads, keyValueHeads } = sizes;
  const floats = (name: string, dims: readonly number[], numbers: Float32Array): Part => ({
    name,
    type: "float32",
    dims,
    bytes: () => bytesOf(numbers),
    byteLength: numbers.byteLength,
  });
  const plain = (name: string, source: string): Part => {
    const tensor = weights.get(source)!;
    // llama.cpp takes norms as float32 alone.
    return floats(name, tensor.dims, Float32Array.from(readNumbers(tensorView(tensor))));
  };
  const product = (name: string, source: string): Part => {
    const [dense, bytes, blocks, scales] = ["", "_Q8", "_Q4", "_scales"].map((end) =>
      weights.get(`${source}.MatMul.weight${end}`),
    );
    if (bytes !== undefined) {
      const [N, count, blockSize] = bytes.dims;
      return {
        name,
        type: "Q8_0",
        dims: [count * blockSize, N],
        bytes: () => blocksAsQ8(bytes, scales!),
        byteLength: ((N * count * blockSize) / 32) * 34,
      };
    }
    if (dense !== undefined) {
      const [K, N] = dense.dims;
      const data = dense.data as Uint16Array | Float32Array;
      return {
        name,
        type: dense.type as "float16" | "float32",
        dims: [K, N],
        bytes: () =>
          bytesOf(
            data instanceof Float32Array
              ? turned(data, new Float32Array(data.length), K, N)
              : turned(data, new Uint16Array(data.length), K, N),
          ),
        byteLength: data.byteLength,
      };
    }
    const [N, count] = blocks!.dims;
    return {
      name,
      type: "Q4_0",
      dims: [count * 32, N],
      bytes: () => blocksAsQ4(blocks!.data as Uint8Array, scales!),
      byteLength: N * count * 18,
    };
  };
  /** Queries or keys. */
  const turning = (name: string, source: string): Part => {
    const part = product(name, source);
    if (architecture !== "llama") return part;
    const rows = part.dims[1];
    return { ...part, bytes: () => ordered(part.bytes(), rows, pairedRows(headSize)) };
  };
  const embedding = weights.get("model.embed_tokens.weight");
  if (embedding === undefined) yield product("token_embd.weight", "lm_head");
  else
    yield {
      name: "token_embd.weight",
      type: embedding.type as "float16" | "float32",
      dims: [hidden, vocabulary],
      bytes: () => bytesOf(embedding.data as Uint16Array),
      byteLength: sizeOf(embedding.dims) * (embedding.type === "float16" ? 2 : 4),
    };
  if (sizes.ropeScaling !== undefined && sizes.ropeScaling.kind !== "yarn")
    yield floats("rope_freqs.weight", [headSize / 2], Float32Array.from(rotaryDivisors(sizes)));
  for (let layer = 0; layer < layers; layer++) {
    const [ours, theirs] = [`model.layers.${layer}.`, `blk.${layer}.`];
    yield plain(`${theirs}attn_norm.weight`, `${ours}input_layernorm.weight`);
    if (architecture === "gpt-oss") {
      yield* attentionParts(layer);
      yield* expertParts(layer);
      continue;
    }
    yield turning(`${theirs}attn_q.weight`, `${ours}attn.q_proj`);
    yield turning(`${theirs}attn_k.weight`, `${ours}attn.k_proj`);
    yield product(`${theirs}attn_v.weight`, `${ours}attn.v_proj`);
    if (architecture === "qwen3") {
      yield plain(`${theirs}attn_q_norm.weight`, `${ours}attn.q_norm.layernorm.weight`);
      yield plain(`${theirs}attn_k_norm.weight`, `${ours}attn.k_norm.layernorm.weight`);
    }
    yield product(`${theirs}attn_output.weight`, `${ours}attn.o_proj`);
    yield plain(`${theirs}ffn_norm.weight`, `${ours}post_attention_layernorm.weight`);
    yield product(`${theirs}ffn_gate.weight`, `${ours}mlp.gate_proj`);
    yield product(`${theirs}ffn_up.weight`, `${ours}mlp.up_proj`);
    yield product(`${theirs}ffn_down.weight`, `${ours}mlp.down_proj`);
  }
  yield plain("output_norm.weight", `model.layers.${layers}.final_norm_layernorm.weight`);
  if (embedding !== undefined) yield product("output.weight", "lm_head");

  /** Some rows of a product whose rows several have in common. */
  function rowsOf(part: Part, first: number, count: number): Part {
    const bytes = part.byteLength / part.dims[1];
    return {
      ...part,
      dims: [part.dims[0], count],
      bytes: () => part.bytes().subarray(first * bytes, (first + count) * bytes),
      byteLength: count * bytes,
    };
  }

  /** Attention with biases, and a sink for each head; one product has queries, keys and values. */
  function* attentionParts(layer: number): Generator<Part> {
    const [ours, theirs] = [`model.layers.${layer}.attn`, `blk.${layer}.`];
    const [queries, keys] = [heads * headSize, keyValueHeads * headSize];
    const together = product("", `${ours}.qkv_proj`);
    const bias = plain("", `${ours}.qkv_proj.Add.bias`);
    let first = 0;
    for (const [which, count] of [
      ["q", queries],
      ["k", keys],
      ["v", keys],
    ] as const) {
      const name = `${theirs}attn_${which}`;
      yield { ...rowsOf(together, first, count), name: `${name}.weight` };
      yield {
        ...rowsOf({ ...bias, dims: [1, queries + 2 * keys] }, first, count),
        name: `${name}.bias`,
        dims: [count],
      };
      first += count;
    }
    yield plain(`${theirs}attn_sinks.weight`, `${ours}.sinks`);
    yield product(`${theirs}attn_output.weight`, `${ours}.o_proj`);
    yield plain(`${theirs}attn_output.bias`, `${ours}.o_proj.Add.bias`);
    yield plain(`${theirs}post_attention_norm.weight`, `model.layers.${layer}.post_attention_layernorm.weight`);
  }

  /** A router, and the experts, whose gates and ups are products of their own there. */
  function* expertParts(layer: number): Generator<Part> {
    const [ours, theirs] = [`model.layers.${layer}.moe.`, `blk.${layer}.ffn_`];
    // llama.cpp takes routers as floats.
    const { dims, bytes } = product("", `${ours}router`);
    const router = readBlocksAsFloats(bytes());
    yield floats(`${theirs}gate_inp.weight`, dims, router);
    yield plain(`${theirs}gate_inp.bias`, `${ours}router.Add.bias`);
    for (const [name, source, step, offset] of [
      ["gate_exps", "gate_up_proj", 2, 0],
      ["up_exps", "gate_up_proj", 2, 1],
      ["down_exps", "down_proj", 1, 0],
    ] as const) {
      const [levels, scales, bias] = ["qweight", "scales", "bias"].map((end) =>
        weights.get(`${ours}experts.${source}.${end}`)!,
      );
      const [experts, all, half] = levels.dims;
      const rows = all / step;
      yield {
        name: `${theirs}${name}.weight`,
        type: "MXFP4",
        dims: [2 * half, rows, experts],
        bytes: () => expertBlocks(levels, scales, step, offset),
        byteLength: experts * rows * (half / 16) * 17,
      };
      const values = Float32Array.from(readNumbers(tensorView(bias))); // [experts, all]
      const own = Float32Array.from({ length: experts * rows }, (_, at) => values[at * step + offset]);
      yield floats(`${theirs}${name}.bias`, [rows, experts], own);
    }
  }
}

function metadataOf(sizes: PublishedSizes, architecture: Architecture): ((out: Bytes) => void)[] {
  const text = (key: string, value: string) => (out: Bytes) => void out.string(key).uint32(kinds.string).string(value);
  const whole = (key: string, value: number) => (out: Bytes) => void out.string(key).uint32(kinds.uint32).uint32(value);
  const real = (key: string, value: number) => (out: Bytes) =>
    void out.string(key).uint32(kinds.float32).float32(value);
  const array = (key: string, kind: keyof typeof kinds, count: number, each: (out: Bytes, at: number) => void) => {
    return (out: Bytes): void => {
      out.string(key).uint32(kinds.array).uint32(kinds[kind]).uint64(count);
      for (let at = 0; at < count; at++) each(out, at);
    };
  };
  const { vocabulary, experts, ropeScaling } = sizes;
  const ofExperts =
    experts === undefined
      ? []
      : [
          whole(`${architecture}.expert_count`, experts.count),
          whole(`${architecture}.expert_used_count`, experts.chosen),
          whole(`${architecture}.expert_feed_forward_length`, sizes.intermediate),
          whole(`${architecture}.attention.sliding_window`, sizes.window ?? 0),
        ];
  const yarn =
    ropeScaling?.kind !== "yarn"
      ? []
      : [
          text(`${architecture}.rope.scaling.type`, "yarn"),
          real(`${architecture}.rope.scaling.factor`, ropeScaling.factor),
          whole(`${architecture}.rope.scaling.original_context_length`, ropeScaling.originalPositions),
        ];
  return [
    text("general.architecture", architecture),
    text("general.name", "random weights"),
    whole("general.alignment", alignment),
    whole(`${architecture}.block_count`, sizes.layers),
    whole(`${architecture}.context_length`, sizes.positions),
    whole(`${architecture}.embedding_length`, sizes.hidden),
    whole(`${architecture}.feed_forward_length`, sizes.intermediate),
    whole(`${architecture}.attention.head_count`, sizes.heads),
    whole(`${architecture}.attention.head_count_kv`, sizes.keyValueHeads),
    whole(`${architecture}.attention.key_length`, sizes.headSize),
    whole(`${architecture}.attention.value_length`, sizes.headSize),
    real(`${architecture}.attention.layer_norm_rms_epsilon`, sizes.epsilon ?? 1e-6),
    real(`${architecture}.rope.freq_base`, sizes.ropeTheta),
    whole(`${architecture}.rope.dimension_count`, sizes.headSize),
    ...ofExperts,
    ...yarn,
    text("tokenizer.ggml.model", "gpt2"),
    text("tokenizer.ggml.pre", "qwen2"),
    array("tokenizer.ggml.tokens", "string", vocabulary, (out, token) => void out.string(`w${token}`)),
    array("tokenizer.ggml.token_type", "int32", vocabulary, (out) => void out.uint32(1)),
    array("tokenizer.ggml.merges", "string", 0, () => {}),
    whole("tokenizer.ggml.bos_token_id", 0),
    whole("tokenizer.ggml.eos_token_id", 0),
  ];
}
