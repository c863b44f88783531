/** CumSum and CumProd on WebGPU, of types that fill words: an invocation walks along each line. */
import { readIntegers } from "../../tensor/access.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { invocationsOf, variable } from "../../webgpu-kernels/shader-part.js";
import { isShaderType, pack, perWord, scalarOf } from "../../webgpu-kernels/wgsl.js";
import { fromFront, productOf } from "../shared/rules/layout.js";
import { CumProd, CumSum } from "./op.js";

const cumulative = (op: typeof CumSum, name: string, first: 0 | 1, sign: string): WebgpuKernel =>
  webgpuKernel([op], {
    accepts({ inputs: { x, axis }, outputs: { y } }) {
      if (!isShaderType(x.type)) return `${x.type} is no type of shaders`;
      if (perWord(x.type) > 1) return `several elements of ${x.type} share a word`;
      if (!axis.known) return "the axis is data";
      return x.contiguous && y.contiguous && y.place.offset === 0 ? true : "the data have gaps";
    },
    record({ inputs: { x, axis: axisGiven }, outputs: { y }, attrs: { exclusive, reverse } }, recorder) {
      if (y.place.size === 0) return;
      const axis = fromFront(readIntegers(axisGiven.view)[0], x.shape);
      const length = x.shape[axis];
      const lines = y.place.size / length;
      const source = variable("source", x);
      const body = `if (index >= p.lines) { return; }
  let start = index / p.inner * p.length * p.inner + index % p.inner;
  var total = ${scalarOf(x.type)}(${first});
  for (var k = 0u; k < p.length; k++) {
    let at = start + ${reverse ? "(p.length - 1u - k)" : "k"} * p.inner;
    let next = total ${sign} ${source.load("p.offset + at")};
    result[at] = ${pack(x.type, [exclusive ? "total" : "next"])};
    total = next;
  }`;
      recorder.dispatch(
        invocationsOf(recorder.device, {
          name,
          parts: [source, variable("result", y, { writes: true })],
          parameters: { lines, length, inner: productOf(x.shape.slice(axis + 1)), offset: x.place.offset },
          count: lines,
          body,
        }),
      );
    },
  });

/** Running sums along `axis`. */
export const cumSum: WebgpuKernel = cumulative(CumSum, "cumSum", 0, "+");

/** Running products along `axis`. */
export const cumProd: WebgpuKernel = cumulative(CumProd, "cumProd", 1, "*");
