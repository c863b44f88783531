/** Conv on WebGPU, in float32: an invocation walks the window of each element of its word. Any number of spatial axes, groups and dilations. */
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { type Variable, variable } from "../../webgpu-kernels/shader-part.js";
import { isShaderType, listed } from "../../webgpu-kernels/wgsl.js";
import { padded, type Window } from "../shared/families/window.js";
import { elementWords } from "../shared/webgpu/element-words.js";
import { Conv } from "./op.js";

/** The convolution of X with W, plus B. */
export const convolution: WebgpuKernel = webgpuKernel([Conv], {
  accepts({ inputs: { X, W, B }, outputs: { Y } }) {
    for (const operand of [X, W, B, Y]) {
      if (operand === undefined) continue;
      if (!isShaderType(operand.type)) return `${operand.type} is no type of shaders`;
      if (!operand.contiguous) return "an operand has gaps";
    }
    return Y.place.offset === 0 ? true : "the output begins inside of its buffer";
  },
  record({ inputs: { X, W, B }, outputs: { Y }, attrs }, recorder) {
    if (Y.place.size === 0) return;
    const [large, kernel, small] = [X, W, Y].map(({ shape }) => shape.slice(2));
    const rank = large.length;
    const every = (entries: readonly number[] | undefined, absent: number): readonly number[] =>
      entries ?? new Array<number>(rank).fill(absent);
    const { pads = new Array<number>(2 * rank).fill(0) } = attrs;
    const given: Window = {
      strides: every(attrs.strides, 1),
      dilations: every(attrs.dilations, 1),
      before: pads.slice(0, rank),
      after: pads.slice(rank),
    };
    const window = padded(given, attrs.auto_pad, large, kernel);
    const [inputs, weights, biases] = [variable("inputs", X), variable("weights", W), B && variable("biases", B)];
    const body = `  var rest = element;
  ${[...small.keys()]
    .toReversed()
    .map(
      (axis) =>
        `let first${axis} = i32(rest % p.small${axis} * p.stride${axis}) - i32(p.before${axis}); rest /= p.small${axis};`,
    )
    .join("\n  ")}
  let map = rest % p.maps;
  let sample = rest / p.maps;
  let group = map / p.groupMaps;
  var sum = ${biases === undefined ? "0.0" : biases.load("p.biasOffset + map")};
  for (var channel = 0u; channel < p.channels; channel++) {
    ${walk(inputs, weights, rank)}
  }
  return sum;`;
    const work = {
      name: "convolution",
      output: Y,
      body,
      parts: [inputs, weights, biases],
      parameters: {
        maps: Y.shape[1],
        channels: W.shape[1],
        groupMaps: Y.shape[1] / attrs.group,
        allChannels: X.shape[1],
        inputOffset: X.place.offset,
        weightOffset: W.place.offset,
        ...(B === undefined ? {} : { biasOffset: B.place.offset }),
        ...listed("small", small),
        ...listed("large", large),
        ...listed("kernel", kernel),
        ...listed("stride", window.strides),
        ...listed("dilation", window.dilations),
        ...listed("before", window.before),
      },
    };
    recorder.dispatch(elementWords(recorder.device, work));
  },
});

/** Loops over the entries of the kernel, one for each axis; what lies outside of the input is skipped. */
function walk(inputs: Variable, weights: Variable, rank: number): string {
  const [openings, closings] = [[] as string[], [] as string[]];
  let [entryAt, inputAt] = ["map * p.channels + channel", "sample * p.allChannels + group * p.channels + channel"];
  for (let axis = 0; axis < rank; axis++) {
    openings.push(`for (var tap${axis} = 0u; tap${axis} < p.kernel${axis}; tap${axis}++) {
      let at${axis} = first${axis} + i32(tap${axis} * p.dilation${axis});
      if (at${axis} < 0 || at${axis} >= i32(p.large${axis})) { continue; }`);
    closings.push("}");
    entryAt = `(${entryAt}) * p.kernel${axis} + tap${axis}`;
    inputAt = `(${inputAt}) * p.large${axis} + u32(at${axis})`;
  }
  const product = `${weights.load(`p.weightOffset + ${entryAt}`)} * ${inputs.load(`p.inputOffset + ${inputAt}`)}`;
  return `${openings.join("\n")}\n      sum += ${product};\n    ${closings.join("")}`;
}
