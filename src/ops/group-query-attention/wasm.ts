/**
 * GroupQueryAttention on WASM: rotary embedding, the write into the present and the attention as jobs of one step, the cache growing or a
 * buffer of fixed capacity or as short as the window, of floats or quantized. Lengths are data: they are tested before each run, and what must be refused is left to the reference implementation.
 */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { readIntegers } from "../../tensor/access.js";
import type { ByteStorage } from "../../tensor/element-type.js";
import type { View } from "../../tensor/view.js";
import { headsView } from "../attention/heads.js";
import {
  clearHeads,
  type Heads,
  headsAt,
  headsOf,
  lengthsPlus,
  maskAt,
  noMask,
  recordAttention,
  scatterHeads,
  takeOver,
  temporaryHeads,
} from "../shared/wasm/attention.js";
import { acceptsHeads, normalizeHeads } from "../shared/wasm/normalize.js";
import { runRotation } from "../shared/wasm/rotate.js";
import { type FloatType, oneFloatType } from "../shared/wasm/work.js";
import { GroupQueryAttention } from "./op.js";
import { slideHeads } from "./wasm-window.js";
import {
  type ByteHeads,
  floatHeads,
  floatSinks,
  type Levels,
  levelsOf,
  quantizeHeads,
  scaleHeads,
} from "./wasm-levels.js";

type Call = CallOf<typeof GroupQueryAttention>;

/** A part of an operand's bytes, seen as [batch, heads, rows, size]. */
interface Part {
  readonly operand: Operand;
  readonly view: View;
}

/** Where keys and values lie. */
interface Cache {
  readonly key: Operand;
  readonly value: Operand;
}

/** What a step is made of. */
interface Parts {
  readonly attrs: Call["attrs"];
  readonly query: Part;
  readonly key: Part;
  readonly value: Part;
  readonly past: Cache | undefined;
  readonly present: Cache | undefined;
  readonly seqlens: Operand;
  readonly totalLength: Operand;
  readonly tables: { readonly cos: Operand; readonly sin: Operand } | undefined;
  readonly positions: Operand | undefined;
  readonly bias: Operand | undefined;
  readonly sink: Operand | undefined;
  readonly norms: { readonly query: Operand; readonly key: Operand } | undefined;
  /** How the caches are quantized, if they are; or why there is no kernel for it. */
  readonly levels: Levels | string | undefined;
  readonly hasScores: boolean;
  readonly output: Operand | undefined;
}

const cacheOf = (key: Operand | undefined, value: Operand | undefined): Cache | undefined =>
  key && value && { key, value };

function partsOf({ inputs, outputs, attrs }: Call): Parts {
  const { q_norm_weight: queryNorm, k_norm_weight: keyNorm } = inputs;
  const { query, key, value, cos_cache: cos, sin_cache: sin, position_ids: positions } = inputs;
  const { num_heads: heads, kv_num_heads: shared } = attrs;
  const packed = key === undefined ? headsView(query.view, heads + 2 * shared) : undefined;
  const part = (operand: Operand | undefined, count: number, from: number): Part =>
    packed === undefined
      ? { operand: operand!, view: headsView(operand!.view, count) }
      : { operand: query, view: packed.slice(1, from, from + count) };
  return {
    attrs,
    query: part(query, heads, 0),
    key: part(key, shared, heads),
    value: part(value, shared, heads + shared),
    past: cacheOf(inputs.past_key, inputs.past_value),
    present: cacheOf(outputs.present_key, outputs.present_value),
    seqlens: inputs.seqlens_k,
    totalLength: inputs.total_sequence_length,
    tables: attrs.do_rotary && cos && sin ? { cos, sin } : undefined,
    positions: attrs.do_rotary ? positions : undefined,
    bias: inputs.attention_bias,
    sink: inputs.head_sink,
    norms: queryNorm && keyNorm && { query: queryNorm, key: keyNorm },
    levels: levelsOf({ inputs, attrs }),
    hasScores: outputs.output_qk !== undefined,
    output: outputs.output,
  };
}

