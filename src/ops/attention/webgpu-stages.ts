/**
 * Attention on WebGPU with every stage in memory: products, softmax, weighed values, each rounded to the type of the queries as ONNX's function
 * body has it. For scores that are handed out, and for types in which the stages' own rounding shows. Simple, not fast.
 */
import type { Operand } from "../../graph/kernel.js";
import type { ElementType } from "../../tensor/element-type.js";
import { dispatchOf, invocationsOf, type Variable, variable } from "../../webgpu-kernels/shader-part.js";
import type { DeviceTraits, Dispatch, Temporary, WebgpuRecorder } from "../../webgpu-kernels/webgpu-kernel.js";
import { pack, packing, perWord, roundingTo, wordsOf } from "../../webgpu-kernels/wgsl.js";
import { type AttentionWork, outputPart, quadCount, rowsPart, visiblePart } from "../shared/webgpu/attention-parts.js";
import { functionsPart } from "../shared/webgpu/functions.js";
import { rounder } from "./rounding.js";

/** An attention whose scores may be asked for. */
interface StagedAttention extends Omit<AttentionWork, "output" | "sink" | "padding" | "window"> {
  readonly output: AttentionWork["output"] | undefined;
  /** [batch, heads, queries, keys], and which stage it shows: the scaled product, after softcap, after the mask, after softmax. */
  readonly scores: { readonly of: Operand; readonly mode: number } | undefined;
  readonly softmaxType: ElementType;
}

/** Scores that are held at once, at most: four bytes each. */
export const mostScores = 1 << 25;

/** Bits of a logit that takes no part: a NaN that no arithmetic makes. */
const hidden = "0xffffffffu";

/** Bits of its weight: −0, which tells it from one that takes part and weighs nothing. Comparisons of floats may be false for NaN. */
const weighsNot = "0x80000000u";

/** Records the dispatches of an attention. */
export function recordStages(work: StagedAttention, recorder: WebgpuRecorder): void {
  const { query, key, output, scores } = work;
  const count = query.batch * query.heads * query.rows * key.rows;
  const { device } = recorder;
  const logits = recorder.temporary(4 * count);
  recorder.dispatch(products(work, logits, count, device));
  if (output === undefined && scores?.mode !== 3) return;
  recorder.dispatch(softmax(work, logits));
  if (scores?.mode === 3) recorder.dispatch(shown(scores.of, logits, count, device));
  if (output !== undefined) recorder.dispatch(weighed({ ...work, output }, logits, device));
}

