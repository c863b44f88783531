/** onnxruntime's RotaryEmbedding: as ONNX's, with positions always given, as a list for every token or as one offset for all; MRotaryEmbedding: with three of them for every token. */
import { flag, float, int, ints, required } from "../../graph/attribute.js";
import { type Dim, divideExactly, isKnown, multiplyDims, unknownDim } from "../../graph/dim.js";
import { reuse } from "../../graph/effect.js";
import { type Fact, factText, knownIntegers } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { readIntegers, readNumbers, writeNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { headsView } from "../attention/heads.js";
import { rotateHead } from "../shared/loops/rotation.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";

/** What both are. */
const common = {
  domain: "com.microsoft",
  since: 1,
  types: { T: ["float32", "float16", "bfloat16"] },
  inputs: { input: tensor("T"), position_ids: tensor("int64"), cos_cache: tensor("T"), sin_cache: tensor("T") },
  outputs: { output: tensor("T") },
  effects: { output: reuse("input") },
} as const;

const attrs = {
  interleaved: flag(false),
  is_packed_batching: flag(false),
  num_heads: int(0),
  rotary_embedding_dim: int(0),
  scale: float(1),
};

/**
 * Rotates the first `rotary_embedding_dim` values of each head; the rest passes. `scale` and `is_packed_batching` are accepted and
 * change nothing, as in onnxruntime's own kernels.
 */
export const MicrosoftRotaryEmbedding = defineOp({
  name: "RotaryEmbedding",
  ...common,
  attrs,

  infer(call) {
    const { input, position_ids } = call.inputs;
    checkTables(call, call.inputs, call.attrs);
    const length = input.shape?.at(-2);
    checkPositionShape(call, position_ids, input, length);
    return { output: { shape: input.shape } };
  },

  looksAt: ["position_ids"],
  validate(call) {
    const { input, position_ids, cos_cache, sin_cache } = call.inputs;
    const rows = cos_cache.shape?.[0] ?? sin_cache.shape?.[0];
    const length = input.shape?.at(-2);
    const positions = knownIntegers(position_ids);
    if (positions !== undefined && rows !== undefined && isKnown(rows) && length !== undefined && isKnown(length))
      checkPositions(call, positions, isOffset(position_ids.shape ?? []), length, rows);
  },

  reference(call) {
    const { input, position_ids, cos_cache, sin_cache } = call.inputs;
    const { interleaved, num_heads } = call.attrs;
    const pairs = cos_cache.shape[1];
    const count = headCount(input, num_heads, pairs);
    if (input.size === 0) return;
    const x = headsView(input, count); // [batch, heads, length, size]
    const [batch, heads, length, size] = x.shape;
    const positions = readIntegers(position_ids);
    const offset = isOffset(position_ids.shape);
    checkPositions(call, positions, offset, length, cos_cache.shape[0]);
    const values = float64Scratch(x.size);
    values.set(readNumbers(x));
    const rotation = { cos: readNumbers(cos_cache), sin: readNumbers(sin_cache), pairs, interleaved };
    for (let row = 0; row < batch * heads * length; row++) {
      const token = row % length;
      const sample = Math.floor(row / (heads * length));
      rotateHead(values, row * size, offset ? positions[0] + token : positions[sample * length + token], rotation);
    }
    writeNumbers(headsView(call.outputs.output, count), values);
  },
});

/**
 * MRotaryEmbedding: every token has a position in time, in height and in width, and each pair is turned by one of them: the first pairs by time, those
 * behind by height, the last by width (`mrope_layout` 0), or in turns (1).
 */
export const MicrosoftMRotaryEmbedding = defineOp({
  name: "MRotaryEmbedding",
  ...common,
  attrs: { ...attrs, mrope_layout: int(0), mrope_section: required(ints()) },

  infer(call) {
    const { mrope_layout: layout, mrope_section: section } = call.attrs;
    const pairs = checkTables(call, call.inputs, call.attrs);
    call.check(layout === 0 || layout === 1, () => `mrope_layout must be 0 or 1, got ${layout}`, "invalid-argument");
    const sum = section.reduce((all, count) => all + count, 0);
    call.check(
      section.length === 3 && section.every((count) => count >= 0) && (!isKnown(pairs) || sum === pairs),
      () =>
        `mrope_section must be 3 counts of pairs${isKnown(pairs) ? `, ${pairs} in all` : ""}, got [${section.join(",")}]`,
      "invalid-argument",
    );
    const { input, position_ids: positions } = call.inputs;
    checkRank(call, "position_ids", positions, 3);
    if (positions.shape !== undefined) {
      unifyDims(
        call,
        positions.shape[0],
        3,
        "position_ids must have 3 positions for every token in its first dimension",
      );
      if (input.shape !== undefined) {
        unifyDims(call, positions.shape[1], input.shape[0], "position_ids and input must agree in the batch");
        unifyDims(
          call,
          positions.shape[2],
          input.shape.at(-2)!,
          "position_ids and input must agree in the sequence length",
        );
      }
    }
    return { output: { shape: input.shape } };
  },

  looksAt: ["position_ids"],
  validate(call) {
    const { position_ids, cos_cache, sin_cache } = call.inputs;
    const rows = cos_cache.shape?.[0] ?? sin_cache.shape?.[0];
    const positions = knownIntegers(position_ids);
    if (positions !== undefined && rows !== undefined && isKnown(rows)) checkPositions(call, positions, false, 0, rows);
  },

  reference(call) {
    const { input, position_ids, cos_cache, sin_cache } = call.inputs;
    const { interleaved, scale } = call.attrs;
    if (input.size === 0) return;
    const count = headCount(input, call.attrs.num_heads, cos_cache.shape[1]);
    const x = headsView(input, count); // [batch, heads, length, size]
    const [batch, heads, length, size] = x.shape;
    const positions = readIntegers(position_ids); // [3, batch, length]
    checkPositions(call, positions, false, length, cos_cache.shape[0]);
    const pairs = cos_cache.shape[1];
    const [cos, sin] = [readNumbers(cos_cache), readNumbers(sin_cache)];
    const axes = sectionAxes(call.attrs, pairs);
    const values = float64Scratch(x.size);
    values.set(readNumbers(x));
    for (let token = 0; token < batch * length; token++) {
      const rows = axes.map((axis, pair) => positions[axis * batch * length + token] * pairs + pair);
      const rotation = {
        cos: Float64Array.from(rows, (row) => cos[row] * scale),
        sin: Float64Array.from(rows, (row) => sin[row] * scale),
        pairs,
        interleaved,
      };
      const [sample, at] = [Math.floor(token / length), token % length];
      for (let head = 0; head < heads; head++)
        rotateHead(values, ((sample * heads + head) * length + at) * size, 0, rotation);
    }
    writeNumbers(headsView(call.outputs.output, count), values);
  },
});

/** By which of the three positions each pair is turned. */
function sectionAxes(
  { mrope_layout, mrope_section }: { readonly mrope_layout: number; readonly mrope_section: readonly number[] },
  pairs: number,
): number[] {
  const [time, height, width] = mrope_section;
  if (mrope_layout === 0)
    return Array.from({ length: pairs }, (_, pair) => (pair < time ? 0 : pair < time + height ? 1 : 2));
  const ends = [0, 3 * height, 3 * width];
  return Array.from({ length: pairs }, (_, pair) => (pair < ends[pair % 3] ? pair % 3 : 0));
}

/** How many heads an input has: as many as it says, as it is told, or as wholly turned ones fit. */
const headCount = (input: View, heads: number, pairs: number): number =>
  input.rank === 4 ? input.shape[1] : heads > 0 ? heads : input.shape[2] / Math.max(1, 2 * pairs);

/** Checks the input against the tables of angles. Returns how many pairs are turned. */
function checkTables(
  call: CallContext,
  { input, cos_cache, sin_cache }: { readonly input: Fact; readonly cos_cache: Fact; readonly sin_cache: Fact },
  {
    num_heads: heads,
    rotary_embedding_dim: partial,
  }: { readonly num_heads: number; readonly rotary_embedding_dim: number },
): Dim {
  call.check(heads >= 0, () => `num_heads must not be negative, got ${heads}`, "invalid-argument");
  call.check(partial >= 0, () => `rotary_embedding_dim must not be negative, got ${partial}`, "invalid-argument");
  call.check(partial === 0 || heads > 0, "rotary_embedding_dim needs num_heads beside it", "invalid-argument");
  checkRank(call, "input", input, 3, 4);
  checkRank(call, "cos_cache", cos_cache, 2);
  checkRank(call, "sin_cache", sin_cache, 2);
  cos_cache.shape?.forEach((dim, axis) => {
    if (sin_cache.shape !== undefined)
      unifyDims(call, dim, sin_cache.shape[axis], `cos_cache and sin_cache must agree in dimension ${axis}`);
  });
  const pairs = cos_cache.shape?.[1] ?? sin_cache.shape?.[1];
  const size = headSize(call, input, heads, pairs);
  const rotated = partial === 0 ? size : partial;
  if (isKnown(rotated) && isKnown(size))
    call.check(
      rotated <= size,
      () => `rotary_embedding_dim must not be larger than the head size ${size}, got ${rotated}`,
      "invalid-argument",
    );
  if (pairs !== undefined && isKnown(pairs) && isKnown(rotated))
    call.check(
      pairs * 2 === rotated,
      () => `the last dimension of cos_cache must be half of the ${rotated} rotated values, got ${pairs}`,
    );
  return pairs ?? (isKnown(rotated) ? rotated / 2 : unknownDim());
}

/** The size of a head: from 4 dimensions, from num_heads, or all of it turned, twice the pairs of the tables. */
function headSize(call: CallContext, input: Fact, heads: number, pairs: Dim | undefined): Dim {
  const { shape } = input;
  if (shape === undefined) return unknownDim();
  if (shape.length === 4) return shape[3];
  const packed = shape[2];
  const size = heads > 0 ? divideExactly(packed, heads) : pairs === undefined ? undefined : multiplyDims(pairs, 2);
  if (heads > 0 && isKnown(packed))
    call.check(
      packed % heads === 0,
      () => `num_heads must divide the last dimension of input, got ${heads} and ${packed}`,
    );
  if (heads === 0 && size !== undefined && isKnown(size) && isKnown(packed))
    call.check(
      size > 0 && packed % size === 0,
      () =>
        `without num_heads the last dimension of input must be a multiple of ${size}, the turned values, got ${packed}`,
    );
  return size ?? unknownDim();
}

/** True if position_ids is one offset from which the positions of every sample count. */
const isOffset = (shape: readonly Dim[]): boolean => shape.length === 0 || (shape.length === 1 && shape[0] === 1);

function checkPositionShape(call: CallContext, positions: Fact, input: Fact, length: Dim | undefined): void {
  const { shape } = positions;
  if (shape === undefined) return;
  call.check(
    shape.length === 2 || shape.length === 0 || (shape.length === 1 && (!isKnown(shape[0]) || shape[0] === 1)),
    () => `position_ids must be one offset or [batch, length], got ${factText(positions)}`,
  );
  if (shape.length !== 2 || input.shape === undefined || length === undefined) return;
  unifyDims(call, shape[0], input.shape[0], "position_ids and input must agree in the batch");
  unifyDims(call, shape[1], length, "position_ids and input must agree in the sequence length");
}

function checkPositions(
  call: CallContext,
  positions: readonly number[],
  offset: boolean,
  length: number,
  rows: number,
): void {
  const last = offset ? rows - length : rows - 1;
  for (const position of positions) {
    call.check(
      position >= 0 && position <= last,
      () =>
        `position_ids must lie in [0, ${last}] for caches of ${rows} rows${offset ? ` and ${length} tokens` : ""}, got ${position}`,
      "invalid-argument",
    );
  }
}
