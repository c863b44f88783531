// Models that extremes.mjs asks about, each with what it is fed: numbers at random with a spot that is 0, −0, infinite, NaN, the largest or
// subnormal, and scores far beyond a softcap. A form is one model, its sets differ in data alone.
import { seededRandom } from "../../../dist/graph/call.js";
import { float, initializer, node, value } from "../../../dist/onnx/build.js";
import { encodeBfloat16 } from "../../../dist/tensor/float.js";
import { Tensor } from "../../../dist/tensor/tensor.js";

const random = seededRandom(20_261_118);
const normal = () => (random() + random() + random() + random() - 2) * 1.7;
const sizeOf = (dims) => dims.reduce((product, dim) => product * dim, 1);
const numbers = (dims, scale = 1) => Array.from({ length: sizeOf(dims) }, () => normal() * scale);
const tensor = (type, dims, values) =>
  type === "bfloat16"
    ? new Tensor(type, Uint16Array.from(values, encodeBfloat16), dims)
    : type === "int64"
      ? new Tensor(type, BigInt64Array.from(values, BigInt), dims)
      : new Tensor(type, values, dims);

const largest = { float32: 3e38, float16: 65504, bfloat16: 3e38 };
const subnormal = { float32: 1e-40, float16: 2 ** -24, bfloat16: 1e-40 };

/** Spots by their labels. */
const spotsOf = (type) => ({
  "a NaN": NaN,
  "an infinity": Infinity,
  "a negative infinity": -Infinity,
  "the largest": largest[type],
  "the largest, negative": -largest[type],
  "a subnormal": subnormal[type],
});

/** Every element's functions of one operand, with attributes; `second` brings another operand. */
const functions = [
  ["Relu"], ["LeakyRelu"], ["ThresholdedRelu"], ["Elu"], ["Celu"], ["Selu"], ["Gelu"], ["Gelu", { approximate: "tanh" }],
  ["HardSigmoid"], ["HardSwish"], ["Mish"], ["Sigmoid"], ["Softplus"], ["Softsign"], ["Swish"], ["Shrink"], ["Tanh"], ["Erf"], ["Exp"], ["Log"],
  ["Sqrt"], ["Reciprocal"], ["Abs"], ["Neg"], ["Sign"], ["Floor"], ["Ceil"], ["Round"], ["Sin"], ["Cos"], ["IsNaN"], ["IsInf"],
]; // prettier-ignore
const contrib = [["Gelu"], ["FastGelu"], ["QuickGelu"]];

const single = (op, attrs, domain, type) => ({
  output: `${domain === "" ? "" : "com.microsoft."}${op}${Object.values(attrs).join("")}`,
  type: op.startsWith("Is") ? "bool" : type,
  nodes: (name) => [node(op, ["x"], [name], attrs, { domain })],
  constants: [],
});

/** Functions of elements: each an output of one model, so that onnxruntime can be asked of each alone. */
export function elementOutputs(type) {
  const small = (op, second, attrs = {}) => ({
    output: op,
    type,
    nodes: (name) => [node(op, ["x", `${name}_second`], [name], attrs)],
    constants: (name) => [initializer(`${name}_second`, tensor(type, [9], new Array(9).fill(second)))],
  });
  return [
    ...functions.map(([op, attrs = {}]) => single(op, attrs, "", type)),
    ...contrib.map(([op]) => single(op, {}, "com.microsoft", type)),
    small("Pow", 3),
    small("PRelu", 0.25),
    small("SwiGLU", 1.5),
    small("Max", 1),
    small("Min", 1),
  ];
}

/** Nine elements, so that vectors and what is left of them meet each spot. */
export const elementSets = (type) =>
  Object.entries({ ...spotsOf(type), 0: 0, "−0": -0, 100: 100, "−100": -100, "10⁴": 1e4, "−10⁴": -1e4 }).map(
    ([label, spot]) => ({ label, feeds: { x: tensor(type, [9], [spot, ...numbers([7]), spot]) } }),
  );

