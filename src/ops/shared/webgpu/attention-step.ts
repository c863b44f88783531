/**
 * One token of each sample in the dispatches of its attention: the workgroups turn the heads of the query as they read them, and the one whose tile
 * holds the new row turns the key, writes both caches, and reads its own copy.
 */
import type { DeviceTraits, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { packQuad } from "../../../webgpu-kernels/wgsl.js";
import { holdsTiles, recordTiles } from "./attention-decode.js";
import { type AttentionWork, joined, type Part, visiblePart } from "./attention-parts.js";
import { divisionOf, paddedQuads, type TileShape } from "./attention-tile.js";
import type { Heads } from "./heads.js";
import { isFloatType, quadsOf } from "./quads.js";
import { type Starts, startsPart } from "./rows.js";
import { anglesPart, quadTurning, type Turning, turnsByFours } from "./turn-heads.js";

/** A token's rows before they are turned and written, and where they go. */
export interface FreshStep {
  readonly key: Heads;
  readonly value: Heads;
  readonly turnings: { readonly query: Turning; readonly key: Turning };
  /** Row 0 where left out. */
  readonly starts: Starts | undefined;
}

/** Invocations that sum the squares of one head. */
const squareLanes = 16;

const lies = (a: Heads, b: Heads): boolean => a.of === b.of;

/** True if this is done in the dispatches of the attention: all lies by fours, and enough can be bound. */
export function fitsOneStep(work: AttentionWork, step: FreshStep, device: DeviceTraits): boolean {
  const parts = [work.query, step.key, step.value, work.key, work.value];
  return (
    work.query.rows === 1 &&
    divisionOf(work).chunks === 1 &&
    parts.every(
      ({ type, offset, size, sample, head, row }) =>
        isFloatType(type) && [offset, size, sample, head, row].every((n) => n % 4 === 0),
    ) &&
    turnsByFours(work.query.size, step.turnings.query) &&
    turnsByFours(work.query.size, step.turnings.key) &&
    bindingCount(work, step) <= device.mostBindings &&
    holdsTiles(work, device)
  );
}

/** Buffers that the dispatches bind at most: the third beside the caches is the output, or what is in between. */
const bindingCount = (work: AttentionWork, step: FreshStep): number =>
  joined(queriesPart(work, step), visiblePart(work)).bindings.length + 3;

/** The queries and fresh rows, and how they are turned. */
const queriesPart = (work: AttentionWork, step: FreshStep): Part =>
  joined(freshPart(work.query, step), turningPart(step), squaresPart(work, step));

/** Records it. */
export function recordStep(work: AttentionWork, step: FreshStep, recorder: WebgpuRecorder): void {
  recordTiles(
    work,
    queriesPart(work, step),
    {
      asked: (shape) => stepCode(work, step, shape),
      writes: { when: (front, rows) => `writesIn(sample, ${front}, ${rows})`, row: "newRow(sample)" },
    },
    { apart: "attentionStep", atOnce: "attentionStepAtOnce" },
    recorder,
  );
}

const formOf = ({ type }: Heads): ReturnType<typeof quadsOf> => quadsOf(isFloatType(type) ? type : "float32");

/** `askedQuad`, `newKeyQuad` and `newValueQuad(start, quad)`, and where the heads of a sample begin. */
function freshPart(query: Heads, { key, value }: FreshStep): Part {
  const together = lies(key, query) && lies(value, query);
  const sides = [
    ["asked", query],
    ["newKey", key],
    ["newValue", value],
  ] as const;
  const array = (name: string): string => (together ? "fresh" : `${name}Rows`);
  return {
    code: sides
      .map(
        ([name, heads]) => `
fn ${name}Start(sample: u32, head: u32) -> u32 { return p.${name}Offset + sample * p.${name}Sample + head * p.${name}Head; }
fn ${name}Quad(start: u32, quad: u32) -> vec4f { let words = ${array(name)}[start / 4u + quad]; return ${formOf(heads).unpack("words")}; }`,
      )
      .join(""),
    bindings: (together ? sides.slice(0, 1) : sides).map(([name, heads]) => ({
      name: array(name),
      of: heads.of,
      element: formOf(heads).element,
    })),
    parameters: Object.fromEntries(
      sides.flatMap(([name, { offset, sample, head }]) => [
        [`${name}Offset`, offset],
        [`${name}Sample`, sample],
        [`${name}Head`, head],
      ]),
    ),
  };
}

/** How heads are turned, and which tile has the new row. */
function turningPart({ turnings, starts }: FreshStep): Part {
  const { norm, rotation } = turnings.query;
  return joined(
    ...(rotation === undefined ? [] : [anglesPart(rotation, 1, true)]),
    quadTurning("asked", "askedQuad", turnings.query),
    quadTurning("newKey", "newKeyQuad", turnings.key),
    ...(starts === undefined ? [] : [startsPart(starts)]),
    {
      code: `
fn newRow(sample: u32) -> u32 { return ${starts === undefined ? "0u" : "rowFrom(sample, 0u)"}; }
fn writesIn(sample: u32, front: i32, rows: i32) -> bool { let row = i32(newRow(sample)); return row >= front && row < front + rows; }`,
      bindings: [],
      parameters: norm === undefined ? {} : { epsilon: { float: norm.epsilon } },
    },
  );
}

function stepCode(work: AttentionWork, { turnings }: FreshStep, { invocations }: TileShape): string {
  const { query, key, value } = work;
  const { rows } = divisionOf(work);
  const [quads, padded, valueQuads] = [query.size / 4, paddedQuads(query.size), value.size / 4];
  const { norm, rotation } = turnings.query;
  const store = (array: string, { type }: Heads, row: string, values: string): string =>
    `${array}[(${row}) / 4u + quad] = ${packQuad(
      type,
      ["x", "y", "z", "w"].map((letter) => `${values}.${letter}`),
    )};`;
  const inverse = (head: string): string => (norm === undefined ? "1.0" : `inverseOf(${head})`);
  return `
  ${
    norm === undefined
      ? ""
      : `if (local < ${squareLanes * (rows + 1)}u) {
    let head = local / ${squareLanes}u;
    var sum = 0.0;
    for (var quad = local % ${squareLanes}u; quad < ${quads}u; quad += ${squareLanes}u) {
      var values: vec4f;
      if (head < ${rows}u) { values = askedQuad(askedStart(sample, keyHead * ${rows}u + head), quad); }
      else { values = newKeyQuad(newKeyStart(sample, keyHead), quad); }
      sum += dot(values, values);
    }
    squares[local] = sum;
  }
  workgroupBarrier();`
  }
  let angle = ${rotation === undefined ? "0u" : "angleOf(sample, 0u)"};
  for (var at = local; at < ${rows * padded}u; at += ${invocations}u) {
    let head = at / ${padded}u;
    let quad = at % ${padded}u;
    let start = askedStart(sample, keyHead * ${rows}u + head);
    asked[at] = select(vec4f(), askedTurned(start, min(quad, ${quads - 1}u), ${inverse("head")}, angle) * p.scale, quad < ${quads}u);
  }
  if (writes) {
    let row = newRow(sample);
    // The last invocations: the first ones have queries to turn.
    for (var at = ${invocations - 1}u - local; at < ${quads + valueQuads}u; at += ${invocations}u) {
      if (at < ${quads}u) {
        let quad = at;
        let turned = newKeyTurned(newKeyStart(sample, keyHead), quad, ${inverse(`${rows}u`)}, angle);
        ${store("keys", key, "keyStart(sample, keyHead, row)", "turned")}
      } else {
        let quad = at - ${quads}u;
        let copied = newValueQuad(newValueStart(sample, keyHead), quad);
        ${store("values", value, "valueStart(sample, keyHead, row)", "copied")}
      }
    }
  }
  storageBarrier();
  workgroupBarrier();`;
}

/** What the squares of heads are summed in, and `inverseOf(head)`: the queries' first, then the key's. */
function squaresPart(work: AttentionWork, { turnings }: FreshStep): Part {
  if (turnings.query.norm === undefined) return { code: "", bindings: [], parameters: {} };
  return {
    code: `
var<workgroup> squares: array<f32, ${squareLanes * (divisionOf(work).rows + 1)}>;
fn inverseOf(head: u32) -> f32 {
  var sum = 0.0;
  for (var at = 0u; at < ${squareLanes}u; at++) { sum += squares[head * ${squareLanes}u + at]; }
  return inverseSqrt(sum / ${work.query.size}.0 + p.epsilon);
}`,
    bindings: [],
    parameters: {},
  };
}
