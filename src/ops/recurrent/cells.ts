/** Recurrent networks computed step by step: what LSTM, GRU and RNN share, and the step of each. */
import { type Numbers, readIntegers, readNumbers, writeNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";

/** What a function of one number is made of. */
type Activation = (x: number) => number;

/** ONNX's activations by their names in small letters, with the alpha and beta that hold where none are given. */
const activations: Readonly<
  Record<string, { alpha?: number; beta?: number; of: (alpha: number, beta: number) => Activation }>
> = {
  relu: { of: () => (x) => Math.max(0, x) },
  tanh: { of: () => Math.tanh },
  sigmoid: { of: () => (x) => 1 / (1 + Math.exp(-x)) },
  affine: { alpha: 1, beta: 0, of: (a, b) => (x) => a * x + b },
  leakyrelu: { alpha: 0.01, of: (a) => (x) => (x >= 0 ? x : a * x) },
  thresholdedrelu: { alpha: 1, of: (a) => (x) => (x >= a ? x : 0) },
  scaledtanh: { alpha: 1, beta: 1, of: (a, b) => (x) => a * Math.tanh(b * x) },
  hardsigmoid: { alpha: 0.2, beta: 0.5, of: (a, b) => (x) => Math.min(Math.max(a * x + b, 0), 1) },
  elu: { alpha: 1, of: (a) => (x) => (x >= 0 ? x : a * Math.expm1(x)) },
  softsign: { of: () => (x) => x / (1 + Math.abs(x)) },
  softplus: { of: () => (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))) },
};

/** Names that `activations` may hold. */
export const isActivation = (name: string): boolean => Object.hasOwn(activations, name.toLowerCase());

/**
 * The activations of all directions; alphas and betas go to those that take some, in order. What goes into a gate is clipped; the cell that
 * LSTM's third function shows is not, as in onnxruntime.
 */
function activationsOf(
  names: readonly string[],
  alphas: readonly number[],
  betas: readonly number[],
  clip: number | undefined,
  each: number,
): Activation[] {
  let [nextAlpha, nextBeta] = [0, 0];
  return names.map((name, at) => {
    const { alpha, beta, of } = activations[name.toLowerCase()];
    const a = alpha === undefined ? 0 : (alphas[nextAlpha++] ?? alpha);
    const b = beta === undefined ? 0 : (betas[nextBeta++] ?? beta);
    const f = of(a, b);
    return clip === undefined || at % each === 2 ? f : (x) => f(Math.min(Math.max(x, -clip), clip));
  });
}

/** What all three operators are told. */
export interface RecurrentAttributes {
  readonly activation_alpha: readonly number[];
  readonly activation_beta: readonly number[];
  readonly activations: readonly string[];
  readonly clip: number | undefined;
  readonly direction: "forward" | "reverse" | "bidirectional";
  readonly layout: number;
}

/** The operands and results of a call; results that nobody asks for are left out. */
export interface RecurrentCall {
  readonly inputs: {
    readonly X: View;
    readonly W: View;
    readonly R: View;
    readonly B: View | undefined;
    readonly sequence_lens: View | undefined;
    readonly initial_h: View | undefined;
    readonly initial_c?: View | undefined;
    readonly P?: View | undefined;
  };
  readonly Y: View | undefined;
  readonly Y_h: View | undefined;
  readonly Y_c: View | undefined;
  readonly attrs: RecurrentAttributes;
  /** How many gates there are, and which activations where none are given. */
  readonly gates: number;
  readonly usual: readonly string[];
  readonly step: Step;
}

/** What a step sees: the products of its input, biases included, and its state, which it replaces. */
interface StepInputs {
  /** [gates · hidden]: input and both biases, but for the recurrent bias of the last gate where `split` keeps it apart. */
  readonly given: Float64Array;
  readonly h: Float64Array;
  readonly c: Float64Array;
  readonly peepholes: Numbers | undefined;
  readonly bias: Numbers | undefined;
  /** The product of a state with a row of the recurrent weights. */
  readonly recurrent: (row: number, state: Float64Array) => number;
  readonly f: readonly Activation[];
}

type Step = (inputs: StepInputs) => void;

/** Y = f(X Wᵀ + H Rᵀ + biases). */
export const rnnStep: Step = ({ given, h, recurrent, bias, f }) => {
  const size = h.length;
  const next = Float64Array.from(h, (_, i) => f[0](given[i] + recurrent(i, h) + (bias?.[size + i] ?? 0)));
  h.set(next);
};