/** Sets of an attention: a spot in each operand by turns, zeros, and scores of 10⁴ caps. */
function attentionSets(type, shapes, cap, at, more = {}, size = shapes.q.at(-1)) {
  const plain = Object.fromEntries(Object.entries(shapes).map(([name, dims]) => [name, numbers(dims)]));
  const set = (label, given) => ({
    label,
    feeds: {
      ...Object.fromEntries(Object.entries(shapes).map(([name, dims]) => [name, tensor(type, dims, given[name])])),
      ...more,
    },
  });
  const spotted = Object.entries(spotsOf(type)).flatMap(([label, spot]) =>
    Object.keys(shapes).map((name) => set(`${label} in ${name}`, { ...plain, [name]: plain[name].with(Math.min(at[name] ?? 9, plain[name].length - 1), spot) })),
  ); // prettier-ignore
  // A query and every other key are alike in all elements.
  const row = shapes.k.at(-1);
  const edge = Math.sqrt((1e4 * cap) / Math.sqrt(size));
  const far = (sign) => ({
    ...plain,
    q: plain.q.map(() => edge),
    k: plain.k.map((_, i) => (Math.floor(i / row) % 2 === 0 ? sign * edge : 0)),
  });
  return [
    ...spotted,
    set("zeros", Object.fromEntries(Object.entries(plain).map(([name, values]) => [name, values.map(() => 0)]))),
    set("scores of 10⁴ caps", far(1)),
    set("scores of −10⁴ caps", far(-1)),
  ];
}

/** ONNX's Attention: forms are added one by one. */
function attentions(type) {
  const forms = [];
  const add = (
    name,
    { S = 1, L = 24, D = 8, heads = 2, kv = 2, attrs = {}, mask, past = 0, outputs = 1, sets: given },
  ) => {
    const shapes = {
      q: [1, heads, S, D],
      k: [1, kv, L, D],
      v: [1, kv, L, D],
      ...(mask === "float" ? { m: [S, L] } : {}),
      ...(past > 0 ? { pk: [1, kv, past, D], pv: [1, kv, past, D] } : {}),
    };
    const bool = mask === "bool" ? { m: new Tensor("bool", Uint8Array.from({ length: S * L }, (_, i) => (i % L) % 5 === 4 ? 0 : 1), [S, L]) } : {}; // prettier-ignore
    const at = { m: 2, ...(L > 100 ? { k: 270 * D + 1, v: 270 * D + 1 } : {}) };
    const names = ["y", "present_key", "present_value", "scores"].slice(0, outputs);
    forms.push({
      name: `${name}_${type}`,
      opset: { "ai.onnx": 24 },
      inputs: [...Object.entries(shapes).map(([n, dims]) => value(n, type, dims)), ...Object.keys(bool).map((n) => value(n, "bool", [S, L]))],
      outputs: names.map((n) => value(n, type)),
      nodes: [node("Attention", ["q", "k", "v", ...(mask ? ["m"] : [past > 0 ? "" : undefined]), ...(past > 0 ? ["pk", "pv"] : [])].filter((n) => n !== undefined), names, attrs)],
      sets: given ?? attentionSets(type, shapes, attrs.softcap?.value ?? 1, at, bool),
    }); // prettier-ignore
  };
  return { forms, add };
}

