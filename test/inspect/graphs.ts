// Small graphs around one cache, for the tests of what inspect tells.
import { buildModel, graph, initializer, node, value } from "../../src/onnx/build.js";
import type { Model, ModelNode, ModelValue } from "../../src/onnx/model.js";

export const cache = (name: string): ModelValue => value(name, "float32", ["batch", "capacity", 4]);
export const row = (name = "row"): ModelValue => value(name, "float32", ["batch", 1, 4]);

/** A TensorScatter of the row into a cache; the name may be empty. */
export const append = (past: string, present: string, name: string): ModelNode =>
  node("TensorScatter", [past, "row", "at"], [present], { axis: 1 }, { name });

/** Inputs past, row and at; outputs present and what is given. */
export function around(
  nodes: readonly ModelNode[],
  more: { inputs?: ModelValue[]; outputs?: ModelValue[]; initializers?: Model["graph"]["initializers"] } = {},
): Model {
  return buildModel({
    opset: { "ai.onnx": 24, "com.microsoft": 1 },
    inputs: [cache("past"), row(), value("at", "int64", ["batch"]), ...(more.inputs ?? [])],
    outputs: more.outputs ?? [cache("present")],
    nodes,
    initializers: more.initializers ?? [],
  });
}

/** An If that appends in its then branch and hands the cache on in the other. */
export const appendInBranch = (inner: readonly ModelNode[], result: string): ModelNode =>
  node(
    "If",
    ["flag"],
    ["present"],
    {
      then_branch: graph({ name: "then", nodes: inner, outputs: [cache(result)] }),
      else_branch: graph({ name: "else", nodes: [node("Identity", ["past"], ["same"])], outputs: [cache("same")] }),
    },
    { name: "choose" },
  );

export const flag: ModelValue = value("flag", "bool", []);

const heads = (name: string, rows: string): ModelValue => value(name, "float32", ["batch", 2, rows, 4]);

/** Attention with its own past and present. */
export const attention: Model = buildModel({
  opset: 24,
  inputs: [
    heads("query", "tokens"),
    heads("key", "tokens"),
    heads("value", "tokens"),
    heads("past_key", "past"),
    heads("past_value", "past"),
  ],
  outputs: [heads("attended", "tokens"), heads("present_key", "total"), heads("present_value", "total")],
  nodes: [
    node(
      "Attention",
      ["query", "key", "value", undefined, "past_key", "past_value"],
      ["attended", "present_key", "present_value"],
      {},
      { name: "attend" },
    ),
  ],
});

/** GroupQueryAttention with its own past and present. */
export const groupQueryAttention: Model = buildModel({
  opset: { "ai.onnx": 24, "com.microsoft": 1 },
  inputs: [
    value("query", "float32", ["batch", "tokens", 8]),
    value("key", "float32", ["batch", "tokens", 4]),
    value("value", "float32", ["batch", "tokens", 4]),
    value("past_key", "float32", ["batch", 1, "past", 4]),
    value("past_value", "float32", ["batch", 1, "past", 4]),
    value("seqlens_k", "int32", ["batch"]),
    value("total_sequence_length", "int32", []),
  ],
  outputs: ["attended", "present_key", "present_value"].map((name) => value(name, "float32")),
  nodes: [
    node(
      "GroupQueryAttention",
      ["query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length"],
      ["attended", "present_key", "present_value"],
      { num_heads: 2, kv_num_heads: 1 },
      { name: "attend", domain: "com.microsoft" },
    ),
  ],
});

/** A cache that is joined anew, once under its own name and once behind a view. */
export const concat: Model = buildModel({
  opset: 24,
  inputs: [
    value("past.key", "float32", ["batch", "past", 4]),
    value("past.value", "float32", ["batch", "past", 4]),
    value("row", "float32", ["batch", "tokens", 4]),
  ],
  outputs: [
    value("present.key", "float32", ["batch", "total", 4]),
    value("present.value", "float32", ["batch", "total", 4]),
  ],
  nodes: [
    node("Concat", ["past.key", "row"], ["present.key"], { axis: 1 }, { name: "join_k" }),
    node("Concat", ["past.value", "row"], ["joined"], { axis: 1 }, { name: "join_v" }),
    node("Identity", ["joined"], ["present.value"], {}, { name: "hand_on" }),
  ],
});

export const zeros = (name: string, dims: readonly number[]): ReturnType<typeof initializer> =>
  initializer(name, "float32", new Float32Array(dims.reduce((product, dim) => product * dim, 1)), dims);
