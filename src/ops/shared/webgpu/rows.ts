/**
 * Rows moved on the device without being looked at: elements of whole bytes, between any strides, to rows that may be data. What is moved is
 * cut into the largest units that every place allows; units smaller than a word share words, and are written by atomics.
 */
import type { Operand } from "../../../graph/kernel.js";
import { type ElementType, traitsOf } from "../../../tensor/element-type.js";
import { dispatchOf, type ShaderPart, type Variable, variable } from "../../../webgpu-kernels/shader-part.js";
import type { DeviceTraits, Dispatch, Temporary } from "../../../webgpu-kernels/webgpu-kernel.js";
import { entry, listed, workgroupsFor } from "../../../webgpu-kernels/wgsl.js";
import { ownTable, type Table, tableVariable } from "./tables.js";

/** Where elements lie: in what, from where on, how far apart. Counted in elements. */
export interface RowsPlace {
  readonly of: Operand | Temporary;
  readonly offset: number;
  readonly strides: readonly number[];
}

/** Rows whose place is data: along `axis` they begin at an index of their sample, the coordinate of axis 0. */
export interface Starts {
  readonly axis: number;
  /** int64 or int32. */
  readonly indices: Operand;
  /** Where shaders read the indices, if not as an array of their own. */
  readonly table?: Table | undefined;
  /** 0: one index serves all samples. */
  readonly step: 0 | 1;
  /** Is added to each index. */
  readonly add: number;
  /** Rows that the target holds, where rows behind the last go on at the first. */
  readonly wrapsAt?: number;
}

/** One move. */
interface RowMove {
  readonly name: string;
  readonly type: ElementType;
  readonly shape: readonly number[];
  /** Undefined: zeros are written. */
  readonly source: RowsPlace | undefined;
  readonly target: RowsPlace;
  readonly starts?: Starts | undefined;
}

/** An operand's own place. */
export const placeOf = (operand: Operand): RowsPlace => ({
  of: operand,
  offset: operand.place.offset,
  strides: operand.place.strides,
});

/** True if the elements of a type are whole bytes, else why they are not moved. */
export const acceptsBytes = (type: ElementType): true | string =>
  type !== "string" && traitsOf(type).bits % 8 === 0 ? true : `elements of ${type} are no whole bytes on the device`;

/** A dimension of a move. The sample and the row that starts are kept apart from the others. */
interface Axis {
  readonly size: number;
  readonly read: number;
  readonly write: number;
  readonly role: "sample" | "row" | undefined;
}

/** The dispatches of a move: none where there is nothing to move. */
export function moveRows(move: RowMove, { mostWorkgroups }: DeviceTraits): readonly Dispatch[] {
  const { name, type, source, target, starts } = move;
  const bytes = traitsOf(type).bits / 8;
  const { axes, run } = axesOf(move);
  if (run === 0 || axes.some(({ size }) => size === 0)) return [];
  const extents = [run, source?.offset ?? 0, target.offset, ...axes.flatMap(({ read, write }) => [read, write])];
  const unit = unitOf(bytes, extents);
  const units = (elements: number): number => (elements * bytes) / unit;
  const all = [...axes, { size: units(run), read: 0, write: 0, role: undefined }];
  const count = all.reduce((product, { size }) => product * size, 1);
  const last = axes.length;
  const lines = [`var rest = index; let inner = rest % p.shape${last}; rest /= p.shape${last};`];
  for (let axis = last - 1; axis >= 0; axis--)
    lines.push(`${axis === 0 ? `let c0 = rest;` : `let c${axis} = rest % p.shape${axis}; rest /= p.shape${axis};`}`);
  const sample = axes.findIndex(({ role }) => role === "sample");
  const place = (side: "read" | "write"): string =>
    axes
      .map(({ role }, axis) => {
        const at =
          side === "write" && role === "row" ? `rowFrom(${sample < 0 ? "0u" : `c${sample}`}, c${axis})` : `c${axis}`;
        return `${at} * p.${side}${axis} + `;
      })
      .join("") + "inner";
  const moved = variable("moved", target.of, { writes: true, element: writtenElement(unit) });
  const from = source && variable("source", source.of, { element: unitElement(unit) });
  const value = from === undefined ? `${unitElement(unit)}()` : unitAt(unit, from, "f + p.readOffset");
  const body = `
  if (index >= p.count) { return; }
  ${lines.join("\n  ")}
  ${source === undefined ? "" : `let f = ${place("read")};`}
  let t = ${place("write")};
  ${writeUnit(unit, moved.name, "t + p.writeOffset", value)}`;
  const [x, y] = workgroupsFor(count, 64, mostWorkgroups);
  return [
    dispatchOf({
      name,
      parts: [moved, from, starts && startsPart(starts)],
      code: entry(64, body),
      parameters: {
        count,
        ...listed(
          "shape",
          all.map(({ size }) => size),
        ),
        ...listed(
          "read",
          axes.map(({ read }) => units(read)),
        ),
        ...listed(
          "write",
          axes.map(({ write }) => units(write)),
        ),
        readOffset: units(source?.offset ?? 0),
        writeOffset: units(target.offset),
      },
      workgroups: [x, y],
    }),
  ];
}

