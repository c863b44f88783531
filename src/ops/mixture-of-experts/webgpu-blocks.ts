/**
 * Experts with weights of few bits in blocks on WebGPU: each of both products in one dispatch with what follows it, the activation or the weighed sum over
 * a token's routes. A team of invocations has some rows of one expert's weights, each lane every so manieth chunk of them.
 */
import type { Operand } from "../../graph/kernel.js";
import { dispatchOf, type ShaderPart, type Variable, variable } from "../../webgpu-kernels/shader-part.js";
import type { WebgpuRecorder } from "../../webgpu-kernels/webgpu-kernel.js";
import { pack, packing, perWord, range, unrolled, workgroupsFor } from "../../webgpu-kernels/wgsl.js";
import { blockWeights, zeroPointsOf } from "../shared/webgpu/block-weights.js";
import type { Weights } from "../shared/webgpu/product-operands.js";
import type { ProductOperands, WeightForm } from "./infer.js";

/** Rows of a team at a time: they share what is read of the other operand. */
const columns = 4;

/** Teams of a workgroup that share nothing. */
const usualTeams = 4;

/** Invocations of a workgroup that every device has. */
const mostThreads = 256;

/** One product of all routes. */
export interface RoutedProduct {
  readonly operands: ProductOperands<Operand>;
  readonly form: WeightForm;
  /** Rows of an expert, and their length. */
  readonly n: number;
  readonly k: number;
  /** Routes of a token, and of all tokens. */
  readonly chosen: number;
  readonly count: number;
  readonly routes: Operand;
}

/** Where the first rows are read: [tokens, k], or [routes, k] in float32. */
type Rows = Operand;

/** The weights as what reads them; undefined where they are not whole chunks of blocks. */
export function expertWeights(
  { weights, scales, zeros }: ProductOperands<Operand>,
  { bits, blockSize: given }: WeightForm,
  k: number,
): Weights | undefined {
  const blockSize = given === 0 ? k : Math.min(k, given);
  const isWhole = k % blockSize === 0 && (blockSize * bits) % 32 === 0 && k % 4 === 0;
  const isPacked = zeros === undefined || (zeros.type === "uint8" && zeros.shape.length === 3);
  if (scales === undefined || weights.type !== "uint8" || ![2, 4, 8].includes(bits) || !isWhole || !isPacked)
    return undefined;
  return blockWeights({ data: weights, scales, zeros: zeroPointsOf(zeros, bits), bits, blockSize, k });
}

/** A sum of each row of a team in all its lanes: over the subgroup, or through workgroup memory. */
function sumsOf(lanes: number, threads: number, width: number): { readonly memory: string; readonly code: string } {
  if (width === lanes) return { memory: "", code: "sums = subgroupAdd(sums);" };
  const steps = range(Math.log2(lanes)).map((step) => lanes >> (step + 1));
  return {
    memory: `var<workgroup> held: array<vec4f, ${threads}>;`,
    code: `held[local] = sums;
  workgroupBarrier();
  ${steps.map((half) => `if (lane < ${half}u) { held[local] += held[local + ${half}u]; }\n  workgroupBarrier();`).join("\n  ")}
  sums = held[local - lane];
  workgroupBarrier();`,
  };
}

/** Products of `columns` rows of a team with one row of the other operand, into `sums`. */
function multiplied(weights: Weights, rows: Variable, lanes: number): string {
  const { chunk, chunks } = weights;
  const own = range(columns).map((column) => `w${column}`);
  const quads = own.map((from) => weights.quads(from));
  return `var sums = vec4f();
  for (var at = lane; at < ${chunks}u; at += ${lanes}u) {
    ${own.map((name, column) => `let ${name} = weightChunk(r${column}, at);`).join(" ")}
    var part = vec4f();
    let first = (begin + at * ${chunk}u) / 4u;
${range(chunk / 4)
  .map(
    (quad) => `    { let a = ${rows.loadFour(`first + ${quad}u`)};
      part += vec4f(${quads.map((each) => `dot(a, ${each[quad]})`).join(", ")}); }`,
  )
  .join("\n")}
    sums += part * vec4f(${own.map((name) => weights.scale(name)).join(", ")});
  }`;
}

/** The parts that both products have, and how their invocations are divided. */
function division(
  { operands, form, k, routes }: RoutedProduct,
  rows: Rows,
  { device }: WebgpuRecorder,
): {
  readonly lanes: number;
  readonly width: number;
  readonly weights: Weights;
  readonly source: Variable;
  readonly parts: readonly (ShaderPart | undefined)[];
  readonly bias: Variable | undefined;
} {
  const weights = expertWeights(operands, form, k)!; // or it was not accepted
  const width = device.subgroup ?? 1;
  const source = variable("source", rows, { element: "four" });
  const bias = operands.bias && variable("bias", operands.bias);
  return {
    lanes: Math.max(32, width),
    width,
    weights,
    source,
    bias,
    parts: [packing, source, weights, bias, variable("routes", routes)],
  };
}

const head = (threads: number): string => `@compute @workgroup_size(${threads}) fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32,
) {
  let at_ = group.y * groups.x + group.x;`;

/**
 * Rows of the first product made those of the second: `activated(value, linear) -> f32` of the pairs that it has side by side or in halves, or of single
 * ones. The result is [routes, inner] in float32.
 */
