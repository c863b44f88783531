import { of, type OpCase } from "./shared/case.js";
import type { View } from "#insitu/tensor/view.js";

const domain = "com.microsoft";
const float32 = (shape: readonly number[], values: readonly number[]): View => of("float32", shape, values);
const bytes = (shape: readonly number[], values: readonly number[]): View => of("uint8", shape, values);
const repeat = (value: number, count: number): number[] => new Array<number>(count).fill(value);

// Three experts that multiply by 1, 10 and 100, then by 1.
const input = float32([2, 1], [1, 2]);
const scores = float32([2, 3], [0, 1, 2, 5, 1, 0]);
const first = float32([3, 1, 1], [1, 10, 100]);
const second = float32([3, 1, 1], [1, 1, 1]);
const [e0, e1, e2] = [1, Math.E, Math.E ** 2];

export const cases: readonly OpCase[] = [
  {
    op: "MoE",
    domain,
    opset: 1,
    shows: "two experts a token, weighed by the softmax over all scores",
    attrs: { activation_type: "identity", k: 2 },
    inputs: [input, scores, first, undefined, second],
    outputs: [
      float32([2, 1], [(e2 * 100 + e1 * 10) / (e0 + e1 + e2), (Math.exp(5) * 2 + e1 * 20) / (Math.exp(5) + e1 + 1)]),
    ],
    tolerance: 1e-6,
  },
  {
    op: "MoE",
    domain,
    opset: 1,
    shows: "weights that are normalized, biases of both products",
    attrs: { activation_type: "relu", k: 1, normalize_routing_weights: 1 },
    inputs: [input, scores, first, float32([3, 1], [-5, 0, 1]), second, float32([3, 1], [7, 0, 2])],
    outputs: [float32([2, 1], [103, 7])],
  },
  {
    op: "MoE",
    domain,
    opset: 1,
    shows: "SwiGLU in turns, with its limits, alpha and beta",
    attrs: {
      activation_type: "swiglu",
      swiglu_fusion: 1,
      swiglu_limit: { float: 2 },
      activation_alpha: { float: 0 },
      activation_beta: { float: 1 },
    },
    inputs: [
      float32([1, 1], [1]),
      float32([1, 1], [0]),
      float32([1, 4, 1], [8, -9, 1, 1]),
      undefined,
      float32([1, 1, 2], [1, 10]),
    ],
    outputs: [float32([1, 1], [(2 / 2) * (-2 + 1) + 10 * (1 / 2) * (1 + 1)])],
  },
  {
    op: "MoE",
    domain,
    opset: 1,
    shows: "SwiGLU with its linear half behind the gate",
    attrs: { activation_type: "swiglu", swiglu_fusion: 2, activation_alpha: { float: 0 } },
    inputs: [
      float32([1, 1], [1]),
      float32([1, 1], [0]),
      float32([1, 4, 1], [8, 2, 3, 5]),
      undefined,
      float32([1, 1, 2], [1, 10]),
    ],
    outputs: [float32([1, 1], [(8 / 2) * 3 + 10 * (2 / 2) * 5])],
  },
  {
    op: "MoE",
    domain,
    opset: 1,
    shows: "a third product is the linear half of any activation",
    attrs: { activation_type: "relu" },
    inputs: [
      float32([2, 1], [1, -1]),
      float32([2, 1], [0, 0]),
      float32([1, 1, 1], [3]),
      undefined,
      float32([1, 1, 1], [1]),
      undefined,
      float32([1, 1, 1], [4]),
      float32([1, 1], [1]),
    ],
    outputs: [float32([2, 1], [15, 0])],
  },
  {
    op: "MoE",
    domain,
    opset: 1,
    shows: "the sparse mixer weighs each of two experts against those near it",
    attrs: { activation_type: "identity", k: 2, use_sparse_mixer: 1 },
    inputs: [float32([1, 1], [1]), float32([1, 3], [10, 9.9, 2]), first, undefined, second],
    // 9.9 is near 10, and nothing is near 9.9 but 10, which is taken.
    outputs: [float32([1, 1], [1 / (1 + Math.exp(-0.1)) + 10])],
    tolerance: 1e-5,
  },
  {
    op: "MoE",
    domain,
    opset: 1,
    shows: "more experts a token than there are",
    attrs: { k: 4 },
    inputs: [input, scores, first, undefined, second],
    throws: /k must be at most the number of experts, 3, got 4/,
  },
  {
    op: "MoE",
    domain,
    opset: 1,
    shows: "scores for other experts than there are weights",
    inputs: [input, float32([2, 2], [0, 1, 1, 0]), first, undefined, second],
    throws: /router_probs must have a score for each expert of fc1_experts_weights, got 2 and 3/,
  },
  {
    op: "MoE",
    domain,
    opset: 1,
    shows: "a bias of another size",
    inputs: [input, scores, first, float32([3, 2], repeat(0, 6)), second],
    throws: /fc1_experts_bias must be \[3,1\], got \[3,2\]/,
  },
  {
    op: "QMoE",
    domain,
    opset: 1,
    shows: "4 bits, a scale for each row, the zero point in the middle",
    attrs: { activation_type: "identity", k: 1 },
    inputs: [
      float32([1, 2], [1, 10]),
      float32([1, 2], [0, 1]),
      bytes([2, 2, 1], [0, 0, 0xa9, 0x88]),
      float32([2, 2], [1, 1, 2, 3]),
      undefined,
      bytes([2, 2, 1], [0, 0, 0x89, 0x98]),
      float32([2, 2], [1, 1, 1, 0.5]),
    ],
    // The first product is [2 · (1 + 20), 0]; the second turns it into [1 · 42, 0.5 · 0].
    outputs: [float32([1, 2], [42 / (1 + Math.exp(-1)), 0])],
    tolerance: 1e-6,
  },
  {
    op: "QMoE",
    domain,
    opset: 1,
    shows: "8 bits in blocks with zero points, weights of the router's own",
    attrs: { activation_type: "identity", k: 1, expert_weight_bits: 8, block_size: 16 },
    inputs: [
      float32([1, 32], repeat(1, 32)),
      float32([1, 1], [-3]),
      bytes([1, 32, 32], repeat(5, 1024)),
      float32([1, 32, 2], repeat(0.5, 64)),
      undefined,
      bytes([1, 32, 32], repeat(3, 1024)),
      float32([1, 32, 2], repeat(0.25, 64)),
      undefined,
      undefined,
      undefined,
      undefined,
      bytes([1, 32, 2], repeat(4, 64)),
      bytes([1, 32, 2], repeat(1, 64)),
      undefined,
      float32([1, 1], [0.5]),
    ],
    outputs: [float32([1, 32], repeat(0.5 * 32 * 0.5 * (32 * 0.5), 32))],
  },
  {
    op: "QMoE",
    domain,
    opset: 1,
    shows: "scales of other blocks than block_size says",
    attrs: { k: 1, block_size: 16 },
    inputs: [
      float32([1, 32], repeat(1, 32)),
      float32([1, 1], [0]),
      bytes([1, 32, 16], repeat(0, 512)),
      float32([1, 32, 1], repeat(0, 32)),
      undefined,
      bytes([1, 32, 16], repeat(0, 512)),
      float32([1, 32, 2], repeat(0, 64)),
    ],
    throws: /fc1_scales must be \[1,32,2\], got \[1,32,1\]/,
  },
  {
    op: "QMoE",
    domain,
    opset: 1,
    shows: "weights that another device's layout holds",
    attrs: { weights_prepacked: 1 },
    inputs: [input, scores, bytes([3, 1, 1], repeat(0, 3)), undefined, undefined, bytes([3, 1, 1], repeat(0, 3))],
    throws: /weights_prepacked must be 0/,
  },
];
