/**
 * MatMulNBits: a product with weights of 2, 4 or 8 bits, quantized in blocks along the inner dimension.
 * `accuracy_level` allows a kernel to round A on the way; the reference implementation never does.
 */
import { int, required } from "../../graph/attribute.js";
import { isKnown, type Shape, shapeText } from "../../graph/dim.js";
import { type Fact, knownIntegers } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { readIntegers, readNumbers, writeNumbers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import type { View } from "../../tensor/view.js";
import { isBlockSize, lowBitsAt, lowBitsLength } from "../shared/loops/low-bits.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { mixedProductPacking } from "#insitu/packings/mixed-products.js";
import { productOf } from "../shared/rules/layout.js";
import { unifyDims } from "../shared/rules/shapes.js";
import { eachWithEach } from "../shared/rules/work.js";

const weightTypes: readonly ElementType[] = ["float32", "float16", "bfloat16"];

/** The sizes of the packed weights, all from attributes. */
interface Layout {
  readonly inner: number; // K
  readonly outer: number; // N
  readonly bits: number;
  readonly blockSize: number;
  readonly blocks: number;
  /** Bytes of one block. */
  readonly blob: number;
}

function layoutOf(attrs: { K: number; N: number; bits: number; block_size: number }): Layout {
  const { K: inner, N: outer, bits, block_size: blockSize } = attrs;
  return { inner, outer, bits, blockSize, blocks: Math.ceil(inner / blockSize), blob: lowBitsLength(blockSize, bits) };
}

/** Fails unless the shape is one of those given. */
function checkShape(call: CallContext, name: string, fact: Fact | undefined, ...allowed: (readonly number[])[]): void {
  const shape = fact?.shape;
  if (shape === undefined) return;
  const fits = (wanted: readonly number[]): boolean =>
    wanted.length === shape.length && wanted.every((dim, axis) => !isKnown(shape[axis]) || shape[axis] === dim);
  call.check(
    allowed.some(fits),
    () => `${name} must be ${allowed.map(shapeText).join(" or ")}, got ${shapeText(shape)}`,
  );
}

function checkGroups(call: CallContext, groups: readonly number[], blocks: number): void {
  groups.forEach((group, at) =>
    call.check(
      group >= 0 && group < blocks,
      () => `g_idx[${at}] must lie in [0, ${blocks - 1}], got ${group}`,
      "invalid-argument",
    ),
  );
}

/** A · dequantized(B)ᵀ + bias, where B holds N rows of K values in blocks. */
export const MatMulNBits = defineOp({
  name: "MatMulNBits",
  domain: "com.microsoft",
  since: 1,
  types: { T1: weightTypes, T2: ["uint8"], T3: ["uint8", ...weightTypes], T4: ["int32"] },
  inputs: {
    A: tensor("T1"),
    B: tensor("T2"),
    scales: tensor("T1"),
    zero_points: optional(tensor("T3")),
    g_idx: optional(tensor("T4")),
    bias: optional(tensor("T1")),
  },
  outputs: { Y: tensor("T1") },
  attrs: {
    K: required(int()),
    N: required(int()),
    accuracy_level: int(0),
    bits: int(4),
    block_size: required(int()),
    weight_prepacked: int(0),
  },

  infer(call) {
    const { A, B, scales, zero_points: zeros, g_idx, bias } = call.inputs;
    const { K, N, bits, block_size, accuracy_level, weight_prepacked } = call.attrs;
    call.check(K > 0 && N > 0, () => `K and N must be positive, got ${K} and ${N}`, "invalid-argument");
    call.check([2, 4, 8].includes(bits), () => `bits must be 2, 4 or 8, got ${bits}`, "invalid-argument");
    call.check(
      isBlockSize(block_size),
      () => `block_size must be a power of 2 from 16 on, got ${block_size}`,
      "invalid-argument",
    );
    call.check(
      accuracy_level >= 0 && accuracy_level <= 4,
      () => `accuracy_level must lie in [0, 4], got ${accuracy_level}`,
      "invalid-argument",
    );
    call.check(
      weight_prepacked === 0,
      () =>
        `weight_prepacked must be 0: weights in the layout of one device (${weight_prepacked}) can be read where they are initializers of the main graph, of whole tiles and blocks`,
      "invalid-argument",
    );
    const { blocks, blob } = layoutOf(call.attrs);
    checkShape(call, "B", B, [N, blocks, blob]);
    checkShape(call, "scales", scales, [N, blocks], [N * blocks]);
    const packed = zeros?.type === "uint8";
    call.check(
      zeros === undefined || packed || zeros.type === A.type,
      () => `zero_points must be uint8 or of A's type ${A.type}, got ${zeros?.type}`,
      "type-mismatch",
    );
    const zeroRow = packed ? lowBitsLength(blocks, bits) : blocks;
    checkShape(call, "zero_points", zeros, [N, zeroRow], [N * zeroRow]);
    checkShape(call, "g_idx", g_idx, [K], [blocks * block_size]);
    checkShape(call, "bias", bias, [N]);
    return { Y: { shape: productShape(call, A.shape, K, N) } };
  },

  packed({ N, K, bits, block_size, weight_prepacked: how }, weights) {
    // 1 is the order of Ampere's kernels, which all GPUs since then have; 2 is Hopper's own.
    const packing = how === 1 || how === 2 ? mixedProductPacking(bits, { outer: N, inner: K }, how === 1) : undefined;
    // A last block that is not whole would be filled up, and there is no filling in that order.
    if (packing === undefined || !isBlockSize(block_size) || K % block_size !== 0) return undefined;
    const { blocks, blob } = layoutOf({ K, N, bits, block_size });
    const [held, dims] = [weights("B"), [N, blocks, blob]];
    if (held?.type !== "uint8" || productOf(held.dims) !== productOf(dims)) return undefined;
    return { attribute: "weight_prepacked", inputs: { B: { dims, packing } } };
  },

  looksAt: ["g_idx"],
  validate(call) {
    const groups = knownIntegers(call.inputs.g_idx);
    if (groups !== undefined) checkGroups(call, groups, layoutOf(call.attrs).blocks);
  },
  work: ({ inputs, attrs }) => eachWithEach(inputs.A) * attrs.N,

  reference(call) {
    const { A, g_idx, bias } = call.inputs;
    const layout = layoutOf(call.attrs);
    const { inner, outer, blocks } = layout;
    const groups = g_idx && readIntegers(g_idx);
    if (groups !== undefined) checkGroups(call, groups, blocks);
    // Without rows the weights are not looked at: to unpack them takes longer than a token.
    if (call.outputs.Y.size === 0) return;
    const rows = A.size / inner;
    const values = readNumbers(A); // [rows, inner]
    const added = bias && readNumbers(bias);
    const result = float64Scratch(rows * outer);
    const weightRow = dequantizer(call.inputs, layout, groups);
    for (let column = 0; column < outer; column++) {
      const weights = weightRow(column);
      for (let row = 0; row < rows; row++) {
        let sum = added?.[column] ?? 0;
        for (let k = 0; k < inner; k++) sum += values[row * inner + k] * weights[k];
        result[row * outer + column] = sum;
      }
    }
    writeNumbers(call.outputs.Y, result);
  },
});

function productShape(call: CallContext, a: Shape | undefined, inner: number, outer: number): Shape | undefined {
  if (a === undefined) return undefined;
  call.check(a.length > 0, "A must have at least 1 dimension, got a scalar");
  unifyDims(call, a.at(-1)!, inner, "the last dimension of A must be K");
  return [...a.slice(0, -1), outer];
}

/** A function that gives the K weights of one of the N rows; the array it returns is used again. */
function dequantizer(
  { B, scales, zero_points }: { readonly B: View; readonly scales: View; readonly zero_points: View | undefined },
  { inner, bits, blockSize, blocks, blob }: Layout,
  groups: readonly number[] | undefined,
): (row: number) => Float64Array {
  const bytes = readNumbers(B); // [outer, blocks, blob]
  const factors = readNumbers(scales); // [outer, blocks]
  const zeros = zero_points && readNumbers(zero_points);
  const packed = zero_points?.type === "uint8";
  const zeroRow = lowBitsLength(blocks, bits);
  const weights = float64Scratch(inner);
  const zeroOf = (row: number, block: number): number => {
    if (zeros === undefined) return 2 ** (bits - 1);
    return packed ? lowBitsAt(zeros, bits, row * zeroRow, block) : zeros[row * blocks + block];
  };
  return (row) => {
    const start = row * blocks * blob; // blocks are whole bytes: a row is one run of packed values
    for (let k = 0; k < inner; k++) {
      const block = groups?.[k] ?? Math.floor(k / blockSize);
      weights[k] = (lowBitsAt(bytes, bits, start, k) - zeroOf(row, block)) * factors[row * blocks + block];
    }
    return weights;
  };
}
