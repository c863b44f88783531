/** CausalConvWithState on WebGPU: all outputs from the past and the input, in float32, then the end of both is carried on, in place. */
import { isInPlace, type Operand } from "../../graph/kernel.js";
import type { ElementType } from "../../tensor/element-type.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { invocationsOf, type Variable, variable } from "../../webgpu-kernels/shader-part.js";
import { isShaderType, pack, packing, perWord, read, roundingTo, scalarOf } from "../../webgpu-kernels/wgsl.js";
import { elementWords } from "../shared/webgpu/element-words.js";
import { functionsPart } from "../shared/webgpu/functions.js";
import { moveRows, placeOf } from "../shared/webgpu/rows.js";
import { CausalConvWithState, MicrosoftCausalConvWithState } from "./op.js";

/** Value `t` of a row's past followed by its input, read as a type. */
const valueAt = (type: ElementType, inputs: Variable): string => `
fn valueAt(row: u32, t: u32) -> ${scalarOf(type)} {
  if (t >= p.carried) { return ${read(type, inputs, "p.inputOffset + row * p.length + t - p.carried")}; }
  return ${read(type, "state", "p.stateOffset + row * p.carried + t")};
}`;

/** Convolves each channel, and carries its last values on. */
export const causalConvolution: WebgpuKernel = webgpuKernel([CausalConvWithState, MicrosoftCausalConvWithState], {
  accepts({ inputs, outputs: { output, present_state: present }, attrs }) {
    if (output === undefined || present === undefined) return "not both outputs are asked for";
    if ("state_window" in attrs && attrs.state_window > 0) return "the state has a window";
    for (const operand of [...Object.values(inputs), output, present]) {
      if (operand === undefined) continue;
      if (!isShaderType(operand.type)) return `there is no kernel for ${operand.type}`;
      if (!operand.contiguous) return "an operand has gaps";
    }
    for (const { place, type } of [output, present])
      if (place.offset % perWord(type) !== 0) return "an output begins inside of a word";
    return [inputs.input, inputs.weight, inputs.bias].some((each) => each?.place.buffer === present.place.buffer)
      ? "operands lie in the state itself"
      : true;
  },
  record({ inputs, outputs, attrs }, recorder) {
    const { input, weight, bias, past_state: past } = inputs;
    const [output, present] = [outputs.output!, outputs.present_state!]; // or it was not accepted
    if (past === undefined || !isInPlace(past, present)) {
      const { type, shape } = present;
      const move = { name: "takeState", type, shape, source: past && placeOf(past), target: placeOf(present) };
      for (const dispatch of moveRows(move, recorder.device)) recorder.dispatch(dispatch);
    }
    const [batch, channels, length] = input.shape;
    const [rows, carried] = [batch * channels, present.shape[2]];
    if (input.place.size === 0) return;
    const offsetOf = (operand: Operand | undefined): number => operand?.place.offset ?? 0;
    const sizes = { length, carried, inputOffset: offsetOf(input), stateOffset: offsetOf(present) };
    const [values, weights] = [variable("inputs", input), variable("weights", weight)];
    const biases = bias && variable("biases", bias);
    const product = `${weights.load("p.weightOffset + channel * (p.carried + 1u) + i")} * valueAt(row, element % p.length + i)`;
    const convolution = {
      name: "causalConvolution",
      output,
      // The activation sees what the convolution would store.
      parts: [
        roundingTo("rounded", output.type),
        { code: valueAt(input.type, values) },
        attrs.activation === "none" ? undefined : functionsPart("sigmoid"),
        values,
        weights,
        biases,
        variable("state", present),
      ],
      body: `  let row = element / p.length;
  let channel = row % p.channels;
  var sum = ${biases === undefined ? "0.0" : biases.load("p.biasOffset + channel")};
  for (var i = 0u; i <= p.carried; i++) { sum += ${product}; }
  sum = rounded(sum);
  return ${attrs.activation === "none" ? "sum" : "sum * sigmoid(sum)"};`,
      parameters: { ...sizes, channels, weightOffset: offsetOf(weight), biasOffset: offsetOf(bias) },
    };
    recorder.dispatch(elementWords(recorder.device, convolution));
    const count = rows * carried;
    if (count === 0) return;
    // An invocation has rows that are whole words together, and writes them from the front on: what is read lies behind.
    const bits = present.type === "float32" ? "uint32" : "uint16";
    const size = perWord(bits);
    const elements = Array.from({ length: size }, (_, at) => `carriedAt(min(word * ${size}u + ${at}u, p.count - 1u))`);
    const invocations = Math.ceil(rows / size);
    const carriedAt = `${valueAt(bits, values)}
fn carriedAt(element: u32) -> u32 { return valueAt(element / p.carried, p.length + element % p.carried); }`;
    recorder.dispatch(
      invocationsOf(recorder.device, {
        name: "carryValues",
        parts: [packing, { code: carriedAt }, variable("state", present, { writes: true }), values],
        parameters: { ...sizes, count, invocations, words: Math.ceil(count / size) },
        count: invocations,
        body: `  if (index >= p.invocations) { return; }
  for (var word = index * p.carried; word < min((index + 1u) * p.carried, p.words); word++) {
    state[p.stateOffset / ${size}u + word] = ${pack(bits, elements)};
  }`,
      }),
    );
  },
});
