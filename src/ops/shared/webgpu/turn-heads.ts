/**
 * What is done to heads before an attention, on WebGPU: their norm, and their rotary embedding. As functions for shaders that do it on the way, and as a
 * dispatch that writes the heads somewhere: into scratch memory, or into the rows of a cache.
 */
import type { ElementType } from "../../../tensor/element-type.js";
import { dispatchOf, type ShaderPart, type Variable, variable } from "../../../webgpu-kernels/shader-part.js";
import type { DeviceTraits, Dispatch } from "../../../webgpu-kernels/webgpu-kernel.js";
import { pack, packing, perWord, range } from "../../../webgpu-kernels/wgsl.js";
import type { Heads } from "./heads.js";
import { type Starts, startsPart } from "./rows.js";
import { type Table, tableVariable } from "./tables.js";
import { workgroupReduction } from "./workgroup-reduction.js";

/** Angles: tables by position, or an entry for each token where there are no positions. */
interface Rotation {
  readonly cos: Table;
  readonly sin: Table;
  readonly positions: Table | undefined;
  readonly interleaved: boolean;
}

/** What is done to heads, in this order. */
export interface Turning {
  readonly norm: { readonly scale: Table; readonly epsilon: number } | undefined;
  readonly rotation: Rotation | undefined;
}

/** Pairs of values that are turned. */
const pairsOf = ({ cos }: Rotation): number => cos.operand.shape.at(-1)!;

/** True if heads of this size can be turned four elements at a time. */
export const turnsByFours = (size: number, { norm, rotation }: Turning): boolean =>
  size % 4 === 0 &&
  (norm === undefined || norm.scale.offset % 4 === 0) &&
  (rotation === undefined ||
    (pairsOf(rotation) % 4 === 0 && [rotation.cos, rotation.sin].every(({ offset }) => offset % 4 === 0)));

/** `angleOf(sample, token)`: where the angles of a token begin, for tokens of `tokens` a sample. */
export function anglesPart(rotation: Rotation, tokens: number, byFours: boolean): ShaderPart {
  const { cos, sin, positions } = rotation;
  const pairs = pairsOf(rotation);
  const { shape } = cos.operand;
  const element = byFours ? "four" : "u32";
  return {
    uses: [tableVariable(cos, element), tableVariable(sin, element), positions && tableVariable(positions)],
    code:
      positions === undefined
        ? `fn angleOf(sample: u32, token: u32) -> u32 { return (sample * ${tokens}u + token) * ${pairs}u; }`
        : `fn angleOf(sample: u32, token: u32) -> u32 {
  var position = ${positionAt(positions)};
  if (position < 0) { position += ${shape[0]}; }
  return u32(position) * ${pairs}u;
}`,
    parameters: {
      cosOffset: cos.offset,
      sinOffset: sin.offset,
      ...(positions === undefined ? {} : { positionOffset: positions.offset }),
    },
  };
}

function positionAt(table: Table): string {
  const [sample, token] = table.operand.place.strides;
  return tableVariable(table).loadIndex(`p.positionOffset + sample * ${sample}u + token * ${token}u`);
}

/**
 * `nameTurned(start, quad, inverse, angle)`: four elements of a head, times `inverse` and the norm's scale, turned. `fresh` is a function
 * `(start, quad) -> vec4f` of the head as it is.
 */
export function quadTurning(name: string, fresh: string, { norm, rotation }: Turning): ShaderPart {
  const offset = `${name}ScaleOffset`;
  const scales = norm && tableVariable(norm.scale, "four");
  const scaled = (quad: string): string =>
    scales === undefined
      ? `${fresh}(start, ${quad})`
      : `${fresh}(start, ${quad}) * inverse * ${scales.loadFour(`p.${offset} / 4u + ${quad}`)}`;
  return {
    uses: [scales],
    code: `fn ${name}Turned(start: u32, quad: u32, inverse: f32, angle: u32) -> vec4f {
  let own = ${scaled("quad")};
  ${rotation === undefined ? "return own;" : quadRotation(rotation, scaled)}
}`,
    parameters: norm === undefined ? {} : { [offset]: norm.scale.offset },
  };
}

function quadRotation(rotation: Rotation, scaled: (quad: string) => string): string {
  const { cos, sin, interleaved } = rotation;
  const pairs = pairsOf(rotation);
  const quadAt = (table: Table, offset: string, at: string): string =>
    tableVariable(table, "four").loadFour(`(p.${offset} + ${at}) / 4u`);
  const both = (at: string): string => `let c = ${quadAt(cos, "cosOffset", at)};
  let s = ${quadAt(sin, "sinOffset", at)};`;
  if (!interleaved)
    return `if (4u * quad >= ${2 * pairs}u) { return own; }
  let isSecond = 4u * quad >= ${pairs}u;
  let other = select(quad + ${pairs / 4}u, quad - ${pairs / 4}u, isSecond);
  let partner = ${scaled("other")};
  ${both(`angle + 4u * select(quad, other, isSecond)`)}
  return own * c + select(-partner, partner, isSecond) * s;`;
  // Two quads of values share a quad of angles.
  return `if (4u * quad >= ${2 * pairs}u) { return own; }
  ${both(`angle + 4u * (quad / 2u)`)}
  let half = (quad & 1u) == 1u;
  let cc = select(c.xxyy, c.zzww, half);
  let ss = select(s.xxyy, s.zzww, half);
  return own * cc + own.yxwz * vec4f(-1.0, 1.0, -1.0, 1.0) * ss;`;
}

