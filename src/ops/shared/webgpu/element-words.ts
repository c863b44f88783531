/** Shaders that compute an output element by element, each from its position alone. */
import type { Operand } from "../../../graph/kernel.js";
import type { Binding, Dispatch, Parameter } from "../../../webgpu-kernels/webgpu-kernel.js";
import { entry, pack, packing, perWord, scalarOf, wordsOf, workgroupsFor } from "../../../webgpu-kernels/wgsl.js";
import { functionsFor } from "./functions.js";

/** The work of such a shader. */
interface ElementWords {
  readonly name: string;
  /** Without gaps, from the start of a word. */
  readonly output: Operand;
  /** The body of a function from `element`, its row-major position, to its value in the output's scalar. */
  readonly body: string;
  /** Functions that it calls, but for those of `functions.ts`. */
  readonly functions?: string;
  readonly bindings: readonly Binding[];
  readonly parameters: Readonly<Record<string, Parameter>>;
}

/** The dispatch of such work: an invocation for each word of the output. */
export function elementWords(
  { name, output, body, functions = "", ...given }: ElementWords,
  mostWorkgroups: number,
): Dispatch {
  const count = output.place.size;
  const [each, words] = [perWord(output.type), wordsOf(output.type, count)];
  const values = Array.from({ length: each }, (_, at) => `elementAt(min(index * ${each}u + ${at}u, p.count - 1u))`);
  return {
    name,
    code: `${packing}
${functionsFor(body)}
${functions}
fn elementAt(element: u32) -> ${scalarOf(output.type)} {
${body}
}
${entry(
  64,
  `if (index >= p.words) { return; }
  result[p.resultOffset / ${each}u + index] = ${pack(output.type, values)};`,
)}`,
    bindings: [...given.bindings, { name: "result", of: output, writes: true }],
    parameters: { count, words, resultOffset: output.place.offset, ...given.parameters },
    workgroups: workgroupsFor(words, 64, mostWorkgroups),
  };
}