/** GRU's step; with `before` the reset gate takes the recurrent product, not the state. */
export const gruStep =
  (before: boolean): Step =>
  ({ given, h, recurrent, bias, f: [f, g] }) => {
    const size = h.length;
    const biasOf = (row: number): number => bias?.[3 * size + row] ?? 0;
    const gate = (row: number): number => f(given[row] + recurrent(row, h) + biasOf(row));
    const z = Float64Array.from(h, (_, i) => gate(i));
    const r = Float64Array.from(h, (_, i) => gate(size + i));
    const reset = Float64Array.from(h, (value, i) => r[i] * value);
    const next = Float64Array.from(h, (value, i) => {
      const row = 2 * size + i;
      const turned = before ? r[i] * (recurrent(row, h) + biasOf(row)) : recurrent(row, reset) + biasOf(row);
      return (1 - z[i]) * g(given[row] + turned) + z[i] * value;
    });
    h.set(next);
  };

/** LSTM's step; gates are input, output, forget and cell. */
export const lstmStep =
  (inputForget: boolean): Step =>
  ({ given, h, c, recurrent, bias, peepholes, f: [f, g, last] }) => {
    const size = h.length;
    const sums = Float64Array.from(
      { length: 4 * size },
      (_, row) => given[row] + recurrent(row, h) + (bias?.[4 * size + row] ?? 0),
    );
    const peep = (gate: number, i: number, cell: number): number => (peepholes?.[gate * size + i] ?? 0) * cell;
    for (let i = 0; i < size; i++) {
      const input = f(sums[i] + peep(0, i, c[i]));
      const forget = inputForget ? 1 - input : f(sums[2 * size + i] + peep(2, i, c[i]));
      c[i] = forget * c[i] + input * g(sums[3 * size + i]);
      h[i] = f(sums[size + i] + peep(1, i, c[i])) * last(c[i]);
    }
  };

/** Runs a network over each sample in each direction. */
export function runRecurrent(call: RecurrentCall): void {
  const { inputs, Y, Y_h: lastH, Y_c: lastC, attrs, gates, usual } = call;
  const batchFirst = attrs.layout === 1;
  const [x, w, r] = [readNumbers(inputs.X), readNumbers(inputs.W), readNumbers(inputs.R)];
  const [directions, rows, size] = inputs.R.shape;
  const width = inputs.W.shape[2];
  const [length, batch] = batchFirst ? [inputs.X.shape[1], inputs.X.shape[0]] : inputs.X.shape;
  const [biases, peepholes] = [inputs.B && readNumbers(inputs.B), inputs.P && readNumbers(inputs.P)];
  const lengths = inputs.sequence_lens && readIntegers(inputs.sequence_lens);
  const [firstH, firstC] = [
    inputs.initial_h && readNumbers(inputs.initial_h),
    inputs.initial_c && readNumbers(inputs.initial_c),
  ];
  const names =
    attrs.activations.length > 0 ? attrs.activations : Array.from({ length: directions }, () => usual).flat();
  const f = activationsOf(names, attrs.activation_alpha, attrs.activation_beta, attrs.clip, usual.length);
  const y = new Float64Array(length * directions * batch * size);
  const [yH, yC] = [new Float64Array(directions * batch * size), new Float64Array(directions * batch * size)];
  for (let direction = 0; direction < directions; direction++) {
    const back = attrs.direction === "reverse" || direction === 1;
    const weights = w.subarray(direction * rows * width, (direction + 1) * rows * width);
    const turns = r.subarray(direction * rows * size, (direction + 1) * rows * size);
    const bias = biases?.subarray(direction * 2 * rows, (direction + 1) * 2 * rows);
    const peeps = peepholes?.subarray(direction * 3 * size, (direction + 1) * 3 * size);
    const own = f.slice(direction * usual.length, (direction + 1) * usual.length);
    const recurrent = (row: number, state: Float64Array): number => {
      let sum = 0;
      for (let i = 0; i < size; i++) sum += turns[row * size + i] * state[i];
      return sum;
    };
    for (let sample = 0; sample < batch; sample++) {
      const at = (batchFirst ? sample * directions + direction : direction * batch + sample) * size;
      const start = (values: Numbers | undefined): Float64Array =>
        values === undefined ? new Float64Array(size) : Float64Array.from(values.subarray(at, at + size));
      const [h, c] = [start(firstH), start(firstC)];
      const steps = lengths?.[sample] ?? length;
      const given = new Float64Array(gates * size);
      for (let step = 0; step < steps; step++) {
        const t = back ? steps - 1 - step : step;
        const from = (batchFirst ? sample * length + t : t * batch + sample) * width;
        for (let row = 0; row < rows; row++) {
          let sum = bias?.[row] ?? 0;
          for (let i = 0; i < width; i++) sum += x[from + i] * weights[row * width + i];
          given[row] = sum;
        }
        call.step({ given, h, c, peepholes: peeps, bias, recurrent, f: own });
        const place = batchFirst
          ? (sample * length + t) * directions + direction
          : (t * directions + direction) * batch + sample;
        y.set(h, place * size);
      }
      yH.set(h, at);
      yC.set(c, at);
    }
  }
  if (Y !== undefined) writeNumbers(Y, y);
  if (lastH !== undefined) writeNumbers(lastH, yH);
  if (lastC !== undefined) writeNumbers(lastC, yC);
}
