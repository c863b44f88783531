/** EyeLike on WebGPU: each element from its position. The operand is not bound, since only its shape counts. */
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { isShaderType, scalarOf } from "../../webgpu-kernels/wgsl.js";
import { elementWords } from "../shared/webgpu/element-words.js";
import { EyeLike } from "./op.js";

/** Ones on a diagonal, zeros elsewhere. */
export const eyeLike: WebgpuKernel = webgpuKernel([EyeLike], {
  accepts({ outputs: { output } }) {
    if (!isShaderType(output.type)) return `${output.type} is no type of shaders`;
    return output.contiguous ? true : "the output has gaps";
  },
  record({ outputs: { output }, attrs: { k } }, recorder) {
    if (output.place.size === 0) return;
    const [rows, columns] = output.shape;
    recorder.dispatch(
      elementWords(recorder.device, {
        name: "eyeLike",
        output,
        body: `  let ahead = i32(element % p.columns) - i32(element / p.columns);
  return select(${scalarOf(output.type)}(0), ${scalarOf(output.type)}(1), ahead == i32(p.diagonal));`,
        parts: [],
        parameters: { columns, diagonal: Math.min(Math.max(k, -rows), columns) },
      }),
    );
  },
});
