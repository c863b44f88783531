/** LSTM, GRU and RNN: networks that carry a state from step to step, forwards, backwards or both. */
import { flag, float, floats, int, oneOf, required, strings } from "../../graph/attribute.js";
import { type Dim, isKnown } from "../../graph/dim.js";
import { type Fact, knownIntegers } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, type OutputFact, tensor } from "../../graph/op.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import * as rules from "../shared/rules/types.js";
import { eachWithEach } from "../shared/rules/work.js";
import {
  gruStep,
  isActivation,
  lstmStep,
  type RecurrentAttributes,
  type RecurrentCall,
  rnnStep,
  runRecurrent,
} from "./cells.js";
import { readIntegers } from "../../tensor/access.js";

const types = { T: rules.floats, T1: ["int32"] } as const;

const inputs = {
  X: tensor("T"),
  W: tensor("T"),
  R: tensor("T"),
  B: optional(tensor("T")),
  sequence_lens: optional(tensor("T1")),
  initial_h: optional(tensor("T")),
};

const outputs = { Y: optional(tensor("T")), Y_h: optional(tensor("T")) };

const attrs = {
  activation_alpha: floats([]),
  activation_beta: floats([]),
  activations: strings(),
  clip: float(),
  direction: oneOf(["forward", "reverse", "bidirectional"], "forward"),
  hidden_size: required(int()),
  layout: int(0),
};

type Given = Omit<RecurrentAttributes, "activations"> & {
  readonly activations: readonly string[] | undefined;
  readonly hidden_size: number;
};

/** Attributes with no activations where none are named. */
const named = <A extends Given>(given: A): Omit<A, "activations"> & RecurrentAttributes => ({
  ...given,
  activations: given.activations ?? [],
});

interface Operands {
  readonly X: Fact;
  readonly W: Fact;
  readonly R: Fact;
  readonly B: Fact | undefined;
  readonly sequence_lens: Fact | undefined;
  readonly initial_h: Fact | undefined;
  readonly initial_c?: Fact | undefined;
  readonly P?: Fact | undefined;
}

/** Checks operands of a network with so many gates, each direction with so many activations. */
function inferRecurrent(
  call: CallContext & { readonly inputs: Operands; readonly attrs: Given },
  gates: number,
  activationCount: number,
): { Y: OutputFact; Y_h: OutputFact } {
  const { X, W, R, B, sequence_lens: lengths, initial_h: h, initial_c: c, P } = call.inputs;
  const { hidden_size: size, direction, layout, activations } = call.attrs;
  const directions = direction === "bidirectional" ? 2 : 1;
  call.check(size > 0, () => `hidden_size must be positive, got ${size}`, "invalid-argument");
  call.check(layout === 0 || layout === 1, () => `layout must be 0 or 1, got ${layout}`, "invalid-argument");
  if (activations !== undefined) {
    const wanted = directions * activationCount;
    call.check(
      activations.length === wanted,
      () => `activations must name ${wanted} functions, got ${activations.length}`,
      "invalid-argument",
    );
    const unknown = activations.find((name) => !isActivation(name));
    call.check(unknown === undefined, () => `"${unknown}" is no activation that ONNX names`, "invalid-argument");
  }
  for (const [name, fact, rank] of [
    ["X", X, 3],
    ["W", W, 3],
    ["R", R, 3],
    ["B", B, 2],
    ["sequence_lens", lengths, 1],
    ["initial_h", h, 3],
    ["initial_c", c, 3],
    ["P", P, 2],
  ] as const)
    checkRank(call, name, fact, rank);
  const [batchAxis, lengthAxis] = layout === 1 ? [0, 1] : [1, 0];
  const [batch, length] = [X.shape?.[batchAxis], X.shape?.[lengthAxis]];
  const state = batch === undefined ? undefined : layout === 1 ? [batch, directions, size] : [directions, batch, size];
  for (const [name, fact, wanted] of [
    ["W", W, [directions, gates * size, X.shape?.[2]]],
    ["R", R, [directions, gates * size, size]],
    ["B", B, [directions, 2 * gates * size]],
    ["P", P, [directions, 3 * size]],
    ["sequence_lens", lengths, [batch]],
    ["initial_h", h, state],
    ["initial_c", c, state],
  ] as const)
    wanted?.forEach((dim: Dim | undefined, axis: number) => {
      if (dim !== undefined && fact?.shape !== undefined)
        unifyDims(call, fact.shape[axis], dim, `dimension ${axis} of ${name} does not fit`);
    });
  return {
    Y: {
      shape:
        batch === undefined || length === undefined
          ? undefined
          : layout === 1
            ? [batch, length, directions, size]
            : [length, directions, batch, size],
    },
    Y_h: { shape: state },
  };
}

