/**
 * LinearAttention on WebGPU, in float32: an invocation walks the tokens with one column of a head's state, which lies in the present; columns do
 * not know of each other, so that nothing waits.
 */
import { isInPlace, type Operand } from "../../graph/kernel.js";
import { type Parameter, type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { entry, read, workgroupsFor } from "../../webgpu-kernels/wgsl.js";
import { acceptsRows, type Heads, headsOf } from "../shared/webgpu/heads.js";
import { moveRows, placeOf } from "../shared/webgpu/rows.js";
import { corrects, decays } from "./infer.js";
import { LinearAttention } from "./op.js";

/** Updates the state with each token and reads it. */
export const linearAttention: WebgpuKernel = webgpuKernel([LinearAttention], {
  accepts({ inputs, outputs: { output, present_state: present } }) {
    if (output === undefined || present === undefined) return "not both outputs are asked for";
    for (const operand of [...Object.values(inputs), output, present]) {
      if (operand === undefined) continue;
      if (operand.type !== "float32") return `there is no kernel for ${operand.type}`;
      if (acceptsRows(operand) !== true) return acceptsRows(operand);
    }
    const own = [inputs.query, inputs.key, inputs.value, inputs.decay, inputs.beta];
    if (own.some((operand) => operand?.place.buffer === present.place.buffer))
      return "operands lie in the state itself";
    return output.contiguous ? true : "the output has gaps";
  },
  record({ inputs, outputs, attrs }, recorder) {
    const { q_num_heads: heads, kv_num_heads: kvHeads, update_rule: rule } = attrs;
    const { past_state: past, decay, beta } = inputs;
    const [output, present] = [outputs.output!, outputs.present_state!]; // or it was not accepted
    const [query, key, value] = [
      headsOf(inputs.query, heads),
      headsOf(inputs.key, kvHeads),
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
    const operands = {
      query,
      key,
      value,
      result: headsOf(output, heads),
      ...(gates && { gates }),
      ...(rates && { rates }),
    };
    const state = headsOf(present, kvHeads);
    recorder.dispatch({
      name: "linearAttention",
      code: codeOf(gates, rates),
      bindings: [
        { name: "state", of: present, writes: true },
        { name: "results", of: output, writes: true },
        ...Object.entries(operands)
          .filter(([name]) => name !== "result")
          .map(([name, { of }]) => ({ name: `${name}s`, of: of as Operand })),
      ],
      parameters: {
        count,
        kvHeads,
        group: heads / kvHeads,
        tokens: query.rows,
        size: query.size,
        valueSize: value.size,
        scale: { float: attrs.scale === 0 ? 1 / Math.sqrt(query.size) : attrs.scale },
        ...Object.assign({}, ...Object.entries({ ...operands, state }).map(([name, each]) => placesOf(name, each))),
      },
      workgroups: workgroupsFor(count, 64, recorder.device.mostWorkgroups),
    });
  },
});

const placesOf = (name: string, { offset, sample, head, row }: Heads): Readonly<Record<string, Parameter>> => ({
  [`${name}Offset`]: offset,
  [`${name}Sample`]: sample,
  [`${name}Head`]: head,
  [`${name}Row`]: row,
});

const startOf = (name: string, head: string, row: string): string =>
  `p.${name}Offset + sample * p.${name}Sample + (${head}) * p.${name}Head + (${row}) * p.${name}Row`;

function codeOf(gates: Heads | undefined, rates: Heads | undefined): string {
  const at = (array: string, index: string): string => read("float32", array, index);
  const gate = gates && `exp(${at("gatess", gates.size === 1 ? "gateAt" : "gateAt + i")})`;
  return entry(
    64,
    `  if (index >= p.count) { return; }
  let column = index % p.valueSize;
  let head = index / p.valueSize % p.kvHeads;
  let sample = index / (p.valueSize * p.kvHeads);
  let first = ${startOf("state", "head", "0u")} + column;
  for (var token = 0u; token < p.tokens; token++) {
    let keyAt = ${startOf("key", "head", "token")};
    ${gates === undefined ? "" : `let gateAt = ${startOf("gates", "head", "token")};`}
    var added = ${at("values", `${startOf("value", "head", "token")} + column`)};
    ${
      rates === undefined
        ? ""
        : `var found = 0.0;
    for (var i = 0u; i < p.size; i++) { found += ${gate === undefined ? "" : `${gate} * `}${at("keys", "keyAt + i")} * ${at("state", "first + i * p.stateRow")}; }
    added = ${at("ratess", startOf("rates", rates.heads === 1 ? "0u" : "head", "token"))} * (added - found);`
    }
    for (var i = 0u; i < p.size; i++) {
      let place = first + i * p.stateRow;
      state[place] = bitcast<u32>(${at("state", "place")}${gate === undefined ? "" : ` * ${gate}`} + ${at("keys", "keyAt + i")} * added);
    }
    for (var own = head * p.group; own < (head + 1u) * p.group; own++) {
      let queryAt = ${startOf("query", "own", "token")};
      var sum = 0.0;
      for (var i = 0u; i < p.size; i++) { sum += ${at("querys", "queryAt + i")} * ${at("state", "first + i * p.stateRow")}; }
      results[${startOf("result", "own", "token")} + column] = bitcast<u32>(p.scale * sum);
    }
  }`,
  );
}
