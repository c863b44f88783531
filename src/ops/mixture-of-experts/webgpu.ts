/**
 * MoE and QMoE on WebGPU: tokens are routed on the device, and each route's products read the weights of its own expert alone. A workgroup
 * sums up one element of a product.
 */
import type { Operand } from "../../graph/kernel.js";
import {
  bindingCount,
  dispatchOf,
  type ShaderPart,
  type Variable,
  variable,
} from "../../webgpu-kernels/shader-part.js";
import { type WebgpuKernel, webgpuKernel, type WebgpuRecorder } from "../../webgpu-kernels/webgpu-kernel.js";
import { isFloatType, perWord, range, read, workgroupsFor } from "../../webgpu-kernels/wgsl.js";
import { elementWords } from "../shared/webgpu/element-words.js";
import { functionsPart } from "../shared/webgpu/functions.js";
import { expertsOf, floatBits, fusionOf, type ProductOperands, type WeightForm } from "./infer.js";
import { type Call, formOf, given } from "./call.js";
import { MoE, QMoE } from "./op.js";
import { route } from "./webgpu-route.js";
import { expertWeights, gateExperts, mixExperts } from "./webgpu-blocks.js";

/** Storage buffers that every device binds to one dispatch. */
const mostBindings = 8;

/** Bytes that every device binds at once: what lies between two products is no larger. */
const mostBytes = 2 ** 27;

/** Words of workgroup memory that every device has. */
const mostRanks = 2 ** 12;

/** Invocations that share a sum. */
const lanes = 64;

const offsetOf = (operand: Operand | undefined): number => operand?.place.offset ?? 0;

/** What a product of a route reads of its operands. */
function weightsOf({ weights, scales, zeros, bias }: ProductOperands<Operand>): {
  readonly weights: Variable;
  readonly scales: Variable | undefined;
  readonly zeros: Variable | undefined;
  readonly bias: Variable | undefined;
} {
  return {
    weights: variable("weights", weights),
    scales: scales && variable("scales", scales),
    zeros: zeros && variable("zeros", zeros),
    bias: bias && variable("bias", bias),
  };
}

/** Sizes of a call: the size between products, that of the first one's rows, and the routes of all tokens. */
function sizesOf(call: Call): { readonly hidden: number; readonly inner: number; wide: number; count: number } {
  const { inputs, attrs } = call;
  const { bits } = formOf(attrs);
  const { fc2, fc3 } = expertsOf<Operand>(inputs);
  const hidden = inputs.input.shape.at(-1)!;
  const held = fc2.weights.place.size * (bits === floatBits ? 1 : 8 / bits);
  const inner = held / fc2.weights.shape[0] / hidden;
  const wide = fusionOf(attrs, fc3 !== undefined) === "none" ? inner : 2 * inner;
  return { hidden, inner, wide, count: inputs.router_probs.shape[0] * attrs.k };
}

/** rows · weightsᵀ + bias of each route: `n` elements of rows of `k`, of which every `per` routes share one. */
interface ProductSizes {
  readonly n: number;
  readonly k: number;
  readonly per: number;
  readonly count: number;
}