/** Fails where a sample is said to be longer than the input, or shorter than nothing. */
function checkLengths(call: CallContext, given: readonly number[] | undefined, length: number): void {
  given?.forEach((own, at) =>
    call.check(
      own >= 0 && own <= length,
      () => `sequence_lens[${at}] must lie in [0, ${length}], got ${own}`,
      "invalid-argument",
    ),
  );
}

function validateLengths(call: CallContext & { readonly inputs: Operands; readonly attrs: Given }): void {
  const { X, sequence_lens: lengths } = call.inputs;
  const length = X.shape?.[call.attrs.layout === 1 ? 1 : 0];
  if (length !== undefined && isKnown(length)) checkLengths(call, lengths && knownIntegers(lengths), length);
}

/** Runs a network once its lengths are known to be right. */
function run(call: CallContext, { inputs: given, attrs: options, ...rest }: RecurrentCall): void {
  const lengths = given.sequence_lens && readIntegers(given.sequence_lens);
  checkLengths(call, lengths, given.X.shape[options.layout === 1 ? 1 : 0]);
  runRecurrent({ inputs: given, attrs: options, ...rest });
}

const workOf = ({ inputs: { X, W, R } }: { inputs: Operands }): number => {
  const length = X.shape?.[0];
  const steps = length === undefined || !isKnown(length) ? Infinity : length;
  return eachWithEach(X, W) + steps * eachWithEach(R);
};

/** H ← f(X Wᵀ + H Rᵀ + biases). */
export const RNN = defineOp({
  name: "RNN",
  since: 7,
  types,
  inputs,
  outputs,
  attrs,
  infer: (call) => inferRecurrent(call, 1, 1),
  looksAt: ["sequence_lens"],
  validate: validateLengths,
  work: workOf,
  reference(call) {
    const { Y, Y_h } = call.outputs;
    const options = named(call.attrs);
    run(call, {
      inputs: call.inputs,
      Y,
      Y_h,
      Y_c: undefined,
      attrs: options,
      gates: 1,
      usual: ["Tanh"],
      step: rnnStep,
    });
  },
});

/** A state that an update gate mixes with a candidate, of which a reset gate says how much of the old one it sees. */
export const GRU = defineOp({
  name: "GRU",
  since: 7,
  types,
  inputs,
  outputs,
  attrs: { ...attrs, linear_before_reset: flag(false) },
  infer: (call) => inferRecurrent(call, 3, 2),
  looksAt: ["sequence_lens"],
  validate: validateLengths,
  work: workOf,
  reference(call) {
    const { Y, Y_h } = call.outputs;
    const step = gruStep(call.attrs.linear_before_reset);
    const usual = ["Sigmoid", "Tanh"];
    run(call, { inputs: call.inputs, Y, Y_h, Y_c: undefined, attrs: named(call.attrs), gates: 3, usual, step });
  },
});

/** A cell that gates write, keep and show. */
export const LSTM = defineOp({
  name: "LSTM",
  since: 7,
  types,
  inputs: { ...inputs, initial_c: optional(tensor("T")), P: optional(tensor("T")) },
  outputs: { ...outputs, Y_c: optional(tensor("T")) },
  attrs: { ...attrs, input_forget: flag(false) },
  infer(call) {
    const { Y, Y_h } = inferRecurrent(call, 4, 3);
    return { Y, Y_h, Y_c: Y_h };
  },
  looksAt: ["sequence_lens"],
  validate: validateLengths,
  work: workOf,
  reference(call) {
    const { Y, Y_h, Y_c } = call.outputs;
    const step = lstmStep(call.attrs.input_forget);
    const usual = ["Sigmoid", "Tanh", "Tanh"];
    run(call, { inputs: call.inputs, Y, Y_h, Y_c, attrs: named(call.attrs), gates: 4, usual, step });
  },
});
