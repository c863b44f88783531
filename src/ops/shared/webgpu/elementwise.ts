/** Elementwise work on WebGPU: one expression for each element of the output, operands broadcast by their strides. */
import type { Operand } from "../../../graph/kernel.js";
import type { DeviceTraits, Dispatch, Parameter } from "../../../webgpu-kernels/webgpu-kernel.js";
import {
  entry,
  isShaderType,
  listed,
  pack,
  packing,
  perWord,
  read,
  scalarOf,
  workgroupsFor,
  wordsOf,
} from "../../../webgpu-kernels/wgsl.js";

/** What an elementwise kernel computes. */
interface Elementwise {
  readonly name: string;
  readonly output: Operand;
  /** Operands by the names that the expression uses. */
  readonly inputs: Readonly<Record<string, Operand>>;
  /** WGSL of one element; the operands are values of their types' scalars. The result is of the output's scalar. */
  readonly expression: string;
  /** Functions that the expression calls. */
  readonly functions?: string;
  readonly parameters?: Readonly<Record<string, Parameter>>;
}

/** True, or why the work cannot be done. */
export function acceptsElementwise({ output, inputs }: Pick<Elementwise, "output" | "inputs">): true | string {
  for (const { type } of [output, ...Object.values(inputs)])
    if (!isShaderType(type)) return `${type} is no type of shaders`;
  if (!output.contiguous) return "the output has gaps";
  return true;
}

/** The dispatch of elementwise work. */
export function elementwise(work: Elementwise, { mostWorkgroups }: DeviceTraits): Dispatch {
  const { name, output, inputs, expression, functions = "", parameters = {} } = work;
  const names = Object.keys(inputs);
  const rank = output.shape.length;
  const count = output.place.size;
  const alike = Object.values(inputs).every(
    ({ contiguous, shape }) =>
      contiguous && shape.length === rank && shape.every((dim, axis) => dim === output.shape[axis]),
  );
  const strides = Object.fromEntries(names.map((each) => [each, broadcastStrides(inputs[each], output.shape)]));
  const places = alike
    ? names.map((each) => `let at_${each} = p.${each}Offset + element;`).join("\n")
    : [
        ...names.map((each) => `var at_${each} = p.${each}Offset;`),
        "var rest = element;",
        ...Array.from({ length: rank }, (_, back) => {
          const axis = rank - 1 - back;
          const moves = names.map((each) => `at_${each} += c * p.${each}${axis};`).join(" ");
          return `{ let c = rest % p.shape${axis}; rest /= p.shape${axis}; ${moves} }`;
        }),
      ].join("\n");
  const size = perWord(output.type);
  const scalar = scalarOf(output.type);
  const body = `
  if (index >= p.words) { return; }
  ${Array.from({ length: size }, (_, at) => `let e${at} = valueAt(min(index * ${size}u + ${at}u, p.count - 1u));`).join("\n  ")}
  result[index] = ${pack(
    output.type,
    Array.from({ length: size }, (_, at) => `e${at}`),
  )};`;
  const code = `${packing}
${functions}
fn valueAt(element: u32) -> ${scalar} {
${places}
${names.map((each) => `let ${each} = ${read(inputs[each].type, `${each}_`, `at_${each}`)};`).join("\n")}
  return ${expression};
}
${entry(64, body)}`;
  const words = wordsOf(output.type, count);
  return {
    name,
    code,
    bindings: [
      ...names.map((each) => ({ name: `${each}_`, of: inputs[each] })),
      { name: "result", of: output, writes: true },
    ],
    parameters: {
      words,
      count,
      ...Object.fromEntries(names.map((each) => [`${each}Offset`, inputs[each].place.offset])),
      ...(alike
        ? {}
        : {
            ...listed("shape", output.shape),
            ...Object.assign({}, ...names.map((each) => listed(each, strides[each]))),
          }),
      ...parameters,
    },
    workgroups: workgroupsFor(words, 64, mostWorkgroups),
  };
}

/** Strides of an operand over the output's shape; 0 where it is repeated. */
function broadcastStrides({ shape, strides }: Operand, over: readonly number[]): readonly number[] {
  const lead = over.length - shape.length;
  return over.map((dim, axis) => (axis < lead || (shape[axis - lead] === 1 && dim !== 1) ? 0 : strides[axis - lead]));
}
