/**
 * A decoder made by code, node for node in the form in which onnxruntime-genai's model builder publishes Qwen3 and Llama: GroupQueryAttention
 * with rotary embedding inside, past in and present out, lengths counted from attention_mask, skip connections fused with their norms,
 * MatMulNBits or MatMul weights. Random weights, at any size; names are the builder's.
 */
import { buildModel, float, value } from "#insitu/onnx/build.js";
import { type Model, type ModelTensor, type ModelValue, tensorView } from "#insitu/onnx/model.js";
import { readNumbers } from "#insitu/tensor/access.js";
import { addExperts, type PublishedExperts } from "./published-experts.js";
import { rotaryFrequencies, rotaryMagnitude, type RopeScaling, type YarnScaling } from "./rotary-frequencies.js";
import { microsoft, PublishedGraph, type PublishedWeights } from "./published-graph.js";
import { type WeightType, written } from "./random-weights.js";

/** The sizes of a published decoder. */
export interface PublishedSizes {
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headSize: number;
  readonly intermediate: number;
  readonly vocabulary: number;
  /** Positions that the rotary tables reach. */
  readonly positions: number;
  readonly ropeTheta: number;
  /** How frequencies are slowed down for texts longer than those of the first training. */
  readonly ropeScaling?: RopeScaling | YarnScaling;
  /** What norms add to the mean square; 1e-6 where left out. */
  readonly epsilon?: number;
  readonly seed: number;
  /** Experts of `intermediate` in the place of a feed-forward layer. */
  readonly experts?: PublishedExperts;
  /** Rows that every other layer looks back at most, the first among them. */
  readonly window?: number;
}

/** What every size has, small enough for the reference implementation. */
export const smallPublishedSizes: PublishedSizes = {
  layers: 2,
  hidden: 64,
  heads: 4,
  keyValueHeads: 2,
  headSize: 32,
  intermediate: 96,
  vocabulary: 160,
  positions: 128,
  ropeTheta: 1e6,
  seed: 1,
};

/** What a published decoder looks like; the first choice of each is what Qwen3's published files have. */
export interface PublishedForm {
  /** The type of activations, caches, logits and of weights that are not in blocks. */
  readonly type?: WeightType;
  /** Products as MatMul, or as MatMulNBits with or without zero points. */
  readonly weights?: PublishedWeights;
  /** Q, K and V as three products, or as one: split where norms follow it, handed to attention whole where none do. */
  readonly projections?: "separate" | "packed";
  /** Norms of each head's queries and keys as nodes of their own, or none, as in Llama. */
  readonly headNorms?: "nodes" | "none";
  /** Biases of attention's products, and a sink for each head, as in gpt-oss. */
  readonly biasesAndSinks?: boolean;
  /** Logits of every token, or of the last one alone (the builder's `prune_lm_head`). */
  readonly logits?: "all" | "last";
  /**
   * Two tensors for embedding and head; one (the builder's `shared_embeddings`); or two of the same values, the embedding's unpacked to
   * floats, as the hub's files of 4 bits have it, whose products alone are quantized.
   */
  readonly embeddings?: "separate" | "tied" | "unpacked";
}

/**
 * Builds the decoder. Inputs: input_ids [batch, sequence], attention_mask [batch, past + sequence], past_key_values.L.key/value
 * [batch, key heads, past, head]; outputs: logits [batch, sequence, vocabulary], present.L.key/value.
 */