/** The logit of every query and key, and the stage before it that is asked for. An invocation fills a word of what is shown. */
function products(work: StagedAttention, logits: Temporary, count: number, device: DeviceTraits): Dispatch {
  const { query, key, mask, scores, scale, softcap } = work;
  const { type } = query;
  const mode = scores?.mode ?? 3;
  const target = mode < 3 ? scores?.of : undefined;
  const size = target === undefined ? 1 : perWord(type);
  const round = rounder(type);
  const masks = mask && variable("mask", mask.of);
  const capped = "rounded(rounded(hyperbolicTangent(rounded(product / p.softcap))) * p.softcap)";
  const body = `
fn scoreAt(at: u32) -> f32 {
  let key = at % p.keys;
  let row = at / p.keys;
  let query = row % p.queries;
  let head = row / p.queries % p.heads;
  let sample = row / (p.queries * p.heads);
  let keyHead = head / p.group;
  let seen = visible(sample, keyHead, query);
  let isSeen = i32(key) >= seen.x && i32(key) < seen.y;
  logits[at] = ${hidden};
  // The product and the capped product are shown for every key, visible or not.
  ${mode < 2 ? "" : "if (!isSeen) { return -infinity(); }"}
  let queryAt = queryStart(sample, head, query);
  let keyAt = keyStart(sample, keyHead, key);
  var sum = 0.0;
  for (var quad = 0u; quad < ${quadCount(query.size)}u; quad++) {
    let q = queryQuad(queryAt, quad);
    let k = keyQuad(keyAt, quad);
    ${["x", "y", "z", "w"].map((i) => `sum += rounded(q.${i} * p.root) * rounded(k.${i} * p.root);`).join("\n    ")}
  }
  let product = rounded(p.sign * sum);
  let capped = ${softcap === 0 ? "product" : capped};
  var logit = capped;
  var isHidden = !isSeen;
  ${masks === undefined ? "" : maskCode(mask!.of.type, masks, type)}
  if (!isHidden) { logits[at] = bitcast<u32>(logit); }
  return ${["product", "capped", "select(logit, -infinity(), isHidden)", "logit"][mode]};
}`;
  const words = Math.ceil(count / size);
  const elements = Array.from(
    { length: size },
    (_, at) => `let e${at} = scoreAt(min(index * ${size}u + ${at}u, p.count - 1u));`,
  );
  const written = pack(
    type,
    elements.map((_, at) => `e${at}`),
  );
  return invocationsOf(device, {
    name: "attentionScores",
    parts: [
      packing,
      rowsPart("query", query),
      rowsPart("key", key),
      visiblePart({ ...work, window: -1 }),
      roundingTo("rounded", type),
      functionsPart("infinity", "hyperbolicTangent"),
      { code: body },
      variable("logits", logits, { writes: true }),
      masks,
      target && variable("shown", target, { writes: true }),
    ],
    count: words,
    body: `  if (index >= p.words) { return; }
  ${elements.join("\n  ")}
  ${target === undefined ? "" : `shown[index] = ${written};`}`,
    parameters: {
      count,
      words,
      heads: query.heads,
      group: query.heads / key.heads,
      root: { float: round(Math.sqrt(Math.abs(scale))) },
      sign: { float: Math.sign(scale) },
      ...(softcap === 0 ? {} : { softcap: { float: round(softcap) } }),
      ...(mask === undefined
        ? {}
        : {
            maskOffset: mask.of.place.offset,
            maskSample: mask.strides[0],
            maskHead: mask.strides[1],
            maskQuery: mask.strides[2],
            maskKey: mask.strides[3],
            maskLength: mask.length,
          }),
    },
  });
}

/** Adds the mask, rounded to the type of the scores, or hides the key. */
function maskCode(maskType: ElementType, mask: Variable, type: ElementType): string {
  const place =
    "p.maskOffset + sample * p.maskSample + head * p.maskHead + query * p.maskQuery + min(key, p.maskLength - 1u) * p.maskKey";
  const added = `let maskAt = ${place};
  let added = f32(${mask.load("maskAt")});`;
  if (maskType === "bool") return `${added}\n  isHidden = isHidden || key >= p.maskLength || added == 0.0;`;
  const lowest =
    type === "float16"
      ? "halfBits(added) == 0xfc00u"
      : type === "bfloat16"
        ? "bfloat(added) == 0xff80u"
        : "bitcast<u32>(added) == 0xff800000u";
  return `${added}
  isHidden = isHidden || key >= p.maskLength || ${lowest};
  logit = rounded(capped + rounded(added));`;
}

