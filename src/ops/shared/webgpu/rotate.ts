/** Rotary embedding on WebGPU: one invocation a word of the output, each element from its pair and the angles of its token's position. */
import type { Operand } from "../../../graph/kernel.js";
import { invocationsOf, variable } from "../../../webgpu-kernels/shader-part.js";
import type { DeviceTraits, Dispatch } from "../../../webgpu-kernels/webgpu-kernel.js";
import { isFloatType, pack, packing, perWord, range, wordsOf } from "../../../webgpu-kernels/wgsl.js";
import { acceptsRows, type Heads } from "./heads.js";

/** Where the positions of tokens come from. */
export interface Positions {
  /** Undefined: 0. */
  readonly indices: Operand | undefined;
  /** How far the entries of samples and of tokens lie apart; 0 where one entry serves all. */
  readonly sample: number;
  readonly token: number;
  /** Positions go on with the token from the entry. */
  readonly counts: boolean;
  /** Is added to each. */
  readonly add: number;
}

/** One rotation. Rows of the output lie without gaps, in the order that its strides tell. */
interface Rotation {
  readonly source: Heads;
  readonly output: Heads;
  /** [positions, pairs], or [batch, length, pairs] without positions. */
  readonly cos: Operand;
  readonly sin: Operand;
  readonly positions: Positions | undefined;
  readonly interleaved: boolean;
}

/** True, or why operands are not turned on the device. */
export function acceptsRotation(source: Operand, output: Operand, tables: readonly Operand[]): true | string {
  for (const { type } of [source, output, ...tables])
    if (!isFloatType(type) || type !== source.type) return `there is no kernel for ${type} beside ${source.type}`;
  if (!output.contiguous) return "the output has gaps";
  if (tables.some(({ contiguous }) => !contiguous)) return "angles have gaps";
  return acceptsRows(source);
}

/** The dispatch of a rotation. */
export function rotationDispatch(rotation: Rotation, device: DeviceTraits): Dispatch {
  const { source, output, cos, sin, positions, interleaved } = rotation;
  const { type, batch, heads, rows, size } = source;
  const pairs = cos.shape.at(-1)!;
  const count = batch * heads * rows * size;
  const byHeads = output.head >= output.row;
  const per = perWord(type);
  const values = variable("source", source.of, { type });
  const [cosines, sines] = [variable("cosines", cos, { type }), variable("sines", sin, { type })];
  const indices = positions?.indices && variable("positions", positions.indices);
  const position = (): string => {
    if (positions === undefined) return "let angle = (sample * p.rows + token) * p.pairs;";
    const entryOf = "p.positionOffset + sample * p.positionSample + token * p.positionToken";
    return `var position = ${indices === undefined ? "0" : indices.loadIndex(entryOf)} + bitcast<i32>(p.positionAdd)${positions.counts ? " + i32(token)" : ""};
  if (position < 0) { position += i32(p.tableRows); }
  let angle = u32(position) * p.pairs;`;
  };
  const code = `
fn valueAt(element: u32) -> f32 {
  let at = element % p.size;
  let row = element / p.size;
  ${
    byHeads
      ? "let token = row % p.rows; let head = (row / p.rows) % p.heads; let sample = row / (p.rows * p.heads);"
      : "let head = row % p.heads; let token = (row / p.heads) % p.rows; let sample = row / (p.rows * p.heads);"
  }
  let start = p.sourceOffset + sample * p.sourceSample + head * p.sourceHead + token * p.sourceRow;
  let own = ${values.load("start + at")};
  if (at >= 2u * p.pairs) { return own; }
  ${
    interleaved
      ? "let pair = at / 2u; let isSecond = (at & 1u) == 1u; let other = at ^ 1u;"
      : "let isSecond = at >= p.pairs; let pair = select(at, at - p.pairs, isSecond); let other = select(at + p.pairs, pair, isSecond);"
  }
  let partner = ${values.load("start + other")};
  ${position()}
  let c = ${cosines.load("p.cosOffset + angle + pair")};
  let s = ${sines.load("p.sinOffset + angle + pair")};
  return select(c * own - s * partner, s * partner + c * own, isSecond);
}`;
  const words = wordsOf(type, count);
  const each = range(per).map((at) => `e${at}`);
  return invocationsOf(device, {
    name: "rotate",
    parts: [packing, values, cosines, sines, indices, { code }, variable("result", output.of, { writes: true })],
    count: words,
    body: `  if (index >= p.words) { return; }
  ${each.map((name, at) => `let ${name} = valueAt(min(index * ${per}u + ${at}u, p.count - 1u));`).join("\n  ")}
  result[index] = ${pack(type, each)};`,
    parameters: {
      words,
      count,
      heads,
      rows,
      size,
      pairs,
      tableRows: cos.shape[0],
      sourceOffset: source.offset,
      sourceSample: source.sample,
      sourceHead: source.head,
      sourceRow: source.row,
      cosOffset: cos.place.offset,
      sinOffset: sin.place.offset,
      positionOffset: positions?.indices?.place.offset ?? 0,
      positionSample: positions?.sample ?? 0,
      positionToken: positions?.token ?? 0,
      positionAdd: positions?.add ?? 0,
    },
  });
}
