// The oracle of eviction: all rows stay in one long cache, and a mask shows each query the positions it is to see.
import { InferenceSession } from "../../src/entry/node.js";
import { value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { int64 } from "../support/decoding.js";

/** Every Attention reads a mask that is fed: bool [1, heads or 1, queries, rows]. */
const withMask = (model: Model): Model => ({
  ...model,
  graph: {
    ...model.graph,
    nodes: model.graph.nodes.map((node) =>
      node.opType === "Attention"
        ? { ...node, inputs: node.inputs.map((name, at) => (at === 3 ? "shown" : name)) }
        : node,
    ),
    inputs: [...model.graph.inputs, value("shown", "bool", [1, "mask_heads", "sequence", "capacity"])],
  },
});

/** The logits after each token, where query `at` sees `visible[at]`: positions, or positions of each key/value head. */
export async function maskedLogits(
  bytes: Uint8Array,
  tokens: readonly number[],
  visible: readonly (readonly number[] | readonly (readonly number[])[])[],
  queryHeads = 4,
): Promise<Float32Array[]> {
  const session = await InferenceSession.create(bytes, { change: withMask });
  const capacity = tokens.length;
  const state = session.createState({ dims: { batch: 1, capacity } });
  const rows: Float32Array[] = [];
  const chunk = 100;
  for (let start = 0; start < tokens.length; start += chunk) {
    const part = tokens.slice(start, start + chunk);
    const lists = part.map((_, at) => visible[start + at]);
    const perHead = Array.isArray(lists[0][0]);
    const heads = perHead ? queryHeads : 1;
    const mask = new Uint8Array(heads * part.length * capacity);
    for (let head = 0; head < heads; head++)
      lists.forEach((list, query) => {
        const groups = list.length;
        const own = perHead ? (list as number[][])[Math.floor((head * groups) / heads)] : (list as number[]);
        for (const position of own) mask[(head * part.length + query) * capacity + position] = 1;
      });
    const { logits } = await session.run(
      {
        input_ids: int64(part, [1, part.length]),
        position_ids: int64(
          part.map((_, at) => start + at),
          [1, part.length],
        ),
        shown: new Tensor("bool", mask, [1, heads, part.length, capacity]),
      },
      { state },
    );
    const vocabulary = logits.dims[2];
    part.forEach((_, at) => rows.push((logits.data as Float32Array).slice(at * vocabulary, (at + 1) * vocabulary)));
  }
  await session.release();
  return rows;
}
