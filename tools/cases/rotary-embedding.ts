import { of, type OpCase } from "./shared/case.js";
import type { View } from "#insitu/tensor/view.js";

const float32 = (shape: readonly number[], values: readonly number[]): View => of("float32", shape, values);
// Position 0 turns by nothing, position 1 by a right angle: (a, b) → (−b, a).
const cos = float32([2, 1], [1, 0]);
const sin = float32([2, 1], [0, 1]);
const ids = (shape: readonly number[], values: readonly number[]): View => of("int64", shape, values);
const x = float32([1, 1, 2, 2], [1, 2, 3, 4]); // [batch, heads, length, size]

export const cases: readonly OpCase[] = [
  {
    op: "RotaryEmbedding",
    opset: 23,
    shows: "each token turns by its position",
    inputs: [x, cos, sin, ids([1, 2], [0, 1])],
    outputs: [float32([1, 1, 2, 2], [1, 2, -4, 3])],
  },
  {
    op: "RotaryEmbedding",
    opset: 23,
    shows: "a negative position counts from the end of the tables",
    inputs: [x, cos, sin, ids([1, 2], [-2, -1])],
    outputs: [float32([1, 1, 2, 2], [1, 2, -4, 3])],
  },
  {
    op: "RotaryEmbedding",
    opset: 23,
    shows: "without positions the caches are given for every token",
    inputs: [x, float32([1, 2, 1], [0, 0]), float32([1, 2, 1], [1, 1])],
    outputs: [float32([1, 1, 2, 2], [-2, 1, -4, 3])],
  },
  {
    op: "RotaryEmbedding",
    opset: 23,
    shows: "halves are partners",
    inputs: [float32([1, 1, 1, 4], [1, 2, 3, 4]), float32([1, 2], [0, 0]), float32([1, 2], [1, 1]), ids([1, 1], [0])],
    outputs: [float32([1, 1, 1, 4], [-3, -4, 1, 2])],
  },
  {
    op: "RotaryEmbedding",
    opset: 23,
    shows: "interleaved: neighbours are partners",
    attrs: { interleaved: 1 },
    inputs: [float32([1, 1, 1, 4], [1, 2, 3, 4]), float32([1, 2], [0, 0]), float32([1, 2], [1, 1]), ids([1, 1], [0])],
    outputs: [float32([1, 1, 1, 4], [-2, 1, -4, 3])],
  },
  {
    op: "RotaryEmbedding",
    opset: 23,
    shows: "packed heads, partly rotated: the rest of each head passes",
    attrs: { num_heads: 2, rotary_embedding_dim: 2 },
    inputs: [float32([1, 2, 6], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]), cos, sin, ids([1, 2], [1, 0])],
    outputs: [float32([1, 2, 6], [-2, 1, 3, -5, 4, 6, 7, 8, 9, 10, 11, 12])],
  },
  ...(["float16", "bfloat16"] as const).map((type): OpCase => ({
    op: "RotaryEmbedding",
    opset: 23,
    shows: `${type}: products are rounded before they are added`,
    inputs: [of(type, [1, 1, 1, 2], [3, 1]), of(type, [1, 1, 1], [0.3333]), of(type, [1, 1, 1], [1])],
    // 3 · 0.3333 is just below 1 and rounds to it or its neighbour.
    outputs: [of(type, [1, 1, 1, 2], type === "float16" ? [0, 3.333984375] : [0.0, 3.328125])],
  })),
  {
    op: "RotaryEmbedding",
    opset: 23,
    shows: "packed heads without their number are refused",
    inputs: [float32([1, 1, 2], [1, 2]), cos, sin, ids([1, 1], [0])],
    throws: /X of 3 dimensions needs the attribute num_heads/,
  },
  {
    op: "RotaryEmbedding",
    opset: 23,
    shows: "an odd head is refused",
    inputs: [float32([1, 1, 1, 3], [1, 2, 3]), cos, sin, ids([1, 1], [0])],
    throws: /must be even, got 3/,
  },
  {
    op: "RotaryEmbedding",
    opset: 23,
    shows: "a rotated part larger than the head is refused",
    attrs: { rotary_embedding_dim: 4 },
    inputs: [x, cos, sin, ids([1, 2], [0, 1])],
    throws: /must not be larger than the head size 2, got 4/,
  },
  {
    op: "RotaryEmbedding",
    opset: 23,
    shows: "caches of another width are refused",
    inputs: [x, float32([1, 2], [1, 0]), sin, ids([1, 2], [0, 1])],
    throws: /last dimension of cos_cache must be half of the 2 rotated values, got 2/,
  },
  {
    op: "RotaryEmbedding",
    opset: 23,
    shows: "tables without positions are refused",
    inputs: [x, cos, sin],
    throws: /cos_cache must have 3 dimensions without position_ids, got float32\[2,1\]/,
  },
  {
    op: "RotaryEmbedding",
    opset: 23,
    shows: "a position behind the tables is refused",
    inputs: [x, cos, sin, ids([1, 2], [0, 2])],
    throws: /position_ids must lie in \[-2, 1\], the rows of the caches, got 2/,
  },
  {
    op: "RotaryEmbedding",
    opset: 23,
    shows: "positions for other tokens are refused",
    inputs: [x, cos, sin, ids([1, 3], [0, 1, 0])],
    throws: /must agree in the sequence length, got 3 and 2/,
  },
];
