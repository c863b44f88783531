/**
 * What shaders are made of. A part is WGSL with all that it needs to be there: bindings, parameters, other parts. A variable is the part that is one
 * storage array: it knows how its elements lie, also where they lie in several buffers. `dispatchOf` makes a dispatch of parts, `invocationsOf` one with an
 * invocation for each of a count. `textOf` keeps long texts by what decides them.
 */
import type { ElementType } from "../tensor/element-type.js";
import type { Binding, DeviceTraits, Dispatch, Extension, Parameter, Pieces } from "./webgpu-kernel.js";
import { entry, fourOf, read, readIndex, workgroupsFor } from "./wgsl.js";

/** A part of a shader. */
export interface ShaderPart {
  /** Declarations: functions, structures, workgroup memory. What several parts declare alike is declared once. */
  readonly code?: string;
  /** What several parts bind under one name is one binding. */
  readonly bindings?: readonly Binding[];
  readonly parameters?: Readonly<Record<string, Parameter>>;
  readonly extensions?: readonly Extension[];
  /** Parts that it calls or reads. */
  readonly uses?: readonly (ShaderPart | undefined)[];
}

/** How a variable lies, where its operand does not say it. */
interface VariableForm {
  /** What it is an array of, in WGSL; "four" is the words of four elements. "u32" where left out. */
  readonly element?: string;
  /** The type of its elements: the operand's where left out. */
  readonly type?: ElementType;
  readonly writes?: boolean;
}

/** A storage array. */
export class Variable implements ShaderPart {
  readonly name: string;
  readonly element: string;
  readonly bindings: readonly Binding[];
  /** Functions that find the piece, where there are several. */
  readonly code: string;
  readonly #type: ElementType | undefined;
  readonly #isWhole: boolean;