/** The dimensions of a move, joined where they lie together, without the run of elements that lie side by side at its end. */
function axesOf({ shape, source, target, starts }: RowMove): { readonly axes: readonly Axis[]; readonly run: number } {
  const axes: Axis[] = [];
  shape.forEach((size, axis) => {
    const role = starts === undefined ? undefined : axis === starts.axis ? "row" : axis === 0 ? "sample" : undefined;
    if (size === 1 && role !== "row") return;
    const own = { size, read: source?.strides[axis] ?? 0, write: target.strides[axis], role } as const;
    const before = axes.at(-1);
    const together =
      before !== undefined &&
      before.role === undefined &&
      role === undefined &&
      (source === undefined || before.read === own.read * size) &&
      before.write === own.write * size;
    if (together) axes[axes.length - 1] = { ...own, size: before.size * size };
    else axes.push(own);
  });
  const end = axes.at(-1);
  const isRun =
    end !== undefined && end.role === undefined && end.write === 1 && (source === undefined || end.read === 1);
  return isRun ? { axes: axes.slice(0, -1), run: end.size } : { axes, run: 1 };
}

/** The widest unit, in bytes, that divides every extent of elements of so many bytes. */
export const unitOf = (bytes: number, extents: readonly number[]): number =>
  [16, 4, 2, 1].find((width) => extents.every((extent) => (extent * bytes) % width === 0))!;

/** The element of an array of such units: as it is read, and as it is written. */
export const unitElement = (unit: number): string => (unit === 16 ? "vec4<u32>" : "u32");
export const writtenElement = (unit: number): string => (unit < 4 ? "atomic<u32>" : unitElement(unit));

/** Unit `at` of an array that is read: the bits of one, alone in a word where it is smaller. */
export function unitAt(unit: number, array: Variable, at: string): string {
  if (unit >= 4) return array.at(at);
  const perWord = 4 / unit;
  return `extractBits(${array.at(`(${at}) / ${perWord}u`)}, ${8 * unit}u * ((${at}) % ${perWord}u), ${8 * unit}u)`;
}

/** Writes a unit at `at` of an array. */
export function writeUnit(unit: number, array: string, at: string, value: string): string {
  if (unit >= 4) return `${array}[${at}] = ${value};`;
  const perWord = 4 / unit;
  // Neighbours may share the word: each clears and sets its own bits alone.
  return `let shift = ${8 * unit}u * ((${at}) % ${perWord}u);
  atomicAnd(&${array}[(${at}) / ${perWord}u], ~(${unit === 1 ? "0xffu" : "0xffffu"} << shift));
  atomicOr(&${array}[(${at}) / ${perWord}u], (${value}) << shift);`;
}

/** `rowFrom(sample, row)`: the row of the target for a row of the source, as a part of a shader. */
export function startsPart(starts: Starts): ShaderPart {
  const table = starts.table ?? ownTable("starts", starts.indices);
  const array = tableVariable(table);
  return {
    uses: [array],
    code: startCode(starts, array),
    parameters: {
      startOffset: table.offset,
      startStep: starts.step,
      startAdd: starts.add,
      wrapsAt: starts.wrapsAt ?? 0,
    },
  };
}

/** Circular mode takes any index of 64 bits; else the low half is all of it. */
function startCode({ indices, wrapsAt }: Starts, array: Variable): string {
  const isWide = indices.type === "int64";
  const words = isWide ? "2u * " : "";
  const low = array.at(`${words}(p.startOffset + sample * p.startStep)`);
  if (wrapsAt === undefined)
    return `
fn rowFrom(sample: u32, row: u32) -> u32 { return ${low} + p.startAdd + row; }`;
  return `
fn rowFrom(sample: u32, row: u32) -> u32 {
  var start = ${isWide ? `${array.at(`${words}(p.startOffset + sample * p.startStep) + 1u`)} % p.wrapsAt` : "0u"};
  if (start != 0u) { for (var bit = 0u; bit < 32u; bit++) { start = (2u * start) % p.wrapsAt; } }
  return (start + ${low} % p.wrapsAt + p.startAdd + row) % p.wrapsAt;
}`;
}
