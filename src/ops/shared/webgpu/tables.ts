/**
 * Operands that shaders only read, as arrays: several of them in one, where a dispatch can lay them side by side beforehand. A device binds few
 * buffers at once, and each costs the host time in every dispatch.
 */
import type { Operand } from "../../../graph/kernel.js";
import { byteLengthOf } from "../../../tensor/element-type.js";
import { invocationsOf, type Variable, variable } from "../../../webgpu-kernels/shader-part.js";
import type { DeviceTraits, Dispatch, OperandForm, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { listed } from "../../../webgpu-kernels/wgsl.js";

/** An operand in an array. */
export interface Table {
  readonly operand: Operand;
  /** The array, as the shader calls it, and what it is bound to. */
  readonly array: string;
  readonly of: Operand | OperandForm;
  /** Where the operand begins there, in elements. */
  readonly offset: number;
}

/** An operand as an array of its own. */
export const ownTable = (array: string, operand: Operand): Table => ({
  operand,
  array,
  of: operand,
  offset: operand.place.offset,
});

/** A table as a variable. */
export const tableVariable = ({ array, of, operand: { type } }: Table, element = "u32"): Variable =>
  variable(array, of, { element, type });

/** Operands begin at multiples of so many bytes, so that they can be read by fours. */
const alignment = 16;

/** A part of what is laid side by side, in words. */
interface Span {
  readonly from: number;
  readonly words: number;
  readonly to: number;
}

type Named = Readonly<Record<string, Operand | undefined>>;

/** A table for each operand that is there. */
type TablesOf<Operands> = { readonly [Name in keyof Operands]: Table | Extract<Operands[Name], undefined> };

/** Weights in one array of this name, laid so once for a session; operands that are none in arrays that are called as they are named. */
export const laidOnce = <Operands extends Named>(
  array: string,
  operands: Operands,
  recorder: WebgpuRecorder,
): TablesOf<Operands> => sideBySide(array, operands, ({ constant }) => constant, recorder);

/** The same for what the host knows before each run, laid so in every run: for few numbers that the steps of many layers read. */
export const laidEachRun = <Operands extends Named>(
  array: string,
  operands: Operands,
  recorder: WebgpuRecorder,
): TablesOf<Operands> => sideBySide(array, operands, (operand) => recorder.isOnHost(operand), recorder);

function sideBySide<Operands extends Named>(
  array: string,
  operands: Operands,
  canBeLaid: (operand: Operand) => boolean,
  recorder: WebgpuRecorder,
): TablesOf<Operands> {
  const all = Object.entries(operands).flatMap(([name, operand]) => (operand ? [[name, operand] as const] : []));
  const given = all.map(([, operand]) => operand);
  const { spans, words } = spansOf(given);
  const fits =
    given.length > 1 &&
    given.every((operand) => canBeLaid(operand) && operand.contiguous) &&
    spans.every(({ from }) => Number.isInteger(from)) &&
    4 * words <= recorder.device.mostBindingBytes;
  const form =
    fits &&
    recorder.form(
      given,
      `side by side from ${spans.map(({ from }) => from).join(" and ")}`,
      4 * words,
      (made) => layingDispatch(given, spans, made, recorder.device),
      spans.map(({ to }) => 4 * to),
    );
  const tables = all.map(([name, operand], at): [string, Table] => [
    name,
    form === false
      ? ownTable(name, operand)
      : { operand, array, of: form, offset: (4 * spans[at].to) / bytesOf(operand, 1) },
  ]);
  return Object.fromEntries(tables) as TablesOf<Operands>;
}

const bytesOf = ({ type }: Operand, elements: number): number => byteLengthOf(type, elements);

/** Where operands lie, and where they go to. */
function spansOf(operands: readonly Operand[]): { readonly spans: readonly Span[]; readonly words: number } {
  let end = 0;
  const spans = operands.map((operand) => {
    const to = end;
    const { offset, size } = operand.place;
    const bytes = bytesOf(operand, size);
    end += Math.ceil(bytes / alignment) * (alignment / 4);
    return { from: bytesOf(operand, offset) / 4, words: Math.ceil(bytes / 4), to };
  });
  return { spans, words: end };
}

function layingDispatch(
  operands: readonly Operand[],
  spans: readonly Span[],
  form: OperandForm,
  device: DeviceTraits,
): Dispatch {
  const numbers = (name: keyof Span): ReturnType<typeof listed> =>
    listed(
      name,
      spans.map((span) => span[name]),
    );
  const laid = variable("laid", form, { writes: true });
  const sources = operands.map((of, at) => variable(`source${at}`, of));
  const copies = sources.map(
    (source, at) => `if (index < p.words${at}) { ${laid.set(`p.to${at} + index`, source.at(`p.from${at} + index`))} }`,
  );
  return invocationsOf(device, {
    name: "sideBySide",
    parts: [laid, ...sources],
    parameters: { ...numbers("from"), ...numbers("words"), ...numbers("to") },
    count: Math.max(...spans.map(({ words }) => words)),
    body: `  ${copies.join("\n  ")}`,
  });
}
