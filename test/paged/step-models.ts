// A decoder's step as two models: TensorScatter and Attention on a linear cache, ScatterPaKvCache and PagedAttention on pages.
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";

/** What both models have in common, and how pages lie. */
export interface Sizes {
  readonly heads: number;
  readonly kvHeads: number;
  readonly size: number;
  readonly valueSize: number;
  readonly blockSize: number;
  readonly columns: number;
  readonly layout: "Norm" | "NHSD" | "PA_NZ";
  readonly left: number;
}

/** Caches are `past.key` and `past.value`, [batch, heads, capacity, size]. */
export function linearModel({ heads, kvHeads, size, valueSize, left }: Sizes): Uint8Array {
  const cache = (of: number): (string | number)[] => ["batch", kvHeads, "capacity", of];
  const model = buildModel({
    opset: 25,
    inputs: [
      value("query", "float32", ["batch", heads, "length", size]),
      value("key", "float32", ["batch", kvHeads, "length", size]),
      value("value", "float32", ["batch", kvHeads, "length", valueSize]),
      value("past.key", "float32", cache(size)),
      value("past.value", "float32", cache(valueSize)),
      value("starts", "int64", ["batch"]),
      value("ends", "int64", ["batch"]),
    ],
    outputs: [
      value("y", "float32"),
      value("present.key", "float32", cache(size)),
      value("present.value", "float32", cache(valueSize)),
    ],
    nodes: [
      node("TensorScatter", ["past.key", "key", "starts"], ["present.key"]),
      node("TensorScatter", ["past.value", "value", "starts"], ["present.value"]),
      node("Attention", ["query", "present.key", "present.value", undefined, undefined, undefined, "ends"], ["y"], {
        is_causal: 1,
        left_window_size: left,
      }),
    ],
  });
  return writeModel(model);
}

/** The shape of a pool. */
export const pool = ({ kvHeads, blockSize, layout }: Sizes, of: number): (string | number)[] =>
  layout === "Norm"
    ? ["blocks", blockSize, kvHeads, of]
    : layout === "NHSD"
      ? ["blocks", kvHeads, blockSize, of]
      : ["blocks", (kvHeads * of) / 8, blockSize, 8];

/** Pools are `past.key` and `past.value`. */
export function pagedModel(sizes: Sizes): Uint8Array {
  const { heads, kvHeads, size, valueSize, layout, left } = sizes;
  const [keys, values] = [pool(sizes, size), pool(sizes, valueSize)];
  const model = buildModel({
    opset: { "": 25, insitu: 1 },
    inputs: [
      value("query", "float32", ["batch", heads, "length", size]),
      value("key", "float32", ["tokens", kvHeads, size]),
      value("value", "float32", ["tokens", kvHeads, valueSize]),
      value("past.key", "float32", keys),
      value("past.value", "float32", values),
      value("slots", "int64", ["tokens"]),
      value("tables", "int32", ["batch", "columns"]),
      value("lengths", "int32", ["batch"]),
    ],
    outputs: [value("y", "float32"), value("present.key", "float32", keys), value("present.value", "float32", values)],
    nodes: [
      node(
        "ScatterPaKvCache",
        ["key", "past.key", "slots", "value", "past.value"],
        ["present.key", "present.value"],
        { cache_mode: layout === "PA_NZ" ? "PA_NZ" : "Norm", scatter_mode: layout === "NHSD" ? "NHSD" : "None" },
        { domain: "insitu" },
      ),
      node(
        "PagedAttention",
        ["query", "present.key", "present.value", "tables", "lengths"],
        ["y"],
        { is_causal: 1, cache_mode: layout, left_window_size: left },
        { domain: "insitu" },
      ),
    ],
  });
  return writeModel(model);
}
