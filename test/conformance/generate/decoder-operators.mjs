// The operators of newer decoders that clients.mjs draws cases of: experts, linear attention and what stands around them, within what
// onnxruntime's CPU provider has kernels for.

const domain = "com.microsoft";
const float = (value) => ({ kind: "float", value: Math.fround(value) });

/** Numbers about 0, scaled; of 64 different ones, so that an archive of them is small. */
const scaled = (draw, dims, by) => {
  const size = dims.reduce((product, dim) => product * dim, 1);
  return draw.floats(
    Array.from({ length: size }, () => (Math.floor(draw.random() * 64) / 32 - 1) * by),
    dims,
  );
};

function experts(draw, bits) {
  const { pick, chance, whole } = draw;
  const perByte = bits === undefined ? 1 : 8 / bits;
  const [hidden, inner] = bits === undefined ? [pick(16, 32), pick(8, 20, 40)] : [pick(32, 64), pick(32, 64)];
  const [count, tokens] = [whole(2, 5), pick(1, 1, 2, 5, 9, 17)];
  const activation = pick("swiglu", "swiglu", "silu", "gelu", "relu", "identity");
  const isGated = activation === "swiglu";
  const rows = isGated ? 2 * inner : inner;
  const block = bits === undefined ? 0 : pick(0, 16, 32);
  const blocks = (size) => (block === 0 ? 1 : size / block);
  // Zero points of blocks are whole bytes in every row.
  const fits = block === 0 ? true : [hidden, inner].every((size) => size % (block * perByte) === 0);
  const hasZeros = bits !== undefined && fits && chance(0.5);
  const [hasBias, has3] = [chance(0.6), chance(0.5)];
  const bytes = Array.from({ length: 24 }, () => Math.floor(draw.random() * 256));
  const weights = (outer, size) =>
    bits === undefined
      ? scaled(draw, [count, outer, size], 2 / Math.sqrt(size))
      : new draw.Tensor(
          "uint8",
          Uint8Array.from(
            { length: (count * outer * size) / perByte },
            () => bytes[Math.floor(draw.random() * bytes.length)],
          ),
          [count, outer, size / perByte],
        );
  const scales = (outer, size) => {
    const dims = block === 0 ? [count, outer] : [count, outer, blocks(size)];
    const total = dims.reduce((product, dim) => product * dim, 1);
    const step = 3 / Math.sqrt(size) / 2 ** bits;
    return draw.floats(
      Array.from({ length: total }, () => step * (0.5 + Math.floor(draw.random() * 16) / 16)),
      dims,
    );
  };
  const zeros = (outer, size) => {
    if (!hasZeros) return undefined;
    const dims = block === 0 ? [count, outer / perByte] : [count, outer, blocks(size) / perByte];
    const total = dims.reduce((product, dim) => product * dim, 1);
    return new draw.Tensor(
      "uint8",
      Uint8Array.from({ length: total }, () => draw.random() * 256),
      dims,
    );
  };
  const bias = (outer) => (hasBias ? scaled(draw, [count, outer], 0.5) : undefined);
  const input = scaled(draw, has3 ? [1, tokens, hidden] : [tokens, hidden], 1.5);
  const scores = scaled(draw, [tokens, count], 3);
  const given = chance(0.3)
    ? draw.floats(
        Array.from({ length: tokens * count }, () => 0.05 + draw.random()),
        [tokens, count],
      )
    : undefined;
  const attrs = {
    activation_type: activation,
    k: whole(1, Math.min(4, count)),
    // onnxruntime's CPU provider normalizes the weights of QMoE whatever this says.
    normalize_routing_weights: bits === undefined || given !== undefined ? whole(0, 1) : 1,
    ...(isGated
      ? {
          swiglu_fusion: 1,
          activation_alpha: float(pick(1, 1.702)),
          activation_beta: float(pick(0, 1)),
          ...(chance(0.5) ? { swiglu_limit: float(pick(7, 0.5)) } : {}),
        }
      : {}),
    ...(bits === undefined ? {} : { expert_weight_bits: bits, ...(block === 0 ? {} : { block_size: block }) }),
  };
  const inputs =
    bits === undefined
      ? [input, scores, weights(rows, hidden), bias(rows), weights(hidden, inner), bias(hidden)]
      : [
          input,
          scores,
          weights(rows, hidden),
          scales(rows, hidden),
          bias(rows),
          weights(hidden, inner),
          scales(hidden, inner),
          bias(hidden),
          undefined,
          undefined,
          undefined,
          zeros(rows, hidden),
          zeros(hidden, inner),
          undefined,
          given,
        ];
  const constants = [...inputs.keys()].filter((index) => index >= 2 && index < 14);
  return { opset: 21, attrs, inputs, constants, outputs: ["float32"] };
}