export function publishedDecoder(
  sizes: PublishedSizes = smallPublishedSizes,
  {
    type = "float16",
    weights = "plain",
    projections = "separate",
    headNorms = "nodes",
    embeddings = "separate",
    logits = "all",
    biasesAndSinks = false,
  }: PublishedForm = {},
): Model {
  const { layers, hidden, heads, keyValueHeads, headSize, intermediate, vocabulary } = sizes;
  const [queries, keys] = [heads * headSize, keyValueHeads * headSize];
  const graph = new PublishedGraph(sizes.seed, type, weights, sizes.epsilon ?? 1e-6);
  const rotary = rotaryTables(sizes, type).map((tensor) => graph.weight(tensor));
  const lengths = lengthsOfMask(graph);

  let skip = embedding(graph, sizes, embeddings);
  let sum: string | undefined;
  /** Adds what the last layer made to what went around it, and normalises the sum. */
  const normed = (layer: number, location: string): string => {
    const name = `/model/layers.${layer}/${location}_layernorm`;
    const weight = `model.layers.${layer}.${location}_layernorm.weight`;
    if (sum === undefined) {
      sum = skip;
      return graph.norm(`${name}/LayerNorm`, skip, weight, hidden, `${name}/output_0`);
    }
    const outputs = layer === layers ? [`${name}/output_0`] : [`${name}/output_0`, "", "", `${name}/output_3`];
    const operands = [sum, skip, graph.weight(graph.random.near(weight, type, [hidden], 1, 0.1))];
    sum = outputs.at(-1)!;
    const to = { domain: microsoft, outputs };
    return graph.add(
      "SkipSimplifiedLayerNormalization",
      `${name}/SkipLayerNorm`,
      operands,
      { epsilon: float(graph.epsilon) },
      to,
    );
  };
  for (let layer = 0; layer < layers; layer++) {
    const at = `/model/layers.${layer}`;
    const operands = project(normed(layer, "input"), layer);
    const past = ["key", "value"].map((which) => `past_key_values.${layer}.${which}`);
    const attended = graph.add(
      "GroupQueryAttention",
      `${at}/attn/GroupQueryAttention`,
      [
        ...operands,
        ...past,
        ...lengths,
        ...rotary,
        "", // position_ids
        "", // attention_bias
        biasesAndSinks ? graph.weight(graph.random.values(`model.layers.${layer}.attn.sinks`, type, [heads], 1)) : "",
      ],
      {
        num_heads: heads,
        kv_num_heads: keyValueHeads,
        scale: float(1 / Math.sqrt(headSize)),
        local_window_size: layer % 2 === 0 ? (sizes.window ?? -1) : -1,
        softcap: float(0),
        do_rotary: 1,
        rotary_interleaved: 0,
      },
      {
        domain: microsoft,
        outputs: [
          `${at}/attn/GroupQueryAttention/output_0`,
          ...["key", "value"].map((which) => `present.${layer}.${which}`),
        ],
      },
    );
    skip = product(`${at}/attn/o_proj`, attended, queries, hidden);
    const second = normed(layer, "post_attention");
    if (sizes.experts !== undefined) {
      skip = addExperts(graph, layer, second, { hidden, intermediate, experts: sizes.experts });
      continue;
    }
    const gate = graph.linear(`${at}/mlp/gate_proj`, second, hidden, intermediate);
    const up = graph.linear(`${at}/mlp/up_proj`, second, hidden, intermediate);
    const sigmoid = graph.add("Sigmoid", `${at}/mlp/act_fn/Sigmoid`, [gate]);
    const silu = graph.add("Mul", `${at}/mlp/act_fn/Mul`, [gate, sigmoid]);
    const passed = graph.add("Mul", `${at}/mlp/Mul`, [silu, up]);
    skip = graph.linear(`${at}/mlp/down_proj`, passed, intermediate, hidden);
  }
  const rows = normed(layers, "final_norm");
  graph.linear("/lm_head", logits === "all" ? rows : lastRow(graph, rows), hidden, vocabulary, "logits");
  if (embeddings === "unpacked") graph.weight(unpackedHead(graph, sizes));

  /** A product of attention's, with its bias where there are any. */
  function product(name: string, input: string, K: number, N: number): string {
    const made = graph.linear(name, input, K, N);
    return biasesAndSinks ? graph.biased(name, made, N) : made;
  }

  /** Queries, keys and values as attention takes them. */
  function project(input: string, layer: number): readonly string[] {
    const at = `/model/layers.${layer}/attn`;
    let parts: readonly string[];
    if (projections === "separate")
      parts = [
        product(`${at}/q_proj`, input, hidden, queries),
        product(`${at}/k_proj`, input, hidden, keys),
        product(`${at}/v_proj`, input, hidden, keys),
      ];
    else {
      const packed = product(`${at}/qkv_proj`, input, hidden, queries + 2 * keys);
      if (headNorms === "none") return [packed, "", ""];
      const name = `${at}/qkv_proj/Split`;
      parts = [0, 1, 2].map((part) => `${name}/output_${part}`);
      graph.add("Split", name, [packed, graph.integers([queries, keys, keys])], { axis: -1 }, { outputs: parts });
    }
    if (headNorms === "none") return parts;
    const normedHeads = (which: "q" | "k", rows: string, size: number): string => {
      const name = `${at}/${which}_norm`;
      const apart = graph.add("Reshape", `${name}/Reshape_1`, [rows, graph.integers([0, -1, headSize])]);
      const weight = `model.layers.${layer}.attn.${which}_norm.layernorm.weight`;
      const normedRows = graph.norm(`${name}/SimplifiedLayerNormalization`, apart, weight, headSize);
      return graph.add("Reshape", `${name}/Reshape_2`, [normedRows, graph.integers([0, -1, size])]);
    };
    return [normedHeads("q", parts[0], queries), normedHeads("k", parts[1], keys), parts[2]];
  }

  const caches = (name: string, rows: string): ModelValue[] =>
    Array.from({ length: layers }, (_, layer) =>
      ["key", "value"].map((which) =>
        value(`${name}.${layer}.${which}`, type, ["batch_size", keyValueHeads, rows, headSize]),
      ),
    ).flat();
  return buildModel({
    name: "main_graph",
    producerName: "insitu",
    irVersion: 10,
    opset: { "": 21, [microsoft]: 1 },
    inputs: [
      value("input_ids", "int64", ["batch_size", "sequence_length"]),
      value("attention_mask", "int64", ["batch_size", "total_sequence_length"]),
      ...caches("past_key_values", "past_sequence_length"),
    ],
    outputs: [
      value("logits", type, ["batch_size", logits === "all" ? "sequence_length" : 1, vocabulary]),
      ...caches("present", "total_sequence_length"),
    ],
    nodes: graph.nodes,
    initializers: graph.initializers,
  });
}