/** Its forms. */
function attentionForms(type) {
  const { forms, add } = attentions(type);
  for (const S of [1, 3, 20]) add(`attention_${S}`, { S });
  for (const S of [1, 20]) {
    add(`attention_softcap_${S}`, { S, attrs: { softcap: float(2) } });
    add(`attention_mask_${S}`, { S, mask: "float" });
    add(`attention_mask_softcap_${S}`, { S, mask: "float", attrs: { softcap: float(2) } });
    add(`attention_bool_${S}`, { S, mask: "bool" });
  }
  add("attention_causal_9", { S: 9, L: 9, attrs: { is_causal: 1 } });
  for (const S of [1, 9]) {
    add(`attention_grouped_${S}`, {
      S,
      L: S,
      heads: 4,
      past: 15,
      outputs: 3,
      attrs: { is_causal: 1, softcap: float(2) },
    });
    add(`attention_heads_of_4_${S}`, { S, L: 6, D: 4 });
    add(`attention_heads_of_6_${S}`, { S, L: 6, D: 6 });
    add(`attention_heads_of_64_${S}`, { S, L: 6, D: 64, heads: 1, kv: 1 });
  }
  add("attention_long", { S: 1, L: 300 });
  add("attention_long_softcap", { S: 1, L: 300, attrs: { softcap: float(2) } });
  add("attention_scores", { S: 3, outputs: 4, past: 4, L: 3, attrs: { qk_matmul_output_mode: 3 } });
  add("attention_scores_softcap", {
    S: 3,
    outputs: 4,
    past: 4,
    L: 3,
    attrs: { qk_matmul_output_mode: 1, softcap: float(2) },
  });
  return forms;
}

/** Queries enough, and heads that lie so that subgroups of a device can multiply them as matrices. */
function matrixForms(type) {
  const { forms, add } = attentions(type);
  add("attention_matrices", { S: 20, L: 70, D: 64, heads: 2, kv: 1 });
  add("attention_matrices_softcap", { S: 20, L: 70, D: 64, heads: 2, kv: 1, attrs: { softcap: float(2) } });
  return forms;
}

/** Masks of the lowest number in place of −∞, as exporters write them, and float16 operands whose scores leave float16. */
function edgeForms(type) {
  const { forms, add } = attentions(type);
  const lowest = { float32: -3.4028234663852886e38, float16: -65504 }[type];
  for (const S of [1, 20]) {
    const [q, k, m] = [[1, 2, S, 8], [1, 2, 24, 8], [S, 24]];
    const masked = (label, hides) => ({
      label,
      feeds: { q: tensor(type, q, numbers(q)), k: tensor(type, k, numbers(k)), v: tensor(type, k, numbers(k)), m: tensor(type, m, Array.from({ length: S * 24 }, (_, i) => (hides(i % 24) ? lowest : 0))) },
    });
    add(`attention_lowest_${S}`, { S, mask: "float", sets: [masked("half the keys", (key) => key % 2 === 0), masked("all keys", () => true)] });
    const large = (scale) => ({
      label: `operands times ${scale}`,
      feeds: { q: tensor(type, q, numbers(q, scale)), k: tensor(type, k, numbers(k, scale)), v: tensor(type, k, numbers(k)) },
    });
    add(`attention_large_${S}`, { S, sets: [30, 200, 1000].map(large) });
    add(`attention_large_softcap_${S}`, { S, attrs: { softcap: float(5) }, sets: [30, 200, 1000].map(large) });
  }
  return forms;
} // prettier-ignore

