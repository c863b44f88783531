/** The shape rule of MoE and QMoE: how the operands of the experts agree, and what sizes they say. */
import { type Dim, isKnown, multiplyDims, shapeText } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import type { CallContext, HeldWeight, Packed } from "../../graph/op.js";
import { isBlockSize } from "../shared/loops/low-bits.js";
import { mixedProductPacking } from "#insitu/packings/mixed-products.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";

/** What both operators are told. */
export interface ExpertAttributes {
  readonly k: number;
  readonly activation_type: "relu" | "gelu" | "silu" | "swiglu" | "identity";
  readonly swiglu_fusion: number;
  readonly use_sparse_mixer: boolean;
}

/** How weights lie: bits of one, and how many along a row share a scale; 0 where the whole row does. */
export interface WeightForm {
  readonly bits: number;
  readonly blockSize: number;
}

/** The operands of one of the three products. */
export interface ProductOperands<V> {
  readonly weights: V;
  readonly bias: V | undefined;
  readonly scales: V | undefined;
  readonly zeros: V | undefined;
}

/** The three products of an expert; the third is the linear half of a gated activation, where it is not part of the first. */
export interface ExpertOperands<V> {
  readonly fc1: ProductOperands<V>;
  readonly fc2: ProductOperands<V>;
  readonly fc3: ProductOperands<V> | undefined;
}

/** The operands of a call by product. */
export const expertsOf = <V>(inputs: {
  readonly fc1_experts_weights: V;
  readonly fc1_experts_bias: V | undefined;
  readonly fc2_experts_weights: V;
  readonly fc2_experts_bias: V | undefined;
  readonly fc3_experts_weights: V | undefined;
  readonly fc3_experts_bias: V | undefined;
  readonly fc1_scales?: V | undefined;
  readonly fc2_scales?: V | undefined;
  readonly fc3_scales?: V | undefined;
  readonly fc1_zero_points?: V | undefined;
  readonly fc2_zero_points?: V | undefined;
  readonly fc3_zero_points?: V | undefined;
}): ExpertOperands<V> => ({
  fc1: {
    weights: inputs.fc1_experts_weights,
    bias: inputs.fc1_experts_bias,
    scales: inputs.fc1_scales,
    zeros: inputs.fc1_zero_points,
  },
  fc2: {
    weights: inputs.fc2_experts_weights,
    bias: inputs.fc2_experts_bias,
    scales: inputs.fc2_scales,
    zeros: inputs.fc2_zero_points,
  },
  fc3:
    inputs.fc3_experts_weights === undefined
      ? undefined
      : {
          weights: inputs.fc3_experts_weights,
          bias: inputs.fc3_experts_bias,
          scales: inputs.fc3_scales,
          zeros: inputs.fc3_zero_points,
        },
});

/** How the linear half of SwiGLU lies: in turns with the gate, behind it, or in a product of its own. */
export function fusionOf(attrs: ExpertAttributes, hasThird: boolean): "none" | "interleaved" | "halves" {
  if (attrs.activation_type !== "swiglu" || hasThird) return "none";
  // Files older than the attribute leave it out and have both halves in turns.
  return attrs.swiglu_fusion === 2 ? "halves" : "interleaved";
}

