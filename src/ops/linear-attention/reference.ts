/** Linear attention computed slowly: token by token, a state at a time. */
import { numberWriter, writeNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { headsView, readRows } from "../attention/heads.js";
import { clearSlots, slotOf } from "../shared/rules/state-window.js";
import { corrects, decays, headCounts, type LinearAttentionAttributes, type Operands } from "./infer.js";

/** What both operators compute with. */
interface LinearAttentionCall {
  readonly inputs: Operands<View>;
  readonly outputs: { readonly output: View; readonly present_state: View };
  readonly attrs: LinearAttentionAttributes;
  wants(output: "output" | "present_state"): boolean;
}

/** S ← exp(decay) · S; S ← S + k ⊗ v, or S + k ⊗ beta · (v − Sᵀk) for the delta rules; output = scale · Sᵀq. */
export function computeLinearAttention(call: LinearAttentionCall): void {
  const { inputs, outputs, attrs } = call;
  const present = call.wants("present_state") ? outputs.present_state : undefined;
  const { update_rule: rule, state_window: window } = attrs;
  const heads = headCounts(attrs, inputs.query.shape[2], inputs.key.shape[2]);
  const query = headsView(inputs.query, heads.queries); // [batch, query heads, length, size]
  const key = headsView(inputs.key, heads.keys); // [batch, key heads, length, size]
  const value = headsView(inputs.value, heads.states); // [batch, states, length, value size]
  const [batch, , length, size] = query.shape;
  const valueSize = value.shape[3];
  const decay = decays(rule) ? headsView(inputs.decay!, heads.states) : undefined; // [batch, states, length, size or 1]
  const beta = corrects(rule) ? headsView(inputs.beta!, inputs.beta!.shape[2]) : undefined; // [batch, states or 1, length, 1]
  const output = call.wants("output") ? headsView(outputs.output, heads.outputs) : undefined; // [batch, output heads, length, value size]
  const scale = attrs.scale === 0 ? 1 / Math.sqrt(size) : attrs.scale;
  const all = { from: 0, to: length };
  const last = inputs.past_state && slotOf(inputs.past_state, window, (window ?? 1) - 1);
  const group = heads.outputs / heads.states; // outputs that read this state
  for (let sample = 0; sample < batch; sample++) {
    for (let head = 0; head < heads.states; head++) {
      const state =
        last === undefined ? new Float64Array(size * valueSize) : readRows([last], sample, head, { from: 0, to: size }); // [size, value size]
      const k = readRows([key], sample, Math.floor((head * heads.keys) / heads.states), all);
      const v = readRows([value], sample, head, all);
      const gates = decay && readRows([decay], sample, head, all);
      const rates = beta && readRows([beta], sample, beta.shape[1] === 1 ? 0 : head, all);
      const q = Array.from({ length: group }, (_, i) =>
        readRows([query], sample, Math.floor(((head * group + i) * heads.queries) / heads.outputs), all),
      );
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
        const slot = (window ?? 0) - length + token;
        if (present !== undefined && slot >= 0 && token < length - 1)
          writeNumbers(matrixOf(slotOf(present, window, slot), sample, head), state);
        if (output === undefined) continue;
        q.forEach((rows, i) => {
          const read = readState(state, rows.subarray(token * size, (token + 1) * size), valueSize);
          writeToken(output, sample, head * group + i, token, read, scale);
        });
      }
      if (present !== undefined)
        writeNumbers(matrixOf(slotOf(present, window, (window ?? 1) - 1), sample, head), state);
    }
  }
  if (present !== undefined) clearSlots(present, window, length);
}

const matrixOf = (state: View, sample: number, head: number): View =>
  state.slice(0, sample, sample + 1).slice(1, head, head + 1);

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
