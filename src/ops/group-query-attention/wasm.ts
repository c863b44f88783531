/**
 * GroupQueryAttention on WASM: rotary embedding, the write into the present and the attention as jobs of one step, the cache growing or a
 * buffer of fixed capacity. Lengths are data: they are tested before each run, and what must be refused is left to the slow truth.
 */
import type { KernelCall, Operand, Recorder, WasmKernel } from "../../kernels/wasm-kernel.js";
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
} from "../wasm-attention.js";
import { runRotation } from "../wasm-rotate.js";
import { type FloatType, oneFloatType } from "../wasm-work.js";
import type { Attributes } from "./call.js";

/** What a step is made of. */
interface Parts {
  readonly attrs: Attributes;
  readonly queries: { readonly operand: Operand; readonly view: View }; // [batch, heads, length, size]
  readonly keys: { readonly operand: Operand; readonly view: View }; // [batch, kv heads, fresh, size]
  readonly values: { readonly operand: Operand; readonly view: View };
  readonly past: readonly [key: Operand, value: Operand] | undefined;
  readonly present: readonly [key: Operand, value: Operand] | undefined;
  readonly seqlens: Operand;
  readonly totalLength: Operand;
  readonly tables: readonly [cos: Operand, sin: Operand] | undefined;
  readonly positions: Operand | undefined;
  readonly bias: Operand | undefined;
  /** What no kernel knows of. */
  readonly extras: boolean;
  readonly output: Operand | undefined;
}

function partsOf({ inputs, outputs, attrs }: KernelCall): Parts {
  const [query, key, value, pastKey, pastValue, seqlens, totalLength, cos, sin, positions, bias, ...rest] = inputs;
  const [output, presentKey, presentValue, scores] = outputs;
  const given = attrs as Readonly<Record<string, unknown>> & Attributes;
  const { num_heads: heads, kv_num_heads: shared } = given;
  const packed = key === undefined ? headsView(query!.view, heads + 2 * shared) : undefined;
  const part = (operand: Operand | undefined, count: number, from: number): Parts["keys"] =>
    packed === undefined
      ? { operand: operand!, view: headsView(operand!.view, count) }
      : { operand: query!, view: packed.slice(1, from, from + count) };
  const pair = <A, B>(a: A | undefined, b: B | undefined): readonly [A, B] | undefined =>
    a === undefined || b === undefined ? undefined : [a, b];
  return {
    attrs: given,
    queries: part(query, heads, 0),
    keys: part(key, shared, heads),
    values: part(value, shared, heads + shared),
    past: pair(pastKey, pastValue),
    present: pair(presentKey, presentValue),
    seqlens: seqlens!,
    totalLength: totalLength!,
    tables: given.do_rotary ? pair(cos, sin) : undefined,
    positions: given.do_rotary ? positions : undefined,
    bias,
    extras: rest.some((operand) => operand !== undefined) || scores !== undefined,
    output,
  };
}

