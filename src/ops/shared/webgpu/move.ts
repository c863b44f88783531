/** Moving elements on WebGPU: an output is filled unit by unit from its operands, which are not looked at. */
import type { CallOf, Operand, Served } from "../../../graph/kernel.js";
import {
  type DeviceTraits,
  type Dispatch,
  type Parameter,
  type WebgpuKernel,
  webgpuKernel,
} from "../../../webgpu-kernels/webgpu-kernel.js";
import { invocationsOf, type Variable, variable } from "../../../webgpu-kernels/shader-part.js";
import { listed } from "../../../webgpu-kernels/wgsl.js";
import type { Layout } from "../rules/layout.js";
import { movableType, type Units, unitsOf } from "./units.js";

/** How one output is filled. */
export interface Filling {
  readonly name: string;
  readonly output: Operand;
  readonly units: Units;
  /** What units are taken from, one for each side of the units, by name. */
  readonly sources: Readonly<Record<string, Operand>>;
  /** Operands that are looked at. */
  readonly indices?: readonly Variable[];
  /**
   * WGSL that returns the unit number `index` of the output, a `Unit`. Its coordinates are `c0`, `c1`, …; `at_<source>` is what they lead to,
   * and `unitOf_<source>(at)` reads there.
   */
  readonly value: string;
  readonly parameters?: Readonly<Record<string, Parameter>>;
}

/** Operands that a dispatch binds at most, beside its output. */
const mostOperands = 7;

function accepts({ output, sources, indices = [] }: Filling): true | string {
  const type = movableType(output.type);
  if (type !== true) return type;
  if (Object.keys(sources).length + indices.length > mostOperands)
    return `there are more than ${mostOperands} operands`;
  if (!output.contiguous) return "the output has gaps";
  return output.place.offset === 0 ? true : "the output begins inside of its buffer";
}

/** A kernel whose calls come down to filling outputs; `describe` says how, or why not. */
export const movingKernel = <const Ops extends Served>(
  ops: Ops,
  describe: (call: CallOf<Ops[number]>) => readonly Filling[] | string,
): WebgpuKernel =>
  webgpuKernel(ops, {
    accepts(call) {
      const fillings = describe(call);
      if (typeof fillings === "string") return fillings;
      return fillings.map(accepts).find((answer) => answer !== true) ?? true;
    },
    record(call, recorder) {
      const fillings = describe(call);
      if (typeof fillings === "string") return;
      for (const filling of fillings)
        if (filling.output.place.size > 0) recorder.dispatch(fill(filling, recorder.device));
    },
  });

/** A part of an operand, as it is read: any strides over the shape of what it fills. */
interface Part extends Layout {
  readonly offset: number;
}

/** An output that is a part of its operand, in the order of the part. */
export function copied(
  name: string,
  source: Operand,
  { shape, strides: [strides], offset }: Part,
  output: Operand,
): Filling {
  const units = unitsOf({ type: output.type, groups: [{ shape, strides: [strides] }], offsets: [offset] });
  return { name, output, units, sources: { source }, value: "return unitOf_source(at_source);" };
}

/** The dispatch that fills an output of at least one element. */
export function fill(filling: Filling, device: DeviceTraits): Dispatch {
  const { name, output, units, sources, indices = [], value, parameters = {} } = filling;
  const { unit, bits, shape, count } = units;
  const names = Object.keys(sources);
  const perWord = unit === "element" ? 32 / bits : 1;
  const element = unit === "quad" ? "vec4<u32>" : "u32";
  const coordinates = shape.map((_, back) => {
    const axis = shape.length - 1 - back;
    return axis === 0 ? "let c0 = rest;" : `let c${axis} = rest % p.shape${axis}; rest /= p.shape${axis};`;
  });
  const places = names.map(
    (each) =>
      `let at_${each} = ${[`p.${each}Offset`, ...shape.map((_, axis) => `c${axis} * p.${each}${axis}`)].join(" + ")};`,
  );
  const words = Math.ceil(count / perWord);
  const parts = Array.from(
    { length: perWord },
    (_, at) => `((unitAt(min(index * ${perWord}u + ${at}u, p.count - 1u)) & ${2 ** bits - 1}u) << ${bits * at}u)`,
  );
  const arrays = names.map((each) => variable(`${each}_`, sources[each], { element }));
  const result = variable("result", output, { writes: true, element });
  const code = `alias Unit = ${element};
${names.map((each, at) => `fn unitOf_${each}(at: u32) -> Unit { return ${readUnit(units, arrays[at])}; }`).join("\n")}
fn unitAt(index: u32) -> Unit {
  var rest = index;
  ${[...coordinates, ...places].join("\n  ")}
  ${value}
}`;
  return invocationsOf(device, {
    name,
    parts: [...arrays, ...indices, { code }, result],
    parameters: {
      words,
      count,
      ...listed("shape", shape),
      ...Object.fromEntries(names.map((each, side) => [`${each}Offset`, units.offsets[side]])),
      ...Object.assign({}, ...names.map((each, side) => listed(each, units.strides[side]))),
      ...parameters,
    },
    count: words,
    body: `if (index >= p.words) { return; }\n  result[index] = ${unit === "element" ? parts.join(" | ") : "unitAt(index)"};`,
  });
}

/** The unit at `at` of an array. */
function readUnit({ unit, bits }: Units, array: Variable): string {
  if (unit !== "element") return array.at("at");
  return `extractBits(${array.at(`at / ${32 / bits}u`)}, ${bits}u * (at % ${32 / bits}u), ${bits}u)`;
}
