/**
 * Elementwise work on WebGPU: one expression for each element of the output, operands broadcast by their strides. Where the innermost
 * elements lie together, an invocation takes four of them by one load for each operand; else it takes as many as fill a word.
 */
import type { CallOf, Operand, Served } from "../../../graph/kernel.js";
import { invocationsOf, type Variable, variable } from "../../../webgpu-kernels/shader-part.js";
import type { DeviceTraits, Dispatch, Parameter } from "../../../webgpu-kernels/webgpu-kernel.js";
import { type WebgpuKernel, webgpuKernel } from "../../../webgpu-kernels/webgpu-kernel.js";
import {
  isShaderType,
  listed,
  pack,
  packing,
  packFour,
  perWord,
  readFour,
  scalarOf,
  wordsOf,
} from "../../../webgpu-kernels/wgsl.js";
import { joinDimensions, type Layout } from "../rules/layout.js";
import { type FunctionName, functionsPart } from "./functions.js";

/** What an elementwise kernel computes. */
export interface Elementwise {
  readonly name: string;
  readonly output: Operand;
  /** Operands by the names that the expression uses. */
  readonly inputs: Readonly<Record<string, Operand>>;
  /**
   * WGSL of one element; the operands are values of their types' scalars, `p` has the parameters. The result is of the output's scalar.
   */
  readonly expression: string;
  /** Functions of `functions.ts` that it calls. */
  readonly calls?: readonly FunctionName[];
  readonly parameters?: Readonly<Record<string, Parameter>>;
}

/** Operands that a dispatch binds at most, beside its output. */
const mostOperands = 7;

/** True, or why the work cannot be done. */
function acceptsElementwise({ output, inputs }: Pick<Elementwise, "output" | "inputs">): true | string {
  for (const { type } of [output, ...Object.values(inputs)])
    if (!isShaderType(type)) return `${type} is no type of shaders`;
  if (Object.keys(inputs).length > mostOperands) return `there are more than ${mostOperands} operands`;
  if (!output.contiguous) return "the output has gaps";
  return output.place.offset === 0 ? true : "the output begins inside of its buffer";
}

/** A kernel whose calls come down to elementwise work; `describe` says to which, or why not. */
export const elementwiseKernel = <const Ops extends Served>(
  ops: Ops,
  describe: (call: CallOf<Ops[number]>) => Elementwise | string,
): WebgpuKernel =>
  webgpuKernel(ops, {
    accepts(call) {
      const work = describe(call);
      return typeof work === "string" ? work : acceptsElementwise(work);
    },
    record(call, recorder) {
      const work = describe(call);
      if (typeof work !== "string" && work.output.place.size > 0) recorder.dispatch(elementwise(work, recorder.device));
    },
  });

/** The dispatch of elementwise work on at least one element. */
function elementwise(work: Elementwise, device: DeviceTraits): Dispatch {
  const { name, output, inputs, expression, calls = [], parameters = {} } = work;
  const names = Object.keys(inputs);
  const layout = joinDimensions(
    output.shape,
    names.map((each) => broadcastStrides(inputs[each], output.shape)),
  );
  const quads = isInQuads(layout, Object.values(inputs));
  const count = output.place.size;
  const invocations = quads ? count / 4 : wordsOf(output.type, count);
  const operands = names.map((each) => `${each}: ${scalarOf(inputs[each].type)}`);
  const arrays = names.map((each, at) =>
    variable(`${each}_`, inputs[each], { element: quads && layout.strides[at].at(-1) === 1 ? "four" : "u32" }),
  );
  const compute = `fn compute(${operands.join(", ")}) -> ${scalarOf(output.type)} { return ${expression}; }`;
  const result = variable("result", output, { writes: true, element: quads ? "four" : "u32" });
  return invocationsOf(device, {
    name,
    parts: [packing, functionsPart(...calls), { code: compute }, ...arrays, result],
    parameters: {
      invocations,
      count,
      ...Object.fromEntries(names.map((each) => [`${each}Offset`, inputs[each].place.offset])),
      ...listed("shape", layout.shape),
      ...Object.assign({}, ...names.map((each, at) => listed(each, layout.strides[at]))),
      ...parameters,
    },
    count: invocations,
    body: quads ? quadBody(work, layout, arrays) : wordBody(work, layout, arrays),
  });
}

