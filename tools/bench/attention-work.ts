/**
 * One step of attention over a KV cache, in the forms that runtimes have for it: models, feeds, and the result by plain loops.
 * Runs nothing.
 */
import { seededRandom } from "#insitu/graph/call.js";
import { buildModel, node, value } from "#insitu/onnx/build.js";
import type { Model } from "#insitu/onnx/model.js";
import { writeModel } from "#insitu/onnx/write.js";
import { encodeFloat16 } from "#insitu/tensor/float.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { copied, floatsOf, integers, type Tensors, type Work } from "./work.js";

/** A cache of [1, kvHeads, capacity, head], `valid` rows of which are attended: the last of them is this step's own. */
export interface AttentionSizes {
  readonly type: "float32" | "float16";
  readonly heads: number;
  readonly kvHeads: number;
  readonly head: number;
  readonly capacity: number;
  readonly valid: number;
}

/** The operands of one step. Caches come with this step's row, and without: then it holds something else. */
export interface AttentionFeeds {
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
  readonly cache: Readonly<Record<"key" | "value", Tensor>>;
  readonly cacheBefore: Readonly<Record<"key" | "value", Tensor>>;
}

const cacheDims = ({ kvHeads, capacity, head }: AttentionSizes): readonly number[] => [1, kvHeads, capacity, head];

/** Bytes of keys and values that one step reads. */
export const validBytes = ({ type, kvHeads, valid, head }: AttentionSizes): number =>
  2 * kvHeads * valid * head * (type === "float32" ? 4 : 2);

/** Random operands, the same for the same sizes. */
export function attentionFeeds(sizes: AttentionSizes): AttentionFeeds {
  const { type, heads, kvHeads, head, capacity, valid } = sizes;
  const random = seededRandom(1);
  const tensor = (dims: readonly number[]): Tensor => {
    const numbers = Float32Array.from({ length: dims.reduce((count, dim) => count * dim, 1) }, () => random() * 2 - 1);
    return new Tensor(type as string, type === "float32" ? numbers : Uint16Array.from(numbers, encodeFloat16), dims);
  };
  const row = tensor([1, kvHeads, 1, head]);
  const [key, value] = [row, tensor([1, kvHeads, 1, head])];
  const before = { key: tensor(cacheDims(sizes)), value: tensor(cacheDims(sizes)) };
  const written = (cache: Tensor, rows: Tensor): Tensor => {
    const whole = copied(cache);
    const [to, from] = [whole.data as Float32Array, rows.data as Float32Array];
    for (let at = 0; at < kvHeads; at++)
      to.set(from.subarray(at * head, (at + 1) * head), (at * capacity + valid - 1) * head);
    return whole;
  };
  return {
    query: tensor([1, heads, 1, head]),
    key,
    value,
    cache: { key: written(before.key, key), value: written(before.value, value) },
    cacheBefore: before,
  };
}

/** TensorScatter writes the step's row, Attention reads the valid ones. Caches are `past_key` and `past_value`. */
export function inPlaceModel(sizes: AttentionSizes): Model {
  const { type, heads, kvHeads, head } = sizes;
  const cache = (name: string): ReturnType<typeof value> => value(name, type, cacheDims(sizes));
  return buildModel({
    opset: 24,
    inputs: [
      value("query", type, [1, heads, 1, head]),
      value("key", type, [1, kvHeads, 1, head]),
      value("value", type, [1, kvHeads, 1, head]),
      cache("past_key"),
      cache("past_value"),
      value("write_indices", "int64", [1]),
      value("nonpad_kv_seqlen", "int64", [1]),
    ],
    outputs: [value("attended", type, [1, heads, 1, head]), cache("present_key"), cache("present_value")],
    nodes: [
      node("TensorScatter", ["past_key", "key", "write_indices"], ["present_key"], { axis: -2 }),
      node("TensorScatter", ["past_value", "value", "write_indices"], ["present_value"], { axis: -2 }),
      node("Attention", ["query", "present_key", "present_value", "", "", "", "nonpad_kv_seqlen"], ["attended"], {
        is_causal: 1,
      }),
    ],
  });
}

