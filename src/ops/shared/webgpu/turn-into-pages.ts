/**
 * A step's heads on their way into an attention over pages: queries normalized and turned into scratch memory, keys likewise and values as they are
 * into the slots of their tokens. One dispatch where a device binds enough at once, else one for each of the three.
 */
import { dispatchOf, type Variable, variable } from "../../../webgpu-kernels/shader-part.js";
import type { DeviceTraits, Dispatch, Parameter, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { pack, packing, perWord, range } from "../../../webgpu-kernels/wgsl.js";
import { type Heads, temporaryHeads } from "./heads.js";
import type { PageRows } from "./page-rows.js";
import { slotsPart, type Slots, slotsOfTokens } from "./slots.js";
import type { Table } from "./tables.js";
import { anglesPart, elementTurning, type Turning } from "./turn-heads.js";
import { workgroupReduction } from "./workgroup-reduction.js";

/** Heads that are turned and go somewhere: to rows of the same sizes, or to slots. */
interface Side {
  readonly name: "query" | "key" | "value";
  readonly source: Heads;
  readonly turning: Turning;
  readonly target: Heads | PageRows;
}

/** What is asked for. */
interface PagesWrite {
  readonly query: Heads;
  readonly key: Heads;
  readonly value: Heads;
  readonly turnings: { readonly query: Turning; readonly key: Turning };
  /** One for each token of all samples; negative: the token is not written. */
  readonly slots: Table;
  readonly keys: PageRows;
  readonly values: PageRows;
}

/** What dispatches of one side are called. */
const names = { query: "turnQueries", key: "writeKeys", value: "writeValues" } as const;

const still: Turning = { norm: undefined, rotation: undefined };

/** Records it; the queries as they are then. */
export function turnIntoPages(work: PagesWrite, recorder: WebgpuRecorder): Heads {
  const { query, key, value, turnings } = work;
  const isTurned = turnings.query.norm !== undefined || turnings.query.rotation !== undefined;
  const turned = isTurned ? temporaryHeads(recorder, query) : query;
  const sides: readonly Side[] = [
    ...(isTurned ? [{ name: "query", source: query, turning: turnings.query, target: turned } as const] : []),
    { name: "key", source: key, turning: turnings.key, target: work.keys },
    { name: "value", source: value, turning: still, target: work.values },
  ];
  const slots = slotsOfTokens(work.slots.operand, key.batch * key.rows, recorder, work.slots);
  const turning = (some: readonly Side[]): Dispatch =>
    turningDispatch(
      some.length === 1 ? names[some[0].name] : some.length === 2 ? "writePages" : "turnIntoPages",
      some,
      slots,
      recorder.device,
    );
  const fits = ({ bindings }: Dispatch): boolean => bindings.length <= recorder.device.mostBindings;
  // As many together as can be bound.
  const ways = [[sides], [sides.slice(0, -2), sides.slice(-2)], sides.map((side) => [side])];
  const dispatches = ways
    .map((way) => way.filter((some) => some.length > 0).map(turning))
    .find((way, at) => at === ways.length - 1 || way.every(fits))!;
  for (const dispatch of dispatches) recorder.dispatch(dispatch);
  return turned;
}

const isPaged = (target: Side["target"]): target is PageRows => "pages" in target;

/** A workgroup for each head of a token, whichever side it is of. */
function turningDispatch(name: string, sides: readonly Side[], slots: Slots, device: DeviceTraits): Dispatch {
  const [{ source }] = sides;
  const { size, rows, batch, type } = source;
  const per = perWord(type);
  const threads = Math.max(64, device.subgroup ?? 0);
  const together = sides.every((side) => side.source.of === source.of);
  const arrayOf = (side: Side): Variable => variable(together ? "fresh" : `${side.name}Rows`, side.source.of, { type });
  const rotation = sides.find(({ turning }) => turning.rotation !== undefined)?.turning.rotation;
  const isNormalized = sides.some(({ turning }) => turning.norm !== undefined);
  const writesSlots = sides.some(({ target }) => isPaged(target));
  const firsts = sides.map((_, at) => sides.slice(0, at).reduce((sum, side) => sum + side.source.heads, 0));
  const parameters: Record<string, Parameter> = { tokens: batch * rows };
  for (const { name: side, source: from, turning, target } of sides) {
    Object.assign(parameters, {
      [`${side}Offset`]: from.offset,
      [`${side}Sample`]: from.sample,
      [`${side}Head`]: from.head,
      [`${side}Row`]: from.row,
      [`${side}To`]: target.offset,
      [`${side}ToHead`]: target.head,
      [`${side}ToRow`]: target.row,
      ...(isPaged(target)
        ? { [`${side}BlockSize`]: target.pages.blockSize, [`${side}ToBlock`]: target.pages.block }
        : { [`${side}ToSample`]: target.sample }),
      ...(turning.norm === undefined
        ? {}
        : { [`${side}ScaleOffset`]: turning.norm.scale.offset, epsilon: { float: turning.norm.epsilon } }),
    });
  }
  const goes = (side: Side): string =>
    isPaged(side.target)
      ? `let slot = slotOf(flat);
    if (slot < 0) { return; }
    first = p.${side.name}To + u32(slot) / p.${side.name}BlockSize * p.${side.name}ToBlock + u32(slot) % p.${side.name}BlockSize * p.${side.name}ToRow + head * p.${side.name}ToHead;`
      : `first = p.${side.name}To + sample * p.${side.name}ToSample + head * p.${side.name}ToHead + token * p.${side.name}ToRow;`;
  const own = (side: Side, at: number): string => `{
    let head = part - ${firsts[at]}u;
    let start = p.${side.name}Offset + sample * p.${side.name}Sample + head * p.${side.name}Head + token * p.${side.name}Row;
    ${
      side.turning.norm === undefined
        ? "let inverse = 1.0;"
        : `var squares = 0.0;
    for (var at = local; at < ${size}u; at += ${threads}u) { let value = ${arrayOf(side).load("start + at")}; squares += value * value; }
    let inverse = inverseSqrt(total(local, squares) / ${size}.0 + p.epsilon);`
    }
    var first = 0u;
    ${goes(side)}
    for (var word = local; word < ${size / per}u; word += ${threads}u) {
      ${side.name}Written[first / ${per}u + word] = ${pack(
        type,
        range(per).map((i) => `${side.name}Turned(start, word * ${per}u + ${i}u, inverse, angle)`),
      )};
    }
  }`;
  const code = `
@compute @workgroup_size(${threads}) fn main(@builtin(workgroup_id) place: vec3u, @builtin(local_invocation_index) local: u32) {
  let token = place.x;
  let part = place.y;
  let sample = place.z;
  let flat = sample * ${rows}u + token;
  let angle = ${rotation === undefined ? "0u" : "angleOf(sample, token)"};
  ${sides.map((side, at) => `${at === 0 ? "" : "else "}${at === sides.length - 1 ? "" : `if (part < ${firsts[at] + side.source.heads}u) `}${own(side, at)}`).join("\n  ")}
}`;
  return dispatchOf({
    name,
    parts: [
      packing,
      isNormalized ? workgroupReduction("total", "sum", threads, device) : undefined,
      rotation && anglesPart(rotation, rows, false),
      writesSlots ? slotsPart(slots) : undefined,
      ...sides.flatMap((side) => [
        elementTurning(`${side.name}Turned`, arrayOf(side), `p.${side.name}ScaleOffset`, side.turning),
        variable(`${side.name}Written`, side.target.of, { writes: true }),
      ]),
    ],
    code,
    parameters,
    // What runs for every token of one text has its numbers in the shader; numbers of several texts change with their count.
    fixed: rows === 1 && batch === 1,
    workgroups: [rows, sides.reduce((sum, side) => sum + side.source.heads, 0), batch],
  });
}