/** True if four elements of the output that lie together do so, or are one, in every operand. */
function isInQuads({ shape, strides }: Layout, operands: readonly Operand[]): boolean {
  const inner = shape.at(-1) ?? 1;
  return (
    inner % 4 === 0 &&
    operands.every(({ place }, at) => {
      const own = strides[at];
      const whole = place.offset % 4 === 0 && own.slice(0, -1).every((stride) => stride % 4 === 0);
      return own.at(-1) === 0 || (own.at(-1) === 1 && whole);
    })
  );
}

/** Statements that find `at_<operand>` of an element, the innermost strides as they are in the code where they are told. */
function places(names: readonly string[], rank: number, element: string, innermost?: readonly number[]): string {
  const lines = [...names.map((each) => `var at_${each} = p.${each}Offset;`), `var rest = ${element};`];
  for (let axis = rank - 1; axis >= 0; axis--) {
    const moves = names.map((each, at) => {
      const literal = axis === rank - 1 ? innermost?.[at] : undefined;
      if (literal === 0) return "";
      return literal === 1 ? `at_${each} += c;` : `at_${each} += c * p.${each}${axis};`;
    });
    const coordinate = axis === 0 ? "let c = rest;" : `let c = rest % p.shape${axis}; rest /= p.shape${axis};`;
    lines.push(`{ ${coordinate} ${moves.join(" ")} }`);
  }
  return lines.join("\n  ");
}

/** An invocation of four elements. */
function quadBody({ output, inputs }: Elementwise, { shape, strides }: Layout, arrays: readonly Variable[]): string {
  const names = Object.keys(inputs);
  const innermost = strides.map((own) => own.at(-1)!);
  const loads: string[] = [];
  const elements = names.map((each, at) => {
    if (innermost[at] === 0) {
      loads.push(`let one_${each} = ${arrays[at].load(`at_${each}`)};`);
      return Array.from({ length: 4 }, () => `one_${each}`);
    }
    const quad = readFour(inputs[each].type, arrays[at], `at_${each}`, `words_${each}`);
    loads.push(quad.load);
    return quad.elements;
  });
  const results = [0, 1, 2, 3].map((lane) => `compute(${elements.map((each) => each[lane]).join(", ")})`);
  return `
  if (index >= p.invocations) { return; }
  ${places(names, shape.length, "4u * index", innermost)}
  ${loads.join("\n  ")}
  ${results.map((value, lane) => `let e${lane} = ${value};`).join("\n  ")}
  result[index] = ${packFour(output.type, ["e0", "e1", "e2", "e3"])};`;
}

/** An invocation of a word. Behind the last element it is repeated, so that nothing else is read. */
function wordBody({ output, inputs }: Elementwise, { shape }: Layout, arrays: readonly Variable[]): string {
  const names = Object.keys(inputs);
  const size = perWord(output.type);
  const elements = Array.from({ length: size }, (_, at) => {
    const element = size === 1 ? "index" : `min(index * ${size}u + ${at}u, p.count - 1u)`;
    const values = names.map((each, operand) => arrays[operand].load(`at_${each}`));
    return `var e${at}: ${scalarOf(output.type)};
  { ${places(names, shape.length, element)}
  e${at} = compute(${values.join(", ")}); }`;
  });
  return `
  if (index >= p.invocations) { return; }
  ${elements.join("\n  ")}
  result[index] = ${pack(
    output.type,
    elements.map((_, at) => `e${at}`),
  )};`;
}

/** Strides of an operand over the output's shape; 0 where it is repeated. */
function broadcastStrides({ shape, strides }: Operand, over: readonly number[]): readonly number[] {
  const lead = over.length - shape.length;
  return over.map((dim, axis) => (axis < lead || (shape[axis - lead] === 1 && dim !== 1) ? 0 : strides[axis - lead]));
}
