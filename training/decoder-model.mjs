// A llama-style decoder as an ONNX model whose caches are written in place: TensorScatter writes keys and values, Attention-24 reads
// the valid rows (nonpad_kv_seqlen). Linear layers hold 8- or 4-bit weights in blocks (com.microsoft MatMulNBits), or float32.
import { buildModel, float, initializer, node, value } from "../dist/onnx/build.js";

/** Weights of a row that share a scale, by their bits. */
const blockSizes = { 8: 128, 4: 32 };

/** Rows of values around the middle of their range, two to a byte where they have 4 bits, and a scale for each block. */
function quantize({ dims: [rows, columns], data }, bits) {
  const blockSize = blockSizes[bits];
  const blocks = columns / blockSize;
  if (!Number.isInteger(blocks)) throw new Error(`${columns} columns are no whole number of blocks of ${blockSize}`);
  const middle = 2 ** (bits - 1);
  const values = new Uint8Array((rows * columns * bits) / 8);
  const scales = new Float32Array(rows * blocks);
  for (let block = 0; block < scales.length; block++) {
    const from = block * blockSize;
    let most = 0;
    for (let i = from; i < from + blockSize; i++) most = Math.max(most, Math.abs(data[i]));
    scales[block] = most / (middle - 1);
    for (let i = from; i < from + blockSize; i++) {
      const value = most === 0 ? middle : middle + Math.round(data[i] / scales[block]);
      if (bits === 8) values[i] = value;
      else values[i >> 1] |= value << (4 * (i & 1));
    }
  }
  return { values, scales, blocks, blockSize };
}

/** The other way round, rows of a linear layer becoming columns of a MatMul's second operand. */
function transpose({ dims: [rows, columns], data }) {
  const result = new Float32Array(data.length);
  for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) result[column * rows + row] = data[row * columns + column];
  return result;
}

/**
 * The model. Inputs: input_ids, position_ids, write_indices, nonpad_kv_seqlen, past_key_values.L.key/value [batch, capacity, heads * head];
 * outputs: logits, present.L.key/value. The angles of the rotary embedding come from position_ids: there is no last position.
 */
export function decoderModel(config, weights, form = "int8") {
  if (!["int8", "int4", "float32"].includes(form)) throw new Error(`weights must be int8, int4 or float32, got ${form}`);
  const { hidden_size: hidden, num_attention_heads: heads, num_key_value_heads: kvHeads, head_dim: head, num_hidden_layers: layers } = config;
  const nodes = [];
  const initializers = [];
  const constant = (name, type, data, dims) => {
    initializers.push(initializer(name, type, data, dims));
    return name;
  };
  const add = (op, inputs, output, attributes = {}, domain = "") => {
    nodes.push(node(op, inputs, [output], attributes, { name: output, domain }));
    return output;
  };
  const weightOf = (name) => {
    const weight = weights.get(`${name}.weight`);
    if (weight === undefined) throw new Error(`there is no weight ${name}.weight`);
    return weight;
  };
  const norm = (input, name) => {
    const { data, dims } = weightOf(name);
    return add("RMSNormalization", [input, constant(`${name}.weight`, "float32", data, dims)], name, { axis: -1, epsilon: float(config.rms_norm_eps) });
  };
  const product = (input, name, output) => {
    const weight = weightOf(name);
    const [N, K] = weight.dims;
    if (form === "float32") return add("MatMul", [input, constant(`${name}.weight`, "float32", transpose(weight), [K, N])], output);
    // The embedding, which is the last layer too, keeps its 8 bits.
    const bits = form === "int4" && name !== "embedding" ? 4 : 8;
    const { values, scales, blocks, blockSize } = quantize(weight, bits);
    const weights = constant(`${name}.weight`, "uint8", values, [N, blocks, (blockSize * bits) / 8]);
    const operands = [weights, constant(`${name}.scales`, "float32", scales, [N, blocks])];
    // Activations of 16 bits are enough: products need not be computed in float32.
    const attributes = { K, N, bits, block_size: blockSize, accuracy_level: 2 };
    return add("MatMulNBits", [input, ...operands], output, attributes, "com.microsoft");
  };
  const linear = (input, name) => product(input, name, name);
  const embed = () => {
    if (form === "float32") return add("Gather", [constant("embedding.table", "float32", weightOf("embedding").data, [config.vocab_size, hidden]), "input_ids"], "embedded");
    // The table is the weight of the last layer under another shape.
    const table = add("Reshape", ["embedding.weight", constant("embedding.shape", "int64", [BigInt(config.vocab_size), BigInt(hidden)], [2])], "embedding.table");
    return add("GatherBlockQuantized", [table, "input_ids", "embedding.scales"], "embedded", { bits: 8, block_size: blockSizes[8] }, "com.microsoft");
  };

  let x = embed(); // [batch, sequence, hidden]
  const frequencies = Float32Array.from({ length: head / 2 }, (_, i) => config.rope_theta ** (-i / (head / 2)));
  const positions = add("Unsqueeze", [add("Cast", ["position_ids"], "positions", { to: 1 }), constant("last_axis", "int64", [-1n], [1])], "position_column");
  const angles = add("Mul", [positions, constant("frequencies", "float32", frequencies, [head / 2])], "angles"); // [batch, sequence, head / 2]
  const [cos, sin] = [add("Cos", [angles], "cos"), add("Sin", [angles], "sin")];
  for (let layer = 0; layer < layers; layer++) {
    const at = (name) => `layers.${layer}.${name}`;
    const rotate = (input, count) => add("RotaryEmbedding", [input, cos, sin], `${input}.rotated`, { num_heads: count });
    const scatter = (which, update) =>
      add("TensorScatter", [`past_key_values.${layer}.${which}`, update, "write_indices"], `present.${layer}.${which}`, { axis: 1 });
    const normed = norm(x, at("input_norm"));
    const q = rotate(linear(normed, at("q")), heads);
    const keys = scatter("key", rotate(linear(normed, at("k")), kvHeads));
    const values = scatter("value", linear(normed, at("v")));
    const attended = add("Attention", [q, keys, values, "", "", "", "nonpad_kv_seqlen"], at("attention"), {
      is_causal: 1,
      q_num_heads: heads,
      kv_num_heads: kvHeads,
      scale: float(1 / Math.sqrt(head)),
    });
    x = add("Add", [x, linear(attended, at("o"))], at("after_attention"));
    const second = norm(x, at("mlp_norm"));
    const gate = linear(second, at("gate"));
    const gated = add("Mul", [gate, add("Sigmoid", [gate], at("sigmoid"))], at("silu"));
    x = add("Add", [x, linear(add("Mul", [gated, linear(second, at("up"))], at("product")), at("down"))], at("after_mlp"));
  }
  product(norm(x, "norm"), "embedding", "logits");
  const caches = (name) =>
    Array.from({ length: layers }, (_, layer) =>
      ["key", "value"].map((which) => value(`${name}.${layer}.${which}`, "float32", ["batch", "capacity", kvHeads * head])),
    ).flat();
  return buildModel({
    name: "fairy_tales",
    opset: { "": 24, "com.microsoft": 1 },
    inputs: [
      value("input_ids", "int64", ["batch", "sequence"]),
      value("position_ids", "int64", ["batch", "sequence"]),
      value("write_indices", "int64", ["batch"]),
      value("nonpad_kv_seqlen", "int64", ["batch"]),
      ...caches("past_key_values"),
    ],
    outputs: [value("logits", "float32", ["batch", "sequence", config.vocab_size]), ...caches("present")],
    nodes,
    initializers,
  });
}
