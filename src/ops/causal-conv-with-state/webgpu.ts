/** CausalConvWithState on WebGPU, in float32: all outputs from the past and the input, then the end of both is carried on, in place. */
import { isInPlace, type Operand } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { entry, workgroupsFor } from "../../webgpu-kernels/wgsl.js";
import { moveRows, placeOf } from "../shared/webgpu/rows.js";
import { CausalConvWithState } from "./op.js";

/** Value `t` of a row's past followed by its input. */
const valueAt = `
fn valueAt(row: u32, t: u32) -> f32 {
  if (t >= p.carried) { return bitcast<f32>(inputs[p.inputOffset + row * p.length + t - p.carried]); }
  return bitcast<f32>(state[p.stateOffset + row * p.carried + t]);
}`;

/** Convolves each channel, and carries its last values on. */
export const causalConvolution: WebgpuKernel = webgpuKernel([CausalConvWithState], {
  accepts({ inputs, outputs: { output, present_state: present } }) {
    if (output === undefined || present === undefined) return "not both outputs are asked for";
    for (const operand of [...Object.values(inputs), output, present]) {
      if (operand === undefined) continue;
      if (operand.type !== "float32") return `there is no kernel for ${operand.type}`;
      if (!operand.contiguous) return "an operand has gaps";
    }
    if (present.place.size === 0) return "nothing is carried";
    return [inputs.input, inputs.weight, inputs.bias].some((each) => each?.place.buffer === present.place.buffer)
      ? "operands lie in the state itself"
      : true;
  },
  record({ inputs, outputs, attrs }, recorder) {
    const { input, weight, bias, past_state: past } = inputs;
    const [output, present] = [outputs.output!, outputs.present_state!]; // or it was not accepted
    const { mostWorkgroups } = recorder.device;
    if (past === undefined || !isInPlace(past, present)) {
      const { type, shape } = present;
      const move = { name: "takeState", type, shape, source: past && placeOf(past), target: placeOf(present) };
      for (const dispatch of moveRows(move, recorder.device)) recorder.dispatch(dispatch);
    }
    const [batch, channels, length] = input.shape;
    const [rows, carried] = [batch * channels, present.shape[2]];
    if (input.place.size === 0) return;
    const offsetOf = (operand: Operand | undefined): number => operand?.place.offset ?? 0;
    const sizes = { rows, length, carried, inputOffset: offsetOf(input), stateOffset: offsetOf(present) };
    const own = "channel * (p.carried + 1u)";
    recorder.dispatch({
      name: "causalConvolution",
      code: `${valueAt}${entry(
        64,
        `  if (index >= p.rows * p.length) { return; }
  let row = index / p.length;
  let channel = row % p.channels;
  var sum = ${bias === undefined ? "0.0" : "bitcast<f32>(biases[p.biasOffset + channel])"};
  for (var i = 0u; i <= p.carried; i++) { sum += bitcast<f32>(weights[p.weightOffset + ${own} + i]) * valueAt(row, index % p.length + i); }
  results[p.resultOffset + index] = bitcast<u32>(${attrs.activation === "none" ? "sum" : "sum / (1.0 + exp(-sum))"});`,
      )}`,
      bindings: [
        { name: "results", of: output, writes: true },
        { name: "inputs", of: input },
        { name: "weights", of: weight },
        { name: "state", of: present },
        ...(bias === undefined ? [] : [{ name: "biases", of: bias }]),
      ],
      parameters: {
        ...sizes,
        channels,
        weightOffset: offsetOf(weight),
        biasOffset: offsetOf(bias),
        resultOffset: offsetOf(output),
      },
      workgroups: workgroupsFor(rows * length, 64, mostWorkgroups),
    });
    // A row is written from its front on: what is read lies behind.
    recorder.dispatch({
      name: "carryValues",
      code: `${valueAt}${entry(
        64,
        `  if (index >= p.rows) { return; }
  for (var t = 0u; t < p.carried; t++) { state[p.stateOffset + index * p.carried + t] = bitcast<u32>(valueAt(index, p.length + t)); }`,
      )}`,
      bindings: [
        { name: "state", of: present, writes: true },
        { name: "inputs", of: input },
      ],
      parameters: sizes,
      workgroups: workgroupsFor(rows, 64, mostWorkgroups),
    });
  },
});
