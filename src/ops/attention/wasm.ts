/** Attention on WASM. Computes in float32 whatever the cache is kept in. */
import type { ElementType } from "../../tensor/element-type.js";
import type { KernelCall, Operand, Recorder, WasmKernel } from "../../kernels/wasm-kernel.js";
import {
  appendHeads,
  type Heads,
  headsOf,
  maskAt,
  type MaskPlace,
  noMask,
  recordAttention,
  takeOver,
} from "../wasm-attention.js";
import { type FloatType, isFloatType } from "../wasm-work.js";

interface Operands {
  readonly query: Operand;
  readonly key: Operand;
  readonly value: Operand;
  readonly mask: Operand | undefined;
  readonly pastKey: Operand | undefined;
  readonly pastValue: Operand | undefined;
  readonly nonpad: Operand | undefined;
  readonly output: Operand | undefined;
  readonly presentKey: Operand | undefined;
  readonly presentValue: Operand | undefined;
}

function operandsOf({ inputs, outputs }: KernelCall): Operands {
  const [query, key, value, mask, pastKey, pastValue, nonpad] = inputs;
  const [output, presentKey, presentValue] = outputs;
  return {
    query: query!,
    key: key!,
    value: value!,
    mask,
    pastKey,
    pastValue,
    nonpad,
    output,
    presentKey,
    presentValue,
  };
}

/** Attention over a cache with pitch. */
export const attention: WasmKernel = {
  op: "Attention",
  accepts(call) {
    const { query, key, value, mask, pastKey, presentKey, output } = operandsOf(call);
    if (output === undefined || call.outputs[3] !== undefined) return "the scores are asked for";
    if (!isFloatType(query.type) || !isFloatType(key.type) || key.type !== value.type)
      return `there is no kernel for ${query.type} queries and ${key.type}, ${value.type} caches`;
    if (query.type !== key.type) return "queries and keys differ in type";
    const precision = (call.attrs["softmax_precision"] as ElementType | undefined) ?? query.type;
    if (precision !== query.type && precision !== "float32") return `the softmax is to be computed in ${precision}`;
    if (mask !== undefined && mask.type !== "bool" && !isFloatType(mask.type))
      return `there is no kernel for a mask of ${mask.type}`;
    if (pastKey !== undefined && presentKey === undefined) return "there is a past, but no present to join it into";
    if ([query, key, value].some((operand) => operand.strides.at(-1) !== 1 && operand.shape.at(-1) !== 1))
      return "rows have gaps";
    if (query.type === "bfloat16" && query.shape.at(-2) !== 1)
      return "ONNX rounds every stage of a bfloat16 prefill, the kernel only its result";
    const all = [query, key, value, output];
    return all.every(({ view }) => view.size > 0) ? true : "there is nothing to compute";
  },
  record(call, recorder) {
    const { query, key, value, mask, pastKey, pastValue, nonpad, output, presentKey, presentValue } = operandsOf(call);
    const { attrs } = call;
    const queries = headsOf(recorder, query, attrs["q_num_heads"] as number | undefined);
    const kvHeads = attrs["kv_num_heads"] as number | undefined;
    const keys = joined(recorder, pastKey, headsOf(recorder, key, kvHeads), presentKey);
    recordAttention(recorder, {
      query: queries,
      key: keys,
      value: joined(recorder, pastValue, headsOf(recorder, value, kvHeads), presentValue),
      output: headsOf(recorder, output!, queries.heads),
      lengths: nonpad === undefined ? 0 : recorder.address(nonpad),
      past: pastKey?.shape[2] ?? 0,
      causal: attrs["is_causal"] === true,
      left: (attrs["left_window_size"] as number | undefined) ?? -1,
      right: (attrs["right_window_size"] as number | undefined) ?? -1,
      mask: mask === undefined ? noMask : maskOf(mask, keys.rows, call.opset, recorder),
      scale: (attrs["scale"] as number | undefined) ?? 1 / Math.sqrt(queries.size),
      softcap: attrs["softcap"] as number,
    });
  },
};

/** The rows to attend to: past and fresh ones in the present, where it is asked for. */
function joined(recorder: Recorder, past: Operand | undefined, fresh: Heads, present: Operand | undefined): Heads {
  if (present === undefined) return fresh;
  const target = headsOf(recorder, present, undefined);
  takeOver(recorder, past && headsOf(recorder, past, undefined), target);
  appendHeads(recorder, fresh, target, past?.shape[2] ?? 0);
  return target;
}

/** A dimension of 1 broadcasts, except that from opset 24 on the keys of a short mask are padded. */
function maskOf(mask: Operand, total: number, opset: number, recorder: Recorder): MaskPlace {
  const place = maskAt(recorder.address(mask), mask.type as FloatType | "bool", mask);
  return opset < 24 && (mask.shape.at(-1) ?? 1) === 1 ? { ...place, maskKey: 0, maskLength: total } : place;
}