function linearAttention(draw) {
  const { pick, chance, whole } = draw;
  const rule = pick("linear", "gated", "delta", "gated_delta", "gated_delta");
  const [batch, tokens] = [whole(1, 2), pick(1, 1, 2, 5, 17)];
  const [queries, states] = pick([2, 2], [4, 2], [2, 4], [1, 3], [6, 3]);
  const keys = queries > states ? states : pick(...[queries, states].filter((heads) => states % heads === 0));
  const [size, valueSize] = [pick(4, 8, 16, 12), pick(4, 8, 16, 20)];
  const of = (width, by = 1) => scaled(draw, [batch, tokens, width], by);
  const perKey = chance(0.4);
  const negative = (width) =>
    draw.floats(
      Array.from({ length: batch * tokens * width }, () => -draw.random()),
      [batch, tokens, width],
    );
  return {
    opset: 21,
    attrs: {
      update_rule: rule,
      q_num_heads: queries,
      kv_num_heads: states,
      ...(chance(0.4) ? { scale: float(0.7) } : {}),
    },
    inputs: [
      of(queries * size),
      of(keys * size, 1 / Math.sqrt(size)),
      of(states * valueSize),
      chance(0.7) ? scaled(draw, [batch, states, size, valueSize], 1) : undefined,
      rule.startsWith("gated") ? negative(perKey ? states * size : states) : undefined,
      rule.endsWith("delta")
        ? draw.floats(
            Array.from({ length: batch * tokens * (perKey ? 1 : states) }, () => draw.random()),
            [batch, tokens, perKey ? 1 : states],
          )
        : undefined,
    ],
    constants: [],
    outputs: ["float32", "float32"],
  };
}

function causalConvolution(draw) {
  const { pick, chance, whole } = draw;
  const [batch, channels, length, kernel] = [whole(1, 2), whole(1, 9), pick(1, 1, 2, 3, 4, 11, 40), whole(1, 5)];
  return {
    opset: 21,
    attrs: { activation: pick("none", "silu", "swish"), ndim: 1 },
    inputs: [
      scaled(draw, [batch, channels, length], 2),
      scaled(draw, [channels, 1, kernel], 1),
      chance(0.5) ? scaled(draw, [channels], 1) : undefined,
      chance(0.7) ? scaled(draw, [batch, channels, kernel - 1], 2) : undefined,
    ],
    constants: chance(0.7) ? [1, 2] : [],
    outputs: ["float32", "float32"],
  };
}

function linearAttentionGate(draw) {
  const [batch, tokens, heads] = [draw.whole(1, 2), draw.whole(1, 5), draw.whole(1, 9)];
  const hasRate = draw.chance(0.6);
  return {
    opset: 21,
    attrs: {},
    inputs: [
      scaled(draw, [batch, tokens, heads], 6),
      scaled(draw, [heads], 2),
      scaled(draw, [heads], 2),
      hasRate ? scaled(draw, [batch, tokens, heads], 6) : undefined,
    ],
    constants: [1, 2],
    outputs: hasRate ? ["float32", "float32"] : ["float32"],
  };
}

function gatedNorm(draw) {
  const [rows, heads, size] = [draw.whole(1, 6), draw.whole(1, 4), draw.pick(1, 3, 8, 16, 20)];
  return {
    opset: 21,
    attrs: draw.chance(0.5) ? { epsilon: float(1e-3) } : {},
    inputs: [
      scaled(draw, [1, rows, heads * size], 3),
      scaled(draw, [size], 2),
      scaled(draw, [1, rows, heads * size], 4),
    ],
    constants: [1],
    outputs: ["float32"],
  };
}

function gatedAdd(draw) {
  const [batch, rows, size] = [draw.whole(1, 3), draw.whole(1, 6), draw.whole(1, 20)];
  return {
    opset: 21,
    attrs: {},
    inputs: [
      scaled(draw, [batch, rows, size], 3),
      scaled(draw, [batch, rows, size], 3),
      scaled(draw, [batch, rows, 1], 1),
    ],
    constants: [],
    outputs: ["float32"],
  };
}

function multimodalRotary(draw) {
  const { pick, whole, chance } = draw;
  const [batch, tokens, heads, size, positions] = [whole(1, 2), whole(1, 5), whole(1, 3), pick(16, 32), 20];
  const partial = chance(0.4) ? size / 2 : 0;
  const pairs = (partial || size) / 2;
  const isFour = partial === 0 && chance(0.5);
  const time = pick(pairs / 2, pairs / 4);
  const height = Math.floor((pairs - time) / 2);
  return {
    opset: 21,
    attrs: {
      interleaved: whole(0, 1),
      mrope_layout: whole(0, 1),
      mrope_section: [time, height, pairs - time - height],
      ...(isFour ? {} : { num_heads: heads }),
      rotary_embedding_dim: partial,
      ...(chance(0.3) ? { scale: float(0.5) } : {}),
    },
    inputs: [
      scaled(draw, isFour ? [batch, heads, tokens, size] : [batch, tokens, heads * size], 2),
      draw.integers(
        Array.from({ length: 3 * batch * tokens }, () => whole(0, positions - 1)),
        [3, batch, tokens],
      ),
      scaled(draw, [positions, pairs], 1),
      scaled(draw, [positions, pairs], 1),
    ],
    constants: [2, 3],
    outputs: ["float32"],
  };
}

export const operators = {
  MoE: { count: 24, domain, make: (draw) => experts(draw) },
  QMoE: { count: 60, domain, atol: 2e-3, make: (draw) => experts(draw, draw.pick(4, 4, 8, 2)) },
  LinearAttention: { count: 80, domain, make: linearAttention },
  CausalConvWithState: { count: 50, domain, make: causalConvolution },
  LinearAttentionGate: { count: 15, domain, make: linearAttentionGate },
  GatedRMSNorm: { count: 15, domain, make: gatedNorm },
  GatedAdd: { count: 10, domain, make: gatedAdd },
  MRotaryEmbedding: { count: 25, domain, make: multimodalRotary },
};
