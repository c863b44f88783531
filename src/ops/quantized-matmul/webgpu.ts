/** MatMulInteger on WebGPU: exact sums of 32 bits, element by element; B one matrix, zero points for all, by row of A or by column of B. */
import type { Operand } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { variable } from "../../webgpu-kernels/shader-part.js";
import { elementWords } from "../shared/webgpu/element-words.js";
import { MatMulInteger } from "./op.js";

/** True where a zero point is left out, serves all, or has one entry for each of `lines`. */
const isServed = (zero: Operand | undefined, lines: number): boolean =>
  zero === undefined || zero.place.size === 1 || (zero.place.size === lines && zero.contiguous);

/** (A − a_zero_point) · (B − b_zero_point). */
export const matmulInteger: WebgpuKernel = webgpuKernel([MatMulInteger], {
  accepts({ inputs: { A: a, B: b, a_zero_point: aZero, b_zero_point: bZero } }) {
    if (a.shape.length < 2 || b.shape.length !== 2) return "A is a vector, or B is not one matrix";
    if (!a.contiguous || !b.contiguous) return "matrices have gaps";
    const rows = a.shape.slice(0, -1).reduce((product, dim) => product * dim, 1);
    return isServed(aZero, rows) && isServed(bZero, b.shape[1]) ? true : "zero points vary otherwise";
  },
  record({ inputs: { A: a, B: b, a_zero_point: aZero, b_zero_point: bZero }, outputs: { Y: output } }, recorder) {
    if (output.place.size === 0) return;
    const [k, n] = b.shape;
    const bound = Object.entries({ left: a, right: b, rowZeros: aZero, columnZeros: bZero }).flatMap(([name, of]) =>
      of === undefined ? [] : [{ name, of }],
    );
    const arrays = Object.fromEntries(bound.map(({ name, of }) => [name, variable(name, of)]));
    /** A zero point as WGSL: of its line where there is one for each. */
    const zeroOf = (name: string, zero: Operand | undefined, line: string): string => {
      if (zero === undefined) return "0";
      return `i32(${arrays[name].load(`p.${name}Offset${zero.place.size === 1 ? "" : ` + ${line}`}`)})`;
    };
    const body = `
  let row = element / p.n;
  let column = element % p.n;
  let rowZero = ${zeroOf("rowZeros", aZero, "row")};
  let columnZero = ${zeroOf("columnZeros", bZero, "column")};
  var sum = 0;
  for (var k = 0u; k < p.k; k++) {
    let left = i32(${arrays["left"].load("p.leftOffset + row * p.k + k")}) - rowZero;
    sum += left * (i32(${arrays["right"].load("p.rightOffset + k * p.n + column")}) - columnZero);
  }
  return sum;`;
    const offsets = Object.fromEntries(bound.map(({ name, of }) => [`${name}Offset`, of.place.offset]));
    const work = {
      name: "matmulInteger",
      output,
      body,
      parts: Object.values(arrays),
      parameters: { k, n, ...offsets },
    };
    recorder.dispatch(elementWords(recorder.device, work));
  },
});