/** A cache that is written in place and read up to its length: what lies beyond may be anything, and is NaN. */
function cacheForms(type, S) {
  const [heads, kv, D, capacity, length] = [4, 2, 16, 40, 20 + S];
  const rows = {
    q: [1, heads, S, D],
    k: [1, kv, S, D],
    v: [1, kv, S, D],
    ck: [1, kv, capacity, D],
    cv: [1, kv, capacity, D],
  };
  const more = { at: tensor("int64", [1], [20]), valid: tensor("int64", [1], [length]) };
  const sets = attentionSets(type, rows, 2, { ck: 2 * D + 1, cv: 2 * D + 1, k: 1, v: 1 }, more);
  const beyond = sets.at(-1);
  const stale = (name) => {
    const values = numbers(rows[name]).map((x, i) => (Math.floor(i / D) % capacity >= length ? NaN : x));
    return tensor(type, rows[name], values);
  };
  sets.push({
    label: "NaN beyond the length",
    feeds: {
      ...beyond.feeds,
      q: tensor(type, rows.q, numbers(rows.q)),
      k: tensor(type, rows.k, numbers(rows.k)),
      ck: stale("ck"),
      cv: stale("cv"),
    },
  });
  return {
    name: `cached_attention_${S}_${type}`,
    opset: { "ai.onnx": 24 },
    inputs: [...Object.entries(rows).map(([n, dims]) => value(n, type, dims)), value("at", "int64", [1]), value("valid", "int64", [1])],
    outputs: ["y", "pk", "pv"].map((n) => value(n, type)),
    nodes: [
      node("TensorScatter", ["ck", "k", "at"], ["pk"], { axis: 2 }),
      node("TensorScatter", ["cv", "v", "at"], ["pv"], { axis: 2 }),
      node("Attention", ["q", "pk", "pv", "", "", "", "valid"], ["y"], { is_causal: 1, softcap: float(2) }),
    ],
    sets,
  }; // prettier-ignore
}

/** onnxruntime's GroupQueryAttention, with its softcap, and a sink for each head where it is asked for. */
function groupForms(type, S, sink) {
  const [heads, kv, D, past] = [4, 2, 16, 10];
  const rows = {
    q: [1, S, heads * D],
    k: [1, S, kv * D],
    v: [1, S, kv * D],
    pk: [1, kv, past + S, D],
    pv: [1, kv, past + S, D],
    ...(sink ? { sink: [heads] } : {}),
  };
  const int32 = (values, dims) => new Tensor("int32", Int32Array.from(values), dims);
  const more = { lengths: int32([past + S - 1], [1]), total: int32([past + S], [1]) };
  return {
    name: `group_query_attention${sink ? "_sink" : ""}_${S}_${type}`,
    opset: { "ai.onnx": 21, "com.microsoft": 1 },
    inputs: [...Object.entries(rows).map(([n, dims]) => value(n, type, dims)), value("lengths", "int32", [1]), value("total", "int32", [1])],
    outputs: ["y", "present_key", "present_value"].map((n) => value(n, type)),
    nodes: [node("GroupQueryAttention", ["q", "k", "v", "pk", "pv", "lengths", "total", ...(sink ? ["", "", "", "", "sink"] : [])], ["y", "present_key", "present_value"], { num_heads: heads, kv_num_heads: kv, softcap: float(2) }, { domain: "com.microsoft" })],
    sets: attentionSets(type, rows, 2, { pk: 2 * D + 1, pv: 2 * D + 1, sink: 1 }, more, D),
  }; // prettier-ignore
}

function multiHeadForm(type, S) {
  const rows = { q: [1, S, 16], k: [1, 12, 16], v: [1, 12, 16] };
  return {
    name: `multi_head_attention_${S}_${type}`,
    opset: { "ai.onnx": 21, "com.microsoft": 1 },
    inputs: Object.entries(rows).map(([n, dims]) => value(n, type, dims)),
    outputs: [value("y", type)],
    nodes: [node("MultiHeadAttention", ["q", "k", "v"], ["y"], { num_heads: 2 }, { domain: "com.microsoft" })],
    sets: attentionSets(type, rows, 1, {}, {}, 8),
  };
}