/** Fails unless operands and attributes go together. */
export function checkExperts(
  call: CallContext,
  { input, scores }: { readonly input: Fact; readonly scores: Fact },
  operands: ExpertOperands<Fact>,
  attrs: ExpertAttributes,
  form: WeightForm,
): void {
  const { k, activation_type: activation, swiglu_fusion: fusion } = attrs;
  call.check(k >= 1, () => `k must be at least 1, got ${k}`, "invalid-argument");
  call.check(
    !attrs.use_sparse_mixer || k === 2,
    () => `use_sparse_mixer chooses 2 experts: k must be 2, got ${k}`,
    "invalid-argument",
  );
  call.check(fusion >= 0 && fusion <= 2, () => `swiglu_fusion must be 0, 1 or 2, got ${fusion}`, "invalid-argument");
  call.check(
    fusion === 0 || activation === "swiglu",
    () => `swiglu_fusion ${fusion} needs activation_type "swiglu", got "${activation}"; without it leave it at 0`,
    "invalid-argument",
  );
  const { fc1, fc2, fc3 } = operands;
  call.check(
    fc3 === undefined || fusion === 0,
    () => `fc3 is the linear half of the activation, which swiglu_fusion ${fusion} has in fc1: leave out one of them`,
    "invalid-graph",
  );
  checkRank(call, "input", input, 2, 3);
  checkRank(call, "router_probs", scores, 2);
  for (const [name, product] of named(operands)) checkRank(call, `${name}_experts_weights`, product.weights, 3);
  let experts = scores.shape?.[1];
  const first = fc1.weights.shape?.[0];
  if (first !== undefined)
    experts =
      experts === undefined
        ? first
        : unifyDims(call, experts, first, "router_probs must have a score for each expert of fc1_experts_weights");
  if (experts !== undefined && isKnown(experts))
    call.check(k <= experts, () => `k must be at most the number of experts, ${experts}, got ${k}`, "invalid-argument");
  if (input.shape !== undefined && scores.shape !== undefined)
    unifyDims(
      call,
      input.shape.slice(0, -1).reduce<Dim>((all, dim) => multiplyDims(all, dim), 1),
      scores.shape[0],
      "router_probs must have one row for each token of the input",
    );
  const hidden = input.shape?.at(-1);
  const [, outer, packed] = fc2.weights.shape ?? [];
  if (experts === undefined || !isKnown(experts) || hidden === undefined || !isKnown(hidden)) return;
  if (outer === undefined || packed === undefined || !isKnown(outer) || !isKnown(packed)) return;
  const pack = 8 / form.bits;
  const perByte = form.bits === floatBits ? 1 : pack;
  const whole = (outer * packed * perByte) / hidden;
  call.check(
    Number.isInteger(whole) && whole > 0,
    () =>
      `fc2_experts_weights must be [${experts},${hidden},inner size${perByte > 1 ? ` / ${perByte}` : ""}], got ${shapeText(fc2.weights.shape)}`,
  );
  const fused = fusionOf(attrs, fc3 !== undefined) === "none" ? 1 : 2;
  const sizes = { fc1: [fused * whole, hidden], fc2: [hidden, whole], fc3: [whole, hidden] } as const;
  for (const [name, product] of named(operands)) {
    const [rows, inner] = sizes[name];
    checkProduct(call, name, product, experts, rows, inner, form);
  }
}

/**
 * The weights of a node if they lie as CUDA's kernels read them. The attribute may say so (1); where it is left out (-1), the shapes tell: they are the
 * other way round then, with blocks, or with scales of 16 bits, as no other device's files have.
 */
export function packedExperts(
  { bits, blockSize }: WeightForm,
  prepacked: number,
  held: (input: `fc${1 | 2}_${"experts_weights" | "scales"}`) => HeldWeight | undefined,
): Packed | undefined {
  const products = (["fc1", "fc2"] as const).map((name) => {
    const [weights, scales] = [held(`${name}_experts_weights`), held(`${name}_scales`)];
    if (weights?.type !== "uint8" || weights.dims.length !== 3 || scales === undefined) return undefined;
    const [experts, first, last] = weights.dims;
    const outer = scales.dims[1];
    const inner = (first * last * (8 / bits)) / outer;
    const dims = [experts, outer, (inner * bits) / 8];
    const packing = mixedProductPacking(bits, { outer, inner }, true);
    const isTurned = first === inner && first !== outer && (blockSize > 0 || scales.type !== "float32");
    return packing && { name: `${name}_experts_weights`, dims, packing, isTurned };
  });
  const isPacked = prepacked === 1 || (prepacked === -1 && products.some((product) => product?.isTurned));
  if (!isPacked || products.includes(undefined)) return undefined;
  const inputs = products.map(
    (product) => [product!.name, { dims: product!.dims, packing: product!.packing }] as const,
  );
  return { attribute: "weights_prepacked", inputs: Object.fromEntries(inputs) };
}

