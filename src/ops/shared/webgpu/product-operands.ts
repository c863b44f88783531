/**
 * How products on WebGPU read their operands: a row's values along the inner dimension k, four at a time, or in chunks of one load. Each operand is
 * a part of a shader. The parts know no path; `p.k` is the product's.
 */
import type { Operand } from "../../../graph/kernel.js";
import { invocationsOf, type ShaderPart, variable } from "../../../webgpu-kernels/shader-part.js";
import type { DeviceTraits, Dispatch, OperandForm, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import {
  type FloatType,
  fourOf,
  isFloatType,
  pack,
  packing,
  perWord,
  range,
  unrolled,
} from "../../../webgpu-kernels/wgsl.js";

/** Strides of a matrix, in elements. */
interface Strides {
  readonly row: number;
  /** From one k to the next. */
  readonly k: number;
  /** From one matrix to the next, for each dimension of the batch. */
  readonly batch: readonly number[];
}

/**
 * A part with `${name}Quad(start, row, k) -> vec4f`: the values of a row at k to k + 3, 0 from p.k on. `start` is where a matrix of the batch
 * begins; k is a multiple of 4.
 */
export function stridedQuads(
  name: string,
  operand: Operand,
  strides: Strides,
  sizes: { rows: number; k: number },
): ShaderPart {
  const { type, place } = operand;
  if (!isFloatType(type)) throw new RangeError(`${type} is no type of products`);
  const steps = [sizes.rows === 1 ? 0 : strides.row, ...strides.batch, place.offset, sizes.k];
  const byFours = strides.k === 1 && steps.every((step) => step % 4 === 0);
  const array = variable(name, operand, { element: byFours ? "four" : "u32" });
  const code = byFours
    ? `
fn ${name}Quad(start: u32, row: u32, k: u32) -> vec4f {
  if (k >= p.k) { return vec4f(); }
  let words = ${array.at(`(p.${name}Offset + start + row * p.${name}Row + k) >> 2u`)};
  return ${fourOf(type).unpack("words")};
}`
    : `
fn ${name}Quad(start: u32, row: u32, k: u32) -> vec4f {
  let at = p.${name}Offset + start + row * p.${name}Row + k * p.${name}K;
  var values = vec4f();
  ${unrolled(4, (i) => `if (k + ${i}u < p.k) { values.${"xyzw"[i]} = ${array.load(`at + ${i}u * p.${name}K`)}; }`)}
  return values;
}`;
  return {
    code,
    uses: [array],
    parameters: {
      [`${name}Offset`]: place.offset,
      [`${name}Row`]: strides.row,
      ...(byFours ? {} : { [`${name}K`]: strides.k }),
    },
  };
}

/** Rows as a part with `${name}Quad`, and with `${name}Eight(row, k)` where a load of 16 bytes brings eight values. */
export interface RowQuads extends ShaderPart {
  /** The eight of what `${name}Eight` brought, as two vec4f; undefined where there is no such function. */
  readonly eight: ((loaded: string) => readonly [string, string]) | undefined;
}

/** Rows along k, by eights where elements of 16 bits lie in such. */
export function rowQuads(
  name: string,
  operand: Operand,
  strides: Pick<Strides, "row" | "k">,
  sizes: { rows: number; k: number },
): RowQuads {
  const { type, place } = operand;
  const steps = [sizes.rows === 1 ? 0 : strides.row, place.offset, sizes.k];
  if (!isFloatType(type) || perWord(type) !== 2 || strides.k !== 1 || steps.some((step) => step % 8 !== 0))
    return { ...stridedQuads(name, operand, { ...strides, batch: [] }, sizes), eight: undefined };
  const { unpack } = fourOf(type);
  const array = variable(name, operand, { element: "vec4<u32>" });
  return {
    uses: [array],
    code: `
fn ${name}Eight(row: u32, k: u32) -> vec4u {
  if (k >= p.k) { return vec4u(); }
  return ${array.at(`(p.${name}Offset + row * p.${name}Row + k) >> 3u`)};
}
fn ${name}Quad(start: u32, row: u32, k: u32) -> vec4f {
  let eight = ${name}Eight(row, k);
  let words = select(eight.xy, eight.zw, (k & 4u) != 0u);
  return ${unpack("words")};
}`,
    parameters: { [`${name}Offset`]: place.offset, [`${name}Row`]: strides.row },
    eight: (loaded) => [unpack(`${loaded}.xy`), unpack(`${loaded}.zw`)],
  };
}

/**
 * A part that reads eight values of a row at a time in two steps, between which the loads are on their way: `${name}Loaded(start, row, k)` asks for those from k on, a
 * multiple of 8, and has the WGSL type `loaded`. From p.k on those of a left operand are 0, and others any numbers.
 */
interface LoadedEights extends ShaderPart {
  readonly loaded: string;
}

/** Such eights as float16. */
export interface HalfEights extends LoadedEights {
  /** The eight of what came, as four words. */
  halves(loaded: string): string;
}

/** Such eights as float32. */
export interface FloatEights extends LoadedEights {
  /** The eight of what came, as two vec4f. */
  floats(loaded: string): readonly [string, string];
}

/**
 * Sixteen weights of a row as signed bytes, and the scale that they share: `weightCell(row, k)` asks for those from k on, a multiple of 16, and has
 * the WGSL type `loaded`.
 */
export interface ByteCells extends ShaderPart {
  readonly loaded: string;
  /** How eights of the bytes lie: as k goes on, or 0, 2, 4, 6 and then 1, 3, 5, 7. */
  readonly order: "in turn" | "even first";
  /** The bytes as four words. */
  bytes(loaded: string): string;
  scale(loaded: string): string;
}

/** Eights whose loads bring them as they are. */
const asLoaded = (part: ShaderPart): HalfEights => ({ ...part, loaded: "vec4u", halves: (loaded) => loaded });

/** The two vec4f that four words of a type of 16 bits hold. */
const floatsOfWords = (type: FloatType, words: string): readonly [string, string] => {
  const { unpack } = fourOf(type);
  return [unpack(`${words}.xy`), unpack(`${words}.zw`)];
};

/** True for elements of 16 bits that lie in eights along k. */
const liesByEights = (
  { type, place }: Operand,
  { row, k, batch }: Strides,
  sizes: { rows: number; k: number },
): boolean =>
  isFloatType(type) &&
  perWord(type) === 2 &&
  k === 1 &&
  [sizes.rows === 1 ? 0 : row, ...batch, place.offset, sizes.k].every((step) => step % 8 === 0);

/** Loads of eights that lie so: four words. */
function wordEights(name: string, operand: Operand, { row }: Strides): ShaderPart {
  const array = variable(name, operand, { element: "vec4<u32>" });
  return {
    uses: [array],
    code: `
fn ${name}Loaded(start: u32, row: u32, k: u32) -> vec4u {
  if (k >= p.k) { return vec4u(); }
  return ${array.at(`(p.${name}Offset + start + row * p.${name}Row + k) >> 3u`)};
}`,
    parameters: { [`${name}Offset`]: operand.place.offset, [`${name}Row`]: row },
  };
}

/** The eights of an operand: as they lie where it is float16 in such eights, else of the quads that `stridedQuads` reads. */
export function stridedHalves(
  name: string,
  operand: Operand,
  strides: Strides,
  sizes: { rows: number; k: number },
): HalfEights {
  return operand.type === "float16" && liesByEights(operand, strides, sizes)
    ? asLoaded(wordEights(name, operand, strides))
    : halvesOfQuads(name, stridedQuads(name, operand, strides, sizes));
}

/** The same as float32, of any float type. */
export function stridedFloats(
  name: string,
  operand: Operand,
  strides: Strides,
  sizes: { rows: number; k: number },
): FloatEights {
  const { type } = operand;
  return isFloatType(type) && liesByEights(operand, strides, sizes)
    ? {
        ...wordEights(name, operand, strides),
        loaded: "vec4u",
        floats: (loaded) => floatsOfWords(type, loaded),
      }
    : floatsOfQuads(name, stridedQuads(name, operand, strides, sizes));
}

/** A part that reads quads, by eights. */
const halvesOfQuads = (name: string, part: ShaderPart): HalfEights =>
  asLoaded({
    uses: [part],
    extensions: ["f16"],
    code: `
fn ${name}Loaded(start: u32, row: u32, k: u32) -> vec4u {
  let first = bitcast<vec2u>(vec4<f16>(${name}Quad(start, row, k)));
  return vec4u(first, bitcast<vec2u>(vec4<f16>(${name}Quad(start, row, k + 4u))));
}`,
  });

/** A part that reads quads, by eights of float32. */
const floatsOfQuads = (name: string, part: ShaderPart): FloatEights => ({
  loaded: "TwoQuads",
  floats: (loaded) => [`${loaded}.low`, `${loaded}.high`],
  uses: [{ code: "struct TwoQuads { low: vec4f, high: vec4f }" }, part],
  code: `
fn ${name}Loaded(start: u32, row: u32, k: u32) -> TwoQuads {
  return TwoQuads(${name}Quad(start, row, k), ${name}Quad(start, row, k + 4u));
}`,
});

/** Weights by eights of float32. */
export const floatsOf = (weights: Weights): FloatEights => weights.floats ?? floatsOfQuads("weight", weights);

/**
 * Weights whose rows run along k, one for each column of the result. The part has `weightQuad` as above, and `weightChunk(row, chunk)`: what one
 * load brings.
 */
export interface Weights extends ShaderPart {
  /** The same by eights, where float16 holds the values. */
  readonly halves: HalfEights | undefined;
  /** The same by eights of float32, where they are loaded as such. */
  readonly floats: FloatEights | undefined;
  /** The same as bytes, where they hold the values. */
  readonly cells: ByteCells | undefined;
  /** Values of a chunk. */
  readonly chunk: number;
  /** Chunks of a row. */
  readonly chunks: number;
  /** A chunk's values by fours, as vec4f, before they are scaled. */
  quads(chunk: string): readonly string[];
  /** What all of a chunk's values are multiplied by; undefined where that is nothing. */
  scale(chunk: string): string | undefined;
}

/** The sum of a chunk's products with as many values, given as vec4f. */
export function dotOf(weights: Weights, chunk: string, values: readonly string[]): string {
  const sum = weights
    .quads(chunk)
    .map((quad, at) => `dot(${quad}, ${values[at]})`)
    .join(" + ");
  const scale = weights.scale(chunk);
  return scale === undefined ? sum : `${scale} * (${sum})`;
}

/** Elements that 16 bytes hold. */
const perLoad = (type: FloatType): number => 4 * perWord(type);

/** B as weights whose rows run along k: as it lies, in a form of its own where it is constant, or undefined. */
export function floatWeights(
  b: Operand,
  { row, k: alongK }: { readonly row: number; readonly k: number },
  { n, k }: { readonly n: number; readonly k: number },
  recorder: WebgpuRecorder,
): Weights | undefined {
  const { type, place } = b;
  if (!isFloatType(type)) return undefined;
  const chunk = perLoad(type);
  const isLaid = alongK === 1 && [place.offset, row, k].every((step) => step % chunk === 0);
  if (isLaid) return laidWeights(type, b, { start: place.offset / chunk, row: row / chunk, k });
  if (!b.constant || k === 0 || n === 0) return undefined;
  const chunks = Math.ceil(k / chunk);
  const form = recorder.form([b], `rows along k, from strides ${alongK} and ${row}`, n * chunks * 16, (of) =>
    rowsAlongK(b, of, { row, alongK, n, k, words: chunks * 4 }, recorder.device),
  );
  return laidWeights(type, form, { start: 0, row: chunks, k });
}

function laidWeights(
  type: FloatType,
  of: Operand | OperandForm,
  { start, row, k }: { readonly start: number; readonly row: number; readonly k: number },
): Weights {
  const chunk = perLoad(type);
  const { unpack } = fourOf(type);
  const parts = chunk === 4 ? [""] : [".xy", ".zw"];
  const weight = variable("weight", of, { element: "vec4<u32>" });
  const chunkAt: ShaderPart = {
    uses: [weight],
    code: `
fn weightChunk(row: u32, chunk: u32) -> vec4u { return ${weight.at("p.weightStart + row * p.weightRow + chunk")}; }`,
    parameters: { weightStart: start, weightRow: row },
  };
  const eights: ShaderPart = {
    uses: [chunkAt],
    code: `
fn weightLoaded(start: u32, row: u32, k: u32) -> vec4u {
  if (k >= p.k) { return vec4u(); }
  return weightChunk(row, k >> 3u);
}`,
  };
  return {
    chunk,
    chunks: Math.ceil(k / chunk),
    quads: (words) => parts.map((part) => unpack(`${words}${part}`)),
    scale: () => undefined,
    uses: [chunkAt],
    code: `
fn weightQuad(start: u32, row: u32, k: u32) -> vec4f {
  if (k >= p.k) { return vec4f(); }
  let chunk = weightChunk(row, k / ${chunk}u);
  ${chunk === 4 ? "let words = chunk;" : "let words = select(chunk.xy, chunk.zw, (k & 4u) != 0u);"}
  return ${unpack("words")};
}`,
    halves: type === "float16" ? asLoaded(eights) : undefined,
    floats: chunk === 8 ? { ...eights, loaded: "vec4u", floats: (loaded) => floatsOfWords(type, loaded) } : undefined,
    cells: undefined,
  };
}

/** The dispatch that lays a matrix out with its rows along k, padded with zeros to so many words each. */
function rowsAlongK(
  b: Operand,
  form: OperandForm,
  { row, alongK, n, k, words }: Record<"row" | "alongK" | "n" | "k" | "words", number>,
  device: DeviceTraits,
): Dispatch {
  const each = perWord(b.type);
  const source = variable("source", b);
  const rows = variable("rows", form, { writes: true });
  const valueAt = `fn valueAt(n: u32, k: u32) -> f32 {
  if (k >= p.k) { return 0.0; }
  return ${source.load("p.offset + n * p.row + k * p.alongK")};
}`;
  const values = range(each).map((at) => `valueAt(n, word * ${each}u + ${at}u)`);
  return invocationsOf(device, {
    name: "rowsAlongK",
    parts: [packing, source, rows, { code: valueAt }],
    parameters: { offset: b.place.offset, row, alongK, n, k, words },
    count: n * words,
    body: `if (index >= p.n * p.words) { return; }
  let n = index % p.n;
  let word = index / p.n;
  ${rows.set("n * p.words + word", pack(b.type, values))}`,
  });
}

/** Lines that load an invocation's chunks of so many columns `n0`, `n1`, … from `start` on: `ahead` of each, a team's lanes beside each other. */
export const chunkLoads = (
  start: string,
  columns: number,
  { chunks }: Weights,
  { lanes, ahead }: { readonly lanes: number; readonly ahead: number },
): readonly string[] =>
  range(ahead).flatMap((step) => [
    `let at${step} = ${start} + ${step * lanes}u + lane;`,
    ...range(columns).map(
      (column) => `let w${step}_${column} = weightChunk(n${column}, min(at${step}, ${chunks - 1}u));`,
    ),
  ]);
