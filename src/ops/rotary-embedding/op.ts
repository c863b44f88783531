/** RotaryEmbedding: turns pairs of a head's values by angles that depend on the position. */
import { flag, int } from "../../graph/attribute.js";
import { type Dim, isKnown, shapeText } from "../../graph/dim.js";
import { reuse } from "../../graph/effect.js";
import { type Fact, factText, knownIntegers } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { numberReader, numberWriter, readIntegers, readNumbers } from "../../tensor/access.js";
import { copyView } from "../../tensor/copy.js";
import { headsOf, headsView } from "../attention/heads.js";
import { rounder } from "../attention/rounding.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";

/** Rotates the first `rotary_embedding_dim` values of each head; the rest passes. */
export const RotaryEmbedding = defineOp({
  name: "RotaryEmbedding",
  since: 23,
  types: { T: ["float16", "bfloat16", "float32"] },
  inputs: { X: tensor("T"), cos_cache: tensor("T"), sin_cache: tensor("T"), position_ids: optional(tensor("int64")) },
  outputs: { Y: tensor("T") },
  attrs: { interleaved: flag(false), num_heads: int(), rotary_embedding_dim: int(0) },
  effects: { Y: reuse("X") },

  infer(call) {
    const { X, cos_cache, sin_cache, position_ids } = call.inputs;
    const { num_heads, rotary_embedding_dim: partial } = call.attrs;
    checkRank(call, "X", X, 3, 4);
    call.check(partial >= 0, () => `rotary_embedding_dim must not be negative, got ${partial}`, "invalid-argument");
    if (X.shape?.length === 3)
      call.check((num_heads ?? 1) > 0, () => `num_heads must be positive, got ${num_heads}`, "invalid-argument");
    const { batch, length, size } = headsOf(call, "X", X, { attribute: "num_heads", count: num_heads });
    const rotated = partial === 0 ? size : partial;
    if (isKnown(rotated))
      call.check(rotated % 2 === 0, () => `values are rotated in pairs: their number must be even, got ${rotated}`);
    if (isKnown(rotated) && isKnown(size))
      call.check(
        rotated <= size,
        () => `rotary_embedding_dim must not be larger than the head size ${size}, got ${rotated}`,
        "invalid-argument",
      );
    // With positions the caches are tables, [positions, rotated / 2]; without, they are given for every token.
    const rank = position_ids === undefined ? 3 : 2;
    for (const [name, fact] of Object.entries({ cos_cache, sin_cache })) {
      if (fact.shape === undefined) continue;
      call.check(
        fact.shape.length === rank,
        () =>
          `${name} must have ${rank} dimensions ${rank === 3 ? "without" : "with"} position_ids, got ${factText(fact)}`,
      );
      const pairs = fact.shape[rank - 1];
      if (isKnown(pairs) && isKnown(rotated))
        call.check(
          pairs === rotated / 2,
          () => `the last dimension of ${name} must be half of the ${rotated} rotated values, got ${pairs}`,
        );
      if (rank === 3) checkTokens(call, name, fact, batch, length);
    }
    cos_cache.shape?.forEach((dim, axis) => {
      if (sin_cache.shape !== undefined)
        unifyDims(call, dim, sin_cache.shape[axis], `cos_cache and sin_cache must agree in dimension ${axis}`);
    });
    if (position_ids !== undefined) {
      checkRank(call, "position_ids", position_ids, 2);
      checkTokens(call, "position_ids", position_ids, batch, length);
    }
    return { Y: { shape: X.shape } };
  },

  looksAt: ["position_ids"],
  validate(call) {
    const { position_ids, cos_cache, sin_cache } = call.inputs;
    const positions = knownIntegers(position_ids);
    const rows = cos_cache.shape?.[0] ?? sin_cache.shape?.[0];
    if (positions !== undefined && rows !== undefined && isKnown(rows)) checkPositions(call, positions, rows);
  },

  reference(call) {
    const { inputs, outputs, attrs } = call;
    const { X, cos_cache, sin_cache, position_ids } = inputs;
    const cos = readNumbers(cos_cache); // [positions, pairs] or [batch, length, pairs]
    const sin = readNumbers(sin_cache); // as cos
    const rows = cos_cache.shape[0];
    const positions = position_ids && readIntegers(position_ids); // [batch, length]
    if (positions !== undefined) checkPositions(call, positions, rows);
    // As in Gather, a negative position counts from the table's end.
    const rowOf = (token: number): number =>
      positions === undefined ? token : positions[token] < 0 ? positions[token] + rows : positions[token];
    if (outputs.Y.data !== X.data || outputs.Y.offset !== X.offset) copyView(X, outputs.Y);
    const y = headsView(outputs.Y, attrs.num_heads ?? X.shape[1]); // [batch, heads, length, size]
    const [batch, heads, length, size] = y.shape;
    const [sampleStep, headStep, tokenStep, step] = y.strides;
    const pairs = (attrs.rotary_embedding_dim === 0 ? size : attrs.rotary_embedding_dim) / 2;
    const [pairStep, partnerStep] = attrs.interleaved ? [2, 1] : [1, pairs];
    const [read, write, round] = [numberReader(y), numberWriter(y), rounder(y.type)];
    for (let sample = 0; sample < batch; sample++) {
      for (let token = 0; token < length; token++) {
        const row = rowOf(sample * length + token) * pairs;
        for (let head = 0; head < heads; head++) {
          const start = y.offset + sample * sampleStep + head * headStep + token * tokenStep;
          for (let pair = 0; pair < pairs; pair++) {
            const first = start + pair * pairStep * step;
            const second = first + partnerStep * step;
            const [a, b] = [read(first), read(second)];
            const [c, s] = [cos[row + pair], sin[row + pair]];
            write(first, round(c * a) - round(s * b));
            write(second, round(s * a) + round(c * b));
          }
        }
      }
    }
  },
});

function checkTokens(call: CallContext, name: string, { shape }: Fact, batch: Dim, length: Dim): void {
  if (shape === undefined) return;
  unifyDims(call, shape[0], batch, `${name} ${shapeText(shape)} and X must agree in the batch`);
  unifyDims(call, shape[1], length, `${name} ${shapeText(shape)} and X must agree in the sequence length`);
}

function checkPositions(call: CallContext, positions: readonly number[], rows: number): void {
  for (const position of positions) {
    call.check(
      position >= -rows && position < rows,
      () => `position_ids must lie in [${-rows}, ${rows - 1}], the rows of the caches, got ${position}`,
      "invalid-argument",
    );
  }
}
