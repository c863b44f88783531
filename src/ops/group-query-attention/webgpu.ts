/**
 * GroupQueryAttention on WebGPU: rotary embedding, the write into the present and the attention as dispatches of one step, the cache growing or
 * a buffer of fixed capacity, of floats or quantized. Lengths are read on the device; what must be refused is refused before.
 */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel, type WebgpuRecorder } from "../../webgpu-kernels/webgpu-kernel.js";
import { readIntegers } from "../../tensor/access.js";
import {
  acceptsAttention,
  appendHeads,
  clearHeads,
  maskPlace,
  recordAttention,
  takeOver,
} from "../shared/webgpu/attention.js";
import { acceptsRows, type Heads, headsFrom, headsOf, temporaryHeads } from "../shared/webgpu/heads.js";
import { type Positions, rotationDispatch } from "../shared/webgpu/rotate.js";
import { GroupQueryAttention } from "./op.js";
import { levelRows, levelsOf, quantized, scaledQueries, scaleResults } from "./webgpu-levels.js";

type Call = CallOf<typeof GroupQueryAttention>;

const floats: readonly string[] = ["float32", "float16", "bfloat16"];

/** Queries and fresh rows, apart or side by side in one operand. */
function partsOf({ inputs: { query, key, value }, attrs }: Call): Record<"query" | "key" | "value", Heads> {
  const { num_heads: heads, kv_num_heads: shared } = attrs;
  if (key !== undefined && value !== undefined)
    return { query: headsOf(query, heads), key: headsOf(key, shared), value: headsOf(value, shared) };
  const packed = headsOf(query, heads + 2 * shared);
  return {
    query: headsFrom(packed, 0, heads),
    key: headsFrom(packed, heads, shared),
    value: headsFrom(packed, heads + shared, shared),
  };
}

const totalOf = ({ view }: Operand): number => readIntegers(view)[0];

/** True for the first step of a sequence: what the past holds is not looked at. */
const isPrompt = ({ inputs }: Call, { rows }: Heads): boolean => rows === totalOf(inputs.total_sequence_length);

