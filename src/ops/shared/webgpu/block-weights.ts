/**
 * Weights of few bits as products on WebGPU read them: rows along k, cut into blocks that share a scale and a zero point, the first value in the lowest
 * bits. What a chunk holds is multiplied as whole numbers less their zero point, and scaled once.
 */
import type { Operand } from "../../../graph/kernel.js";
import type { OperandForm } from "../../../webgpu-kernels/webgpu-kernel.js";
import { type ShaderPart, type Variable, variable } from "../../../webgpu-kernels/shader-part.js";
import { isFloatType, perWord, read } from "../../../webgpu-kernels/wgsl.js";
import { readLevel } from "./levels.js";
import type { ByteCells, Weights } from "./product-operands.js";

/** How such weights lie. */
interface Blocks {
  /** Bytes: whole blocks. */
  readonly data: Operand | OperandForm;
  readonly scales: Operand;
  /** From row to row and from block to block of the scales, and of zero points that are not packed; [blocks, 1] where left out. */
  readonly scaleSteps?: { readonly row: number; readonly block: number };
  readonly zeros: Zeros;
  readonly bits: number;
  readonly blockSize: number;
  /** Blocks of a row; as many as k takes where left out. */
  readonly blocks?: number;
  readonly k: number;
}

/** Zero points: one for all, packed as rows of whole bytes, or one element for each scale, to which a number is added. */
type Zeros =
  | { readonly kind: "one"; readonly value: number }
  | { readonly kind: "packed"; readonly operand: Operand }
  | { readonly kind: "elements"; readonly operand: Operand; readonly added: number };

/** Zero points as MatMulNBits has them: packed, as elements, or half of the range where there are none. */
export function zeroPointsOf(operand: Operand | undefined, bits: number): Zeros {
  if (operand === undefined) return { kind: "one", value: 2 ** (bits - 1) };
  return operand.type === "uint8" ? { kind: "packed", operand } : { kind: "elements", operand, added: 0 };
}

/** 2^23: a whole number below it, put into its last bits, makes a float that is larger by it. */
const magic = { bits: "0x4b000000u", value: "8388608.0" } as const;

/** The weights as a part of a shader. */
export function blockWeights(given: Blocks): Weights {
  const { data, scales, zeros, bits, blockSize, k, blocks = Math.ceil(k / blockSize) } = given;
  const steps = given.scaleSteps ?? { row: blocks, block: 1 };
  const rowWords = (blocks * blockSize * bits) / 32;
  // One load, within one block and one row.
  const words = [4, 2, 1].find((count) => rowWords % count === 0 && blockSize % ((count * 32) / bits) === 0)!;
  const chunk = (words * 32) / bits;
  const quadsInWord = 8 / bits;
  const element = words === 1 ? "u32" : `vec${words}<u32>`;
  const whole = zeros.kind !== "elements" || !isFloatType(zeros.operand.type);
  const shifts = [0, 1, 2, 3].map((at) => `bits >> ${at * bits}u`).join(", ");
  const word = (from: string, at: number): string => (words === 1 ? from : `${from}.${"xyzw"[at]}`);
  const weight = variable("weight", data, { element });
  const scaleArray = variable("scales", scales);
  const zeroArray = zeros.kind === "one" ? undefined : variable("zeros", zeros.operand);
  const wholeQuad = `
/** Four values less their zero point${whole ? ", which `zero` holds together with 2^23" : ""}. */
fn wholeQuad(bits: u32, zero: f32) -> vec4f {
  let values = bitcast<vec4f>((vec4u(${shifts}) & vec4u(${2 ** bits - 1}u)) | vec4u(${magic.bits}));
  return ${whole ? "values - zero" : `(values - ${magic.value}) - zero`};
}`;
  const zeroFunction = `
fn zeroAt(row: u32, block: u32) -> f32 { return ${whole ? `${magic.value} + ` : ""}${zeroExpression(zeros, zeroArray, bits)}; }`;
  const parameters = {
    blockSize,
    rowChunks: rowWords / words,
    scalesOffset: scales.place.offset,
    scaleRow: steps.row,
    scaleBlock: steps.block,
    ...(zeros.kind === "one" ? {} : { zerosOffset: zeros.operand.place.offset }),
    ...(zeros.kind === "packed" ? { zeroRow: Math.ceil((blocks * bits) / 8) } : {}),
  };
  return {
    chunk,
    chunks: (blocks * blockSize) / chunk,
    quads: (from) =>
      Array.from({ length: chunk / 4 }, (_, at) => {
        const own = word(`${from}.words`, Math.floor(at / quadsInWord));
        const shift = (at % quadsInWord) * 4 * bits;
        return `wholeQuad(${shift === 0 ? own : `${own} >> ${shift}u`}, ${from}.zero)`;
      }),
    scale: (from) => `${from}.scale`,
    uses: [weight, scaleArray, zeroArray],
    code: `${wholeQuad}${zeroFunction}
fn scaleAt(row: u32, block: u32) -> f32 { return ${scaleArray.load("p.scalesOffset + row * p.scaleRow + block * p.scaleBlock")}; }
struct Chunk { words: ${element}, scale: f32, zero: f32 }
fn weightChunk(row: u32, chunk: u32) -> Chunk {
  let block = chunk * ${chunk}u / p.blockSize;
  return Chunk(${weight.at("row * p.rowChunks + chunk")}, scaleAt(row, block), zeroAt(row, block));
}
fn weightQuad(start: u32, row: u32, k: u32) -> vec4f {
  if (k >= p.k) { return vec4f(); }
  let at = row * ${words}u * p.rowChunks + k * ${bits}u / 32u;
  let bits = ${weight.at(`at / ${words}u`)}${words === 1 ? "" : `[at % ${words}u]`} >> (k * ${bits}u % 32u);
  let block = k / p.blockSize;
  return scaleAt(row, block) * wholeQuad(bits, zeroAt(row, block));
}`,
    ...(blockSize % 8 === 0
      ? eightsOf(given, words, { wholeQuad, zeroFunction, scaleArray, zeroArray, parameters })
      : noEights),
    parameters,
  };
}

