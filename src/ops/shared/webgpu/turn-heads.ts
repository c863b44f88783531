/**
 * What is done to heads before an attention, on WebGPU: their norm, and their rotary embedding. As functions for shaders that do it on the way, and as a
 * dispatch that writes the heads somewhere: into memory in between, or into the rows of a cache.
 */
import type { ElementType } from "../../../tensor/element-type.js";
import type { Binding, DeviceTraits, Dispatch, Parameter } from "../../../webgpu-kernels/webgpu-kernel.js";
import { pack, packing, perWord, read, readIndex } from "../../../webgpu-kernels/wgsl.js";
import type { Heads } from "./heads.js";
import { isFloatType, quadsOf } from "./quads.js";
import { type Starts, startsPart } from "./rows.js";
import { distinct, type Table, tableBinding } from "./tables.js";
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

interface Part {
  readonly code: string;
  readonly bindings: readonly Binding[];
  readonly parameters: Readonly<Record<string, Parameter>>;
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
export function anglesPart(rotation: Rotation, tokens: number, byFours: boolean): Part {
  const { cos, sin, positions } = rotation;
  const pairs = pairsOf(rotation);
  const { type, shape } = cos.operand;
  const element = byFours && isFloatType(type) ? quadsOf(type).element : "u32";
  return {
    code:
      positions === undefined
        ? `fn angleOf(sample: u32, token: u32) -> u32 { return (sample * ${tokens}u + token) * ${pairs}u; }`
        : `fn angleOf(sample: u32, token: u32) -> u32 {
  var position = ${positionAt(positions)};
  if (position < 0) { position += ${shape[0]}; }
  return u32(position) * ${pairs}u;
}`,
    bindings: distinct([
      tableBinding(cos, element),
      tableBinding(sin, element),
      ...(positions === undefined ? [] : [tableBinding(positions)]),
    ]),
    parameters: {
      cosOffset: cos.offset,
      sinOffset: sin.offset,
      ...(positions === undefined ? {} : { positionOffset: positions.offset }),
    },
  };
}

function positionAt({ operand: { type, place }, array }: Table): string {
  const [sample, token] = place.strides;
  return readIndex(type, array, `p.positionOffset + sample * ${sample}u + token * ${token}u`);
}

/**
 * `nameTurned(start, quad, inverse, angle)`: four elements of a head, times `inverse` and the norm's scale, turned. `fresh` is a function
 * `(start, quad) -> vec4f` of the head as it is.
 */
export function quadTurning(name: string, fresh: string, { norm, rotation }: Turning): Part {
  const offset = `${name}ScaleOffset`;
  const type = norm?.scale.operand.type;
  const scaled = (quad: string): string =>
    norm === undefined || type === undefined || !isFloatType(type)
      ? `${fresh}(start, ${quad})`
      : `${fresh}(start, ${quad}) * inverse * ${quadsOf(type).unpack(`${norm.scale.array}[p.${offset} / 4u + ${quad}]`)}`;
  return {
    code: `fn ${name}Turned(start: u32, quad: u32, inverse: f32, angle: u32) -> vec4f {
  let own = ${scaled("quad")};
  ${rotation === undefined ? "return own;" : quadRotation(rotation, scaled)}
}`,
    bindings:
      norm === undefined || type === undefined || !isFloatType(type)
        ? []
        : [tableBinding(norm.scale, quadsOf(type).element)],
    parameters: norm === undefined ? {} : { [offset]: norm.scale.offset },
  };
}

function quadRotation(rotation: Rotation, scaled: (quad: string) => string): string {
  const { cos, sin, interleaved } = rotation;
  const pairs = pairsOf(rotation);
  const quadAt = ({ array, operand: { type } }: Table, offset: string, at: string): string =>
    isFloatType(type) ? quadsOf(type).unpack(`${array}[(p.${offset} + ${at}) / 4u]`) : "vec4f()";
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
  type: ElementType,
  array: string,
  scaleOffset: string,
  { norm, rotation }: Turning,
): string {
  const raw = (element: string): string =>
    `${read(type, array, `start + ${element}`)}${norm === undefined ? "" : ` * inverse * ${read(norm.scale.operand.type, norm.scale.array, `${scaleOffset} + ${element}`)}`}`;
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
    let c = ${read(rotation.cos.operand.type, rotation.cos.array, "p.cosOffset + angle + pair")};
    let s = ${read(rotation.sin.operand.type, rotation.sin.array, "p.sinOffset + angle + pair")};
    return own * c + select(-partner, partner, isSecond) * s;
  }`;
  return `fn ${name}(start: u32, at: u32, inverse: f32, angle: u32) -> f32 {
  let own = ${raw("at")};
  ${turned}
  return own;
}`;
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
  const places = starts && startsPart(starts);
  const per = perWord(heads.type);
  const angles = rotation && anglesPart(rotation, rows, false);
  const code = `${packing}
${norm === undefined ? "" : workgroupReduction("total", "sum", threads, device)}
${angles?.code ?? ""}
${places?.code ?? ""}
${elementTurning("turnedAt", source.type, "source", "p.scaleOffset", turning)}
@compute @workgroup_size(${threads}) fn main(@builtin(workgroup_id) place: vec3u, @builtin(local_invocation_index) local: u32) {
  let token = place.x;
  let head = place.y;
  let sample = place.z;
  let start = p.sourceOffset + sample * p.sourceSample + head * p.sourceHead + token * p.sourceRow;
  ${
    norm === undefined
      ? "let inverse = 1.0;"
      : `var squares = 0.0;
  for (var at = local; at < ${size}u; at += ${threads}u) { let value = ${read(source.type, "source", "start + at")}; squares += value * value; }
  let inverse = inverseSqrt(total(local, squares) / ${size}.0 + p.epsilon);`
  }
  let angle = ${rotation === undefined ? "0u" : "angleOf(sample, token)"};
  let row = ${starts === undefined ? "token" : "rowFrom(sample, token)"};
  let first = (p.targetOffset + sample * p.targetSample + head * p.targetHead + row * p.targetRow) / ${per}u;
  for (var word = local; word < ${size / per}u; word += ${threads}u) {
    written[first + word] = ${pack(
      heads.type,
      Array.from({ length: per }, (_, at) => `turnedAt(start, word * ${per}u + ${at}u, inverse, angle)`),
    )};
  }
}`;
  return {
    name,
    code,
    bindings: distinct([
      { name: "source", of: source.of },
      ...(norm === undefined ? [] : [tableBinding(norm.scale)]),
      ...(angles?.bindings ?? []),
      ...(places?.bindings ?? []),
      { name: "written", of: heads.of, writes: true },
    ]),
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
      ...angles?.parameters,
      ...places?.parameters,
    },
    workgroups: [rows, count, batch],
  };
}

/** True if the words of rows are theirs alone, and the grid holds them. */
export const canTurn = (type: ElementType, { size, rows, heads, batch }: Heads, most: number): true | string => {
  if (perWord(type) > 1 && size % 2 !== 0) return "rows of heads are no whole words";
  return [rows, heads, batch].every((count) => count <= most) ? true : `there are more than ${most} rows`;
};