/** Attends over past and fresh keys; writes the fresh ones behind the past. */
export const groupQueryAttention: WebgpuKernel = webgpuKernel([GroupQueryAttention], {
  accepts(call) {
    const { inputs, outputs, attrs } = call;
    const { past_key, past_value, cos_cache: cos, sin_cache: sin, attention_bias: bias, head_sink: sink } = inputs;
    const { output, present_key, present_value, output_qk } = outputs;
    if (output === undefined || present_key === undefined || present_value === undefined)
      return "not both of output and present are asked for";
    const { q_norm_weight, k_norm_weight } = inputs;
    if ([q_norm_weight, k_norm_weight, output_qk].some((operand) => operand !== undefined))
      return "there is no kernel for norms of heads or scores";
    const levels = levelsOf(call);
    if (typeof levels === "string") return levels;
    const { type } = inputs.query;
    const own = [inputs.query, inputs.key, inputs.value];
    const caches = [past_key, past_value, present_key, present_value];
    const rows = [...own, ...caches];
    for (const operand of [...own, ...(levels === undefined ? caches : []), cos, sin, bias, sink])
      if (operand !== undefined && (operand.type !== type || !floats.includes(type)))
        return `there is no kernel for ${operand.type} beside ${type}`;
    if (attrs.sliding_window_cache) return "there is no kernel for a cache as short as the window";
    if (attrs.local_window_size === 0) return "there is no kernel for a window of nothing";
    if (!inputs.total_sequence_length.known) return "total_sequence_length is data";
    for (const operand of rows) if (operand !== undefined && acceptsRows(operand) !== true) return acceptsRows(operand);
    if ([cos, sin, inputs.position_ids, inputs.seqlens_k].some((operand) => operand?.contiguous === false))
      return "tables or lengths have gaps";
    const written = [present_key.place.buffer, present_value.place.buffer];
    if (rows.slice(0, 3).some((operand) => operand !== undefined && written.includes(operand.place.buffer)))
      return "the rows lie in the cache itself";
    const { query, key, value } = partsOf(call);
    if (output.place.size === 0 || key.rows !== query.rows) return "the fresh keys are not those of the queries";
    if (levels !== undefined && output.place.offset !== 0) return "the output begins inside of its memory";
    return acceptsAttention(query, key, value, output);
  },
  record(call, recorder) {
    const { inputs, outputs, attrs } = call;
    const { past_key, past_value, seqlens_k: seqlens, attention_bias: bias } = inputs;
    const { query, key, value } = partsOf(call);
    const found = levelsOf(call);
    const levels = typeof found === "string" ? undefined : found; // or it was not accepted
    const output = outputs.output!;
    const prompt = isPrompt(call, query);
    const step = seqlens.place.size === 1 ? 0 : 1;
    const turn = turning(call, query, prompt, step, recorder);
    const start = prompt || past_key === undefined ? 0 : ({ indices: seqlens, step, add: 1 - query.rows } as const);
    const join = (past: Operand | undefined, fresh: Heads, present: Operand, scale: Operand | undefined): Heads => {
      const target = headsOf(present, fresh.heads);
      takeOver(past && headsOf(past, fresh.heads), target, recorder);
      clearHeads(target, past?.shape[2] ?? 0, recorder);
      const rows = levels === undefined ? fresh : quantized(fresh, levels, scale!, recorder);
      appendHeads(rows, target, start, recorder);
      return levels === undefined ? target : levelRows(target, fresh.size, levels, recorder);
    };
    const keys = join(past_key, turn(key), outputs.present_key!, levels?.keyScale);
    const turned = turn(query);
    const results = levels && recorder.between("float32", output.shape);
    recordAttention(
      {
        query: levels === undefined ? turned : scaledQueries(turned, key.heads, levels, recorder),
        key: keys,
        value: join(past_value, value, outputs.present_value!, levels?.valueScale),
        output: headsOf(results ?? output, attrs.num_heads),
        lengths: { of: seqlens, sample: step, head: 0, add: 1 },
        // In a prompt, and without a past, the first query stands at 0 however many keys its sample has.
        past: prompt || past_key === undefined ? 0 : undefined,
        causal: attrs.causal,
        left: -1,
        right: -1,
        window: attrs.local_window_size,
        mask: bias && maskPlace(bias, keys.rows, false),
        scale: attrs.scale === 0 ? 1 / Math.sqrt(query.size) : attrs.scale,
        softcap: attrs.softcap,
        sink: inputs.head_sink ?? (attrs.smooth_softmax ? "zero" : undefined),
      },
      recorder,
    );
    if (levels === undefined || results === undefined) return;
    const sizes = { heads: attrs.num_heads, size: value.size, group: attrs.num_heads / value.heads };
    scaleResults(results, output, sizes, levels, recorder);
  },
});

/** A function that turns heads to their positions, in memory of the call's own; the heads themselves without rotary embedding. */
function turning(
  { inputs, attrs }: Call,
  query: Heads,
  prompt: boolean,
  step: 0 | 1,
  recorder: WebgpuRecorder,
): (heads: Heads) => Heads {
  const { cos_cache: cos, sin_cache: sin, position_ids: given, seqlens_k: seqlens } = inputs;
  if (!attrs.do_rotary || cos === undefined || sin === undefined) return (heads) => heads;
  const positions = (): Positions => {
    // In a prompt the first position given counts for all, else there is one for each token; without any, tokens stand behind the past.
    if (given !== undefined)
      return prompt
        ? { indices: given, sample: 0, token: 0, counts: true, add: 0 }
        : { indices: given, sample: given.shape[1], token: 1, counts: false, add: 0 };
    return prompt
      ? { indices: undefined, sample: 0, token: 0, counts: true, add: 0 }
      : { indices: seqlens, sample: step, token: 0, counts: true, add: 1 - query.rows };
  };
  return (source) => {
    const output = temporaryHeads(recorder, source);
    const rotation = { source, output, cos, sin, positions: positions(), interleaved: attrs.rotary_interleaved };
    recorder.dispatch(rotationDispatch(rotation, recorder.device));
    return output;
  };
}
