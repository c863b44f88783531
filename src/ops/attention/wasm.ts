/**
 * Attention on WASM: one query a sample over the whole length (decode), many queries in tiles (prefill). Computes in float32 whatever
 * the cache is kept in; rows past the valid length are never touched.
 */
import { partialBytes } from "../../kernels/exports.js";
import { elementCode } from "../../kernels/jobs.js";
import type { KernelCall, Operand, Recorder, WasmKernel } from "../../kernels/wasm-kernel.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { recordCopy } from "../wasm-copy.js";

const floatTypes = ["float32", "float16", "bfloat16"] as const;
type FloatType = (typeof floatTypes)[number];

const isFloat = (type: string): type is FloatType => (floatTypes as readonly string[]).includes(type);

/** Keys times heads below which a call is not worth sharing. */
const smallWork = 1 << 14;

/** How [batch, heads, rows, size] lies: 4-D operands as they are, 3-D ones with heads side by side. Strides in elements. */
interface Heads {
  readonly batch: number;
  readonly heads: number;
  readonly rows: number;
  readonly size: number;
  readonly sample: number;
  readonly head: number;
  readonly row: number;
  readonly inner: number;
}

function headsOf(operand: Operand, count: number | undefined): Heads {
  const { shape, strides } = operand;
  if (shape.length === 4) {
    return {
      batch: shape[0],
      heads: shape[1],
      rows: shape[2],
      size: shape[3],
      sample: strides[0],
      head: strides[1],
      row: strides[2],
      inner: strides[3],
    };
  }
  const heads = count ?? 1;
  const size = shape[2] / heads;
  return {
    batch: shape[0],
    heads,
    rows: shape[1],
    size,
    sample: strides[0],
    head: size * strides[2],
    row: strides[1],
    inner: strides[2],
  };
}

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
    if (!isFloat(query.type) || !isFloat(key.type) || key.type !== value.type)
      return `there is no kernel for ${query.type} queries and ${key.type}, ${value.type} caches`;
    if (query.type !== key.type) return "queries and keys differ in type";
    if (call.attrs["softmax_precision"] === "float64") return "the softmax is to be computed in float64";
    if (mask !== undefined && mask.type !== "bool" && !isFloat(mask.type))
      return `there is no kernel for a mask of ${mask.type}`;
    if (pastKey !== undefined && presentKey === undefined) return "there is a past, but no present to join it into";
    if ([query, key, value].some((operand) => operand.strides.at(-1) !== 1 && operand.shape.at(-1) !== 1))
      return "rows have gaps";
    if (query.type === "bfloat16" && query.shape.at(-2) !== 1)
      return "ONNX rounds every stage of a bfloat16 prefill, the kernel only its result";
    return query.view.size > 0 && key.view.size > 0 ? true : "there is nothing to compute";
  },
  record(call, recorder) {
    const { pastKey, pastValue, presentKey, presentValue, key, value } = operandsOf(call);
    const kvHeads = call.attrs["kv_num_heads"] as number | undefined;
    const joinedKey = presentKey === undefined ? key : join(pastKey, key, presentKey, kvHeads, recorder);
    const joinedValue = presentValue === undefined ? value : join(pastValue, value, presentValue, kvHeads, recorder);
    attend(call, joinedKey, joinedValue, recorder);
  },
};

/** Puts the past and the fresh rows into the present, as far as they are not there; the present. */
function join(
  past: Operand | undefined,
  fresh: Operand,
  present: Operand,
  kvHeads: number | undefined,
  recorder: Recorder,
): Operand {
  const length = past?.shape[2] ?? 0;
  const from = headsOf(fresh, kvHeads);
  const to = headsOf(present, undefined);
  const width = byteLengthOf(present.type, 1);
  const base = recorder.address(present);
  const sizes = [to.batch, to.heads] as const;
  if (past !== undefined && length > 0 && recorder.address(past) !== base) {
    const old = headsOf(past, undefined);
    recordCopy(recorder, {
      source: recorder.address(past),
      target: base,
      width,
      shape: [...sizes, length, to.size],
      from: [old.sample, old.head, old.row, 1],
      to: [to.sample, to.head, to.row, 1],
    });
  }
  recordCopy(recorder, {
    source: recorder.address(fresh),
    target: base + length * to.row * width,
    width,
    shape: [...sizes, from.rows, to.size],
    from: [from.sample, from.head, from.row, 1],
    to: [to.sample, to.head, to.row, 1],
  });
  return present;
}

