/** LinearAttention on WASM: states in float32, in place where they lie so; others are widened and rounded once a call. */
import type { CallOf } from "../../graph/kernel.js";
import { scratchBytes } from "../../wasm-kernels/exports.js";
import { elementCode } from "../../wasm-kernels/jobs.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { recordConversion } from "../shared/wasm/matmul.js";
import { codeOf, floatsOnly, oneFloatType } from "../shared/wasm/work.js";
import { corrects, decays, headCounts } from "./infer.js";
import { LinearAttention, MicrosoftLinearAttention } from "./op.js";

type Call = CallOf<typeof LinearAttention> | CallOf<typeof MicrosoftLinearAttention>;

/** Tokens that are prepared at a time. */
const mostTokens = 32;

/** Updates each state with every token and reads it. */
export const linearAttention: WasmKernel = wasmKernel([LinearAttention, MicrosoftLinearAttention], {
  accepts({ inputs, outputs: { output, present_state: present }, attrs }) {
    if (output === undefined || present === undefined) return "not both outputs are asked for";
    if ("state_window" in attrs && attrs.state_window > 1) return "the state has a window";
    const { query, key, value, past_state: past, decay, beta } = inputs;
    const own = [query, key, value, decay, beta];
    const types = [oneFloatType([...own, output]), floatsOnly([past, present])].find((answer) => answer !== true);
    if (types !== undefined) return types;
    for (const operand of [...own, past, output, present])
      if (operand?.contiguous === false) return "an operand has gaps";
    return output.view.size === 0 || present.view.size === 0 ? "there is nothing to compute" : true;
  },
  record(call, recorder) {
    const { inputs, outputs, attrs } = call as Call;
    const { query, key, value, past_state: past } = inputs;
    const [output, present] = [outputs.output!, outputs.present_state!]; // or it was not accepted
    const heads = headCounts(attrs, query.shape[2], key.shape[2]);
    const [batch, tokens] = query.shape;
    const [size, valueSize] = present.shape.slice(-2);
    const rule = attrs.update_rule;
    const wide = present.type === "float32";
    const state = wide ? recorder.address(present) : recorder.temporary(4 * present.view.size);
    if (!wide && past !== undefined) recordWidening(recorder, recorder.address(past), past.type, state, past.view.size);
    const [decay, beta] = [decays(rule) ? inputs.decay : undefined, corrects(rule) ? inputs.beta : undefined];
    const job = {
      query: recorder.address(query),
      key: recorder.address(key),
      value: recorder.address(value),
      decay: decay === undefined ? 0 : recorder.address(decay),
      rate: beta === undefined ? 0 : recorder.address(beta),
      past: past === undefined ? 0 : wide ? recorder.address(past) : state,
      state,
      output: recorder.address(output),
      type: codeOf(query.type),
      batch,
      tokens,
      queries: heads.queries,
      keys: heads.keys,
      states: heads.states,
      size,
      valueSize,
      gates: decay === undefined || decay.shape[2] === heads.states ? 1 : size,
      rates: beta?.shape[2] ?? 1,
      scale: attrs.scale === 0 ? 1 / Math.sqrt(size) : attrs.scale,
    };
    let chunk = Math.min(mostTokens, tokens);
    while (chunk > 1 && scratchBytes("linearAttention", { ...job, chunk }) > recorder.scratchBytes) chunk >>= 1;
    const states = batch * heads.states;
    const parts = states * size * valueSize * tokens < 1 << 15 ? 1 : Math.min(states, 4 * recorder.threads);
    recorder.run("linearAttention", { ...job, chunk }, parts);
    if (!wide) recordConversion(recorder, state, present, present.view.size);
  },
});

function recordWidening(recorder: Recorder, source: number, type: string, target: number, count: number): void {
  recorder.run(
    "convert",
    {
      source,
      target,
      sourceType: elementCode[type as "float16"],
      targetType: elementCode.float32,
      count,
    },
    count < 1 << 16 ? 1 : recorder.threads,
  );
}
