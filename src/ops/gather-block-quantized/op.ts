/** GatherBlockQuantized: Gather from weights that are quantized in blocks, dequantized on the way. */
import { int } from "../../graph/attribute.js";
import { type Dim, isKnown, multiplyDims, type Shape, shapeText } from "../../graph/dim.js";
import { type Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { isBlockSize, lowBitsAt } from "../shared/loops/low-bits.js";
import { product } from "../shared/loops/rows.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { checkIndices, readIndices } from "../shared/rules/indices.js";
import { normalizeAxis, unifyDims } from "../shared/rules/shapes.js";

/** How many values one element of data, or of the zero points, holds along the quantized axis. */
const valuesEach = (type: Fact["type"], bits: number): number => (type === "uint8" ? 8 / bits : 1);

/** dequantized(data) gathered along `gather_axis`, with blocks along `quantize_axis`. */
export const GatherBlockQuantized = defineOp({
  name: "GatherBlockQuantized",
  domain: "com.microsoft",
  since: 1,
  types: { T1: ["int4", "uint4", "uint8"], T2: ["float32", "float16", "bfloat16"], Tind: ["int32", "int64"] },
  inputs: { data: tensor("T1"), indices: tensor("Tind"), scales: tensor("T2"), zero_points: optional(tensor("T1")) },
  outputs: { output: tensor("T2") },
  attrs: { bits: int(4), block_size: int(128), gather_axis: int(0), quantize_axis: int(1) },

  infer(call) {
    const { data, indices, scales, zero_points } = call.inputs;
    const { bits, block_size } = call.attrs;
    const allowed = data.type === "uint8" ? [2, 4, 8] : [4];
    call.check(
      allowed.includes(bits),
      () => `bits must be ${allowed.join(", ")} for ${data.type} data, got ${bits}`,
      "invalid-argument",
    );
    call.check(
      isBlockSize(block_size),
      () => `block_size must be a power of 2 from 16 on, got ${block_size}`,
      "invalid-argument",
    );
    const { shape } = data;
    if (shape === undefined) return {};
    const { gather, quantize } = axesOf(call, shape.length);
    const each = valuesEach(data.type, bits);
    if (data.type === "uint8") {
      call.check(
        gather === 0,
        () => `gather_axis must be 0 for uint8 data, got ${call.attrs.gather_axis}`,
        "invalid-argument",
      );
      call.check(
        quantize === shape.length - 1 && quantize !== gather,
        () => `quantize_axis must be the last, and not gather_axis, for uint8 data, got ${call.attrs.quantize_axis}`,
        "invalid-argument",
      );
    }
    const blocks = (dim: Dim): number | undefined => (isKnown(dim) ? Math.ceil((dim * each) / block_size) : undefined);
    checkLike(call, "scales", scales, shape, quantize, blocks(shape[quantize]));
    if (scales.shape !== undefined) {
      const count = scales.shape[quantize];
      checkLike(
        call,
        "zero_points",
        zero_points,
        shape,
        quantize,
        isKnown(count) ? Math.ceil(count / each) : undefined,
      );
    }
    if (indices.shape === undefined) return {};
    const whole = shape.map((dim, axis) => (axis === quantize ? multiplyDims(dim, each) : dim));
    return { output: { shape: [...whole.slice(0, gather), ...indices.shape, ...whole.slice(gather + 1)] } };
  },

  looksAt: ["indices"],
  validate(call) {
    const { data, indices } = call.inputs;
    if (data.shape === undefined) return;
    const size = data.shape[axesOf(call, data.shape.length).gather];
    if (isKnown(size)) checkIndices(call, "indices", indices, [size]);
  },

  reference(call) {
    const { data, indices, scales, zero_points } = call.inputs;
    const { bits, block_size } = call.attrs;
    const { gather, quantize } = axesOf(call, data.rank);
    const each = valuesEach(data.type, bits);
    const shape = data.shape.with(quantize, data.shape[quantize] * each); // in values
    const inner = product(shape.slice(gather + 1));
    const positions = readIndices(call, "indices", indices, () => shape[gather]);
    // Nothing is wanted: the weights need not be read.
    if (call.outputs.output.size === 0) return;
    const valueAt = dequantizer(data, scales, zero_points, { shape, quantize, each, bits, blockSize: block_size });
    const result = float64Scratch(call.outputs.output.size);
    let at = 0;
    for (let outer = 0; outer < product(shape.slice(0, gather)); outer++) {
      for (const index of positions) {
        const start = (outer * shape[gather] + index) * inner;
        for (let i = 0; i < inner; i++) result[at++] = valueAt(start + i);
      }
    }
    writeNumbers(call.outputs.output, result);
  },
});

function axesOf(
  call: CallContext & { readonly attrs: { readonly gather_axis: number; readonly quantize_axis: number } },
  rank: number,
): { gather: number; quantize: number } {
  return {
    gather: normalizeAxis(call, call.attrs.gather_axis, rank, { name: "gather_axis" }),
    quantize: normalizeAxis(call, call.attrs.quantize_axis, rank, { name: "quantize_axis" }),
  };
}

/** Fails unless a parameter has the shape of data with `count` entries along the quantized axis. */
function checkLike(
  call: CallContext,
  name: string,
  fact: Fact | undefined,
  data: Shape,
  axis: number,
  count: number | undefined,
): void {
  const shape = fact?.shape;
  if (shape === undefined) return;
  call.check(
    shape.length === data.length,
    () => `${name} must have the rank of data, ${data.length}, got ${shapeText(shape)}`,
  );
  data.forEach((dim, at) => {
    if (at !== axis) unifyDims(call, shape[at], dim, `${name} and data must agree in dimension ${at}`);
    else if (count !== undefined) unifyDims(call, shape[at], count, `${name} must cover the blocks of axis ${axis}`);
  });
}

/** How data is packed and cut into blocks. */
interface Blocks {
  /** The shape of data counted in values. */
  readonly shape: readonly number[];
  readonly quantize: number;
  readonly each: number;
  readonly bits: number;
  readonly blockSize: number;
}

/** A function from the row-major position of a value of data to the value itself. */
function dequantizer(
  data: View,
  scales: View,
  zeroPoints: View | undefined,
  blocks: Blocks,
): (position: number) => number {
  const { shape, quantize, each, bits, blockSize } = blocks;
  const stored = readNumbers(data);
  const factors = readNumbers(scales);
  const zeros = zeroPoints && readNumbers(zeroPoints);
  const inner = product(shape.slice(quantize + 1));
  const length = shape[quantize];
  const count = Math.ceil(length / blockSize); // blocks along the axis
  const zeroBytes = Math.ceil(count / each);
  const absent = data.type === "uint8" ? 2 ** (bits - 1) : 0;
  // Packed values run along the last axis, which is then the quantized one: rows are whole bytes.
  const valueOf = (position: number): number => (each === 1 ? stored[position] : lowBitsAt(stored, bits, 0, position));
  const zeroOf = (row: number, block: number, column: number): number => {
    if (zeros === undefined) return absent;
    return each === 1 ? zeros[(row * count + block) * inner + column] : lowBitsAt(zeros, bits, row * zeroBytes, block);
  };
  return (position) => {
    const column = position % inner;
    const along = Math.floor(position / inner) % length;
    const row = Math.floor(position / (inner * length));
    const block = Math.floor(along / blockSize);
    return (valueOf(position) - zeroOf(row, block, column)) * factors[(row * count + block) * inner + column];
  };
}