interface LoadedZero {
  readonly fields: string;
  readonly load: string;
  /** With 2^23 where it is whole. */
  readonly value: string;
  /** As a whole number, where it is one. */
  readonly whole: string | undefined;
}

/** How a zero point is loaded, and what it is once it came. */
function loadedZero(zeros: Zeros, array: Variable | undefined, bits: number): LoadedZero {
  if (zeros.kind === "one")
    return { fields: "", load: "", value: `${magic.value} + ${zeros.value}.0`, whole: `${zeros.value}u` };
  if (zeros.kind === "elements")
    return { fields: ", zero: f32", load: ", zeroAt(row, block)", value: "loaded.zero", whole: undefined };
  const whole = `extractBits(loaded.zero, loaded.zeroBit, ${bits}u)`;
  const first = `8u * (p.zerosOffset + row * p.zeroRow) + block * ${bits}u`;
  return {
    fields: ", zero: u32, zeroBit: u32",
    load: `, ${array!.at(`(${first}) / 32u`)}, (${first}) % 32u`,
    value: `${magic.value} + f32(${whole})`,
    whole,
  };
}

const noEights = { halves: undefined, floats: undefined, cells: undefined };

/** Eight values at a time: what is loaded stays as it is until it is asked for, since whatever is made of it would wait for it. */
function eightsOf(
  given: Blocks,
  words: number,
  {
    wholeQuad,
    zeroFunction,
    scaleArray,
    zeroArray,
    parameters,
  }: {
    readonly wholeQuad: string;
    readonly zeroFunction: string;
    readonly scaleArray: Variable;
    readonly zeroArray: Variable | undefined;
    readonly parameters: Readonly<Record<string, number>>;
  },
): Pick<Weights, "halves" | "floats" | "cells"> {
  const { data, scales, zeros, bits } = given;
  const each = perWord(scales.type);
  const zero = loadedZero(zeros, zeroArray, bits);
  const weight = variable("weight", data);
  const first = `${weight.at("at")}${bits < 4 ? ` >> (place * ${bits}u % 32u)` : ""}`;
  const loads: ShaderPart = {
    uses: [weight, scaleArray, zeroArray],
    code: `${wholeQuad}${zeros.kind === "elements" ? zeroFunction : ""}
struct Loaded { first: u32, ${bits === 8 ? "second: u32, " : ""}scale: u32, scaleIndex: u32${zero.fields} }
fn weightLoaded(start: u32, row: u32, k: u32) -> Loaded {
  let place = select(0u, k, k < p.k);
  let at = row * ${words}u * p.rowChunks + place * ${bits}u / 32u;
  let block = place / p.blockSize;
  let scaleIndex = p.scalesOffset + row * p.scaleRow + block * p.scaleBlock;
  return Loaded(${first}, ${bits === 8 ? `${weight.at("at + 1u")}, ` : ""}${scaleArray.at(`scaleIndex / ${each}u`)}, scaleIndex % ${each}u${zero.load});
}
fn weightScale(loaded: Loaded) -> f32 { return ${read(scales.type, "vec2u(loaded.scale, 0u)", "loaded.scaleIndex")}; }
fn weightLow(loaded: Loaded) -> vec4f { return weightScale(loaded) * wholeQuad(loaded.first, ${zero.value}); }
fn weightHigh(loaded: Loaded) -> vec4f { return weightScale(loaded) * wholeQuad(${bits === 8 ? "loaded.second" : `loaded.first >> ${4 * bits}u`}, ${zero.value}); }`,
    parameters,
  };
  return {
    cells: cellsOf(given, words, zero, { weight, scaleArray, zeroArray, parameters }),
    floats: { ...loads, loaded: "Loaded", floats: (loaded) => [`weightLow(${loaded})`, `weightHigh(${loaded})`] },
    halves: {
      uses: [loads],
      extensions: ["f16"],
      code: `
fn weightHalves(loaded: Loaded) -> vec4u {
  let low = bitcast<vec2u>(vec4<f16>(weightLow(loaded)));
  return vec4u(low, bitcast<vec2u>(vec4<f16>(weightHigh(loaded))));
}`,
      loaded: "Loaded",
      halves: (loaded) => `weightHalves(${loaded})`,
    },
  };
}

