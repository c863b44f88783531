// Parts of layers beside attention to the cache.
import { value } from "../../../src/onnx/build.js";
import { Net } from "./net.js";

/** x / √(mean of x²), a product of three parts of one width, and the parts: as each opset writes them. */
export function fusedProjections(net: Net, hidden: string, opset: number): string[] {
  const { embedding, heads, head } = net.sizes;
  const squares = net.op("Mul", [hidden, hidden]);
  const mean =
    opset < 18
      ? net.op("ReduceMean", [squares], { axes: [-1], keepdims: 1 })
      : net.op("ReduceMean", [squares, net.ints([-1])], { keepdims: 1 });
  const normed = net.op("Div", [hidden, net.op("Sqrt", [net.op("Add", [mean, net.float(1e-5)])])]);
  const width = heads * head;
  const biased = net.op("Add", [
    net.op("MatMul", [normed, net.weight([embedding, 3 * width])]),
    net.weight([3 * width]),
  ]);
  const parts = [0, 1, 2].map((part) => `${biased}.${part}`);
  net.op("Split", [biased], { axis: 2, ...(opset < 18 ? {} : { num_outputs: 3 }) }, { outputs: parts });
  return parts;
}

/** Keys and values out of a cache that holds both. */
export const stackedCaches = (net: Net, layer: number): string[] =>
  [0, 1].map((part) => net.op("Gather", [`past_${layer}`, net.ints([part], [])], { axis: 0 }));

/** Attention to the keys and values of an encoder, which leave the graph as they entered it. */
export function crossAttention(net: Net, hidden: string, layer: number): string {
  const { embedding, heads, head } = net.sizes;
  const [keys, values] = ["key", "value"].map((which) => {
    const present = `present.${layer}.encoder.${which}`;
    net.outputs.push(value(present, "float32", ["batch", heads, "encoded", head]));
    return net.op("Identity", [`past.${layer}.encoder.${which}`], {}, { output: present });
  });
  const q = net.op("MatMul", [hidden, net.weight([embedding, heads * head])]);
  const queries = net.transpose(net.reshape(q, 0, 0, heads, head), 0, 2, 1, 3);
  const weights = net.op("Softmax", [net.op("MatMul", [queries, net.transpose(keys, 0, 1, 3, 2)])], { axis: -1 });
  const context = net.reshape(net.transpose(net.op("MatMul", [weights, values]), 0, 2, 1, 3), 0, 0, heads * head);
  return net.op("MatMul", [context, net.weight([heads * head, embedding])]);
}