/** Attends over past and fresh keys; writes the fresh ones behind the past. */
export const groupQueryAttention: WasmKernel = wasmKernel([GroupQueryAttention], {
  accepts(call) {
    const { attrs, query, key, value, past, present, tables, totalLength, bias, sink, norms, levels, output, ...rest } =
      partsOf(call);
    if (typeof levels === "string") return levels;
    const caches = levels === undefined ? [past?.key, past?.value, present?.key, present?.value] : [];
    const all = [query.operand, key.operand, value.operand, ...caches, tables?.cos, tables?.sin, bias, output];
    all.push(sink, norms?.query, norms?.key);
    const types = oneFloatType(all);
    if (types !== true) return types;
    if (output === undefined) return "only the present is asked for";
    if ((call.outputs.present_key === undefined) !== (call.outputs.present_value === undefined))
      return "keys or values alone are asked for";
    if (rest.hasScores) return "there is no kernel for scores";
    if (norms !== undefined && ![query, key].every(({ view }) => acceptsHeads(view))) return "there are too many heads";
    if (attrs.local_window_size === 0) return "there is no kernel for a window of nothing";
    // What slides goes by seqlens_k alone.
    if (attrs.sliding_window_cache && rest.positions !== undefined)
      return "there is no kernel for a cache as short as the window with positions of its own";
    if (!totalLength.known && !attrs.sliding_window_cache) return "total_sequence_length is data";
    const [batch, , length] = query.view.shape;
    if (levels !== undefined && past === undefined && length !== totalOf(totalLength))
      return "there is no past for keys that are not fresh";
    const fresh = key.view.shape[2];
    if (query.view.size === 0 || (fresh !== length && !(fresh === 0 && past !== undefined)))
      return "the fresh keys are not those of the queries";
    if (totalLength.known && length !== totalOf(totalLength) && length !== 1 && batch !== 1)
      return "samples have several queries after a past";
    const packed = [tables?.cos, tables?.sin, rest.positions, rest.seqlens, sink, norms?.query, norms?.key].every(
      (operand) => operand?.contiguous !== false,
    );
    const whole = [query, key, value].every(({ view }) => view.strides[3] === 1 || view.shape[3] === 1);
    return packed && whole && tables?.cos.shape[0] === tables?.sin.shape[0] ? true : "rows or tables have gaps";
  },
  record(call, recorder) {
    const parts = partsOf(call);
    const { attrs, past, present, seqlens, bias, sink, norms } = parts;
    const output = parts.output!; // or it was not accepted
    const placed = ({ operand, view }: Part): Heads => headsAt(recorder, operand, view);
    const queries = placed(parts.query);
    const { rows: length, size } = queries;
    const slides = attrs.sliding_window_cache;
    const total = slides ? 0 : totalOf(parts.totalLength);
    const prompt = length === total;
    const hasFresh = parts.key.view.size > 0;
    const rows = present?.key.shape[2] ?? Math.max(total, past?.key.shape[2] ?? 0);
    const levels = typeof parts.levels === "string" ? undefined : parts.levels; // a sentence was not accepted
    recorder.when(lengthsFit(parts, rows, hasFresh, prompt));
    const lengths = lengthsPlus(recorder, seqlens, queries.batch, 1);
    const turn = turning(recorder, parts, prompt);
    const starts = past === undefined || prompt ? 0 : lengthsPlus(recorder, seqlens, queries.batch, 1 - length);
    const normed = (heads: Heads, weight: Operand | undefined): Heads =>
      weight === undefined ? heads : normalizeHeads(recorder, heads, weight, attrs.qk_norm_epsilon);
    let counts = lengths;
    const append = (
      before: Operand | undefined,
      fresh: Heads | undefined,
      after: Operand | undefined,
      scale: Operand | undefined,
    ): Heads | ByteHeads => {
      const old = before && headsOf(recorder, before, undefined);
      // What is neither extended nor handed out is read where it lies.
      if (after === undefined && fresh === undefined) return old!;
      const width = levels?.type === "int4" ? Math.ceil(size / 2) : size;
      const like = { ...fresh!, rows, ...(levels === undefined ? {} : { type: "int8" as const, size: width }) };
      if (slides) {
        const stored = levels === undefined ? fresh! : temporaryHeads(recorder, { ...like, rows: length });
        if (levels !== undefined) quantizeHeads(recorder, fresh!, stored as ByteHeads, 0, levels, scale!);
        const step = { lengths, window: attrs.local_window_size };
        const slid = slideHeads(recorder, old!, stored as Heads, after && headsOf(recorder, after, undefined), step);
        counts = slid.counts;
        return slid.rows;
      }
      const target = after ? headsOf(recorder, after, undefined) : temporaryHeads(recorder, like);
      takeOver(recorder, old, target);
      clearHeads(recorder, target, before?.shape[2] ?? 0);
      if (fresh === undefined) return target;
      if (levels === undefined) scatterHeads(recorder, fresh, target as Heads, starts);
      else quantizeHeads(recorder, fresh, target as ByteHeads, starts, levels, scale!);
      return target;
    };
    const keys = hasFresh ? turn(normed(placed(parts.key), norms?.key)) : undefined;
    const key = append(past?.key, keys, present?.key, levels?.keyScale);
    const values = hasFresh ? placed(parts.value) : undefined;
    const value = append(past?.value, values, present?.value, levels?.valueScale);
    const turned = turn(normed(queries, norms?.query));
    const results = headsOf(recorder, output, attrs.num_heads);
    const query = levels === undefined ? turned : floatHeads(recorder, turned);
    const attended = levels === undefined ? results : floatHeads(recorder, results);
    if (levels !== undefined) scaleHeads(recorder, turned, query, attrs.kv_num_heads, levels, levels.keyScale);
    recordAttention(recorder, {
      query,
      key,
      value,
      output: attended,
      levels: levels?.type,
      lengths: counts,
      // In a prompt, and without a past, the first query stands at 0 however many keys its sample has.
      past: past === undefined || prompt ? -1 : 0,
      causal: attrs.causal,
      left: attrs.local_window_size > 0 ? attrs.local_window_size - 1 : -1,
      right: -1,
      mask: bias === undefined ? noMask : maskAt(recorder.address(bias), bias.type as FloatType, bias),
      scale: attrs.scale === 0 ? 1 / Math.sqrt(size) : attrs.scale,
      softcap: attrs.softcap,
      sinks: sinksOf(recorder, sink, attrs, levels !== undefined),
    });
    if (levels !== undefined) scaleHeads(recorder, attended, results, attrs.kv_num_heads, levels, levels.valueScale);
  },
});

