/**
 * DequantizeLinear on WebGPU: whole numbers of 4, 8 and 32 bits to floats, by one scale or many. To quantize is left to the host: shaders divide less
 * exactly than the rounding to a level needs.
 */
import type { Operand } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { variable } from "../../webgpu-kernels/shader-part.js";
import { isFloatType } from "../../webgpu-kernels/wgsl.js";
import { elementWords } from "../shared/webgpu/element-words.js";
import { isLevelType, readLevel } from "../shared/webgpu/levels.js";
import {
  DequantizeLinear,
  DequantizeLinear10,
  DequantizeLinear13,
  DequantizeLinear19,
  DequantizeLinear21,
} from "./op.js";

/** Where the scale of an element lies: WGSL, and what it reads. */
function scalePosition(
  x: Operand,
  scale: Operand,
  axis: number,
  blockSize: number,
): { readonly position: string; readonly parameters: Readonly<Record<string, number>> } {
  if (scale.place.size === 1) return { position: "0u", parameters: {} };
  const at = x.shape.length === 1 ? 0 : axis < 0 ? axis + x.shape.length : axis;
  const length = x.shape[at];
  const inner = x.shape.slice(at + 1).reduce((product, dim) => product * dim, 1);
  if (blockSize === 0) return { position: "(element / p.inner) % p.dim", parameters: { inner, dim: length } };
  return {
    position:
      "((element / p.inner / p.dim) * p.blocks + (element / p.inner) % p.dim / p.blockSize) * p.inner + element % p.inner",
    parameters: { inner, dim: length, blocks: scale.shape[at], blockSize },
  };
}

/** (x − zero point) · scale. */
export const dequantizeLinear: WebgpuKernel = webgpuKernel(
  [DequantizeLinear10, DequantizeLinear13, DequantizeLinear19, DequantizeLinear21, DequantizeLinear],
  {
    accepts({ inputs: { x, x_scale: scale, x_zero_point: zero }, outputs: { y } }) {
      if (!isLevelType(x.type) || isFloatType(x.type)) return `there is no kernel for ${x.type}`;
      if (!isFloatType(scale.type) || !isFloatType(y.type)) return `there is no kernel for ${scale.type} to ${y.type}`;
      return [x, scale, zero, y].every((operand) => operand === undefined || operand.contiguous)
        ? true
        : "an operand has gaps";
    },
    record({ inputs: { x, x_scale: scale, x_zero_point: zero }, outputs: { y }, attrs }, recorder) {
      if (y.place.size === 0) return;
      const axis = "axis" in attrs ? attrs.axis : 1;
      const blockSize = "block_size" in attrs ? attrs.block_size : 0;
      const { position, parameters } = scalePosition(x, scale, axis, blockSize);
      const [levels, scales, zeros] = [
        variable("levels", x),
        variable("scales", scale),
        zero && variable("zeros", zero),
      ];
      const level = readLevel(x.type, levels, "p.levelsOffset + element");
      const body = `
  let at = ${position};
  let level = f32(${level})${zero === undefined || zeros === undefined ? "" : ` - f32(${readLevel(zero.type, zeros, "p.zerosOffset + at")})`};
  return level * ${scales.load("p.scalesOffset + at")};`;
      recorder.dispatch(
        elementWords(recorder.device, {
          name: "dequantize",
          output: y,
          body,
          parts: [levels, scales, zeros],
          parameters: {
            ...parameters,
            levelsOffset: x.place.offset,
            scalesOffset: scale.place.offset,
            ...(zero === undefined ? {} : { zerosOffset: zero.place.offset }),
          },
        }),
      );
    },
  },
);
