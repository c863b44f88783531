/**
 * LinearAttention on WebGPU, in float32: an invocation walks the tokens with one column of a head's state, which lies in the present; columns do
 * not know of each other, so that nothing waits. States and results of halves are kept as floats for as long as the tokens are walked.
 */
import { isInPlace, type Operand } from "../../graph/kernel.js";
import {
  type DeviceTraits,
  type Dispatch,
  type Parameter,
  type Temporary,
  type WebgpuKernel,
  webgpuKernel,
  type WebgpuRecorder,
} from "../../webgpu-kernels/webgpu-kernel.js";
import { invocationsOf, type ShaderPart, type Variable, variable } from "../../webgpu-kernels/shader-part.js";
import { isShaderType, perWord } from "../../webgpu-kernels/wgsl.js";
import { elementWords } from "../shared/webgpu/element-words.js";
import { functionsPart } from "../shared/webgpu/functions.js";
import { acceptsRows, type Heads, headsOf } from "../shared/webgpu/heads.js";
import { moveRows, placeOf } from "../shared/webgpu/rows.js";
import { corrects, decays, headCounts } from "./infer.js";
import { LinearAttention, MicrosoftLinearAttention } from "./op.js";

/** Updates the state with each token and reads it. */
export const linearAttention: WebgpuKernel = webgpuKernel([LinearAttention, MicrosoftLinearAttention], {
  accepts({ inputs, outputs: { output, present_state: present }, attrs }) {
    if (output === undefined || present === undefined) return "not both outputs are asked for";
    if ("state_window" in attrs && attrs.state_window > 0) return "the state has a window";
    for (const operand of [...Object.values(inputs), output, present]) {
      if (operand === undefined) continue;
      if (!isShaderType(operand.type)) return `there is no kernel for ${operand.type}`;
      if (acceptsRows(operand) !== true) return acceptsRows(operand);
    }
    const own = [inputs.query, inputs.key, inputs.value, inputs.decay, inputs.beta];
    if (own.some((operand) => operand?.place.buffer === present.place.buffer))
      return "operands lie in the state itself";
    for (const { type, place, contiguous } of [output, present]) {
      if (type !== "float32" && (!contiguous || place.offset % perWord(type) !== 0))
        return "halves are not whole words";
    }
    if (present.place.size === 0) return "the state is empty";
    return output.contiguous ? true : "the output has gaps";
  },
  record({ inputs, outputs, attrs }, recorder) {
    const { kv_num_heads: kvHeads, update_rule: rule } = attrs;
    const counts = headCounts(attrs, inputs.query.shape[2], inputs.key.shape[2]);
    const { past_state: past, decay, beta } = inputs;
    const [output, present] = [outputs.output!, outputs.present_state!]; // or it was not accepted
    const [query, key, value] = [
      headsOf(inputs.query, counts.queries),
      headsOf(inputs.key, counts.keys),
      headsOf(inputs.value, kvHeads),
    ];
    if (past === undefined || !isInPlace(past, present)) {
      const { type, shape } = present;
      const move = { name: "takeState", type, shape, source: past && placeOf(past), target: placeOf(present) };
      for (const dispatch of moveRows(move, recorder.device)) recorder.dispatch(dispatch);
    }
    const count = key.batch * kvHeads * value.size;
    if (count === 0 || query.rows === 0) return;
    const gates = decays(rule) ? headsOf(decay!, kvHeads) : undefined;
    const rates = corrects(rule) ? headsOf(beta!, beta!.shape[2]) : undefined;
    const { device } = recorder;
    const wide = (operand: Operand): boolean => operand.type === "float32";
    const results = headsOf(output, counts.outputs);
    const result = wide(output) ? results : asFloats(results, recorder);
    const state = wide(present) ? headsOf(present, kvHeads) : asFloats(headsOf(present, kvHeads), recorder);
    if (!wide(present)) recorder.dispatch(widened(present, state.of as Temporary, device));
    const operands = {
      query,
      key,
      value,
      result,
      ...(gates && { gates }),
      ...(rates && { rates }),
      state,
    };
    recorder.dispatch(
      invocationsOf(device, {
        name: "linearAttention",
        ...workOf(operands),
        count,
        parameters: {
          count,
          kvHeads,
          group: counts.outputs / kvHeads,
          perKey: kvHeads / counts.keys,
          perQuery: counts.outputs / counts.queries,
          tokens: query.rows,
          size: query.size,
          valueSize: value.size,
          scale: { float: attrs.scale === 0 ? 1 / Math.sqrt(query.size) : attrs.scale },
          ...Object.assign({}, ...Object.entries(operands).map(([name, each]) => placesOf(name, each))),
        },
      }),
    );
    if (!wide(output)) recorder.dispatch(narrowed(result.of as Temporary, output, device));
    if (!wide(present)) recorder.dispatch(narrowed(state.of as Temporary, present, device));
  },
});

