/** The experts computed slowly: each chosen expert's rows of weights once, for all of its tokens. */
import { type Numbers, readNumbers, writeNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { lowBitsAt } from "../shared/loops/low-bits.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import {
  type ExpertAttributes,
  type ExpertOperands,
  floatBits,
  fusionOf,
  type ProductOperands,
  type WeightForm,
} from "./infer.js";
import { type Routes, routeToken } from "./route.js";

/** What both operators compute with. */
interface ExpertCall {
  readonly input: View;
  readonly scores: View;
  readonly given: View | undefined;
  readonly output: View;
  readonly operands: ExpertOperands<View>;
  readonly attrs: ExpertAttributes & {
    readonly normalize_routing_weights: boolean;
    readonly activation_alpha: number;
    readonly activation_beta: number;
    readonly swiglu_limit: number;
  };
  readonly form: WeightForm;
}

/** Each token's experts, weighed and summed. */
export function computeExperts({ input, scores, given, output, operands, attrs, form }: ExpertCall): void {
  const hidden = input.shape.at(-1)!;
  const tokens = hidden === 0 ? 0 : input.size / hidden;
  if (tokens === 0) return;
  const experts = scores.shape[1];
  const [values, probabilities] = [readNumbers(input), readNumbers(scores)];
  const weights = given && readNumbers(given);
  const { k, normalize_routing_weights: normalize, use_sparse_mixer: sparseMixer } = attrs;
  const routes = Array.from({ length: tokens }, (_, token) =>
    routeToken(probabilities, token * experts, experts, { k, normalize, sparseMixer }, weights),
  );
  const products = productsOf(operands, form, hidden);
  const result = float64Scratch(tokens * hidden);
  for (let expert = 0; expert < experts; expert++) {
    const own = chosenBy(routes, expert);
    if (own.length === 0) continue;
    const rows = own.map(({ token }) => values.slice(token * hidden, (token + 1) * hidden));
    const first = products.fc1(expert, rows);
    const third = products.fc3?.(expert, rows);
    const inner = first.map((row, at) => activate(row, third?.[at], attrs));
    products.fc2(expert, inner).forEach((row, at) => {
      const { token, weight } = own[at];
      for (let i = 0; i < hidden; i++) result[token * hidden + i] += weight * row[i];
    });
  }
  writeNumbers(output, result);
}

const chosenBy = (routes: readonly Routes[], expert: number): { token: number; weight: number }[] =>
  routes.flatMap(({ experts, weights }, token) => {
    const at = experts.indexOf(expert);
    return at < 0 ? [] : [{ token, weight: weights[at] }];
  });

/** A row of the first product as the second takes it. */
function activate(row: Float64Array, third: Float64Array | undefined, attrs: ExpertCall["attrs"]): Float64Array {
  const fusion = fusionOf(attrs, third !== undefined);
  const size = fusion === "none" ? row.length : row.length / 2;
  const result = new Float64Array(size);
  const { activation_alpha: alpha, activation_beta: beta, swiglu_limit: limit } = attrs;
  for (let i = 0; i < size; i++) {
    const value = fusion === "interleaved" ? row[2 * i] : row[i];
    const linear = fusion === "interleaved" ? row[2 * i + 1] : fusion === "halves" ? row[size + i] : third?.[i];
    if (attrs.activation_type === "swiglu") {
      const gate = Math.min(value, limit);
      const other = Math.min(Math.max(linear!, -limit), limit);
      result[i] = (gate / (1 + Math.exp(-alpha * gate))) * (other + beta);
    } else result[i] = plain[attrs.activation_type](value) * (linear ?? 1);
  }
  return result;
}

const plain = {
  relu: (x: number): number => Math.max(0, x),
  gelu: (x: number): number => 0.5 * x * (1 + Math.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))),
  silu: (x: number): number => x / (1 + Math.exp(-x)),
  identity: (x: number): number => x,
};

type Product = (expert: number, rows: readonly Numbers[]) => Float64Array[];

function productsOf(
  { fc1, fc2, fc3 }: ExpertOperands<View>,
  form: WeightForm,
  hidden: number,
): { fc1: Product; fc2: Product; fc3: Product | undefined } {
  const sizeOf = ({ weights }: ProductOperands<View>): number =>
    ((weights.size / weights.shape[0]) * (form.bits === floatBits ? 1 : 8 / form.bits)) / hidden;
  const inner = sizeOf(fc2);
  return {
    fc1: productOf(fc1, form, sizeOf(fc1), hidden),
    fc2: productOf(fc2, form, hidden, inner),
    fc3: fc3 && productOf(fc3, form, inner, hidden),
  };
}

/** rows · weightsᵀ + bias of one expert. */
function productOf(operands: ProductOperands<View>, form: WeightForm, outer: number, inner: number): Product {
  const bias = operands.bias && readNumbers(operands.bias); // [experts, outer]
  const weightRow = form.bits === floatBits ? floatRows(operands, inner) : levelRows(operands, form, outer, inner);
  return (expert, rows) => {
    const results = rows.map(() => new Float64Array(outer));
    for (let column = 0; column < outer; column++) {
      const weights = weightRow(expert * outer + column);
      const start = bias?.[expert * outer + column] ?? 0;
      rows.forEach((row, at) => {
        let sum = start;
        for (let i = 0; i < inner; i++) sum += row[i] * weights[i];
        results[at][column] = sum;
      });
    }
    return results;
  };
}

function floatRows({ weights }: ProductOperands<View>, inner: number): (row: number) => Numbers {
  const values = readNumbers(weights);
  return (row) => values.subarray(row * inner, (row + 1) * inner);
}

/** Rows of dequantized weights, counted over all experts; the array that is returned is used again. */
function levelRows(
  { weights, scales, zeros }: ProductOperands<View>,
  { bits, blockSize }: WeightForm,
  outer: number,
  inner: number,
): (row: number) => Numbers {
  const bytes = readNumbers(weights);
  const factors = readNumbers(scales!); // [experts, outer, blocks]
  const points = zeros && readNumbers(zeros);
  const blocks = blockSize === 0 ? 1 : Math.ceil(inner / blockSize);
  const perByte = 8 / bits;
  const result = float64Scratch(inner);
  const zeroOf = (row: number, block: number): number => {
    if (points === undefined) return 2 ** (bits - 1);
    // One to a row: those of an expert's rows follow each other. Several: each row's begin with a byte.
    if (zeros!.rank === 3) return lowBitsAt(points, bits, row * zeros!.shape[2], block);
    const expert = Math.floor(row / outer);
    return lowBitsAt(points, bits, expert * zeros!.shape[1], row - expert * outer);
  };
  return (row) => {
    for (let i = 0; i < inner; i++) {
      const block = blocks === 1 ? 0 : Math.floor(i / blockSize);
      result[i] =
        (lowBitsAt(bytes, bits, (row * inner) / perByte, i) - zeroOf(row, block)) * factors[row * blocks + block];
    }
    return result;
  };
}