/**
 * `name(start, at, inverse, angle)`: one element of a head in an array, times `inverse` and the norm's scale, turned. For heads of any size and
 * alignment.
 */
export function elementTurning(
  name: string,
  array: Variable,
  scaleOffset: string,
  { norm, rotation }: Turning,
): ShaderPart {
  const scales = norm && tableVariable(norm.scale);
  const raw = (element: string): string =>
    `${array.load(`start + ${element}`)}${scales === undefined ? "" : ` * inverse * ${scales.load(`${scaleOffset} + ${element}`)}`}`;
  const pairs = rotation === undefined ? 0 : pairsOf(rotation);
  const turned =
    rotation === undefined
      ? ""
      : `if (at < ${2 * pairs}u) {
    ${
      rotation.interleaved
        ? "let isSecond = (at & 1u) == 1u; let pair = at / 2u; let other = at ^ 1u;"
        : `let isSecond = at >= ${pairs}u; let pair = select(at, at - ${pairs}u, isSecond); let other = select(at + ${pairs}u, pair, isSecond);`
    }
    let partner = ${raw("other")};
    let c = ${tableVariable(rotation.cos).load("p.cosOffset + angle + pair")};
    let s = ${tableVariable(rotation.sin).load("p.sinOffset + angle + pair")};
    return own * c + select(-partner, partner, isSecond) * s;
  }`;
  return {
    uses: [array, scales],
    code: `fn ${name}(start: u32, at: u32, inverse: f32, angle: u32) -> f32 {
  let own = ${raw("at")};
  ${turned}
  return own;
}`,
  };
}

/** Where turned heads go. */
interface TurnTarget {
  readonly heads: Heads;
  /** Where a sample's first token goes; row 0 where left out. */
  readonly starts: Starts | undefined;
}

/** Turns heads, a workgroup for each: any size and alignment, rows of whole words. */
export function turnDispatch(
  name: string,
  source: Heads,
  target: TurnTarget,
  turning: Turning,
  device: DeviceTraits,
): Dispatch {
  const { size, rows, heads: count, batch } = source;
  const { norm, rotation } = turning;
  const threads = Math.max(64, device.subgroup ?? 0);
  const { heads, starts } = target;
  const per = perWord(heads.type);
  const array = variable("source", source.of, { type: source.type });
  const code = `
@compute @workgroup_size(${threads}) fn main(@builtin(workgroup_id) place: vec3u, @builtin(local_invocation_index) local: u32) {
  let token = place.x;
  let head = place.y;
  let sample = place.z;
  let start = p.sourceOffset + sample * p.sourceSample + head * p.sourceHead + token * p.sourceRow;
  ${
    norm === undefined
      ? "let inverse = 1.0;"
      : `var squares = 0.0;
  for (var at = local; at < ${size}u; at += ${threads}u) { let value = ${array.load("start + at")}; squares += value * value; }
  let inverse = inverseSqrt(total(local, squares) / ${size}.0 + p.epsilon);`
  }
  let angle = ${rotation === undefined ? "0u" : "angleOf(sample, token)"};
  let row = ${starts === undefined ? "token" : "rowFrom(sample, token)"};
  let first = (p.targetOffset + sample * p.targetSample + head * p.targetHead + row * p.targetRow) / ${per}u;
  for (var word = local; word < ${size / per}u; word += ${threads}u) {
    written[first + word] = ${pack(
      heads.type,
      range(per).map((at) => `turnedAt(start, word * ${per}u + ${at}u, inverse, angle)`),
    )};
  }
}`;
  return dispatchOf({
    name,
    parts: [
      packing,
      norm && workgroupReduction("total", "sum", threads, device),
      rotation && anglesPart(rotation, rows, false),
      starts && startsPart(starts),
      elementTurning("turnedAt", array, "p.scaleOffset", turning),
      variable("written", heads.of, { writes: true }),
    ],
    code,
    parameters: {
      sourceOffset: source.offset,
      sourceSample: source.sample,
      sourceHead: source.head,
      sourceRow: source.row,
      targetOffset: heads.offset,
      targetSample: heads.sample,
      targetHead: heads.head,
      targetRow: heads.row,
      ...(norm === undefined ? {} : { scaleOffset: norm.scale.offset, epsilon: { float: norm.epsilon } }),
    },
    workgroups: [rows, count, batch],
  });
}

/** True if the words of rows are theirs alone, and the grid holds them. */
export const canTurn = (type: ElementType, { size, rows, heads, batch }: Heads, most: number): true | string => {
  if (perWord(type) > 1 && size % 2 !== 0) return "rows of heads are no whole words";
  return [rows, heads, batch].every((count) => count <= most) ? true : `there are more than ${most} rows`;
};
