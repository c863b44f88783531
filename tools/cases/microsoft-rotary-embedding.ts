import { of, type OpCase } from "./shared/case.js";

const domain = "com.microsoft";
const cos = of("float32", [3, 1], [1, 0, -1]);
const sin = of("float32", [3, 1], [0, 1, 0]);

export const cases: readonly OpCase[] = [
  {
    op: "RotaryEmbedding",
    domain,
    opset: 1,
    shows: "one offset: the positions of every sample count from it",
    inputs: [of("float32", [2, 2, 2], [1, 2, 3, 4, 5, 6, 7, 8]), of("int64", [1], [1]), cos, sin],
    outputs: [of("float32", [2, 2, 2], [-2, 1, -3, -4, -6, 5, -7, -8])],
  },
  {
    op: "RotaryEmbedding",
    domain,
    opset: 1,
    shows: "part of a head turns, its rest passes; 4 dimensions keep heads before tokens",
    attrs: { rotary_embedding_dim: 2, num_heads: 1, interleaved: 1 },
    inputs: [of("float32", [1, 1, 2, 3], [1, 2, 9, 3, 4, 8]), of("int64", [1, 2], [1, 0]), cos, sin],
    outputs: [of("float32", [1, 1, 2, 3], [-2, 1, 9, 3, 4, 8])],
  },
  {
    op: "RotaryEmbedding",
    domain,
    opset: 1,
    shows: "an offset that runs past the tables is refused",
    inputs: [of("float32", [1, 2, 2], [1, 2, 3, 4]), of("int64", [1], [2]), cos, sin],
    throws: /position_ids must lie in \[0, 1\] for caches of 3 rows and 2 tokens, got 2/,
  },
  {
    op: "RotaryEmbedding",
    domain,
    opset: 1,
    shows: "a part without num_heads is refused",
    attrs: { rotary_embedding_dim: 2 },
    inputs: [of("float32", [1, 1, 2], [1, 2]), of("int64", [1], [0]), cos, sin],
    throws: /rotary_embedding_dim needs num_heads/,
  },
  {
    op: "MRotaryEmbedding",
    domain,
    opset: 1,
    shows: "three pairs, each turned by a position of its own",
    attrs: { mrope_section: [1, 1, 1] },
    inputs: [
      of("float32", [1, 1, 6], [1, 2, 3, 4, 5, 6]),
      of("int64", [3, 1, 1], [0, 1, 2]),
      of("float32", [3, 3], [1, 1, 1, 0, 0, 0, -1, -1, -1]),
      of("float32", [3, 3], [0, 0, 0, 1, 1, 1, 0, 0, 0]),
    ],
    outputs: [of("float32", [1, 1, 6], [1, -5, -3, 4, 2, -6])],
  },
  {
    op: "MRotaryEmbedding",
    domain,
    opset: 1,
    shows: "sections that are not all pairs",
    attrs: { mrope_section: [1, 1, 1] },
    inputs: [of("float32", [1, 1, 2], [1, 2]), of("int64", [3, 1, 1], [0, 0, 0]), cos, sin],
    throws: /mrope_section must be 3 counts of pairs, 1 in all, got \[1,1,1\]/,
  },
];
