/** onnxruntime's RotaryEmbedding: as ONNX's, with positions always given, as a list for every token or as one offset for all. */
import { flag, float, int } from "../../graph/attribute.js";
import { type Dim, divideExactly, isKnown, multiplyDims, unknownDim } from "../../graph/dim.js";
import { reuse } from "../../graph/effect.js";
import { type Fact, factText, knownIntegers } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { readIntegers, readNumbers, writeNumbers } from "../../tensor/access.js";
import { headsView } from "../attention/heads.js";
import { rotateHead } from "../shared/loops/rotation.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";

/**
 * Rotates the first `rotary_embedding_dim` values of each head; the rest passes. `scale` and `is_packed_batching` are accepted and
 * change nothing, as in onnxruntime's own kernels.
 */
export const MicrosoftRotaryEmbedding = defineOp({
  name: "RotaryEmbedding",
  domain: "com.microsoft",
  since: 1,
  types: { T: ["float32", "float16", "bfloat16"] },
  inputs: { input: tensor("T"), position_ids: tensor("int64"), cos_cache: tensor("T"), sin_cache: tensor("T") },
  outputs: { output: tensor("T") },
  attrs: {
    interleaved: flag(false),
    is_packed_batching: flag(false),
    num_heads: int(0),
    rotary_embedding_dim: int(0),
    scale: float(1),
  },
  effects: { output: reuse("input") },

  infer(call) {
    const { input, position_ids, cos_cache, sin_cache } = call.inputs;
    const { num_heads: heads, rotary_embedding_dim: partial } = call.attrs;
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
    const count =
      input.rank === 4 ? input.shape[1] : num_heads > 0 ? num_heads : input.shape[2] / Math.max(1, 2 * pairs);
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
