/**
 * Rows on WebGPU: the elements along some axes, brought to a few numbers in phases, and what is made of them: one element a row, or every
 * element anew. A workgroup takes a row, or an invocation does where rows lie side by side.
 */
import type { Operand } from "../../../graph/kernel.js";
import type { Dispatch, Parameter, Temporary, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { invocationsOf, type ShaderPart, variable } from "../../../webgpu-kernels/shader-part.js";
import { isShaderType, listed, pack, packing, perWord, scalarOf, wordsOf } from "../../../webgpu-kernels/wgsl.js";
import { joinDimensions, type Layout, productOf } from "../rules/layout.js";

/** A number that a row is brought to. */
interface Phase {
  /** What nothing comes to. */
  readonly initial: string;
  /** WGSL of what the element `x` adds; `m0`, `m1`, … are the numbers of the phases before. */
  readonly term: string;
  readonly combine: (a: string, b: string) => string;
  /** So many neighbours are put together first, in a way of their own. */
  readonly run?: { readonly length: number; readonly combine: (a: string, b: string) => string };
}

/** The work on rows. */
export interface RowWork {
  readonly name: string;
  readonly input: Operand;
  readonly output: Operand;
  /** The axes that make a row, counted from the front. */
  readonly axes: readonly number[];
  readonly phases: readonly Phase[];
  /** WGSL of the result from `m0`, `m1`, …; where every element is made anew, of `x` too. */
  readonly result: string;
  readonly parameters?: Readonly<Record<string, Parameter>>;
  /** Parts that the phases and the result call. */
  readonly uses?: readonly ShaderPart[];
}

/** True, or why the work cannot be done. */
export function acceptsRows({ input, output, axes }: Pick<RowWork, "input" | "output" | "axes">): true | string {
  for (const { type } of [input, output]) if (!isShaderType(type)) return `${type} is no type of shaders`;
  if (productOf(axes.map((axis) => input.shape[axis])) === 0) return "the rows are empty";
  if (!output.contiguous) return "the output has gaps";
  return output.place.offset === 0 ? true : "the output begins inside of its buffer";
}

/** How rows lie in an operand. */
interface Rows {
  readonly kept: Layout;
  readonly along: Layout;
  readonly count: number;
  readonly length: number;
}

function rowsOf({ input: { shape, strides }, axes }: RowWork): Rows {
  const part = (own: readonly number[]): Layout =>
    joinDimensions(
      own.map((axis) => shape[axis]),
      [own.map((axis) => strides[axis])],
    );
  const rest = shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
  const [kept, along] = [part(rest), part(axes)];
  return { kept, along, count: productOf(kept.shape), length: productOf(along.shape) };
}

/** A function `<name>Place` that turns a number into a place, by the parameters of a layout. */
export const placeFunction = (name: string, { shape }: Layout): string => {
  const steps = shape.map((_, back) => {
    const axis = shape.length - 1 - back;
    return axis === 0
      ? `at += rest * p.${name}Stride0;`
      : `at += (rest % p.${name}${axis}) * p.${name}Stride${axis}; rest /= p.${name}${axis};`;
  });
  return `fn ${name}Place(number: u32) -> u32 { var rest = number; var at = 0u; ${steps.join(" ")} return at; }`;
};

/** The parameters that `placeFunction` reads. */
export const placeParameters = (
  name: string,
  { shape, strides: [strides] }: Layout,
): Readonly<Record<string, Parameter>> => ({
  ...listed(name, shape),
  ...listed(`${name}Stride`, strides),
});

/** Elements that an invocation has in flight. */
const inFlight = 4;

const declared = (phases: readonly Phase[], type: string): readonly string[] =>
  phases.map((_, at) => `m${at}: ${type}`);

/** What all forms share: places, elements, and each phase's term and combination as functions. */
function commonPart(work: RowWork, { kept, along }: Rows): ShaderPart {
  const { input, phases, uses = [] } = work;
  const scalar = scalarOf(input.type);
  const source = variable("source", input);
  const phaseFunctions = phases.map(({ initial, term, combine, run }, at) => {
    const before = declared(phases.slice(0, at), scalar);
    const given = ["k: u32", "start: u32", ...before].join(", ");
    const values = ["k", "start", ...before.map((_, each) => `m${each}`)];
    const one = `fn term${at}(${given}) -> ${scalar} { let x = elementAt(start, k); return ${term}; }
fn combine${at}(a: ${scalar}, b: ${scalar}) -> ${scalar} { return ${combine("a", "b")}; }`;
    if (run === undefined)
      return `${one}\nfn part${at}(${given}) -> ${scalar} { return term${at}(${values.join(", ")}); }`;
    return `${one}
fn part${at}(${given.replace("k: u32", "part: u32")}) -> ${scalar} {
  var a = ${initial};
  for (var k = part * ${run.length}u; k < min(p.length, (part + 1u) * ${run.length}u); k++) {
    let b = term${at}(${values.join(", ")});
    a = ${run.combine("a", "b")};
  }
  return a;
}`;
  });
  return {
    uses: [packing, ...uses, source],
    code: `${placeFunction("kept", kept)}
${placeFunction("along", along)}
fn elementAt(start: u32, k: u32) -> ${scalar} { return ${source.load("start + alongPlace(k)")}; }
${phaseFunctions.join("\n")}`,
  };
}

/** The number of parts of a phase: elements, or runs of them. */
const partsOf = ({ run }: Phase): string =>
  run === undefined ? "p.length" : `((p.length + ${run.length - 1}u) / ${run.length}u)`;

/** A phase by one invocation. */
const aloneCode = (phase: Phase, at: number): string => {
  const before = Array.from({ length: at }, (_, each) => `, m${each}`).join("");
  return `var m${at} = ${phase.initial};
    for (var k = 0u; k < ${partsOf(phase)}; k++) { m${at} = combine${at}(m${at}, part${at}(k, start${before})); }`;
};

/** A phase by a workgroup: each invocation has several loads in flight, then halves are put together. */
const sharedCode = (phase: Phase, at: number, size: number): string => {
  const before = Array.from({ length: at }, (_, each) => `, m${each}`).join("");
  const lanes = Array.from({ length: inFlight }, (_, lane) => lane);
  return `var own${at} = array(${lanes.map(() => phase.initial).join(", ")});
    for (var first = 0u; first < ${partsOf(phase)}; first += ${inFlight * size}u) {
      ${lanes
        .map(
          (lane) => `{ let k = first + ${lane * size}u + local;
        if (k < ${partsOf(phase)}) { own${at}[${lane}] = combine${at}(own${at}[${lane}], part${at}(k, start${before})); } }`,
        )
        .join("\n      ")}
    }
    let m${at} = together${at}(${lanes.map((lane) => `own${at}[${lane}]`).reduce((a, b) => `combine${at}(${a}, ${b})`)}, local);`;
};

const togetherCode = (phases: readonly Phase[], scalar: string, size: number): string => `
var<workgroup> halves: array<${scalar}, ${size}>;
${phases
  .map(
    (_, at) => `fn together${at}(own: ${scalar}, local: u32) -> ${scalar} {
  halves[local] = own;
  workgroupBarrier();
  for (var half = ${size / 2}u; half > 0u; half >>= 1u) {
    if (local < half) { halves[local] = combine${at}(halves[local], halves[local + half]); }
    workgroupBarrier();
  }
  let all = halves[0];
  workgroupBarrier();
  return all;
}`,
  )
  .join("\n")}`;

const sizeFor = (length: number): number => (length >= 512 ? 256 : 64);

function rowParameters(work: RowWork, rows: Rows): Record<string, Parameter> {
  return {
    rows: rows.count,
    length: rows.length,
    offset: work.input.place.offset,
    ...placeParameters("kept", rows.kept),
    ...placeParameters("along", rows.along),
    ...work.parameters,
  };
}

/** The dispatch that brings each row to one element of the output. */
export function reduceRows(work: RowWork, recorder: WebgpuRecorder): Dispatch {
  const { name, input, output, phases, result } = work;
  const rows = rowsOf(work);
  const scalar = scalarOf(input.type);
  const words = wordsOf(output.type, rows.count);
  // Neighbours lie in different rows: invocations that take one each load them together.
  const sideBySide = (rows.along.strides[0].at(-1) ?? 0) !== 1 || rows.length < 16;
  const size = sideBySide ? 64 : sizeFor(rows.length);
  const elements = Array.from({ length: perWord(output.type) }, (_, at) => at);
  const rowCode = elements.map(
    (at) => `var e${at}: ${scalarOf(output.type)};
  { let start = p.offset + keptPlace(min(word * ${elements.length}u + ${at}u, p.rows - 1u));
    ${phases.map((phase, each) => (sideBySide ? aloneCode(phase, each) : sharedCode(phase, each, size))).join("\n    ")}
    e${at} = ${result}; }`,
  );
  const body = `let word = ${sideBySide ? "index" : "group.y * groups.x + group.x"};
  if (word >= p.words) { return; }
  ${rowCode.join("\n  ")}
  ${sideBySide ? "" : "if (local == 0u) "}{ result[word] = ${pack(
    output.type,
    elements.map((at) => `e${at}`),
  )}; }`;
  return invocationsOf(recorder.device, {
    name,
    parts: [
      commonPart(work, rows),
      sideBySide ? undefined : { code: togetherCode(phases, scalar, size) },
      variable("result", output, { writes: true }),
    ],
    parameters: { ...rowParameters(work, rows), words },
    count: sideBySide ? words : words * size,
    size,
    body,
  });
}

/** Records the dispatches that make every element of rows anew. */
export function mapRows(work: RowWork, recorder: WebgpuRecorder): void {
  const { input, output, axes } = work;
  const rows = rowsOf(work);
  const first = output.shape.length - axes.length;
  const trailing = axes.every((axis, at) => axis === first + at);
  // Many short rows would leave most of a workgroup idle.
  const short = rows.length < 32 && rows.count > 64;
  if (trailing && !short && rows.length % perWord(output.type) === 0)
    return recorder.dispatch(mapWholeRows(work, rows, recorder));
  const numbers = recorder.temporary(4 * rows.count * work.phases.length);
  recorder.dispatch(rowNumbers(work, rows, numbers, recorder));
  recorder.dispatch(mapByNumbers(work, rows, numbers, recorder, input.shape));
}

/** A workgroup for each row, which lies in whole words of the output. */
function mapWholeRows(work: RowWork, rows: Rows, { device }: WebgpuRecorder): Dispatch {
  const { name, input, output, phases, result } = work;
  const size = sizeFor(rows.length);
  const scalar = scalarOf(input.type);
  const per = perWord(output.type);
  const elements = Array.from({ length: per }, (_, at) => at);
  const body = `let row = group.y * groups.x + group.x;
  if (row >= p.rows) { return; }
  let start = p.offset + keptPlace(row);
  ${phases.map((phase, at) => sharedCode(phase, at, size)).join("\n  ")}
  for (var word = local; word < p.words; word += ${size}u) {
    ${elements
      .map(
        (at) => `var e${at}: ${scalarOf(output.type)};
    { let x = elementAt(start, word * ${per}u + ${at}u); e${at} = ${result}; }`,
      )
      .join("\n    ")}
    result[row * p.words + word] = ${pack(
      output.type,
      elements.map((at) => `e${at}`),
    )};
  }`;
  return invocationsOf(device, {
    name,
    parts: [
      commonPart(work, rows),
      { code: togetherCode(phases, scalar, size) },
      variable("result", output, { writes: true }),
    ],
    parameters: { ...rowParameters(work, rows), words: rows.length / per },
    count: rows.count * size,
    size,
    body,
  });
}

/** The numbers of each row, into memory for the next dispatch. */
function rowNumbers(work: RowWork, rows: Rows, numbers: Temporary, { device }: WebgpuRecorder): Dispatch {
  const { name, phases } = work;
  const body = `if (index >= p.rows) { return; }
  let start = p.offset + keptPlace(index);
  ${phases.map(aloneCode).join("\n  ")}
  ${phases.map((_, at) => `numbers[index * ${phases.length}u + ${at}u] = bitcast<u32>(m${at});`).join("\n  ")}`;
  return invocationsOf(device, {
    name,
    parts: [commonPart(work, rows), variable("numbers", numbers, { writes: true })],
    parameters: rowParameters(work, rows),
    count: rows.count,
    body,
  });
}

/** Every element by the numbers of its row, a word an invocation. */
function mapByNumbers(
  work: RowWork,
  rows: Rows,
  numbers: Temporary,
  { device }: WebgpuRecorder,
  shape: readonly number[],
): Dispatch {
  const { name, input, output, axes, phases, result } = work;
  const scalar = scalarOf(input.type);
  const source = variable("source", input);
  const words = wordsOf(output.type, output.place.size);
  const elements = Array.from({ length: perWord(output.type) }, (_, at) => at);
  let rowStep = 1;
  const steps = shape.map(() => 0);
  for (let axis = shape.length - 1; axis >= 0; axis--)
    if (!axes.includes(axis)) {
      steps[axis] = rowStep;
      rowStep *= shape[axis];
    }
  const layout = joinDimensions(shape, [input.strides, steps]);
  const walk = (strides: readonly number[]): Layout => ({ shape: layout.shape, strides: [strides] });
  const body = `if (index >= p.words) { return; }
  ${elements
    .map(
      (at) => `var e${at}: ${scalarOf(output.type)};
  { let element = min(index * ${elements.length}u + ${at}u, p.count - 1u);
    let row = rowPlace(element);
    let x = ${source.load("p.offset + elementPlace(element)")};
    ${phases.map((_, each) => `let m${each} = bitcast<${scalar}>(numbers[row * ${phases.length}u + ${each}u]);`).join(" ")}
    e${at} = ${result}; }`,
    )
    .join("\n  ")}
  result[index] = ${pack(
    output.type,
    elements.map((at) => `e${at}`),
  )};`;
  const [elementWalk, rowWalk] = layout.strides.map(walk);
  return invocationsOf(device, {
    name,
    parts: [
      packing,
      ...(work.uses ?? []),
      { code: `${placeFunction("element", elementWalk)}\n${placeFunction("row", rowWalk)}` },
      source,
      variable("numbers", numbers),
      variable("result", output, { writes: true }),
    ],
    parameters: {
      words,
      count: output.place.size,
      length: rows.length,
      offset: input.place.offset,
      ...placeParameters("element", elementWalk),
      ...placeParameters("row", rowWalk),
      ...work.parameters,
    },
    count: words,
    body,
  });
}