/** Heads as floats in memory of the call's own, in the order in which an operand without gaps has them. */
const asFloats = (heads: Heads, recorder: WebgpuRecorder): Heads => ({
  ...heads,
  type: "float32",
  offset: 0,
  of: recorder.temporary(4 * heads.batch * heads.heads * heads.rows * heads.size),
});

/** An operand without gaps as floats. */
const widened = (from: Operand, to: Temporary, device: DeviceTraits): Dispatch => {
  const halves = variable("halves", from);
  return invocationsOf(device, {
    name: "widenState",
    parts: [variable("floats", to, { element: "f32", writes: true }), halves],
    parameters: { count: from.place.size, first: from.place.offset },
    count: from.place.size,
    body: `  if (index < p.count) { floats[index] = ${halves.load("p.first + index")}; }`,
  });
};

/** Floats as an output holds them. */
const narrowed = (from: Temporary, output: Operand, device: DeviceTraits): Dispatch =>
  elementWords(device, {
    name: "narrowFloats",
    output,
    body: "  return floats[element];",
    parts: [variable("floats", from, { element: "f32" })],
    parameters: {},
  });

const placesOf = (name: string, { offset, sample, head, row }: Heads): Readonly<Record<string, Parameter>> => ({
  [`${name}Offset`]: offset,
  [`${name}Sample`]: sample,
  [`${name}Head`]: head,
  [`${name}Row`]: row,
});

const startOf = (name: string, head: string, row: string): string =>
  `p.${name}Offset + sample * p.${name}Sample + (${head}) * p.${name}Head + (${row}) * p.${name}Row`;

/** What is read and written, by name; gates and rates where the rule has them. */
interface Operands extends Readonly<Record<"query" | "key" | "value" | "result" | "state", Heads>> {
  readonly gates?: Heads;
  readonly rates?: Heads;
}

function workOf({ query, key, value, gates, rates, ...written }: Operands): {
  readonly parts: readonly (ShaderPart | undefined)[];
  readonly body: string;
} {
  const arrayOf = (name: string, { of, type }: Heads): Variable => variable(`${name}s`, of, { type });
  const [querys, keys, values] = [arrayOf("query", query), arrayOf("key", key), arrayOf("value", value)];
  const [gatess, ratess] = [gates && arrayOf("gates", gates), rates && arrayOf("rates", rates)];
  const states = variable("state", written.state.of, { type: "float32", writes: true });
  const state = (index: string): string => states.load(index);
  const gate = gates && `exponential(${gatess!.load(gates.size === 1 ? "gateAt" : "gateAt + i")})`;
  const keyValue = keys.load("keyAt + i");
  const results = variable("results", written.result.of, { writes: true });
  return {
    parts: [
      gate === undefined ? undefined : functionsPart("exponential"),
      querys,
      keys,
      values,
      gatess,
      ratess,
      states,
      results,
    ],
    body: `  if (index >= p.count) { return; }
  let column = index % p.valueSize;
  let head = index / p.valueSize % p.kvHeads;
  let sample = index / (p.valueSize * p.kvHeads);
  let first = ${startOf("state", "head", "0u")} + column;
  for (var token = 0u; token < p.tokens; token++) {
    let keyAt = ${startOf("key", "head / p.perKey", "token")};
    ${gates === undefined ? "" : `let gateAt = ${startOf("gates", "head", "token")};`}
    var added = ${values.load(`${startOf("value", "head", "token")} + column`)};
    ${
      rates === undefined
        ? ""
        : `var found = 0.0;
    for (var i = 0u; i < p.size; i++) { found += ${gate === undefined ? "" : `${gate} * `}${keyValue} * ${state("first + i * p.stateRow")}; }
    added = ${ratess!.load(startOf("rates", rates.heads === 1 ? "0u" : "head", "token"))} * (added - found);`
    }
    for (var i = 0u; i < p.size; i++) {
      let place = first + i * p.stateRow;
      state[place] = bitcast<u32>(${state("place")}${gate === undefined ? "" : ` * ${gate}`} + ${keyValue} * added);
    }
    for (var own = head * p.group; own < (head + 1u) * p.group; own++) {
      let queryAt = ${startOf("query", "own / p.perQuery", "token")};
      var sum = 0.0;
      for (var i = 0u; i < p.size; i++) { sum += ${querys.load("queryAt + i")} * ${state("first + i * p.stateRow")}; }
      results[${startOf("result", "own", "token")} + column] = bitcast<u32>(p.scale * sum);
    }
  }`,
  };
}
