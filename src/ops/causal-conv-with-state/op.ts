/** CausalConvWithState: a depthwise convolution over the past and the present, with the last values carried from step to step. */
import { int, oneOf } from "../../graph/attribute.js";
import { isKnown, shapeText, subtractDims } from "../../graph/dim.js";
import { update } from "../../graph/effect.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, type OutputFact, type PerParameter, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import { copyView } from "../../tensor/copy.js";
import { View } from "../../tensor/view.js";
import { rounder } from "../attention/rounding.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { checkWindow, clearSlots, slotOf, stateShape } from "../shared/rules/state-window.js";
import { eachWithEach } from "../shared/rules/work.js";

const types = { T: ["float16", "bfloat16", "float32"] } as const;
const inputs = {
  input: tensor("T"),
  weight: tensor("T"),
  bias: optional(tensor("T")),
  past_state: optional(tensor("T")),
};
const outputs = { output: tensor("T"), present_state: tensor("T") };
const activation = oneOf(["none", "silu", "swish"], "none");

/** Operands by name. */
type Operands<V> = PerParameter<typeof inputs, V>;

/** What both operators are told; onnxruntime's alone has a window. */
interface ConvolutionAttributes {
  readonly activation: "none" | "silu" | "swish";
  readonly state_window?: number;
}

/** What the reference implementation of both sees. */
interface ConvolutionCall {
  readonly inputs: Operands<View>;
  readonly outputs: { readonly output: View; readonly present_state: View };
  readonly attrs: ConvolutionAttributes;
  wants(output: "output" | "present_state"): boolean;
}

const workOf = (call: { inputs: Operands<Fact> }): number => eachWithEach(call.inputs.input, call.inputs.weight);

/** ONNX's: output[t] = activation(Σ weight[i] · x[t − (k − 1) + i] + bias), where x before 0 is `past_state` or zeros. */
export const CausalConvWithState = defineOp({
  name: "CausalConvWithState",
  since: 27,
  types,
  inputs,
  outputs,
  attrs: { activation },
  effects: { present_state: update("past_state") },
  infer: inferConvolution,
  work: workOf,
  reference: convolve,
});

/** onnxruntime's: the same, and the state may have a window. */
export const MicrosoftCausalConvWithState = defineOp({
  name: "CausalConvWithState",
  domain: "com.microsoft",
  since: 1,
  types,
  inputs,
  outputs,
  attrs: { activation, ndim: int(1), state_window: int(0) },
  effects: { present_state: update("past_state") },
  infer(call) {
    const { ndim } = call.attrs;
    call.check(
      ndim === 1,
      () =>
        `ndim must be 1, as in onnxruntime's own kernels, got ${ndim}: write the convolution as Concat, Conv and Slice`,
      "invalid-argument",
    );
    return inferConvolution(call);
  },
  work: workOf,
  reference: convolve,
});

function inferConvolution(
  call: CallContext & { readonly inputs: Operands<Fact>; readonly attrs: ConvolutionAttributes },
): { output?: OutputFact; present_state: OutputFact } {
  const { input, weight, bias, past_state } = call.inputs;
  const window = call.attrs.state_window;
  checkRank(call, "input", input, 3);
  checkRank(call, "weight", weight, 3);
  checkRank(call, "bias", bias, 1);
  checkWindow(call, past_state, window, 3);
  if (input.shape === undefined) return { present_state: { shape: past_state?.shape } };
  const [length, kernel] = [input.shape[2], weight.shape?.[2]];
  let [batch, channels] = input.shape;
  if (weight.shape !== undefined) {
    channels = unifyDims(call, channels, weight.shape[0], "input and weight must have the same number of channels");
    unifyDims(
      call,
      weight.shape[1],
      1,
      `weight must be [channels,1,kernel], got ${shapeText(weight.shape)}: its second dimension`,
    );
  }
  if (kernel !== undefined && isKnown(kernel))
    call.check(kernel >= 1, () => `weight must hold at least one value a channel, got ${shapeText(weight.shape)}`);
  if (bias?.shape !== undefined) channels = unifyDims(call, channels, bias.shape[0], "bias needs one entry a channel");
  let carried = kernel === undefined ? undefined : subtractDims(kernel, 1);
  if (past_state?.shape !== undefined) {
    const [pastBatch, pastChannels, pastLength] = past_state.shape.slice(-3);
    batch = unifyDims(call, batch, pastBatch, "input and past_state must agree in the batch");
    channels = unifyDims(call, channels, pastChannels, "input and past_state must have the same number of channels");
    carried =
      carried === undefined
        ? pastLength
        : unifyDims(call, carried, pastLength, "past_state must hold one value less than the kernel");
  }
  return {
    output: { shape: [batch, channels, length] },
    present_state: { shape: carried === undefined ? undefined : stateShape(window, [batch, channels, carried]) },
  };
}

function convolve(call: ConvolutionCall): void {
  const { inputs, outputs, attrs } = call;
  const window = attrs.state_window;
  const { input, past_state: past } = inputs;
  const [batch, channels, length] = input.shape;
  const kernel = inputs.weight.shape[2];
  const weight = readNumbers(inputs.weight); // [channels, 1, kernel]
  const bias = inputs.bias && readNumbers(inputs.bias); // [channels]
  // The past followed by the input, elements untouched: what is convolved, and whose end is carried on.
  const padded = View.allocate(input.type, [batch, channels, kernel - 1 + length]);
  if (past !== undefined) copyView(slotOf(past, window, (window ?? 1) - 1), padded.slice(2, 0, kernel - 1));
  copyView(input, padded.slice(2, kernel - 1, kernel - 1 + length));
  if (call.wants("present_state")) {
    const present = outputs.present_state;
    const last = (window ?? 1) - 1;
    for (let back = 0; back <= Math.min(Math.max(last, 0), Math.max(0, length - 1)); back++)
      copyView(padded.slice(2, length - back, length - back + kernel - 1), slotOf(present, window, last - back));
    clearSlots(present, window, length);
  }
  if (!call.wants("output")) return;
  const values = readNumbers(padded);
  const round = rounder(input.type);
  const result = new Float64Array(batch * channels * length);
  for (let row = 0, at = 0; row < batch * channels; row++) {
    const channel = row % channels;
    for (let t = 0; t < length; t++, at++) {
      let sum = bias?.[channel] ?? 0;
      for (let i = 0; i < kernel; i++)
        sum += weight[channel * kernel + i] * values[row * (kernel - 1 + length) + t + i];
      sum = round(sum); // the activation sees what the convolution would store
      result[at] = attrs.activation === "none" ? sum : sum / (1 + Math.exp(-sum));
    }
  }
  writeNumbers(outputs.output, result);
}
