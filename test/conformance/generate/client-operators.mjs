// The operators that clients.mjs draws cases of: attributes and operands at random, within what onnxruntime has kernels for.

/** An image, or a line of a few. */
const imageOf = ({ whole, pick }) =>
  pick(
    () => [whole(1, 2), whole(1, 3), whole(1, 7), whole(1, 9)],
    () => [1, 1, whole(2, 12), whole(2, 12)],
    () => [whole(2, 8), whole(2, 8)],
  )();

/**
 * Factors; for corners that lie on corners those that give a whole number of elements: with others ONNX's own tests count the part of an
 * element too, which onnxruntime does not.
 */
const factor = (draw, size, isWhole) => draw.pick(1, 2, 3, 4, ...(isWhole && size % 2 === 1 ? [] : [0.5, 1.5, 2.5]));

function resize(draw, version) {
  const { pick, chance, whole, random } = draw;
  const mode = pick("nearest", "linear", "cubic");
  const dims = imageOf(draw);
  const spatial = [dims.length - 2, dims.length - 1];
  const type = mode === "nearest" ? pick("float32", "int32", "uint8") : "float32";
  const byAxes = version >= 18 && chance(0.5);
  const all = byAxes ? spatial : [...dims.keys()];
  const isSpatial = (axis) => spatial.includes(axis);
  const bySizes = chance(0.5);
  const coordinates = pick(
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    ...(version >= 19 ? ["half_pixel_symmetric"] : []),
    "tf_crop_and_resize",
  );
  const crops = coordinates === "tf_crop_and_resize";
  const isWhole = crops || coordinates === "align_corners";
  const scales = all.map((axis) => (isSpatial(axis) ? factor(draw, dims[axis], isWhole) : 1));
  const sizes = all.map((axis) => (isSpatial(axis) ? whole(1, 12) : dims[axis]));
  // onnxruntime leaves an axis that keeps its length as it is, whatever the region is.
  if (crops)
    for (const [at, axis] of all.entries()) {
      if (isSpatial(axis) && scales[at] === 1) scales[at] = 2;
      if (isSpatial(axis) && sizes[at] === dims[axis]) sizes[at]++;
    }
  const antialias = version >= 18 && mode !== "nearest" && !crops && chance(0.4);
  const start = all.map((axis) => (isSpatial(axis) ? pick(0, 0.25, -0.25) : 0));
  const roi = crops
    ? draw.floats([...start, ...all.map((axis, at) => (isSpatial(axis) ? start[at] + pick(0.5, 1, 1.25) : 1))])
    : undefined;
  return {
    opset: version,
    attrs: {
      mode,
      coordinate_transformation_mode: coordinates,
      ...(mode === "nearest" ? { nearest_mode: pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil") } : {}),
      ...(mode === "cubic"
        ? { cubic_coeff_a: { kind: "float", value: pick(-0.5, -0.75) }, exclude_outside: whole(0, 1) }
        : {}),
      ...(crops ? { extrapolation_value: { kind: "float", value: pick(0, 7.5) } } : {}),
      ...(antialias ? { antialias: 1 } : {}),
      ...(byAxes ? { axes: all } : {}),
      ...(byAxes && bySizes && !isWhole
        ? { keep_aspect_ratio_policy: pick("stretch", "not_larger", "not_smaller") }
        : {}),
    },
    inputs: [
      draw.tensor(type, dims),
      roi,
      bySizes ? undefined : draw.floats(scales),
      bySizes ? draw.integers(sizes) : undefined,
    ],
    constants: random() < 0.7 ? [1, 2, 3] : [],
    outputs: [type],
  };
}

/** Scales alone: Upsample, and Resize in its first version. */
function simple(draw, opset) {
  const mode = draw.pick("nearest", "linear");
  const dims = imageOf(draw);
  const scales = dims.map((size, axis) =>
    axis >= dims.length - 2 ? draw.pick(1, 2, 3, ...(opset === 10 ? [0.5, 1.5] : [])) : 1,
  );
  const X = draw.tensor("float32", dims);
  const byAttribute = opset < 9;
  return {
    opset,
    attrs: { mode, ...(byAttribute ? { scales: { kind: "floats", value: scales } } : {}) },
    inputs: byAttribute ? [X] : [X, draw.floats(scales)],
    constants: draw.chance(0.7) && !byAttribute ? [1] : [],
    outputs: ["float32"],
  };
}

function fourier(draw) {
  const { pick, whole, chance } = draw;
  const opset = pick(17, 20);
  const dims = pick([whole(1, 2), whole(1, 12)], [1, whole(1, 30), whole(1, 4)], [2, whole(2, 9), whole(1, 3), 2]);
  const inverse = chance(0.3);
  const onesided = !inverse && chance(0.5);
  const axis = whole(opset === 17 && dims.length === 2 ? 1 : 0, dims.length - 1);
  const type = pick("float32", "float64");
  const length = chance(0.4) ? draw.integers([whole(1, 16)], []) : undefined;
  return {
    opset,
    attrs: {
      ...(inverse ? { inverse: 1 } : {}),
      ...(onesided ? { onesided: 1 } : {}),
      ...(opset === 17 ? { axis } : {}),
    },
    inputs: [
      draw.tensor(type, [...dims, onesided ? 1 : pick(1, 2)]),
      length,
      ...(opset === 17 ? [] : [draw.integers([axis], [])]),
    ],
    constants: [1, 2],
    outputs: [type],
  };
}

function shortTime(draw) {
  const { pick, whole, chance } = draw;
  const onesided = chance(0.6);
  const length = whole(2, 12);
  const hasWindow = chance(0.6);
  const type = pick("float32", "float64");
  return {
    opset: 17,
    attrs: { onesided: onesided ? 1 : 0 },
    inputs: [
      // onnxruntime reads a window behind its end where the signal is complex.
      draw.tensor(type, [whole(1, 2), length + whole(0, 20), onesided || hasWindow ? 1 : pick(1, 2)]),
      draw.integers([whole(1, 6)], []),
      hasWindow ? draw.tensor(type, [length]) : undefined,
      !hasWindow || chance(0.5) ? draw.integers([length], []) : undefined,
    ],
    constants: [1, 3],
    outputs: [type],
  };
}

const signalWindow = (draw) => ({
  opset: 17,
  attrs: { periodic: draw.whole(0, 1) },
  inputs: [draw.integers([draw.whole(2, 40)], [])],
  constants: [0],
  outputs: ["float32"],
});

const mel = (draw) => ({
  opset: 17,
  attrs: {},
  inputs: [
    ...[draw.whole(2, 12), draw.pick(64, 100, 256), draw.pick(8000, 16000)].map((each) => draw.integers([each], [])),
    draw.floats([draw.pick(0, 100)], []),
    draw.floats([draw.pick(2000, 4000)], []),
  ],
  constants: [0, 1, 2, 3, 4],
  outputs: ["float32"],
});

function microsoftAttention(draw) {
  const { pick, whole, chance } = draw;
  const [heads, size, hidden] = [whole(1, 3), pick(2, 4, 8), whole(2, 9)];
  const [batch, length] = [whole(1, 3), whole(1, 5)];
  const past = chance(0.4) ? whole(1, 4) : 0;
  const total = past + length;
  const valueSize = past === 0 && chance(0.3) ? pick(2, 6) : size;
  const columns = heads * (2 * size + valueSize);
  const small = (dims) => draw.tensor("float32", dims);
  const bits = (count) => Array.from({ length: count }, (_, at) => (at % total === 0 || chance(0.7) ? 1 : 0));
  const ends = Array.from({ length: batch }, () => whole(1, total));
  const mask = pick(
    () => undefined,
    () => draw.integers(ends, undefined, "int32"),
    () => draw.integers([...ends, ...ends.map((end) => whole(0, end - 1))], undefined, "int32"),
    () => draw.integers(bits(batch * total), [batch, total], "int32"),
    () => draw.integers(bits(batch * length * total), [batch, length, total], "int32"),
  )();
  const hasPresent = past > 0 || (valueSize === size && chance(0.2));
  return {
    opset: 1,
    attrs: {
      num_heads: heads,
      ...(chance(0.5) ? { unidirectional: 1 } : {}),
      ...(valueSize === size ? {} : { qkv_hidden_sizes: [heads * size, heads * size, heads * valueSize] }),
      ...(chance(0.2) ? { scale: { kind: "float", value: 0.5 } } : {}),
    },
    inputs: [
      small([batch, length, hidden]),
      small([hidden, columns]),
      small([columns]),
      mask,
      past > 0 ? small([2, batch, heads, past, size]) : undefined,
      past === 0 && chance(0.3) ? small([pick(1, batch), pick(1, heads), length, total]) : undefined,
    ],
    constants: [1, 2],
    outputs: ["float32", ...(hasPresent ? ["float32"] : [])],
  };
}

function fusedConv(draw) {
  const { pick, whole, chance } = draw;
  const group = pick(1, 1, 2);
  const [channels, maps] = [group * whole(1, 2), group * whole(1, 3)];
  const kernel = [whole(1, 3), whole(1, 3)];
  const [height, width] = [whole(3, 8), whole(3, 8)];
  const activation = pick("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid");
  const values = { LeakyRelu: [0.1], Clip: [-0.5, 0.75], HardSigmoid: [0.2, 0.5] }[activation];
  const batch = whole(1, 2);
  return {
    opset: 1,
    attrs: {
      group,
      kernel_shape: kernel,
      activation,
      pads: [0, 0, 0, 0],
      strides: [1, 1],
      ...(values === undefined ? {} : { activation_params: { kind: "floats", value: values } }),
    },
    inputs: [
      draw.tensor("float32", [batch, channels, height, width]),
      draw.tensor("float32", [maps, channels / group, ...kernel]),
      chance(0.6) ? draw.tensor("float32", [maps]) : undefined,
      chance(0.4) ? draw.tensor("float32", [batch, maps, height - kernel[0] + 1, width - kernel[1] + 1]) : undefined,
    ],
    constants: [1, 2],
    outputs: ["float32"],
  };
}

/** Keys and values by heads, behind a past. */
function multiHead(draw) {
  const { pick, whole, chance } = draw;
  const [batch, heads, length, past, size] = [whole(1, 2), whole(1, 3), whole(1, 4), whole(1, 4), pick(2, 4, 8)];
  const make = (...dims) => draw.tensor("float32", dims);
  return {
    opset: 1,
    attrs: { num_heads: heads, ...(chance(0.3) ? { unidirectional: 1 } : {}) },
    inputs: [
      make(batch, length, heads * size),
      ...[0, 1].map(() => make(batch, heads, length, size)),
      undefined,
      undefined,
      undefined,
      ...[0, 1].map(() => make(batch, heads, past, size)),
    ],
    constants: [],
    outputs: ["float32", "float32", "float32"],
  };
}

export const operators = {
  MultiHeadAttention: { count: 20, domain: "com.microsoft", make: multiHead, atol: 1e-4 },
  Attention: { count: 160, domain: "com.microsoft", make: microsoftAttention, atol: 1e-4 },
  FusedConv: { count: 60, domain: "com.microsoft", make: fusedConv },
  DFT: { count: 80, make: fourier },
  STFT: { count: 50, make: shortTime },
  HannWindow: { count: 6, make: signalWindow },
  HammingWindow: { count: 6, make: signalWindow },
  BlackmanWindow: { count: 6, make: signalWindow },
  MelWeightMatrix: { count: 12, make: mel },
  Resize: {
    count: 240,
    make: (draw) => (draw.chance(0.1) ? simple(draw, 10) : resize(draw, draw.pick(11, 13, 18, 19))),
  },
  Upsample: { count: 30, make: (draw) => simple(draw, draw.pick(7, 8, 9)) },
};