  constructor(name: string, of: Binding["of"], { element = "u32", type, writes = false }: VariableForm = {}) {
    this.name = name;
    this.#type = type ?? ("type" in of ? of.type : undefined);
    this.element = element === "four" ? fourOf(this.#typed).element : element;
    const pieces = piecesOf(of);
    this.#isWhole = pieces === undefined;
    const own = { of, element: this.element, writes };
    this.bindings =
      pieces === undefined
        ? [{ name, ...own }]
        : Array.from({ length: pieces.count }, (_, piece) => ({ name: `${name}_${piece}`, ...own, piece }));
    this.code = pieces === undefined ? "" : pieceFunctions(name, this.element, pieces, writes);
  }

  get #typed(): ElementType {
    if (this.#type === undefined) throw new RangeError(`the elements of ${this.name} have no type`);
    return this.#type;
  }

  /** Item `index` of the array, as WGSL. */
  at(index: string): string {
    return this.#isWhole ? `${this.name}[${index}]` : `${this.name}_at(u32(${index}))`;
  }

  /** A statement that writes item `index` of the array. */
  set(index: string, value: string): string {
    return this.#isWhole ? `${this.name}[${index}] = ${value};` : `${this.name}_set(u32(${index}), ${value});`;
  }

  /** The element at an index of the whole array, as the scalar of its type: an operand's offset is not added. */
  load(index: string): string {
    return read(this.#typed, this, index);
  }

  /** The index that an int32 or int64 is. */
  loadIndex(index: string): string {
    return readIndex(this.#typed, this, index);
  }

  /** The four elements of item `index`, as vec4f. The variable is an array of fours. */
  loadFour(index: string): string {
    return fourOf(this.#typed).unpack(this.at(index));
  }

  /** A statement that writes the four elements of a vec4f; it needs `packing`. */
  storeFour(index: string, value: string): string {
    return this.set(index, fourOf(this.#typed).pack(value));
  }
}

/** A variable. */
export const variable = (name: string, of: Binding["of"], form?: VariableForm): Variable =>
  new Variable(name, of, form);

/** How something lies in several buffers; undefined where it lies in one. */
const piecesOf = (of: Binding["of"]): Pieces | undefined =>
  (("place" in of ? of.place.buffer : of) as { readonly inPieces?: Pieces }).inPieces;

/** Pieces for so many bytes where one binding holds `most`; undefined where one suffices. */
export function piecesFor(bytes: number, most: number): Pieces | undefined {
  const each = Math.floor(most / 256) * 256;
  return bytes <= most ? undefined : { count: Math.ceil(bytes / each), bytes: each };
}

/** Functions that read and write item `i` of what lies in pieces, `name_0` and so on. */
function pieceFunctions(name: string, element: string, { count, bytes }: Pieces, writes: boolean): string {
  const vector = /^(?:vec([24])<)?[fui]32>?$/.exec(element);
  if (vector === null) throw new RangeError(`arrays of ${element} do not lie in pieces`);
  const size = bytes / (4 * Number(vector[1] ?? 1));
  const places = Array.from({ length: count }, (_, at) => ({
    array: at === 0 ? `${name}_0[i]` : `${name}_${at}[i - ${at * size}u]`,
    test: at === count - 1 ? "" : `if (i < ${(at + 1) * size}u) `,
  }));
  const reading = places.map(({ array, test }) => `  ${test}{ return ${array}; }`).join("\n");
  const writing = places.map(({ array, test }) => `  ${test}{ ${array} = value; return; }`).join("\n");
  return `fn ${name}_at(i: u32) -> ${element} {\n${reading}\n}${
    writes ? `\nfn ${name}_set(i: u32, value: ${element}) {\n${writing}\n}` : ""
  }`;
}

/** What a dispatch is made of: parts, and code and parameters of its own, which has `main`. */
interface DispatchWork extends Pick<Dispatch, "name" | "workgroups" | "fixed" | "open" | "only"> {
  readonly parts: readonly (ShaderPart | undefined)[];
  readonly code: string;
  readonly parameters?: Readonly<Record<string, Parameter>>;
  readonly extensions?: readonly Extension[];
}

/** Parts with all that they use, together: what is declared or bound twice is there once. */
function joined(
  parts: DispatchWork["parts"],
): Pick<Dispatch, "code" | "key" | "bindings" | "parameters" | "extensions"> {
  const codes = new Set<string>();
  const bindings = new Map<string, Binding>();
  const given: Record<string, Parameter> = {};
  const needed = new Set<Extension>();
  const take = (part: ShaderPart | undefined): void => {
    if (part === undefined) return;
    part.uses?.forEach(take);
    if (part.code !== undefined && part.code !== "") codes.add(part.code);
    for (const binding of part.bindings ?? []) if (!bindings.has(binding.name)) bindings.set(binding.name, binding);
    Object.assign(given, part.parameters);
    for (const extension of part.extensions ?? []) needed.add(extension);
  };
  parts.forEach(take);
  return {
    code: [...codes].join("\n"),
    key: [...codes].map(numberOf).join(" "),
    bindings: [...bindings.values()],
    parameters: given,
    extensions: [...needed],
  };
}

const numbers = new Map<string, number>();

/** The number of a text, the same for equal texts alone. */
function numberOf(text: string): number {
  const known = numbers.get(text) ?? numbers.size;
  numbers.set(text, known);
  return known;
}

/** The dispatch of parts. */
export const dispatchOf = ({ parts, code, parameters = {}, extensions = [], ...given }: DispatchWork): Dispatch => ({
  ...given,
  ...joined([...parts, { code, parameters, extensions }]),
});

/** How many buffers parts bind. */
export const bindingCount = (parts: readonly ShaderPart[]): number => joined(parts).bindings.length;

/** The work of a dispatch whose invocations have a number each. */
interface InvocationsWork extends Omit<DispatchWork, "code" | "workgroups"> {
  readonly count: number;
  /** Invocations of a workgroup; 64 where left out. */
  readonly size?: number;
  /** The body of `main`; `index` is the invocation's number, which may be the count or beyond. */
  readonly body: string;
}

/** The dispatch of an invocation for each of a count. */
export const invocationsOf = (
  { mostWorkgroups }: Pick<DeviceTraits, "mostWorkgroups">,
  { count, size = 64, body, ...work }: InvocationsWork,
): Dispatch => dispatchOf({ ...work, code: entry(size, body), workgroups: workgroupsFor(count, size, mostWorkgroups) });

/** Texts that are kept: a model has some tens of shaders. */
const mostTexts = 512;

const texts = new Map<string, string>();

/** Whether each text that is kept is compared with what would be written anew, as the kernel suites have it: equal settings must mean equal texts. */
export const checking = { texts: false };

/** The text of a template, by what decides it: one that is known is not written out again. `settings` are plain values, all that `make` goes by. */
export function textOf(template: string, settings: readonly unknown[], make: () => string): string {
  const key = `${template} ${JSON.stringify(settings)}`;
  const known = texts.get(key);
  if (known !== undefined) {
    if (checking.texts && make() !== known) throw new RangeError(`${key} does not tell all that its text goes by`);
    return known;
  }
  if (texts.size >= mostTexts) texts.clear();
  const text = make();
  texts.set(key, text);
  return text;
}