function multiply(
  name: string,
  operands: ProductOperands<Operand>,
  { bits, blockSize }: WeightForm,
  { n, k, per, count }: ProductSizes,
  { source, routes, target }: { readonly source: Operand; readonly routes: Operand; readonly target: Operand },
  recorder: WebgpuRecorder,
): void {
  const { weights, scales, zeros, bias } = weightsOf(operands);
  const [rows, chosen] = [variable("source", source), variable("routes", routes)];
  const sourceAt = (at: string): string => rows.load(`p.sourceOffset + (route / p.per) * p.k + ${at}`);
  const each = 32 / bits;
  const step = bits === floatBits || k % each !== 0 ? 1 : each;
  const mask = `${2 ** bits - 1}u`;
  const zeroPlace = operands.zeros?.shape.length === 3 ? ["row", "block"] : ["expert", "column"];
  const zero =
    zeros === undefined
      ? `${2 ** (bits - 1)}.0`
      : `f32((${read("uint8", zeros, `${zeroPlace[0]} * p.zeroBytes + ${zeroPlace[1]} * ${bits}u / 8u`)} >> (${zeroPlace[1]} * ${bits}u % 8u)) & ${mask})`;
  const levels = `let position = row * p.k + at;
    let block = at / p.block;
    let zero = ${zero};
    let word = ${weights.at(`position / ${each}u`)} >> (position % ${each}u * ${bits}u);
    var part = 0.0;
${range(step)
  .map((i) => `    part += (f32((word >> ${i * bits}u) & ${mask}) - zero) * ${sourceAt(`at + ${i}u`)};`)
  .join("\n")}
    sum += part * ${scales?.load("row * p.blocks + block") ?? "1.0"};`;
  const floats = `sum += ${weights.load("p.weightsOffset + row * p.k + at")} * ${sourceAt("at")};`;
  recorder.dispatch(
    dispatchOf({
      name,
      parts: [rows, chosen, weights, scales, zeros, bias, variable("target_", target, { writes: true })],
      parameters: {
        n,
        k,
        per,
        units: count * n,
        block: blockSize === 0 ? k : Math.min(k, blockSize),
        blocks: blockSize === 0 ? 1 : Math.ceil(k / blockSize),
        zeroBytes: operands.zeros?.shape.at(operands.zeros.shape.length === 3 ? 2 : 1) ?? 0,
        sourceOffset: offsetOf(source),
        weightsOffset: offsetOf(operands.weights),
        biasOffset: offsetOf(operands.bias),
      },
      workgroups: workgroupsFor(count * n, 1, recorder.device.mostWorkgroups),
      code: `var<workgroup> sums: array<f32, ${lanes}>;
@compute @workgroup_size(${lanes}) fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) lane: u32,
) {
  let unit = group.y * groups.x + group.x;
  if (unit >= p.units) { return; }
  let route = unit / p.n;
  let column = unit % p.n;
  let expert = routes[route];
  let row = expert * p.n + column;
  var sum = 0.0;
  for (var at = lane * ${step}u; at < p.k; at += ${lanes * step}u) {
    ${bits === floatBits ? floats : levels}
  }
  sums[lane] = sum;
  workgroupBarrier();
  for (var half = ${lanes / 2}u; half > 0u; half >>= 1u) {
    if (lane < half) { sums[lane] += sums[lane + half]; }
    workgroupBarrier();
  }
  if (lane == 0u) { target_[unit] = bitcast<u32>(sums[0]${bias === undefined ? "" : ` + ${bias.load("p.biasOffset + row")}`}); }
}`,
    }),
  );
}

/** The second product's rows from those of the first, and of the third where there is one. */
function activate(
  { inputs, attrs }: Call,
  { wide, inner }: { readonly wide: number; readonly inner: number },
  { first, third, target }: { readonly first: Operand; readonly third: Operand | undefined; readonly target: Operand },
  recorder: WebgpuRecorder,
): void {
  const fusion = fusionOf(attrs, expertsOf<Operand>(inputs).fc3 !== undefined);
  const values = variable("values", first);
  const linears = third && variable("linears", third);
  const own = "element / p.inner * p.wide";
  const place = "element % p.inner";
  const value = values.load(fusion === "interleaved" ? `${own} + 2u * (${place})` : `${own} + ${place}`);
  const linear =
    fusion === "interleaved"
      ? values.load(`${own} + 2u * (${place}) + 1u`)
      : fusion === "halves"
        ? values.load(`${own} + p.inner + ${place}`)
        : (linears?.load("element") ?? "1.0");
  recorder.dispatch(
    elementWords(recorder.device, {
      name: "activateExperts",
      output: target,
      parts: [activationPart(attrs), values, linears],
      parameters: { wide, inner },
      body: `  return activated(${value}, ${linear});`,
    }),
  );
}

/** `activated(value, linear) -> f32`. */
function activationPart(attrs: Call["attrs"]): ShaderPart {
  const limited = Number.isFinite(attrs.swiglu_limit);
  const swiglu = `let gate = ${limited ? "smaller(value, p.limit)" : "value"};
  let other = ${limited ? "smaller(larger(linear, -p.limit), p.limit)" : "linear"};
  return gate * sigmoid(p.alpha * gate) * (other + p.beta);`;
  const plain = {
    relu: "larger(0.0, value)",
    gelu: "geluByTangent(value)",
    silu: "value * sigmoid(value)",
    identity: "value",
  };
  const { activation_type: kind } = attrs;
  return {
    uses: [functionsPart("sigmoid", "smaller", "larger", "geluByTangent")],
    parameters: {
      alpha: { float: attrs.activation_alpha },
      beta: { float: attrs.activation_beta },
      limit: { float: limited ? attrs.swiglu_limit : 0 },
    },
    code: `fn activated(value: f32, linear: f32) -> f32 {
  ${kind === "swiglu" ? swiglu : `return ${plain[kind]} * linear;`}
}`,
  };
}