/** PagedAttention of this house: no other runtime has it. */
function pagedForm(type, S) {
  const [heads, kv, D, blocks, block] = [4, 2, 16, 6, 8];
  const rows = { q: [1, heads, S, D], k: [blocks, block, kv, D], v: [blocks, block, kv, D] };
  const int32 = (values, dims) => new Tensor("int32", Int32Array.from(values), dims);
  return {
    name: `paged_attention_${S}_${type}`,
    opset: { "ai.onnx": 24, insitu: 1 },
    inputs: [...Object.entries(rows).map(([n, dims]) => value(n, type, dims)), value("tables", "int32", [1, 4]), value("lengths", "int32", [1])],
    outputs: [value("y", type)],
    nodes: [node("PagedAttention", ["q", "k", "v", "tables", "lengths"], ["y"], { q_num_heads: heads, kv_num_heads: kv, is_causal: 1, scale: float(0.25), softcap: float(2) }, { domain: "insitu" })],
    sets: attentionSets(type, rows, 2, { k: 4 * block * kv * D + 1, v: 4 * block * kv * D + 1 }, { tables: int32([4, 1, 3, 5], [1, 4]), lengths: int32([20 + S], [1]) }),
  }; // prettier-ignore
}

/** A model of one operand x, with a spot in it. */
function rowForm(
  name,
  type,
  dims,
  nodes,
  constants = [],
  { opset = { "ai.onnx": 23, "com.microsoft": 1 }, outputs = ["y"], extra = {} } = {},
) {
  const plain = numbers(dims);
  const set = (label, values) => ({ label, feeds: { x: tensor(type, dims, values) } });
  return {
    name: `${name}_${type}`,
    opset,
    inputs: [value("x", type, dims)],
    outputs: outputs.map((n) => value(n, type)),
    nodes,
    initializers: constants.map(([n, shape, values]) => initializer(n, tensor(type, shape, values ?? numbers(shape, 0.3)))),
    sets: [
      ...Object.entries({ ...spotsOf(type), ...extra }).map(([label, spot]) => set(label, plain.with(7, spot))),
      set("a row of the largest", plain.map((x, i) => (i < dims.at(-1) ? largest[type] : x))),
      set("a row of infinities", plain.map((x, i) => (i < dims.at(-1) ? Infinity : x))),
      set("a row of negative infinities", plain.map((x, i) => (i < dims.at(-1) ? -Infinity : x))),
      set("a row of subnormals", plain.map((x, i) => (i < dims.at(-1) ? subnormal[type] : x))),
      set("zeros", plain.map(() => 0)),
    ],
  }; // prettier-ignore
}

/** Rows brought to a few numbers, and products with what is made of one with them. */
function rowForms(type) {
  const dims = [3, 32];
  const microsoft = { domain: "com.microsoft" };
  const gate = (rows) => [
    node("RMSNormalization", ["x", "scale"], ["n"], { axis: -1 }),
    node("MatMul", ["n", "left"], ["a"]),
    node("MatMul", ["n", "right"], ["b"]),
    node("Sigmoid", ["a"], ["s"]),
    node("Mul", ["a", "s"], ["g"]),
    node("Mul", ["g", "b"], ["y"]),
    ...rows,
  ];
  const weights = [["scale", [32]], ["left", [32, 16], numbers([32, 16], 30)], ["right", [32, 16]]]; // prettier-ignore
  return [
    rowForm("softmax", type, dims, [node("Softmax", ["x"], ["y"])]),
    rowForm("log_softmax", type, dims, [node("LogSoftmax", ["x"], ["y"])]),
    rowForm("reduce_log_sum_exp", type, dims, [node("ReduceLogSumExp", ["x"], ["y"])]),
    rowForm("rms_normalization", type, dims, [node("RMSNormalization", ["x", "w"], ["y"], { axis: -1 })], [["w", [32]]]),
    rowForm("layer_normalization", type, dims, [node("LayerNormalization", ["x", "w", "b"], ["y"], { axis: -1 })], [["w", [32]], ["b", [32]]]),
    rowForm("lp_normalization", type, dims, [node("LpNormalization", ["x"], ["y"])]),
    rowForm("skip_normalization", type, [1, 3, 32], [node("SkipSimplifiedLayerNormalization", ["x", "x", "w"], ["y"], {}, microsoft)], [["w", [32]]]),
    rowForm("matmul", type, dims, [node("MatMul", ["x", "w"], ["y"])], [["w", [32, 16]]]),
    rowForm("matmul_one_row", type, [1, 32], [node("MatMul", ["x", "w"], ["y"])], [["w", [32, 16]]]),
    rowForm("gate", type, [1, 3, 32], gate([]), weights),
    rowForm("gate_one_row", type, [1, 1, 32], gate([]), weights),
  ]; // prettier-ignore
}