/** Sixteen values at a time as signed bytes; undefined where a value less its zero point is none. */
function cellsOf(
  { scales, zeros, bits, blockSize }: Blocks,
  words: number,
  zero: LoadedZero,
  {
    weight,
    scaleArray,
    zeroArray,
    parameters,
  }: {
    readonly weight: Variable;
    readonly scaleArray: Variable;
    readonly zeroArray: Variable | undefined;
    readonly parameters: Readonly<Record<string, number>>;
  },
): ByteCells | undefined {
  const isFitting = bits === 4 ? zero.whole !== undefined : bits === 8 && zeros.kind === "one" && zeros.value === 128;
  if (!isFitting || blockSize % 32 !== 0) return undefined;
  const each = perWord(scales.type);
  const count = bits / 2; // words of a cell
  const loads = Array.from({ length: count }, (_, at) => weight.at(`at + ${at}u`)).join(", ");
  // The highest bit of each byte is borrowed from, and comes back as the sign.
  const bytes =
    bits === 8
      ? "cell.words ^ vec4u(0x80808080u)"
      : `(((vec4u(cell.words.x, cell.words.x >> 4u, cell.words.y, cell.words.y >> 4u) & vec4u(0x0f0f0f0fu)) | vec4u(0x80808080u)) - vec4u(${zero.whole!.replaceAll("loaded.", "cell.")} * 0x01010101u)) ^ vec4u(0x80808080u)`;
  return {
    loaded: "Cell",
    order: bits === 8 ? "in turn" : "even first",
    bytes: (cell) => `cellBytes(${cell})`,
    scale: (cell) => `cellScale(${cell})`,
    uses: [weight, scaleArray, zeroArray],
    code: `
struct Cell { words: vec${count}u, scale: u32, scaleIndex: u32${zero.fields} }
fn weightCell(row: u32, k: u32) -> Cell {
  let place = select(0u, k, k < p.k);
  let at = row * ${words}u * p.rowChunks + place * ${bits}u / 32u;
  let block = place / p.blockSize;
  let scaleIndex = p.scalesOffset + row * p.scaleRow + block * p.scaleBlock;
  return Cell(vec${count}u(${loads}), ${scaleArray.at(`scaleIndex / ${each}u`)}, scaleIndex % ${each}u${zero.load});
}
fn cellScale(cell: Cell) -> f32 { return ${read(scales.type, "vec2u(cell.scale, 0u)", "cell.scaleIndex")}; }
fn cellBytes(cell: Cell) -> vec4u { return ${bytes}; }`,
    parameters,
  };
}

/** The zero point of a row and block. */
function zeroExpression(zeros: Zeros, array: Variable | undefined, bits: number): string {
  if (zeros.kind === "one") return `${zeros.value}.0`;
  if (zeros.kind === "packed")
    return `f32(extractBits(${read("uint8", array!, `p.zerosOffset + row * p.zeroRow + block * ${bits}u / 8u`)}, block * ${bits}u % 8u, ${bits}u))`;
  const { operand, added } = zeros;
  const at = "p.zerosOffset + row * p.scaleRow + block * p.scaleBlock";
  return `f32(${readLevel(operand.type, array!, at)})${added === 0 ? "" : ` + ${added}.0`}`;
}