/** Logits become weights, where they lie: a workgroup a row, whose invocations take runs of eight keys. */
function softmax({ query, key, softmaxType }: StagedAttention, logits: Temporary): Dispatch {
  // bfloat16 is added one by one within a run, as the reference implementation has it.
  const adds = softmaxType === "bfloat16" ? "run = stored(run + weight);" : "run += weight;";
  const eachRun = (body: string): string => `for (var front = 8u * local; front < p.keys; front += 512u) {
    let end = start + min(front + 8u, p.keys);
    ${body}
  }`;
  const code = `
var<workgroup> exchange: array<f32, 64>;

@compute @workgroup_size(64) fn main(@builtin(workgroup_id) place: vec3u, @builtin(local_invocation_index) local: u32) {
  let start = ((place.z * p.heads + place.y) * p.queries + place.x) * p.keys;
  var top = -3.4028234e38;
  ${eachRun(`for (var at = start + front; at < end; at++) {
      if (logits[at] != ${hidden}) { top = max(top, stored(bitcast<f32>(logits[at]))); }
    }`)}
  exchange[local] = top;
  workgroupBarrier();
  for (var at = 0u; at < 64u; at++) { top = max(top, exchange[at]); }
  workgroupBarrier();
  var total = 0.0;
  ${eachRun(`var run = 0.0;
    for (var at = start + front; at < end; at++) {
      if (logits[at] == ${hidden}) { logits[at] = ${weighsNot}; continue; }
      let weight = stored(exponential(stored(stored(bitcast<f32>(logits[at])) - top)));
      logits[at] = bitcast<u32>(weight);
      ${adds}
    }
    total += run;`)}
  exchange[local] = total;
  workgroupBarrier();
  total = 0.0;
  for (var at = 0u; at < 64u; at++) { total += exchange[at]; }
  total = stored(total);
  // A query that attends to nothing has a row of zeros; one whose scores are all −∞ has no weights that are numbers.
  if (total == 0.0) { total = notANumber(); }
  ${eachRun(`for (var at = start + front; at < end; at++) {
      if (logits[at] == ${weighsNot}) { continue; }
      logits[at] = bitcast<u32>(rounded(stored(bitcast<f32>(logits[at]) / total)));
    }`)}
}`;
  return dispatchOf({
    name: "attentionWeights",
    parts: [
      roundingTo("rounded", query.type),
      roundingTo("stored", softmaxType),
      functionsPart("exponential", "notANumber"),
      variable("logits", logits, { writes: true }),
    ],
    code,
    parameters: { keys: key.rows, queries: query.rows, heads: query.heads },
    workgroups: [query.rows, query.heads, query.batch],
  });
}

/** The weights as they are handed out. */
function shown(of: Operand, weights: Temporary, count: number, device: DeviceTraits): Dispatch {
  const size = perWord(of.type);
  const elements = Array.from({ length: size }, (_, at) => `weightAt(min(index * ${size}u + ${at}u, p.count - 1u))`);
  const words = wordsOf(of.type, count);
  const weightAt = `fn weightAt(at: u32) -> f32 { return bitcast<f32>(select(weights[at], 0u, weights[at] == ${weighsNot})); }`;
  return invocationsOf(device, {
    name: "attentionShown",
    parts: [packing, { code: weightAt }, variable("weights", weights), variable("shown", of, { writes: true })],
    parameters: { count, words },
    count: words,
    body: `  if (index < p.words) { shown[index] = ${pack(of.type, elements)}; }`,
  });
}

/** Weights times values: an invocation for four elements of a row. */
function weighed(
  work: StagedAttention & { readonly output: AttentionWork["output"] },
  weights: Temporary,
  device: DeviceTraits,
): Dispatch {
  const { query, key, value } = work;
  const quads = quadCount(value.size);
  const count = query.batch * query.heads * query.rows * quads;
  return invocationsOf(device, {
    name: "attentionValues",
    parts: [packing, rowsPart("value", value), outputPart(work), variable("weights", weights)],
    body: `  if (index >= p.count) { return; }
  let quad = index % ${quads}u;
  let row = index / ${quads}u;
  let query = row % p.queries;
  let head = row / p.queries % p.heads;
  let sample = row / (p.queries * p.heads);
  var sum = vec4f();
  for (var key = 0u; key < p.keys; key++) {
    let weight = weights[row * p.keys + key];
    // Rows without a weight may hold anything.
    if (weight != ${weighsNot}) { sum += bitcast<f32>(weight) * valueQuad(valueStart(sample, head / p.group, key), quad); }
  }
  writeQuad(sample, head, query, quad, sum);`,
    count,
    parameters: {
      count,
      queries: query.rows,
      keys: key.rows,
      heads: query.heads,
      group: query.heads / key.heads,
    },
  });
}