/** Products whose weights hold a spot: a broken file. */
function weightForms(type) {
  return Object.entries(spotsOf(type)).flatMap(([label, spot], at) =>
    [1, 5].map((rows) => ({
      name: `matmul_weights_${at}_${rows}_${type}`,
      opset: { "ai.onnx": 21 },
      inputs: [value("x", type, [rows, 32])],
      outputs: [value("y", type)],
      nodes: [node("MatMul", ["x", "w"], ["y"])],
      initializers: [initializer("w", tensor(type, [32, 16], numbers([32, 16]).with(40, spot)))],
      sets: [{ label: `${label} among the weights`, feeds: { x: tensor(type, [rows, 32], numbers([rows, 32])) } }],
    })),
  );
}

/** Attention without a softmax, and the convolution that goes with it: onnxruntime has neither. */
function recurrentForms(type) {
  const shapes = { q: [1, 3, 16], k: [1, 3, 16], v: [1, 3, 16], past: [1, 2, 8, 8], decay: [1, 3, 2], beta: [1, 3, 2] };
  const conv = { x: [1, 4, 5], w: [4, 1, 3], b: [4], past: [1, 4, 2] };
  const setsOf = (rows) => {
    const plain = Object.fromEntries(Object.entries(rows).map(([n, dims]) => [n, numbers(dims)]));
    const set = (label, given) => ({ label, feeds: Object.fromEntries(Object.entries(rows).map(([n, dims]) => [n, tensor(type, dims, given[n])])) });
    return [
      ...Object.entries({ ...spotsOf(type), "100": 100, "−200": -200 }).flatMap(([label, spot]) => Object.keys(rows).map((n) => set(`${label} in ${n}`, { ...plain, [n]: plain[n].with(1, spot) }))),
      set("zeros", Object.fromEntries(Object.entries(plain).map(([n, values]) => [n, values.map(() => 0)]))),
    ];
  }; // prettier-ignore
  const inputs = (rows) => Object.entries(rows).map(([n, dims]) => value(n, type, dims));
  return [
    { name: `linear_attention_${type}`, opset: { "ai.onnx": 27 }, inputs: inputs(shapes), outputs: ["y", "present"].map((n) => value(n, type)), nodes: [node("LinearAttention", ["q", "k", "v", "past", "decay", "beta"], ["y", "present"], { q_num_heads: 2, kv_num_heads: 2 })], sets: setsOf(shapes) },
    { name: `causal_conv_${type}`, opset: { "ai.onnx": 27 }, inputs: inputs(conv), outputs: ["y", "present"].map((n) => value(n, type)), nodes: [node("CausalConvWithState", ["x", "w", "b", "past"], ["y", "present"], { activation: "silu" })], sets: setsOf(conv) },
  ]; // prettier-ignore
}

/** Every form but the functions of elements. */
export const forms = () => [
  ...["float32", "float16"].flatMap((type) => [
    ...attentionForms(type),
    cacheForms(type, 1),
    cacheForms(type, 5),
    ...[1, 5].flatMap((S) => [groupForms(type, S, false), groupForms(type, S, true), multiHeadForm(type, S), pagedForm(type, S)]),
    ...rowForms(type),
    ...weightForms(type),
    ...recurrentForms(type),
  ]),
  ...attentionForms("bfloat16").filter(({ name }) => /^attention(_softcap)?_(1|20)_/.test(name)),
  ...matrixForms("float16"),
  ...edgeForms("float32"),
  ...edgeForms("float16"),
]; // prettier-ignore