/** The bits of weights that are not quantized. */
export const floatBits = 32;

const named = <V>(operands: ExpertOperands<V>): readonly (readonly ["fc1" | "fc2" | "fc3", ProductOperands<V>])[] => [
  ["fc1", operands.fc1],
  ["fc2", operands.fc2],
  ...(operands.fc3 === undefined ? [] : ([["fc3", operands.fc3]] as const)),
];

function checkProduct(
  call: CallContext,
  name: string,
  { weights, bias, scales, zeros }: ProductOperands<Fact>,
  experts: number,
  rows: number,
  inner: number,
  { bits, blockSize }: WeightForm,
): void {
  const perByte = bits === floatBits ? 1 : 8 / bits;
  const packed = (size: number): number => Math.ceil(size / perByte);
  call.check(
    inner % perByte === 0,
    () => `rows of ${name}_experts_weights must be whole bytes: ${inner} values of ${bits} bits are none`,
  );
  // Files older than blocks say the shape the other way round; the bytes lie the same way.
  const turned = bits === floatBits ? [experts, inner, rows] : [experts, inner, packed(rows)];
  const plain = [experts, rows, packed(inner)];
  checkShape(call, `${name}_experts_weights`, weights, plain, ...(blockSize === 0 ? [turned] : []));
  checkShape(call, `${name}_experts_bias`, bias, [experts, rows]);
  if (bits === floatBits) return;
  call.check(scales !== undefined, `weights of ${bits} bits need the input ${name}_scales`, "invalid-graph");
  const blocks = blockSize === 0 ? 1 : Math.ceil(inner / blockSize);
  const whole = [
    [experts, rows],
    [experts, rows, 1],
  ];
  checkShape(call, `${name}_scales`, scales, ...(blocks === 1 ? whole : [[experts, rows, blocks]]));
  const wholeZeros = [
    [experts, packed(rows)],
    [experts, rows, 1],
  ];
  checkShape(call, `${name}_zero_points`, zeros, ...(blocks === 1 ? wholeZeros : [[experts, rows, packed(blocks)]]));
}

/** Fails unless the shape is one of those given. */
function checkShape(call: CallContext, name: string, fact: Fact | undefined, ...allowed: (readonly number[])[]): void {
  const shape = fact?.shape;
  if (shape === undefined) return;
  const fits = (wanted: readonly number[]): boolean =>
    wanted.length === shape.length && wanted.every((dim, axis) => !isKnown(shape[axis]) || shape[axis] === dim);
  const texts = [...new Set(allowed.map(shapeText))];
  call.check(allowed.some(fits), () => `${name} must be ${texts.join(" or ")}, got ${shapeText(shape)}`);
}

/** Fails unless weights of these bits in these blocks can be read. */
export function checkForm(
  call: CallContext,
  { bits, blockSize }: WeightForm,
  quantType: string,
  prepacked: number,
): void {
  call.check(
    quantType === "int",
    () => `quant_type must be "int": weights of "${quantType}" lie as one device reads them; export integers`,
    "invalid-argument",
  );
  call.check(
    prepacked === -1 || prepacked === 0,
    () =>
      `weights_prepacked must be 0: weights in the layout of one device (${prepacked}) can be read where they are initializers of the main graph, of whole tiles`,
    "invalid-argument",
  );
  call.check([2, 4, 8].includes(bits), () => `expert_weight_bits must be 2, 4 or 8, got ${bits}`, "invalid-argument");
  call.check(
    blockSize === 0 || isBlockSize(blockSize),
    () => `block_size must be 0 or a power of 2 from 16 on, got ${blockSize}`,
    "invalid-argument",
  );
}
