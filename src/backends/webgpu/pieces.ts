/**
 * Weights that are larger than one binding can be: they lie in several buffers of one size, and shaders that name them read through a function
 * that finds the piece. Kernels are written as if there were one array.
 */
import { InsituError } from "../../base/error.js";

/** Bytes of a WGSL type that storage arrays are made of. */
export function bytesOfElement(element: string): number {
  const vector = /^(?:vec([24]))?(?:<?(f32|u32|i32)>?|([fui]))$/.exec(element);
  if (vector === null) throw new InsituError("internal", `arrays of ${element} do not lie in pieces`);
  return 4 * Number(vector[1] ?? 1);
}

/** Functions that read and write element `i` of what lies in `count` pieces, `name_0` and so on, of `size` elements. */
export function pieceFunctions(name: string, element: string, count: number, size: number, writes: boolean): string {
  const places = Array.from({ length: count }, (_, at) => ({
    array: at === 0 ? `${name}_0[i]` : `${name}_${at}[i - ${at * size}u]`,
    test: at === count - 1 ? "" : `if (i < ${(at + 1) * size}u) `,
  }));
  const read = places.map(({ array, test }) => `  ${test}{ return ${array}; }`).join("\n");
  const write = places.map(({ array, test }) => `  ${test}{ ${array} = value; return; }`).join("\n");
  return `fn ${name}_at(i: u32) -> ${element} {\n${read}\n}${
    writes ? `\nfn ${name}_set(i: u32, value: ${element}) {\n${write}\n}` : ""
  }`;
}

/** A shader whose `name[index]` are calls of those functions. */
export function throughPieces(code: string, name: string): string {
  const use = new RegExp(`(?<![\\w.])${name}\\[`, "g");
  let result = "";
  let from = 0;
  for (let found = use.exec(code); found !== null; found = use.exec(code)) {
    const open = found.index + found[0].length;
    const close = closing(code, open, "[", "]");
    const index = `u32(${throughPieces(code.slice(open, close), name)})`;
    result += code.slice(from, found.index);
    const assigned = /^\s*=(?!=)/.exec(code.slice(close + 1));
    if (assigned === null) {
      result += `${name}_at(${index})`;
      from = close + 1;
    } else {
      const start = close + 1 + assigned[0].length;
      const end = code.indexOf(";", start);
      result += `${name}_set(${index}, ${throughPieces(code.slice(start, end).trim(), name)})`;
      from = end;
    }
    use.lastIndex = from;
  }
  return result + code.slice(from);
}

/** Where the bracket that stands before `from` is closed. */
function closing(code: string, from: number, open: string, close: string): number {
  for (let at = from, depth = 1; at < code.length; at++) {
    if (code[at] === open) depth++;
    else if (code[at] === close && --depth === 0) return at;
  }
  throw new InsituError("internal", `a shader has a "${open}" that nothing closes`);
}