/** The feeds of `inPlaceModel`, without the caches. */
export const inPlaceFeeds = ({ query, key, value: fresh }: AttentionFeeds, { valid }: AttentionSizes): Tensors => ({
  query,
  key,
  value: fresh,
  write_indices: integers("int64", [valid - 1], [1]),
  nonpad_kv_seqlen: integers("int64", [valid], [1]),
});

/** GroupQueryAttention, which writes the row and attends. */
export function groupQueryWork(sizes: AttentionSizes, feeds: AttentionFeeds, copies: number): Work {
  const { type, heads, kvHeads, head, valid } = sizes;
  const cache = (name: string): ReturnType<typeof value> => value(name, type, cacheDims(sizes));
  const model = (): Model =>
    buildModel({
      opset: { "": 21, "com.microsoft": 1 },
      inputs: [
        value("query", type, [1, 1, heads * head]),
        value("key", type, [1, 1, kvHeads * head]),
        value("value", type, [1, 1, kvHeads * head]),
        cache("past_key"),
        cache("past_value"),
        value("seqlens_k", "int32", [1]),
        value("total_sequence_length", "int32", [1]),
      ],
      outputs: [value("attended", type, [1, 1, heads * head]), cache("present_key"), cache("present_value")],
      nodes: [
        node(
          "GroupQueryAttention",
          ["query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length"],
          ["attended", "present_key", "present_value"],
          { num_heads: heads, kv_num_heads: kvHeads },
          { domain: "com.microsoft" },
        ),
      ],
    });
  const flat = (tensor: Tensor): Tensor => tensor.reshape([1, 1, tensor.size]);
  const rounds = Array.from({ length: copies }, () => ({
    query: flat(feeds.query),
    key: flat(feeds.key),
    value: flat(feeds.value),
    past_key: copied(feeds.cacheBefore.key),
    past_value: copied(feeds.cacheBefore.value),
    seqlens_k: integers("int32", [valid - 1], [1]),
    total_sequence_length: integers("int32", [valid], [1]),
  }));
  return { model: () => writeModel(model()), rounds, outputs: ["attended"] };
}

/** Attention of opset 24 over a cache that already holds the row: nothing is written. */
export function attentionWork(sizes: AttentionSizes, feeds: AttentionFeeds, copies: number): Work {
  const { type, heads, head, valid } = sizes;
  const model = (): Model =>
    buildModel({
      opset: 24,
      inputs: [
        value("query", type, [1, heads, 1, head]),
        value("key", type, cacheDims(sizes)),
        value("value", type, cacheDims(sizes)),
        value("nonpad_kv_seqlen", "int64", [1]),
      ],
      outputs: [value("attended", type, [1, heads, 1, head])],
      nodes: [
        node("Attention", ["query", "key", "value", "", "", "", "nonpad_kv_seqlen"], ["attended"], { is_causal: 1 }),
      ],
    });
  const rounds = Array.from({ length: copies }, () => ({
    query: feeds.query,
    key: copied(feeds.cache.key),
    value: copied(feeds.cache.value),
    nonpad_kv_seqlen: integers("int64", [valid], [1]),
  }));
  return { model: () => writeModel(model()), rounds, outputs: ["attended"] };
}

/** The result by plain loops. */
export function attended(sizes: AttentionSizes, feeds: AttentionFeeds): Float32Array {
  const { heads, kvHeads, head, capacity, valid } = sizes;
  const [query, keys, values] = [feeds.query, feeds.cache.key, feeds.cache.value].map(({ data }) => floatsOf(data));
  const result = new Float32Array(heads * head);
  const scores = new Float64Array(valid);
  for (let at = 0; at < heads; at++) {
    const cache = Math.floor(at / (heads / kvHeads)) * capacity * head;
    for (let row = 0; row < valid; row++) {
      let dot = 0;
      for (let inner = 0; inner < head; inner++) dot += query[at * head + inner] * keys[cache + row * head + inner];
      scores[row] = dot / Math.sqrt(head);
    }
    const highest = scores.reduce((most, score) => Math.max(most, score), -Infinity);
    const weights = scores.map((score) => Math.exp(score - highest));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    for (let inner = 0; inner < head; inner++) {
      let sum = 0;
      for (let row = 0; row < valid; row++) sum += weights[row] * values[cache + row * head + inner];
      result[at * head + inner] = sum / total;
    }
  }
  return result;
}
