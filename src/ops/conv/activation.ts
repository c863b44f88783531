/** The activations that onnxruntime fuses into convolutions, with its names and parameters. */
import type { CallContext } from "../../graph/op.js";

/** What FusedConv says of its activation. */
interface Choice {
  readonly activation: string;
  readonly activation_params: readonly number[] | undefined;
}

/** How many parameters each takes. */
const parameters: Readonly<Record<string, number>> = {
  "": 0,
  Relu: 0,
  Tanh: 0,
  Sigmoid: 0,
  LeakyRelu: 1,
  Clip: 2,
  HardSigmoid: 2,
};

/** The function of one element. Fails for a name that is none of these. */
export function activationOf(call: CallContext, { activation, activation_params }: Choice): (x: number) => number {
  call.check(
    Object.hasOwn(parameters, activation),
    () => `activation must be one of ${Object.keys(parameters).slice(1).join(", ")}, got "${activation}"`,
    "invalid-argument",
  );
  const given = activation_params ?? [];
  call.check(
    given.length >= parameters[activation],
    () => `activation ${activation} needs ${parameters[activation]} activation_params, got [${given.join(",")}]`,
    "invalid-argument",
  );
  const [first, second] = given;
  switch (activation) {
    case "Relu":
      return (x) => (x < 0 ? 0 : x);
    case "Tanh":
      return Math.tanh;
    case "Sigmoid":
      return (x) => 1 / (1 + Math.exp(-x));
    case "LeakyRelu":
      return (x) => (x < 0 ? x * first : x);
    case "Clip":
      return (x) => Math.min(Math.max(x, first), second);
    case "HardSigmoid":
      return (x) => Math.min(Math.max(first * x + second, 0), 1);
    default:
      return (x) => x;
  }
}
