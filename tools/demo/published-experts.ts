/** What decoders with experts have in the place of a feed-forward layer, as onnxruntime-genai's model builder writes it: a router and one QMoE, or MoE. */
import { float, initializer } from "#insitu/onnx/build.js";
import type { ModelTensor } from "#insitu/onnx/model.js";
import { microsoft, type PublishedGraph } from "./published-graph.js";

/** The experts of each layer: two products with a limited SwiGLU between them, whose gates and ups are neighbouring rows of the first. */
export interface PublishedExperts {
  readonly count: number;
  /** Those that each token goes to. */
  readonly chosen: number;
  /** What gates and ups are limited to. */
  readonly limit: number;
}

/** Values of 4 bits around 8 that MXFP4 has, too, at twice the size: 0, ±1, ±2, ±3, ±4 and ±6. Each of 16 random numbers becomes one of them. */
const levels: readonly number[] = [8, 9, 7, 10, 6, 11, 5, 12, 4, 14, 2, 9, 7, 10, 6, 8];
const levelScale = Math.sqrt(levels.reduce((sum, level) => sum + (level - 8) ** 2, 0) / levels.length);

/** The layer behind `input` [batch, sequence, hidden]. */
export function addExperts(
  graph: PublishedGraph,
  layer: number,
  input: string,
  { hidden, intermediate, experts }: { hidden: number; intermediate: number; experts: PublishedExperts },
): string {
  const at = `/model/layers.${layer}/moe`;
  const { count, chosen, limit } = experts;
  const scores = graph.biased(`${at}/router`, graph.linear(`${at}/router`, input, hidden, count), count);
  const rows = graph.add("Reshape", `${at}/router/Reshape`, [scores, graph.integers([-1, count])]);
  const attributes = {
    k: chosen,
    activation_type: "swiglu",
    activation_alpha: float(1.702),
    activation_beta: float(1),
    swiglu_fusion: 1,
    swiglu_limit: float(limit),
    normalize_routing_weights: 1,
  };
  const products = [
    { name: "gate_up_proj", n: 2 * intermediate, k: hidden },
    { name: "down_proj", n: hidden, k: intermediate },
  ];
  const names = products.map(({ name }) => `model.layers.${layer}.moe.experts.${name}`);
  const biases = products.map(({ n }, which) =>
    graph.weight(graph.random.values(`${names[which]}.bias`, graph.type, [count, n], 0.1)),
  );
  const to = { domain: microsoft };
  if (graph.weights === "plain") {
    const [first, second] = products.map(({ n, k }, which) =>
      graph.weight(graph.random.values(`${names[which]}.weight`, graph.type, [count, n, k], 1 / Math.sqrt(k))),
    );
    return graph.add("MoE", `${at}/MoE`, [input, rows, first, biases[0], second, biases[1]], attributes, to);
  }
  const { blockSize } = graph.weights;
  const operands = products.flatMap(({ n, k }, which) => [
    graph.weight(expertLevels(graph, `${names[which]}.qweight`, [count, n, k / 2])),
    graph.weight(expertScales(graph, `${names[which]}.scales`, [count, n, Math.ceil(k / blockSize)], k)),
    biases[which],
  ]);
  const form = { expert_weight_bits: 4, block_size: blockSize };
  return graph.add("QMoE", `${at}/QMoE`, [input, rows, ...operands], { ...attributes, ...form }, to);
}

/** The weights that MXFP4 has as well. Those of a model are one and the same memory: they are large, and each layer has others from its file on. */
function expertLevels(graph: PublishedGraph, name: string, dims: readonly number[]): ModelTensor {
  const data = graph.held(`levels ${dims.join()}`, () => {
    const { data } = graph.random.blocks(name, dims, 4);
    const bytes = data as Uint8Array;
    const table = Uint8Array.from({ length: 256 }, (_, byte) => levels[byte & 15] | (levels[byte >> 4] << 4));
    for (let at = 0; at < bytes.length; at++) bytes[at] = table[bytes[at]];
    return bytes;
  });
  return initializer(name, "uint8", data, dims);
}

/** Their scales, powers of two: as large as keeps what is multiplied about as large as it was. */
function expertScales(graph: PublishedGraph, name: string, dims: readonly number[], k: number): ModelTensor {
  const wanted = Math.log2(1 / (Math.sqrt(k) * levelScale));
  const { data } = graph.held(`scales ${dims.join()}`, () =>
    graph.random.near(name, graph.type, dims, 1, 0.5, (value) => 2 ** Math.round(wanted + value - 1)),
  );
  return initializer(name, graph.type, data as Float32Array | Uint16Array, dims);
}