/** Attends over past and fresh keys; writes the fresh ones behind the past. */
export const groupQueryAttention: WasmKernel = {
  op: "GroupQueryAttention",
  domain: "com.microsoft",
  accepts(call) {
    const {
      attrs,
      queries,
      keys,
      values,
      past,
      present,
      seqlens,
      totalLength,
      tables,
      positions,
      bias,
      extras,
      output,
    } = partsOf(call);
    const all = [queries.operand, keys.operand, values.operand, ...(past ?? []), ...(present ?? [])];
    const types = oneFloatType([...all, ...(tables ?? []), bias, output]);
    if (types !== true) return types;
    if (output === undefined || present === undefined) return "not both of output and present are asked for";
    if (extras || attrs.smooth_softmax) return "there is no kernel for sinks, norms of heads, scores or scales";
    if (attrs.sliding_window_cache) return "there is no kernel for a cache as short as the window";
    if (attrs.local_window_size === 0) return "there is no kernel for a window of nothing";
    if (!totalLength.known) return "total_sequence_length is data";
    const [batch, , length] = queries.view.shape;
    if (queries.view.size === 0 || keys.view.shape[2] !== length) return "the fresh keys are not those of the queries";
    if (length !== totalOf(totalLength) && length !== 1 && batch !== 1)
      return "samples have several queries after a past";
    const packed = [...(tables ?? []), positions, seqlens].every((operand) => operand?.contiguous !== false);
    const whole = [queries, keys, values].every(({ view }) => view.strides[3] === 1 || view.shape[3] === 1);
    return packed && whole && (tables === undefined || tables[0].shape[0] === tables[1].shape[0])
      ? true
      : "rows or tables have gaps";
  },
  record(call, recorder) {
    const parts = partsOf(call);
    const { attrs, past, present, seqlens, bias, output } = parts;
    const [queries, keys, values] = [parts.queries, parts.keys, parts.values].map(({ operand, view }) =>
      headsAt(recorder, operand, view),
    );
    const { rows: length, size } = queries;
    const prompt = length === totalOf(parts.totalLength);
    recorder.when(lengthsFit(parts, prompt));
    const lengths = lengthsPlus(recorder, seqlens, queries.batch, 1);
    const turn = turning(recorder, parts, prompt);
    const pasts = past?.map((operand) => headsOf(recorder, operand, undefined));
    const [presentKey, presentValue] = present!.map((operand) => headsOf(recorder, operand, undefined));
    const starts = past === undefined || prompt ? 0 : lengthsPlus(recorder, seqlens, queries.batch, 1 - length);
    const append = (before: Heads | undefined, fresh: Heads, target: Heads): void => {
      takeOver(recorder, before, target);
      clearHeads(recorder, target, before?.rows ?? 0);
      scatterHeads(recorder, fresh, target, starts);
    };
    append(pasts?.[0], turn(keys), presentKey);
    append(pasts?.[1], values, presentValue);
    recordAttention(recorder, {
      query: turn(queries),
      key: presentKey,
      value: presentValue,
      output: headsOf(recorder, output!, attrs.num_heads),
      lengths,
      // In a prompt, and without a past, the first query stands at 0 however many keys its sample has.
      past: past === undefined || prompt ? -1 : 0,
      causal: attrs.causal,
      left: attrs.local_window_size > 0 ? attrs.local_window_size - 1 : -1,
      right: -1,
      mask: bias === undefined ? noMask : maskAt(recorder.address(bias), bias.type as FloatType, bias),
      scale: attrs.scale === 0 ? 1 / Math.sqrt(size) : attrs.scale,
      softcap: attrs.softcap,
    });
  },
};

const totalOf = ({ view }: Operand): number => readIntegers(view)[0];

/** A function that turns heads to their positions, in memory of the program's own; the heads themselves without rotary embedding. */
function turning(recorder: Recorder, parts: Parts, prompt: boolean): (heads: Heads) => Heads {
  const { attrs, tables, positions, seqlens } = parts;
  if (tables === undefined) return (heads) => heads;
  const [cos, sin] = tables;
  const [batch, , length] = parts.queries.view.shape;
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

/** A test that the lengths, and the positions that follow from them or are given, are such as the slow truth would not refuse. */
function lengthsFit(parts: Parts, prompt: boolean): () => boolean {
  const { attrs, past, present, seqlens, tables, positions, bias } = parts;
  const [batch, , length] = parts.queries.view.shape;
  const total = totalOf(parts.totalLength);
  const rows = tables?.[0].shape[0] ?? Infinity;
  const lasts = wordsOf(seqlens, 1);
  const capacity = Math.min(present![0].shape[2], bias === undefined ? Infinity : total);
  const least = prompt ? 0 : length - 1;
  // Past the end of a padded prompt the window is counted from the last key.
  const whole = prompt && batch > 1 && attrs.local_window_size > 0;
  const most = Math.min(capacity - 1, past === undefined || prompt ? Infinity : past[0].shape[2] + length - 1);
  const given = positions && wordsOf(positions, 2);
  const counted = given === undefined ? 0 : prompt ? 1 : positions!.view.size;
  const highest = prompt ? rows - length : rows - 1;
  return () => {
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
