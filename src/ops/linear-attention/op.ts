/** LinearAttention: attention whose past is one matrix a head, S [key size, value size], which every token updates and then reads. */
import { float, int, oneOf, required } from "../../graph/attribute.js";
import { update } from "../../graph/effect.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { numberWriter, writeNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { headsView, readRows } from "../attention/heads.js";
import { corrects, decays, inferLinearAttention } from "./infer.js";
import { eachWithEach } from "../shared/rules/work.js";

const floats = ["float16", "bfloat16", "float32"] as const;

/** S ← exp(decay) · S; S ← S + k ⊗ v, or S + k ⊗ beta · (v − Sᵀk) for the delta rules; output = scale · Sᵀq. */
export const LinearAttention = defineOp({
  name: "LinearAttention",
  since: 27,
  types: { T: floats, S: floats },
  inputs: {
    query: tensor("T"),
    key: tensor("T"),
    value: tensor("T"),
    past_state: optional(tensor("S")),
    decay: optional(tensor("T")),
    beta: optional(tensor("T")),
  },
  outputs: { output: tensor("T"), present_state: tensor("S") },
  attrs: {
    // How many tokens a parallel implementation takes at a time; it changes no result.
    chunk_size: int(64),
    kv_num_heads: required(int()),
    q_num_heads: required(int()),
    scale: float(0),
    update_rule: oneOf(["linear", "gated", "delta", "gated_delta"], "gated_delta"),
  },
  effects: { present_state: update("past_state") },

  infer: inferLinearAttention,

  work: ({ inputs }) => eachWithEach(inputs.query, inputs.key) + eachWithEach(inputs.key, inputs.value),

  reference(call) {
    const { inputs, outputs, attrs } = call;
    const { q_num_heads: heads, kv_num_heads: kvHeads, update_rule: rule } = attrs;
    const query = headsView(inputs.query, heads); // [batch, heads, length, size]
    const key = headsView(inputs.key, kvHeads); // [batch, kv heads, length, size]
    const value = headsView(inputs.value, kvHeads); // [batch, kv heads, length, value size]
    const [batch, , length, size] = query.shape;
    const valueSize = value.shape[3];
    const decay = inputs.decay && headsView(inputs.decay, kvHeads); // [batch, kv heads, length, size or 1]
    const beta = inputs.beta && headsView(inputs.beta, inputs.beta.shape[2]); // [batch, kv heads or 1, length, 1]
    const output = call.wants("output") ? headsView(outputs.output, heads) : undefined; // [batch, heads, length, value size]
    const scale = attrs.scale === 0 ? 1 / Math.sqrt(size) : attrs.scale;
    const all = { from: 0, to: length };
    for (let sample = 0; sample < batch; sample++) {
      for (let head = 0; head < kvHeads; head++) {
        const past = inputs.past_state;
        const state =
          past === undefined
            ? new Float64Array(size * valueSize)
            : readRows([past], sample, head, { from: 0, to: size }); // [size, value size]
        const [k, v] = [readRows([key], sample, head, all), readRows([value], sample, head, all)];
        const gates = decays(rule) ? readRows([decay!], sample, head, all) : undefined;
        const rates = corrects(rule) ? readRows([beta!], sample, beta!.shape[1] === 1 ? 0 : head, all) : undefined;
        const group = heads / kvHeads; // query heads that read this state
        const q = Array.from({ length: group }, (_, i) => readRows([query], sample, head * group + i, all));
        for (let token = 0; token < length; token++) {
          const keyRow = k.subarray(token * size, (token + 1) * size);
          if (gates !== undefined)
            decayState(
              state,
              gates.subarray((token * gates.length) / length, ((token + 1) * gates.length) / length),
              size,
            );
          const valueRow = v.slice(token * valueSize, (token + 1) * valueSize);
          if (rates !== undefined) {
            const retrieved = readState(state, keyRow, valueSize);
            for (let i = 0; i < valueSize; i++) valueRow[i] = rates[token] * (valueRow[i] - retrieved[i]);
          }
          for (let i = 0, at = 0; i < size; i++)
            for (let j = 0; j < valueSize; j++) state[at++] += keyRow[i] * valueRow[j];
          if (output === undefined) continue;
          q.forEach((rows, i) => {
            const read = readState(state, rows.subarray(token * size, (token + 1) * size), valueSize);
            writeToken(output, sample, head * group + i, token, read, scale);
          });
        }
        if (call.wants("present_state"))
          writeNumbers(outputs.present_state.slice(0, sample, sample + 1).slice(1, head, head + 1), state);
      }
    }
  },
});

/** Multiplies each row of the state by its gate's exponential; one gate serves all rows. */
function decayState(state: Float64Array, gates: Float64Array, size: number): void {
  const valueSize = state.length / size;
  for (let i = 0, at = 0; i < size; i++) {
    const factor = Math.exp(gates.length === 1 ? gates[0] : gates[i]);
    for (let j = 0; j < valueSize; j++) state[at++] *= factor;
  }
}

/** stateᵀ · vector */
function readState(state: Float64Array, vector: Float64Array, valueSize: number): Float64Array {
  const result = new Float64Array(valueSize);
  for (let i = 0, at = 0; i < vector.length; i++)
    for (let j = 0; j < valueSize; j++) result[j] += vector[i] * state[at++];
  return result;
}

function writeToken(
  output: View,
  sample: number,
  head: number,
  token: number,
  values: Float64Array,
  scale: number,
): void {
  const write = numberWriter(output);
  const [sampleStep, headStep, tokenStep, step] = output.strides;
  const start = output.offset + sample * sampleStep + head * headStep + token * tokenStep;
  values.forEach((value, i) => write(start + i * step, scale * value));
}
