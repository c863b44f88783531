/**
 * MultiHeadAttention on WebGPU: the join of past and present, padding and attention. Masks are numbers that are added, as the operator has it.
 * Biases of projections stay on the host.
 */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { acceptsAttention, appendHeads, maskPlace, recordAttention, takeOver } from "../shared/webgpu/attention.js";
import type { Padding } from "../shared/webgpu/attention-parts.js";
import { acceptsRows, type Heads, headsOf } from "../shared/webgpu/heads.js";
import { MultiHeadAttention } from "./op.js";

type Call = CallOf<typeof MultiHeadAttention>;

const floats: readonly string[] = ["float32", "float16", "bfloat16"];

/** One of several tensors that a head has side by side: [batch, length, heads, parts, size]. */
function packedPart(operand: Operand, part: number): Heads {
  const [batch, rows, heads, , size] = operand.shape;
  const { strides, offset } = operand.place;
  const [sample, row, head, step] = strides;
  return { of: operand, type: operand.type, offset: offset + part * step, batch, heads, rows, size, sample, head, row };
}

function partsOf({ inputs: { query, key, value }, attrs }: Call): Record<"query" | "key" | "value", Heads> {
  const heads = attrs.num_heads;
  if (key === undefined) return { query: packedPart(query, 0), key: packedPart(query, 1), value: packedPart(query, 2) };
  const queries = headsOf(query, heads);
  return value === undefined
    ? { query: queries, key: packedPart(key, 0), value: packedPart(key, 1) }
    : { query: queries, key: headsOf(key, heads), value: headsOf(value, heads) };
}

/** Attends over past and fresh keys with additive masks. */
export const multiHeadAttention: WebgpuKernel = webgpuKernel([MultiHeadAttention], {
  accepts(call) {
    const { inputs, outputs, attrs } = call;
    const { bias, key_padding_mask: padding, attention_bias: added, past_key, past_value } = inputs;
    const { output, present_key, present_value, qk } = outputs;
    if (output === undefined || qk !== undefined) return "the scores are asked for";
    if (bias !== undefined) return "there is no kernel for biases of projections";
    const caches = [past_key, past_value, present_key, present_value];
    const rows = [inputs.query, inputs.key, inputs.value];
    const { type } = inputs.query;
    for (const operand of [...rows, added, ...caches])
      if (operand !== undefined && (operand.type !== type || !floats.includes(type)))
        return `there is no kernel for ${operand.type} beside ${type}`;
    for (const operand of [...rows, ...caches])
      if (operand !== undefined && acceptsRows(operand) !== true) return acceptsRows(operand);
    if ((present_key === undefined || present_value === undefined) && caches.some((operand) => operand !== undefined))
      return "there is a past, but no present to join it into";
    const written = [present_key?.place.buffer, present_value?.place.buffer];
    if (rows.some((operand) => operand !== undefined && written.includes(operand.place.buffer)))
      return "the rows lie in the cache itself";
    if (padding?.contiguous === false) return "the padding has gaps";
    const { query, key, value } = partsOf(call);
    if (attrs.unidirectional && query.rows !== key.rows) return "there are not as many keys as queries";
    if (output.place.size === 0 || key.rows === 0) return "there is nothing to compute";
    return acceptsAttention(query, key, value, output);
  },
  record(call, recorder) {
    const { inputs, outputs, attrs } = call;
    const { past_key, past_value, attention_bias: added } = inputs;
    const { query, key, value } = partsOf(call);
    const pastLength = past_key && inputs.past_sequence_length;
    const join = (past: Operand | undefined, fresh: Heads, present: Operand | undefined): Heads => {
      if (present === undefined) return fresh;
      const target = headsOf(present, fresh.heads);
      takeOver(past && headsOf(past, fresh.heads), target, recorder);
      const start =
        pastLength === undefined ? (past?.shape[2] ?? 0) : ({ indices: pastLength, step: 0, add: 0 } as const);
      appendHeads(fresh, target, start, recorder);
      return target;
    };
    const keys = join(past_key, key, outputs.present_key);
    recordAttention(
      {
        query,
        key: keys,
        value: join(past_value, value, outputs.present_value),
        output: headsOf(outputs.output!, query.heads), // or it was not accepted
        lengths: pastLength && { of: pastLength, sample: 0, head: 0, add: key.rows },
        past: pastLength === undefined ? (past_key?.shape[2] ?? 0) : undefined,
        causal: attrs.unidirectional,
        left: -1,
        right: -1,
        window: -1,
        mask: added && maskPlace(added, keys.rows, false),
        padding: paddingOf(call, query.rows),
        scale: attrs.scale === 0 ? 1 / Math.sqrt(query.size) : attrs.scale,
        softcap: 0,
        sink: undefined,
      },
      recorder,
    );
  },
});

function paddingOf({ inputs: { key_padding_mask: of }, attrs }: Call, length: number): Padding | undefined {
  if (of === undefined) return undefined;
  const added = attrs.mask_filter_value;
  const { shape } = of;
  if (shape.length === 1) return { of, kind: "lengths", sample: 1, query: 0, added };
  const total = shape.at(-1)!;
  const each = shape.length === 3; // one for each query
  return { of, kind: "entries", sample: each ? length * total : total, query: each ? total : 0, added };
}
