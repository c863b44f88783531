/**
 * Weights of few bits as products on WebGPU read them: rows along k, cut into blocks that share a scale and a zero point, the first value in the lowest
 * bits. What a chunk holds is multiplied as whole numbers less their zero point, and scaled once.
 */
import type { Operand } from "../../../graph/kernel.js";
import { read } from "../../../webgpu-kernels/wgsl.js";
import type { Weights } from "./product-operands.js";

/** How such weights lie. */
interface Blocks {
  /** Bytes. */
  readonly data: Operand;
  readonly scales: Operand;
  /** Packed like the weights, each row in whole bytes; or floats, one for each scale. Half of the range where left out. */
  readonly zeros: Operand | undefined;
  readonly bits: number;
  readonly blockSize: number;
  readonly k: number;
}

/** 2^23: a whole number below it, put into its last bits, makes a float that is larger by it. */
const magic = { bits: "0x4b000000u", value: "8388608.0" } as const;

/** The weights as a piece of a shader. */
export function blockWeights({ data, scales, zeros, bits, blockSize, k }: Blocks): Weights {
  const blocks = Math.ceil(k / blockSize);
  const rowWords = (blocks * blockSize * bits) / 32;
  // One load, within one block and one row.
  const words = [4, 2, 1].find((count) => rowWords % count === 0 && (count * 32) / bits <= blockSize)!;
  const chunk = (words * 32) / bits;
  const quadsInWord = 8 / bits;
  const element = words === 1 ? "u32" : `vec${words}<u32>`;
  const whole = zeros === undefined || zeros.type === "uint8";
  const shifts = [0, 1, 2, 3].map((at) => `bits >> ${at * bits}u`).join(", ");
  const zeroAt =
    zeros === undefined
      ? `${2 ** (bits - 1)}.0`
      : zeros.type !== "uint8"
        ? read(zeros.type, "zeros", "p.zerosOffset + row * p.blocks + block")
        : `f32(extractBits(${read("uint8", "zeros", `p.zerosOffset + row * p.zeroRow + block * ${bits}u / 8u`)}, block * ${bits}u % 8u, ${bits}u))`;
  const word = (from: string, at: number): string => (words === 1 ? from : `${from}.${"xyzw"[at]}`);
  const quad = (bitsAt: string): string => `wholeQuad(${bitsAt}, `;
  return {
    chunk,
    chunks: (blocks * blockSize) / chunk,
    dot: (from, values) =>
      `${from}.scale * (${values
        .map((value, at) => {
          const own = word(`${from}.words`, Math.floor(at / quadsInWord));
          const shift = (at % quadsInWord) * 4 * bits;
          return `dot(${quad(shift === 0 ? own : `${own} >> ${shift}u`)}${from}.zero), ${value})`;
        })
        .join(" + ")})`,
    functions: `
struct Chunk { words: ${element}, scale: f32, zero: f32 }
/** Four values less their zero point${whole ? ", which `zero` holds together with 2^23" : ""}. */
fn wholeQuad(bits: u32, zero: f32) -> vec4f {
  let values = bitcast<vec4f>((vec4u(${shifts}) & vec4u(${2 ** bits - 1}u)) | vec4u(${magic.bits}));
  return ${whole ? "values - zero" : `(values - ${magic.value}) - zero`};
}
fn scaleAt(row: u32, block: u32) -> f32 { return ${read(scales.type, "scales", "p.scalesOffset + row * p.blocks + block")}; }
fn zeroAt(row: u32, block: u32) -> f32 { return ${whole ? `${magic.value} + ` : ""}${zeroAt}; }
fn weightChunk(row: u32, chunk: u32) -> Chunk {
  let block = chunk * ${chunk}u / p.blockSize;
  return Chunk(weight[row * p.rowChunks + chunk], scaleAt(row, block), zeroAt(row, block));
}
fn weightQuad(start: u32, row: u32, k: u32) -> vec4f {
  if (k >= p.k) { return vec4f(); }
  let at = row * ${words}u * p.rowChunks + k * ${bits}u / 32u;
  let bits = weight[at / ${words}u]${words === 1 ? "" : `[at % ${words}u]`} >> (k * ${bits}u % 32u);
  let block = k / p.blockSize;
  return scaleAt(row, block) * wholeQuad(bits, zeroAt(row, block));
}`,
    bindings: [
      { name: "weight", of: data, element },
      { name: "scales", of: scales },
      ...(zeros === undefined ? [] : [{ name: "zeros", of: zeros }]),
    ],
    parameters: {
      blocks,
      blockSize,
      rowChunks: rowWords / words,
      scalesOffset: scales.place.offset,
      ...(zeros === undefined ? {} : { zerosOffset: zeros.place.offset }),
      ...(zeros?.type === "uint8" ? { zeroRow: Math.ceil((blocks * bits) / 8) } : {}),
    },
  };
}
