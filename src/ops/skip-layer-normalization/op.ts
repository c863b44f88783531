/** Skip connections and normalisation in one: input + skip + bias, brought to unit size over the last dimension, scaled and shifted. */
import { float } from "../../graph/attribute.js";
import { reuse } from "../../graph/effect.js";
import { isKnown, type Shape, shapeText } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, type OutputFact, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import type { View } from "../../tensor/view.js";
import { meanSquare, moments } from "../shared/loops/rows.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";

const domain = "com.microsoft";
const types = { T: ["float32", "float16", "bfloat16"] as readonly ElementType[] };
const attrs = { epsilon: float(Math.fround(1e-12)) };
const outputs = {
  output: tensor("T"),
  mean: optional(tensor("float32")),
  inv_std_var: optional(tensor("float32")),
  input_skip_bias_sum: optional(tensor("T")),
};

const effects = { output: reuse("input", "skip") };

/** Checks the operands and gives the shapes of all outputs. */
function inferSkip(
  call: CallContext,
  input: Fact,
  skip: Fact,
  vectors: Readonly<Record<string, Fact | undefined>>,
): Record<keyof typeof outputs, OutputFact> {
  checkRank(call, "input", input, 2, 3);
  checkRank(call, "skip", skip, 2, 3);
  for (const [name, fact] of Object.entries(vectors)) {
    checkRank(call, name, fact, 1);
    if (fact?.shape !== undefined && input.shape !== undefined)
      unifyDims(call, fact.shape[0], input.shape.at(-1)!, `${name} must have the length of input's last dimension`);
  }
  if (input.shape !== undefined && skip.shape !== undefined) checkSkip(call, input.shape, skip.shape);
  const { shape } = input;
  const statistics = shape?.map((dim, axis) => (axis === shape.length - 1 ? 1 : dim));
  return {
    output: { shape },
    mean: { shape: statistics },
    inv_std_var: { shape: statistics },
    input_skip_bias_sum: { shape },
  };
}

/** Fails unless skip has the shape of input, or lacks its batch dimension, or has 1 there. */
function checkSkip(call: CallContext, input: Shape, skip: Shape): void {
  const lead = input.length - skip.length;
  const fits =
    lead >= 0 &&
    skip.every(
      (dim, axis) =>
        !isKnown(dim) ||
        !isKnown(input[axis + lead]) ||
        dim === input[axis + lead] ||
        (dim === 1 && axis === 0 && input.length === 3 && lead === 0),
    );
  call.check(
    fits,
    () =>
      `skip must have the shape of input ${shapeText(input)}, or 1 or nothing for its batch, got ${shapeText(skip)}`,
  );
}

/** What the reference implementation of both operators works on. */
interface Skipped {
  readonly input: View;
  readonly skip: View;
  readonly gamma: View;
  readonly beta: View | undefined;
  readonly bias: View | undefined;
  readonly epsilon: number;
  /** Without the mean: the root of the mean square alone. */
  readonly simplified: boolean;
}

function normalize(
  { input, skip, gamma, beta, bias, epsilon, simplified }: Skipped,
  results: { readonly [N in keyof typeof outputs]: View | undefined },
): void {
  const width = input.shape[input.rank - 1];
  const sums = float64Scratch(input.size);
  const [a, b] = [readNumbers(input), readNumbers(skip.broadcastTo(input.shape))];
  const [scales, shifts, added] = [readNumbers(gamma), beta && readNumbers(beta), bias && readNumbers(bias)];
  for (let i = 0; i < sums.length; i++) sums[i] = a[i] + b[i] + (added === undefined ? 0 : added[i % width]);
  const rows = width === 0 ? 0 : sums.length / width;
  const result = float64Scratch(sums.length);
  const [means, inverses] = [float64Scratch(rows), float64Scratch(rows)];
  for (let row = 0; row < rows; row++) {
    const start = row * width;
    const { mean, variance } = moments(sums, start, width);
    const center = simplified ? 0 : mean;
    const spread = simplified ? meanSquare(sums, start, width) : variance;
    const inverse = 1 / Math.sqrt(spread + epsilon);
    for (let i = 0; i < width; i++) {
      result[start + i] = (sums[start + i] - center) * inverse * scales[i] + (shifts === undefined ? 0 : shifts[i]);
    }
    means[row] = mean;
    inverses[row] = inverse;
  }
  const { output, mean, inv_std_var, input_skip_bias_sum } = results;
  if (output !== undefined) writeNumbers(output, result);
  if (input_skip_bias_sum !== undefined) writeNumbers(input_skip_bias_sum, sums);
  if (mean !== undefined) writeNumbers(mean, means);
  if (inv_std_var !== undefined) writeNumbers(inv_std_var, inverses);
}

/** (x − mean) / √(variance + epsilon) · gamma + beta, of x = input + skip + bias. */
export const SkipLayerNormalization = defineOp({
  name: "SkipLayerNormalization",
  domain,
  since: 1,
  types,
  inputs: {
    input: tensor("T"),
    skip: tensor("T"),
    gamma: tensor("T"),
    beta: optional(tensor("T")),
    bias: optional(tensor("T")),
  },
  outputs,
  attrs,
  effects,
  infer(call) {
    const { input, skip, gamma, beta, bias } = call.inputs;
    return inferSkip(call, input, skip, { gamma, beta, bias });
  },
  reference: (call) => normalize({ ...call.inputs, epsilon: call.attrs.epsilon, simplified: false }, call.outputs),
});

/** x / √(mean of squares + epsilon) · gamma, of x = input + skip + bias. */
export const SkipSimplifiedLayerNormalization = defineOp({
  name: "SkipSimplifiedLayerNormalization",
  domain,
  since: 1,
  types,
  inputs: { input: tensor("T"), skip: tensor("T"), gamma: tensor("T"), bias: optional(tensor("T")) },
  outputs,
  attrs,
  effects,
  infer(call) {
    const { input, skip, gamma, bias } = call.inputs;
    return inferSkip(call, input, skip, { gamma, bias });
  },
  reference: (call) =>
    normalize({ ...call.inputs, beta: undefined, epsilon: call.attrs.epsilon, simplified: true }, call.outputs),
});
