/** RepackCache on WebGPU: sources of all moves are read into scratch memory before the first target is written. */
import { type CallOf, isInPlace } from "../../graph/kernel.js";
import { traitsOf } from "../../tensor/element-type.js";
import { invocationsOf, type Variable, variable } from "../../webgpu-kernels/shader-part.js";
import {
  type DeviceTraits,
  type Dispatch,
  type WebgpuKernel,
  webgpuKernel,
} from "../../webgpu-kernels/webgpu-kernel.js";
import {
  acceptsBytes,
  moveRows,
  placeOf,
  unitAt,
  unitElement,
  unitOf,
  writeUnit,
  writtenElement,
} from "../shared/webgpu/rows.js";
import { linesOf } from "./lines.js";
import { RepackCache } from "./op.js";

type Call = CallOf<typeof RepackCache>;

/** Moves rows within a cache. */
export const repackRows: WebgpuKernel = webgpuKernel([RepackCache], {
  accepts({ inputs: { cache, rows, block_tables: tables } }) {
    if ([cache, rows, tables].some((operand) => operand?.contiguous === false)) return "an operand has gaps";
    return acceptsBytes(cache.type);
  },
  record(call, recorder) {
    const { cache } = call.inputs;
    const present = call.outputs.cache;
    const { unit, count, dispatch } = movesOf(call, recorder.device);
    const written = variable("cache", present, { writes: true, element: writtenElement(unit) });
    const source = variable("source", cache, { element: unitElement(unit) });
    if (!isInPlace(cache, present)) {
      const ends = { source: placeOf(cache), target: placeOf(present) };
      for (const copy of moveRows(
        { name: "copyCache", type: cache.type, shape: cache.shape, ...ends },
        recorder.device,
      ))
        recorder.dispatch(copy);
      if (count > 0)
        recorder.dispatch(dispatch(writeUnit(unit, "cache", "t", unitAt(unit, source, "f")), [written, source]));
      return;
    }
    if (count === 0) return;
    // In between each unit has an element of its own.
    const memory = recorder.temporary(count * Math.max(4, unit));
    const held = (writes: boolean): Variable => variable("held", memory, { element: unitElement(unit), writes });
    recorder.dispatch(dispatch(`held[index] = ${unitAt(unit, source, "f")};`, [held(true), source]));
    recorder.dispatch(dispatch(writeUnit(unit, "cache", "t", "held[index]"), [written, held(false)]));
  },
});

/** What the dispatches of a call have in common: one invocation a unit, for which `f` is where it comes from and `t` where it goes. */
function movesOf(
  call: Call,
  device: DeviceTraits,
): {
  readonly unit: number;
  readonly count: number;
  readonly dispatch: (work: string, parts: readonly Variable[]) => Dispatch;
} {
  const { cache, rows, block_tables: tables } = call.inputs;
  const { pieces, length, sample, piece, row, block, blockSize } = linesOf(call);
  const bytes = traitsOf(cache.type).bits / 8;
  const { offset } = cache.place;
  const unit = unitOf(bytes, [length, sample, piece, row, block, offset, call.outputs.cache.place.offset]);
  const units = (elements: number): number => (elements * bytes) / unit;
  const moved = rows.shape.at(-1)!;
  const lists = rows.shape.length === 3 ? rows.shape[1] : 1;
  const count = rows.shape[0] * pieces * moved * units(length);
  const [list, table] = [variable("rows", rows), tables && variable("tables", tables)];
  const place =
    table === undefined
      ? "sample * p.sampleStep + row * p.row"
      : `u32(${table.loadIndex("p.tableOffset + sample * p.columns + row / p.blockSize")}) * p.block + row % p.blockSize * p.row`;
  const placing = { code: `fn placeOf(sample: u32, row: u32) -> u32 { return ${place}; }` };
  const body = (work: string): string => `  if (index >= p.count) { return; }
  let inner = index % p.units;
  let row = index / p.units % p.moved;
  let piece = index / (p.units * p.moved) % p.pieces;
  let sample = index / (p.units * p.moved * p.pieces);
  let own = ${list.loadIndex("p.rowsOffset + (sample * p.lists + piece * p.lists / p.pieces) * p.moved + row")};
  if (own < 0 || u32(own) == row) { return; }
  let within = piece * p.piece + inner;
  let f = p.sourceOffset + placeOf(sample, u32(own)) + within;
  let t = p.targetOffset + placeOf(sample, row) + within;
  ${work}`;
  return {
    unit,
    count,
    dispatch: (work, parts) =>
      invocationsOf(device, {
        name: "repackRows",
        parts: [placing, ...parts, list, table],
        count,
        body: body(work),
        parameters: {
          count,
          units: units(length),
          moved,
          pieces,
          lists,
          piece: units(piece),
          row: units(row),
          sampleStep: units(sample),
          block: units(block),
          blockSize,
          columns: tables?.shape[1] ?? 0,
          tableOffset: tables?.place.offset ?? 0,
          rowsOffset: rows.place.offset,
          sourceOffset: units(offset),
          targetOffset: units(call.outputs.cache.place.offset),
        },
      }),
  };
}