/** Where the sinks of all heads are: given, zeros for a smooth softmax, or none. */
function sinksOf(recorder: Recorder, given: Operand | undefined, attrs: Call["attrs"], isScaled: boolean): number {
  if (given !== undefined) return isScaled ? floatSinks(recorder, given) : recorder.address(given);
  return attrs.smooth_softmax ? recorder.words(Array.from({ length: attrs.num_heads }, () => ({ word: 0 }))) : 0;
}

const totalOf = ({ view }: Operand): number => readIntegers(view)[0];

/** A function that turns heads to their positions, in memory of the program's own; the heads themselves without rotary embedding. */
function turning(recorder: Recorder, parts: Parts, prompt: boolean): (heads: Heads) => Heads {
  const { attrs, tables, positions, seqlens } = parts;
  if (tables === undefined) return (heads) => heads;
  const { cos, sin } = tables;
  const [batch, , length] = parts.query.view.shape;
  const each = !prompt && positions !== undefined; // a position for every token
  const first = (): number => {
    if (positions !== undefined) return recorder.address(positions);
    return prompt ? recorder.words([{ word: 0 }, { word: 0 }]) : lengthsPlus(recorder, seqlens, batch, 1 - length);
  };
  const place = {
    cos: recorder.address(cos),
    sin: recorder.address(sin),
    pairs: cos.shape[1],
    interleaved: attrs.rotary_interleaved,
    positions: first(),
    positionSample: prompt ? 0 : (positions?.shape[1] ?? 1),
    positionStep: each ? 1 : 0,
  };
  return (heads) => {
    const to = temporaryHeads(recorder, heads);
    runRotation(recorder, { from: heads, to, ...place });
    return to;
  };
}

/** A test that the lengths, and the positions that follow from them or are given, are such as the reference implementation would not refuse. */
function lengthsFit(parts: Parts, present: number, hasFresh: boolean, prompt: boolean): () => boolean {
  const { attrs, past, seqlens, tables, positions, bias } = parts;
  const [batch, , length] = parts.query.view.shape;
  const slides = attrs.sliding_window_cache;
  const total = slides ? 0 : totalOf(parts.totalLength);
  const rows = tables?.cos.shape[0] ?? Infinity;
  const lasts = wordsOf(seqlens, 1);
  const capacity = Math.min(present, bias === undefined ? Infinity : total);
  const least = prompt ? 0 : length - 1;
  // Past the end of a padded prompt the window is counted from the last key, as every place is where rows are integers.
  const whole = prompt && (parts.levels !== undefined || (batch > 1 && attrs.local_window_size > 0));
  const behind = past === undefined || prompt || !hasFresh ? Infinity : past.key.shape[2] + length - 1;
  // The kernels count tokens, one more than is told, in 32 bits.
  const most = slides ? 2 ** 31 - 2 : Math.min(capacity - 1, behind);
  const given = positions && wordsOf(positions, 2);
  const counted = given === undefined ? 0 : prompt ? 1 : positions!.view.size;
  const highest = prompt ? rows - length : rows - 1;
  const told = wordsOf(parts.totalLength, 1);
  const mayDiffer = length === 1 || batch === 1;
  const holdsAll = hasFresh || total <= (past?.key.shape[2] ?? 0);
  return () => {
    if (!holdsAll || (slides && (told[0] <= 0 || (told[0] !== length && !mayDiffer)))) return false;
    for (let sample = 0; sample < lasts.length; sample++) {
      const last = lasts[sample];
      if (last < least || last > most || (whole && last !== length - 1)) return false;
      if (given === undefined && !prompt && last >= rows) return false;
    }
    for (let at = 0; at < counted; at++) {
      const position = given![2 * at];
      if (given![2 * at + 1] !== 0 || position < 0 || position > highest) return false;
    }
    return true;
  };
}

/** The 32-bit words of a contiguous operand, `width` an element. */
function wordsOf({ view }: Operand, width: number): Int32Array {
  const { buffer, byteOffset } = view.data as ByteStorage;
  return new Int32Array(buffer, byteOffset + view.offset * width * 4, view.size * width);
}