/** True if both products read whole chunks of blocks, and all of a row by fours. */
function readsBlocks({ inputs, attrs }: Call, { hidden, inner }: ReturnType<typeof sizesOf>): boolean {
  const { fc1, fc2, fc3 } = expertsOf<Operand>(inputs);
  const form = formOf(attrs);
  return (
    form.bits !== floatBits &&
    fc3 === undefined &&
    offsetOf(inputs.input) % 4 === 0 &&
    expertWeights(fc1, form, hidden) !== undefined &&
    expertWeights(fc2, form, inner) !== undefined
  );
}

/** Each token's experts, weighed and summed. */
export const experts: WebgpuKernel = webgpuKernel([MoE, QMoE], {
  accepts(call) {
    const { inputs, outputs, attrs } = call as Call;
    const { fc1, fc2, fc3 } = expertsOf<Operand>(inputs);
    const products = [fc1, fc2, ...(fc3 === undefined ? [] : [fc3])];
    const floats = [inputs.input, inputs.router_probs, given(inputs), outputs.output];
    for (const operand of [...floats, ...products.flatMap(({ bias, scales }) => [bias, scales])])
      if (operand !== undefined && !isFloatType(operand.type)) return `there is no kernel for ${operand.type}`;
    const held = products.flatMap(({ weights, scales, zeros }) => [weights, scales, zeros]);
    for (const operand of [...floats, ...held, ...products.map(({ bias }) => bias)])
      if (operand?.contiguous === false) return "an operand has gaps";
    if (held.some((operand) => offsetOf(operand) !== 0)) return "weights do not begin where their memory does";
    if (offsetOf(outputs.output) % perWord(outputs.output.type) !== 0) return "the output begins inside of a word";
    if (formOf(attrs).bits !== floatBits && fc1.weights.type !== "uint8") return "the weights are no bytes";
    for (const product of products) {
      const own = Object.values(weightsOf(product)).filter((each) => each !== undefined);
      if (bindingCount(own) + 3 > mostBindings) return "the weights lie in more buffers than a dispatch binds";
    }
    const { wide, hidden, inner, count } = sizesOf(call as Call);
    if (4 * count * Math.max(wide, hidden) > mostBytes) return "rows between the products are larger than a binding";
    if (fc1.weights.shape[0] * Math.max(wide, inner) * hidden >= 2 ** 32) return "the weights are more than 2^32";
    if (fc1.weights.shape[0] + 2 * attrs.k > mostRanks) return "there are more experts than a workgroup holds";
    return true;
  },
  record(call, recorder) {
    const { inputs, outputs, attrs } = call as Call;
    const { output } = outputs;
    const { hidden, inner, wide, count } = sizesOf(call as Call);
    if (output.place.size === 0) return;
    const { fc1, fc2, fc3 } = expertsOf<Operand>(inputs);
    const form = formOf(attrs);
    const routes = recorder.between("uint32", [2 * count]);
    route(call as Call, routes, recorder);
    if (readsBlocks(call as Call, { hidden, inner, wide, count })) {
      const each = { form, chosen: attrs.k, count, routes };
      const activation = { part: activationPart(attrs), fusion: fusionOf(attrs, false), inner };
      const rows = recorder.between("float32", [count, inner]);
      gateExperts({ ...each, operands: fc1, n: wide, k: hidden }, inputs.input, activation, rows, recorder);
      return mixExperts({ ...each, operands: fc2, n: hidden, k: inner }, rows, output, recorder);
    }
    const first = recorder.between("float32", [count, wide]);
    const rows = { source: inputs.input, routes };
    const each = { k: hidden, per: attrs.k, count };
    multiply("multiplyExperts", fc1, form, { n: wide, ...each }, { ...rows, target: first }, recorder);
    const third = fc3 && recorder.between("float32", [count, inner]);
    if (fc3 !== undefined)
      multiply("multiplyExperts", fc3, form, { n: inner, ...each }, { ...rows, target: third! }, recorder);
    const between = recorder.between("float32", [count, inner]);
    activate(call as Call, { wide, inner }, { first, third, target: between }, recorder);
    const last = recorder.between("float32", [count, hidden]);
    const back = { n: hidden, k: inner, per: 1, count };
    multiply("multiplyExperts", fc2, form, back, { source: between, routes, target: last }, recorder);
    const [answers, chosen] = [variable("answers", last), variable("routes", routes)];
    recorder.dispatch(
      elementWords(recorder.device, {
        name: "mixExperts",
        output,
        parts: [answers, chosen],
        parameters: { k: attrs.k, hidden, routeCount: count },
        body: `  let token = element / p.hidden;
  var sum = 0.0;
  for (var at = token * p.k; at < (token + 1u) * p.k; at++) {
    sum += bitcast<f32>(routes[p.routeCount + at]) * ${answers.load("at * p.hidden + element % p.hidden")};
  }
  return sum;`,
      }),
    );
  },
});