export function gateExperts(
  product: RoutedProduct,
  source: Rows,
  activation: { readonly part: ShaderPart; readonly fusion: "none" | "interleaved" | "halves"; readonly inner: number },
  target: Operand,
  recorder: WebgpuRecorder,
): void {
  const { n, k, chosen, count } = product;
  const { part, fusion, inner } = activation;
  const { lanes, width, weights, source: rows, bias, parts } = division(product, source, recorder);
  const teams = Math.min(usualTeams, Math.floor(mostThreads / lanes));
  const threads = lanes * teams;
  const each = fusion === "none" ? columns : columns / 2;
  const units = Math.ceil(inner / each);
  const rowOf = (column: number): string => {
    if (fusion === "none") return `min(unit * ${each}u + ${column}u, ${inner - 1}u)`;
    const own = `min(unit * ${each}u + ${column >> 1}u, ${inner - 1}u)`;
    return fusion === "interleaved" ? `2u * ${own} + ${column & 1}u` : `${own} + ${(column & 1) * inner}u`;
  };
  const sums = sumsOf(lanes, threads, width);
  const biased = (column: number): string =>
    `sums[${column}] ${bias === undefined ? "" : `+ ${bias.load(`p.biasOffset + r${column}`)}`}`;
  const values = range(each).map((at) =>
    fusion === "none" ? `activated(${biased(at)}, 1.0)` : `activated(${biased(2 * at)}, ${biased(2 * at + 1)})`,
  );
  recorder.dispatch(
    dispatchOf({
      name: "gateExperts",
      parts: [...parts, part, variable("target_", target, { writes: true })],
      extensions: width === lanes ? ["subgroups"] : [],
      parameters: { k, sourceOffset: source.place.offset, biasOffset: product.operands.bias?.place.offset ?? 0, count },
      workgroups: workgroupsFor(units * count, teams, recorder.device.mostWorkgroups),
      code: `${sums.memory}
${head(threads)}
  let lane = local % ${lanes}u;
  let team = at_ * ${teams}u + local / ${lanes}u;
  let route = min(team / ${units}u, p.count - 1u);
  let unit = team % ${units}u;
  let base = routes[route] * ${n}u;
  ${unrolled(columns, (column) => `let r${column} = base + ${rowOf(column)};`, " ")}
  let begin = p.sourceOffset + route / ${chosen}u * ${k}u;
  ${multiplied(weights, rows, lanes)}
  ${sums.code}
  if (lane == 0u && team < p.count * ${units}u) {
    ${values.map((value, at) => `if (unit * ${each}u + ${at}u < ${inner}u) { target_[route * ${inner}u + unit * ${each}u + ${at}u] = bitcast<u32>(${value}); }`).join("\n    ")}
  }
}`,
    }),
  );
}

/** The second product, its routes weighed and summed for each token: a team has one of the routes. */
export function mixExperts(product: RoutedProduct, source: Rows, output: Operand, recorder: WebgpuRecorder): void {
  const { n, k, chosen, count } = product;
  const { lanes, width, weights, source: rows, bias, parts } = division(product, source, recorder);
  const teams = Math.min(chosen, Math.floor(mostThreads / lanes));
  const threads = lanes * teams;
  const units = Math.ceil(n / columns);
  const sums = sumsOf(lanes, threads, width);
  const each = perWord(output.type);
  const addBias =
    bias === undefined
      ? ""
      : `+ vec4f(${range(columns)
          .map((column) => bias.load(`p.biasOffset + r${column}`))
          .join(", ")})`;
  const words = range(columns / each).map(
    (word) =>
      `if (first + ${word * each}u < ${n}u) { result[(p.resultOffset + token * ${n}u + first + ${word * each}u) / ${each}u] = ${pack(
        output.type,
        range(each).map((at) => `all[${word * each + at}]`),
      )}; }`,
  );
  recorder.dispatch(
    dispatchOf({
      name: "mixExperts",
      parts: [...parts, variable("result", output, { writes: true })],
      extensions: width === lanes ? ["subgroups"] : [],
      parameters: {
        k,
        sourceOffset: source.place.offset,
        biasOffset: product.operands.bias?.place.offset ?? 0,
        resultOffset: output.place.offset,
        routeCount: count,
      },
      workgroups: workgroupsFor(units * (count / chosen), 1, recorder.device.mostWorkgroups),
      code: `var<workgroup> mixed: array<vec4f, ${teams}>;
${sums.memory}
${head(threads)}
  let lane = local % ${lanes}u;
  let team = local / ${lanes}u;
  let token = min(at_ / ${units}u, p.routeCount / ${chosen}u - 1u);
  let first = at_ % ${units}u * ${columns}u;
  var total = vec4f();
  for (var place = 0u; place < ${chosen}u; place += ${teams}u) {
    let route = token * ${chosen}u + min(place + team, ${chosen - 1}u);
    let base = routes[route] * ${n}u;
    ${unrolled(columns, (column) => `let r${column} = base + min(first + ${column}u, ${n - 1}u);`, " ")}
    let begin = p.sourceOffset + route * ${k}u;
    ${multiplied(weights, rows, lanes)}
    ${sums.code}
    if (place + team < ${chosen}u) { total += bitcast<f32>(routes[p.routeCount + route]) * (sums ${addBias}); }
  }
  if (lane == 0u) { mixed[team] = total; }
  workgroupBarrier();
  if (local == 0u && at_ < ${units}u * (p.routeCount / ${chosen}u)) {
    var all = mixed[0];
    for (var other = 1u; other < ${teams}u; other++) { all += mixed[other]; }
    ${words.join("\n    ")}
  }
}`,
    }),
  );
}
