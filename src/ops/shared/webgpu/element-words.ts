/** Shaders that compute an output element by element, each from its position alone. */
import type { Operand } from "../../../graph/kernel.js";
import { invocationsOf, type ShaderPart, variable } from "../../../webgpu-kernels/shader-part.js";
import type { DeviceTraits, Dispatch, Parameter } from "../../../webgpu-kernels/webgpu-kernel.js";
import { pack, packing, perWord, range, scalarOf, wordsOf } from "../../../webgpu-kernels/wgsl.js";

/** The work of such a shader. */
interface ElementWords {
  readonly name: string;
  /** Without gaps, from the start of a word. */
  readonly output: Operand;
  /** The body of a function from `element`, its row-major position, to its value in the output's scalar. */
  readonly body: string;
  /** What it reads and calls. */
  readonly parts: readonly (ShaderPart | undefined)[];
  readonly parameters: Readonly<Record<string, Parameter>>;
}

/** The dispatch of such work: an invocation for each word of the output. */
export function elementWords(device: DeviceTraits, { name, output, body, parts, parameters }: ElementWords): Dispatch {
  const count = output.place.size;
  const [each, words] = [perWord(output.type), wordsOf(output.type, count)];
  const values = range(each).map((at) => `elementAt(min(index * ${each}u + ${at}u, p.count - 1u))`);
  const elementAt = `fn elementAt(element: u32) -> ${scalarOf(output.type)} {\n${body}\n}`;
  return invocationsOf(device, {
    name,
    parts: [packing, ...parts, { code: elementAt }, variable("result", output, { writes: true })],
    parameters: { count, words, resultOffset: output.place.offset, ...parameters },
    count: words,
    body: `if (index >= p.words) { return; }
  result[p.resultOffset / ${each}u + index] = ${pack(output.type, values)};`,
  });
}