function attend(call: KernelCall, key: Operand, value: Operand, recorder: Recorder): void {
  const { attrs } = call;
  const { query, mask, nonpad, output, pastKey, presentKey } = operandsOf(call);
  const queries = headsOf(query, attrs["q_num_heads"] as number | undefined);
  const kvCount = presentKey === undefined ? (attrs["kv_num_heads"] as number | undefined) : undefined;
  const [keys, values] = [headsOf(key, kvCount), headsOf(value, kvCount)];
  const out = headsOf(output!, queries.heads);
  const tasks = queries.batch * keys.heads;
  const decode = queries.rows === 1;
  const worth = keys.rows * queries.heads * queries.batch * queries.rows >= smallWork;
  const splits = decode && worth && tasks < recorder.threads ? Math.ceil(recorder.threads / tasks) : 1;
  const job = {
    query: recorder.address(query),
    key: recorder.address(key),
    value: recorder.address(value),
    output: recorder.address(output!),
    queryType: elementCode[query.type as FloatType],
    cacheType: elementCode[key.type as FloatType],
    batch: queries.batch,
    heads: queries.heads,
    kvHeads: keys.heads,
    queries: queries.rows,
    headSize: queries.size,
    valueSize: values.size,
    querySample: queries.sample,
    queryHead: queries.head,
    queryRow: queries.row,
    keySample: keys.sample,
    keyHead: keys.head,
    keyRow: keys.row,
    valueSample: values.sample,
    valueHead: values.head,
    valueRow: values.row,
    outputSample: out.sample,
    outputHead: out.head,
    outputRow: out.row,
    lengths: nonpad === undefined ? 0 : recorder.address(nonpad),
    total: keys.rows,
    past: pastKey?.shape[2] ?? 0,
    causal: attrs["is_causal"] === true ? 1 : 0,
    left: (attrs["left_window_size"] as number | undefined) ?? -1,
    right: (attrs["right_window_size"] as number | undefined) ?? -1,
    ...maskFields(mask, keys.rows, call.opset, recorder),
    scale: (attrs["scale"] as number | undefined) ?? 1 / Math.sqrt(queries.size),
    softcap: attrs["softcap"] as number,
    splits,
    partials: 0,
    newKey: 0,
    newValue: 0,
    newKeySample: 0,
    newKeyHead: 0,
    newValueSample: 0,
    newValueHead: 0,
    indices: 0,
  };
  const bytes = partialBytes(job);
  const withPartials = bytes === 0 ? job : { ...job, partials: recorder.temporary(bytes) };
  const parts = worth ? recorder.threads : 1;
  if (!decode) recorder.run("attentionPrefill", withPartials, parts);
  else {
    recorder.run("attentionDecode", withPartials, splits > 1 ? recorder.threads : Math.min(parts, tasks));
    if (splits > 1) recorder.run("attentionMerge", withPartials, 1);
  }
}

/** The mask's fields; a dimension of 1 broadcasts, except that from opset 24 on the keys of a short mask are padded. */
function maskFields(
  mask: Operand | undefined,
  total: number,
  opset: number,
  recorder: Recorder,
): {
  mask: number;
  maskType: number;
  maskSample: number;
  maskHead: number;
  maskQuery: number;
  maskKey: number;
  maskLength: number;
} {
  if (mask === undefined)
    return { mask: 0, maskType: 0, maskSample: 0, maskHead: 0, maskQuery: 0, maskKey: 0, maskLength: 0 };
  const lead = 4 - mask.shape.length;
  const stride = (axis: number): number =>
    axis < lead || mask.shape[axis - lead] === 1 ? 0 : mask.strides[axis - lead];
  const keys = mask.shape.at(-1) ?? 1;
  const broadcast = opset < 24 && keys === 1;
  return {
    mask: recorder.address(mask),
    maskType: elementCode[mask.type as FloatType | "bool"],
    maskSample: stride(0),
    maskHead: stride(1),
    maskQuery: stride(2),
    maskKey: broadcast ? 0 : (mask.strides.at(-1) ?? 1),
    maskLength: broadcast ? total : keys,
  };
}
