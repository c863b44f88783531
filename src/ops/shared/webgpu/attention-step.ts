/**
 * One token of each sample in the dispatches of its attention: the workgroups turn the heads of the query as they read them, and the one whose tile
 * holds the new row turns the key, writes both caches, and reads its own copy. Where more queries share a key head than a workgroup has, several write the
 * same bytes.
 */
import type { DeviceTraits, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { bindingCount, type ShaderPart, variable } from "../../../webgpu-kernels/shader-part.js";
import { fourOf, isFloatType, packFour } from "../../../webgpu-kernels/wgsl.js";
import { holdsBeside, holdsTiles, recordTiles } from "./attention-decode.js";
import { type AttentionWork, liesByFours, rowsPart, sinkPart, visiblePart } from "./attention-parts.js";
import { divisionOf, loadsEarly, paddedQuads, type TileShape } from "./attention-tile.js";
import type { Heads } from "./heads.js";
import { type Starts, startsPart } from "./rows.js";
import { anglesPart, quadTurning, type Turning, turnsByFours } from "./turn-heads.js";

/** A token's rows before they are turned and written, and where they go. */
export interface FreshStep {
  readonly key: Heads;
  readonly value: Heads;
  readonly turnings: { readonly query: Turning; readonly key: Turning };
  /** `newRow(sample)`: the row of the caches that is written. */
  readonly row: ShaderPart;
}

/** The row of linear caches that is written; row 0 without starts. */
export const startRowPart = (starts: Starts | undefined): ShaderPart => ({
  uses: [starts && startsPart(starts)],
  code: `
fn newRow(sample: u32) -> u32 { return ${starts === undefined ? "0u" : "rowFrom(sample, 0u)"}; }`,
});

/** Invocations that sum the squares of one head. */
const squareLanes = 16;

const lies = (a: Heads, b: Heads): boolean => a.of === b.of;

/** True if this is done in the dispatches of the attention: all lies by fours, and enough can be bound. */
export function fitsOneStep(work: AttentionWork, step: FreshStep, device: DeviceTraits): boolean {
  const parts = [work.query, step.key, step.value, work.key, work.value];
  return (
    work.query.rows === 1 &&
    parts.every((rows) => isFloatType(rows.type) && liesByFours(rows)) &&
    turnsByFours(work.query.size, step.turnings.query) &&
    turnsByFours(work.query.size, step.turnings.key) &&
    mostBound(work, step) <= device.mostBindings &&
    holdsTiles(work, device) &&
    holdsBeside(work, ownBytes(work), device)
  );
}

/** Buffers that the dispatches bind at most: the last is the output, or scratch memory. */
const mostBound = (work: AttentionWork, step: FreshStep): number =>
  bindingCount([
    queriesPart(work, step),
    rowsPart("key", work.key),
    rowsPart("value", work.value),
    visiblePart(work),
    sinkPart(work),
  ]) + 1;

/** The queries and fresh rows, and how they are turned. */
const queriesPart = (work: AttentionWork, step: FreshStep): ShaderPart => ({
  uses: [freshPart(work.query, step), turningPart(step), keptPart(work, step)],
});

/** Records it. */
export function recordStep(work: AttentionWork, step: FreshStep, recorder: WebgpuRecorder): void {
  const { device } = recorder;
  recordTiles(
    work,
    queriesPart(work, step),
    {
      ahead: (shape) => {
        const subgroup = subgroupFor(work, shape, device);
        return subgroup === undefined ? "" : rawCode(work, subgroup);
      },
      own: ownBytes(work),
      asked: (shape) => {
        const subgroup = subgroupFor(work, shape, device);
        const code = subgroup === undefined ? sharedCode(work, step, shape) : subgroupsCode(work, step, subgroup);
        // Where loads come after the write, they must see it.
        return `${code}\n  ${loadsEarly(work, shape) ? "" : "storageBarrier();"}\n  workgroupBarrier();`;
      },
      writes: {
        when: (front, rows) => `writesIn(sample, ${front}, ${rows})`,
        row: "newRow(sample)",
        keyWords: (quad) => `keyWritten[${quad}]`,
        valueWords: (quad) => `valueWritten[${quad}]`,
      },
    },
    { apart: "attentionStep", atOnce: "attentionStepAtOnce" },
    recorder,
  );
}

/** `askedQuad`, `newKeyQuad` and `newValueQuad(start, quad)`, and where the heads of a sample begin. */
function freshPart(query: Heads, { key, value }: FreshStep): ShaderPart {
  const together = lies(key, query) && lies(value, query);
  const sides = [
    ["asked", query],
    ["newKey", key],
    ["newValue", value],
  ] as const;
  const arrays = sides.map(([name, { of, type }]) =>
    variable(together ? "fresh" : `${name}Rows`, of, { type, element: "four" }),
  );
  return {
    uses: arrays,
    code: sides
      .map(
        ([name, { type }], at) => `
fn ${name}Start(sample: u32, head: u32) -> u32 { return p.${name}Offset + sample * p.${name}Sample + head * p.${name}Head; }
fn ${name}Quad(start: u32, quad: u32) -> vec4f { let words = ${arrays[at].at("start / 4u + quad")}; return ${fourOf(type).unpack("words")}; }`,
      )
      .join(""),
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
function turningPart({ turnings, row }: FreshStep): ShaderPart {
  const { norm, rotation } = turnings.query;
  return {
    uses: [
      rotation && anglesPart(rotation, 1, true),
      quadTurning("asked", "askedQuad", turnings.query),
      quadTurning("newKey", "newKeyQuad", turnings.key),
      row,
    ],
    code: `
fn writesIn(sample: u32, front: i32, rows: i32) -> bool { let row = i32(newRow(sample)); return row >= front && row < front + rows; }`,
    parameters: norm === undefined ? {} : { epsilon: { float: norm.epsilon } },
  };
}

/** Quads of a head that an invocation has at most. */
const mostRaw = 8;

/** The size of subgroups where each head of the queries, the key and the value have one for themselves; else undefined. */
const subgroupFor = (
  work: AttentionWork,
  { invocations }: TileShape,
  { subgroup }: DeviceTraits,
): number | undefined =>
  subgroup !== undefined &&
  invocations >= subgroup * (divisionOf(work).rows + 2) &&
  subgroup * mostRaw * 4 >= work.query.size
    ? subgroup
    : undefined;

/** The quads of a head that each invocation of a subgroup has, counted from its place there. */
const rawQuads = ({ query }: AttentionWork, subgroup: number): readonly number[] =>
  Array.from({ length: Math.ceil(query.size / 4 / subgroup) }, (_, at) => at * subgroup);

/** The head of the queries that a workgroup has at a place. */
const askedHead = (place: string): string => `keyHead * p.group + min(first + ${place}, p.groupRows - 1u)`;

/** Loads the heads whose squares are summed: `side` is the head of an invocation's subgroup, `own` its place there. */
function rawCode(work: AttentionWork, subgroup: number): string {
  const { rows } = divisionOf(work);
  const quads = work.query.size / 4;
  const loads = (name: string, start: string): string =>
    rawQuads(work, subgroup)
      .map((quad, at) => `raw${at} = ${name}(${start}, min(own + ${quad}u, ${quads - 1}u));`)
      .join(" ");
  return `let side = local / ${subgroup}u;
  let own = local % ${subgroup}u;
  ${rawQuads(work, subgroup)
    .map((_, at) => `var raw${at} = vec4f();`)
    .join(" ")}
  if (side < ${rows}u) { ${loads("askedQuad", `askedStart(sample, ${askedHead("side")})`)} }
  else if (side == ${rows}u) { ${loads("newKeyQuad", "newKeyStart(sample, keyHead)")} }`;
}

/** Writes four elements of the new row into a cache, and keeps them as they are there. */
const store = (side: "key" | "value", { type }: Heads, values: string): string => `{
        let words = ${packFour(
          type,
          ["x", "y", "z", "w"].map((letter) => `${values}.${letter}`),
        )};
        ${side}Written[quad] = words;
        ${side}s[${side}Start(sample, keyHead, newRow(sample)) / 4u + quad] = words;
      }`;

/** Each subgroup turns a head of its own: no invocation waits for another subgroup's. */
function subgroupsCode(work: AttentionWork, { turnings }: FreshStep, subgroup: number): string {
  const { query, key, value } = work;
  const { rows } = divisionOf(work);
  const [quads, padded, valueQuads] = [query.size / 4, paddedQuads(query.size), value.size / 4];
  const { norm, rotation } = turnings.query;
  const raw = rawQuads(work, subgroup);
  return `
  ${raw.map((_, at) => `let square${at} = dot(raw${at}, raw${at});`).join(" ")}
  let inverse = ${
    norm === undefined
      ? "1.0"
      : `inverseSqrt(subgroupAdd(${raw
          .map((quad, at) =>
            quad + subgroup <= quads ? `square${at}` : `select(0.0, square${at}, own + ${quad}u < ${quads}u)`,
          )
          .join(" + ")}) / ${query.size}.0 + p.epsilon)`
  };
  let angle = ${rotation === undefined ? "0u" : "angleOf(sample, 0u)"};
  if (side < ${rows}u) {
    let start = askedStart(sample, ${askedHead("side")});
    for (var quad = own; quad < ${padded}u; quad += ${subgroup}u) {
      asked[side * ${padded}u + quad] = select(vec4f(), askedTurned(start, min(quad, ${quads - 1}u), inverse, angle) * p.scale, quad < ${quads}u);
    }
  } else if (writes && side == ${rows}u) {
    for (var quad = own; quad < ${quads}u; quad += ${subgroup}u) {
      let turned = newKeyTurned(newKeyStart(sample, keyHead), quad, inverse, angle);
      ${store("key", key, "turned")}
    }
  } else if (writes && side == ${rows + 1}u) {
    for (var quad = own; quad < ${valueQuads}u; quad += ${subgroup}u) {
      let copied = newValueQuad(newValueStart(sample, keyHead), quad);
      ${store("value", value, "copied")}
    }
  }`;
}

/** The same by all invocations together, through workgroup memory. */
function sharedCode(work: AttentionWork, { turnings }: FreshStep, { invocations }: TileShape): string {
  const { query, key, value } = work;
  const { rows } = divisionOf(work);
  const [quads, padded, valueQuads] = [query.size / 4, paddedQuads(query.size), value.size / 4];
  const { norm, rotation } = turnings.query;
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
      if (head < ${rows}u) { values = askedQuad(askedStart(sample, ${askedHead("head")}), quad); }
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
    let start = askedStart(sample, ${askedHead("head")});
    asked[at] = select(vec4f(), askedTurned(start, min(quad, ${quads - 1}u), ${inverse("head")}, angle) * p.scale, quad < ${quads}u);
  }
  if (writes) {
    // The last invocations: the first ones have queries to turn.
    for (var at = ${invocations - 1}u - local; at < ${quads + valueQuads}u; at += ${invocations}u) {
      if (at < ${quads}u) {
        let quad = at;
        let turned = newKeyTurned(newKeyStart(sample, keyHead), quad, ${inverse(`${rows}u`)}, angle);
        ${store("key", key, "turned")}
      } else {
        let quad = at - ${quads}u;
        let copied = newValueQuad(newValueStart(sample, keyHead), quad);
        ${store("value", value, "copied")}
      }
    }
  }`;
}

/** Workgroup memory that the new row takes, as words of 32 bits, and the squares of heads. */
const ownBytes = (work: AttentionWork): number =>
  4 * (work.key.size + work.value.size + squareLanes * (divisionOf(work).rows + 1));

/** What the new row and the squares of heads are kept in, and `inverseOf(head)`: the queries' first, then the key's. */
function keptPart(work: AttentionWork, { turnings }: FreshStep): ShaderPart {
  const { key, value } = work;
  return {
    code: `
var<workgroup> keyWritten: array<${fourOf(key.type).element}, ${key.size / 4}>;
var<workgroup> valueWritten: array<${fourOf(value.type).element}, ${value.size / 4}>;
${turnings.query.norm === undefined ? "" : squaresCode(work)}`,
  };
}

const squaresCode = (work: AttentionWork): string => `
var<workgroup> squares: array<f32, ${squareLanes * (divisionOf(work).rows + 1)}>;
fn inverseOf(head: u32) -> f32 {
  var sum = 0.0;
  for (var at = 0u; at < ${squareLanes}u; at++) { sum += squares[head * ${squareLanes}u + at]; }
  return inverseSqrt(sum / ${work.query.size}.0 + p.epsilon);
}`;
