/** GatherBlockQuantized on WebGPU: each element is found, unpacked and scaled by itself. */
import type { CallOf } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { type Variable, variable } from "../../webgpu-kernels/shader-part.js";
import { isIndexType, read } from "../../webgpu-kernels/wgsl.js";
import { elementWords } from "../shared/webgpu/element-words.js";
import { isLevelType, readLevel } from "../shared/webgpu/levels.js";
import { GatherBlockQuantized } from "./op.js";

const sizeOf = (dims: readonly number[]): number => dims.reduce((product, dim) => product * dim, 1);

/** The shader's body from `element` on: which value, and how it is scaled. */
function bodyOf({ inputs: { data, zero_points: zeros }, attrs: { bits } }: Call, arrays: Arrays): string {
  const packed = data.type === "uint8" && bits < 8;
  const each = 32 / bits;
  const mask = `${2 ** bits - 1}u`;
  const level = packed
    ? `(${arrays.levels.at(`position / ${each}u`)} >> (position % ${each}u * ${bits}u)) & ${mask}`
    : readLevel(data.type, arrays.levels, "position");
  const absent = data.type === "uint8" ? `${2 ** (bits - 1)}.0` : "0.0";
  const zero =
    zeros === undefined
      ? absent
      : packed
        ? `f32((${read("uint8", arrays.zeros!, `row * p.zeroBytes + block * ${bits}u / 8u`)} >> (block * ${bits}u % 8u)) & ${mask})`
        : `f32(${readLevel(zeros.type, arrays.zeros!, "at")})`;
  return `
  let which = element / p.inner;
  var index = ${arrays.indices.loadIndex("p.indicesOffset + which % p.picked")};
  if (index < 0) { index += i32(p.dim); }
  let position = ((which / p.picked) * p.dim + u32(index)) * p.inner + element % p.inner;
  let along = position / p.column % p.length;
  let row = position / p.column / p.length;
  let block = along / p.blockSize;
  let at = (row * p.blocks + block) * p.column + position % p.column;
  return (f32(${level}) - ${zero}) * ${arrays.scales.load("at")};`;
}

type Call = CallOf<typeof GatherBlockQuantized>;

/** What it reads. */
type Arrays = Readonly<Record<"levels" | "indices" | "scales", Variable>> & { readonly zeros: Variable | undefined };

const arraysOf = ({ inputs: { data, indices, scales, zero_points: zeros } }: Call): Arrays => ({
  levels: variable("levels", data),
  indices: variable("indices", indices),
  scales: variable("scales", scales),
  zeros: zeros && variable("zeros", zeros),
});

/** dequantized(data), gathered. */
export const gatherBlockQuantized: WebgpuKernel = webgpuKernel([GatherBlockQuantized], {
  accepts({ inputs: { data, indices, scales, zero_points: zeros }, outputs: { output } }) {
    if (!isLevelType(data.type)) return `there is no kernel for ${data.type}`;
    if (!isIndexType(indices.type)) return `there is no kernel for indices of ${indices.type}`;
    for (const operand of [data, scales, zeros])
      if (operand !== undefined && operand.place.offset !== 0) return "weights do not begin where their memory does";
    return [data, indices, scales, zeros, output].every((operand) => operand === undefined || operand.contiguous)
      ? true
      : "an operand has gaps";
  },
  record(call, recorder) {
    const { data, indices } = call.inputs;
    const { output } = call.outputs;
    const arrays = arraysOf(call);
    const { bits, block_size: blockSize, gather_axis, quantize_axis } = call.attrs;
    if (output.place.size === 0) return;
    const rank = data.shape.length;
    const [gather, quantize] = [gather_axis, quantize_axis].map((axis) => (axis < 0 ? axis + rank : axis));
    const shape = data.shape.with(quantize, data.shape[quantize] * (data.type === "uint8" ? 8 / bits : 1)); // in values
    const blocks = Math.ceil(shape[quantize] / blockSize);
    recorder.dispatch(
      elementWords(recorder.device, {
        name: "gatherBlocks",
        output,
        body: bodyOf(call, arrays),
        parts: Object.values(arrays),
        parameters: {
          inner: sizeOf(shape.slice(gather + 1)),
          picked: indices.place.size,
          dim: shape[gather],
          column: sizeOf(shape.slice(quantize + 1)),
          length: shape[quantize],
          blockSize: Math.min(blockSize, shape[quantize]),
          blocks,
          zeroBytes: Math.ceil((blocks * bits) / 8),
          indicesOffset: indices.place.offset,
        },
      }),
    );
  },
});
