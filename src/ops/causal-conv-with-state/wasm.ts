/** CausalConvWithState on WASM: a row of values for each channel, its end carried on in place. */
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { codeOf, oneFloatType, partsFor } from "../shared/wasm/work.js";
import { CausalConvWithState, MicrosoftCausalConvWithState } from "./op.js";

/** Convolves each channel, and carries its last values on. */
export const causalConvolution: WasmKernel = wasmKernel([CausalConvWithState, MicrosoftCausalConvWithState], {
  accepts({ inputs, outputs: { output, present_state: present }, attrs }) {
    if (output === undefined || present === undefined) return "not both outputs are asked for";
    if ("state_window" in attrs && attrs.state_window > 1) return "the state has a window";
    const all = [...Object.values(inputs), output, present];
    for (const operand of all) if (operand?.contiguous === false) return "an operand has gaps";
    // A row lies in scratch, with its results.
    if (inputs.input.shape[2] + inputs.weight.shape[2] > 1 << 13) return "rows are too long";
    return output.view.size === 0 ? "there is nothing to compute" : oneFloatType(all);
  },
  record({ inputs: { input, weight, bias, past_state: past }, outputs, attrs }, recorder) {
    const [output, present] = [outputs.output!, outputs.present_state!]; // or it was not accepted
    const [batch, channels, length] = input.shape;
    const kernel = weight.shape[2];
    const job = {
      source: recorder.address(input),
      weight: recorder.address(weight),
      bias: bias === undefined ? 0 : recorder.address(bias),
      past: past === undefined ? 0 : recorder.address(past),
      state: recorder.address(present),
      output: recorder.address(output),
      type: codeOf(input.type),
      rows: batch * channels,
      channels,
      length,
      kernel,
      silu: attrs.activation === "none" ? 0 : 1,
    };
    recorder.run("causalConvolution", job, partsFor(recorder, batch * channels * (5 + length * kernel * 0.3)));
  },
});