/** seqlens_k and total_sequence_length from attention_mask. */
function lengthsOfMask(graph: PublishedGraph): readonly string[] {
  const at = "/model/attn_mask_reformat/attn_mask_subgraph";
  const one = graph.integers([1]);
  const valid = graph.add("ReduceSum", `${at}/ReduceSum`, ["attention_mask", one], { keepdims: 0 });
  const last = graph.add("Sub", `${at}/Sub`, [valid, one]);
  const lengths = graph.add("Cast", `${at}/Sub/Cast`, [last], { to: 6 });
  const shape = graph.add("Shape", `${at}/Shape`, ["attention_mask"]);
  const columns = graph.add("Gather", `${at}/Gather`, [shape, graph.integers(1)], { axis: 0 });
  return [lengths, graph.add("Cast", `${at}/Gather/Cast`, [columns], { to: 6 })];
}

/** The last token's row of each sample: [batch, 1, hidden]. */
function lastRow(graph: PublishedGraph, rows: string): string {
  const last = graph.add("Gather", "/lm_head/prune/Gather", [rows, graph.integers(-1)], { axis: 1 });
  return graph.add("Unsqueeze", "/lm_head/prune/Unsqueeze", [last, graph.integers([1])]);
}

/** What the head's tensors are called, but for what follows where they are in blocks. */
const head = "lm_head.MatMul.weight";

/** The rows of input_ids: from a tensor of their own, or from the head's. */
function embedding(
  graph: PublishedGraph,
  { vocabulary, hidden }: PublishedSizes,
  form: NonNullable<PublishedForm["embeddings"]>,
): string {
  const [at, weight] = ["/model/embed_tokens", "model.embed_tokens.weight"];
  if (form === "separate") graph.weight(graph.random.values(weight, graph.type, [vocabulary, hidden], 1));
  if (form !== "tied") return graph.add("Gather", `${at}/Gather`, [weight, "input_ids"]);
  if (graph.weights === "plain") {
    const rows = graph.add("Transpose", `${at}/Transpose`, [head], { perm: [1, 0] });
    return graph.add("Gather", `${at}/Gather`, [rows, "input_ids"]);
  }
  const { bits, blockSize, zeroPoints = false } = graph.weights;
  const flat = graph.integers([vocabulary, (hidden * bits) / 8]);
  const rows = graph.add("Reshape", `${at}/Reshape`, [`${head}_Q${bits}`, flat]);
  return graph.add(
    "GatherBlockQuantized",
    `${at}/GatherBlockQuantized`,
    [rows, "input_ids", `${head}_scales`, ...(zeroPoints ? [`${head}_zero_points`] : [])],
    { bits, block_size: blockSize, gather_axis: 0, quantize_axis: 1 },
    { domain: microsoft },
  );
}

/** The head's weights of 4 bits around the middle of their range as an embedding of floats. */
function unpackedHead({ initializers, type }: PublishedGraph, { vocabulary, hidden }: PublishedSizes): ModelTensor {
  const [packed, scales] = [`${head}_Q4`, `${head}_scales`].map((name) =>
    initializers.find((each) => each.name === name)!,
  );
  const bytes = packed.data as Uint8Array; // [vocabulary, hidden / 32, 16]
  const factors = Float32Array.from(readNumbers(tensorView(scales))); // [vocabulary, hidden / 32]
  return written("model.embed_tokens.weight", type, [vocabulary, hidden], (at) => {
    const nibble = (bytes[at >> 1] >> ((at & 1) << 2)) & 15;
    return (nibble - 8) * factors[at >> 5];
  });
}

/** cos and sin of every position and frequency: [positions, head / 2]. */
function rotaryTables(sizes: PublishedSizes, type: WeightType): readonly ModelTensor[] {
  const { positions, headSize } = sizes;
  const half = headSize / 2;
  const frequencies = rotaryFrequencies(sizes);
  const magnitude = rotaryMagnitude(sizes);
  const angle = (at: number): number => Math.floor(at / half) * frequencies[at % half];
  return [
    written("cos_cache", type, [positions, half], (at) => magnitude * Math.cos(angle(at))),
    written("sin_cache", type, [positions, half], (at) => magnitude * Math.sin(angle(at))),
  ];
}
