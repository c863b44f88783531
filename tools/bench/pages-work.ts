/** One step of attention over pages: models and feeds, from those of the same step over a cache without pages. Runs nothing. */
import { seededRandom } from "#insitu/graph/call.js";
import { type AttributeInput, buildModel, node, value } from "#insitu/onnx/build.js";
import { writeModel } from "#insitu/onnx/write.js";
import { quantizedScatterPaKvCache } from "#insitu/functions/paged-attention.js";
import { scatterPaKvCache } from "#insitu/functions/paged.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { View } from "#insitu/tensor/view.js";
import type { AttentionFeeds, AttentionSizes } from "./attention-work.js";
import { copied, integers, type Tensors } from "./work.js";

/** How pages are laid out and kept. */
export interface PageForm {
  readonly layout: "Norm" | "NHSD" | "PA_NZ";
  readonly blockSize: number;
  readonly type: "float32" | "int8";
  /** Blocks one after the other, as a pool hands them out, or without order, as they are after many came and went. */
  readonly order: "in order" | "scattered";
}

const poolDims = ({ layout, blockSize, type }: PageForm, { kvHeads, head, capacity }: AttentionSizes): number[] => {
  const blocks = Math.ceil(capacity / blockSize);
  const piece = type === "int8" ? 32 : 8;
  if (layout === "Norm") return [blocks, blockSize, kvHeads, head];
  return layout === "NHSD" ? [blocks, kvHeads, blockSize, head] : [blocks, (kvHeads * head) / piece, blockSize, piece];
};

const scaleDims = ({ blockSize }: PageForm, { kvHeads, capacity }: AttentionSizes): number[] => [
  Math.ceil(capacity / blockSize),
  blockSize,
  kvHeads,
];

/** The write of this step's row, then attention over the pages; pools are `past.*`. */
export function pagedModel(form: PageForm, sizes: AttentionSizes): Uint8Array {
  const { heads, kvHeads, head } = sizes;
  const quantized = form.type === "int8";
  const pools = quantized ? ["key", "key_scale", "value", "value_scale"] : ["key", "value"];
  const pool = (side: string, name: string): ReturnType<typeof value> =>
    name.endsWith("scale")
      ? value(`${side}.${name}`, "float32", scaleDims(form, sizes))
      : value(`${side}.${name}`, form.type, poolDims(form, sizes));
  const columns = Math.ceil(sizes.capacity / form.blockSize);
  const domain = { domain: "insitu" };
  const modes: Record<string, AttributeInput> = quantized
    ? { cache_mode: form.layout }
    : {
        cache_mode: form.layout === "PA_NZ" ? "PA_NZ" : "Norm",
        scatter_mode: form.layout === "NHSD" ? "NHSD" : "None",
      };
  const presents = pools.map((name) => `present.${name}`);
  const write = quantized
    ? node(
        "QuantizedScatterPaKvCache",
        ["key", "past.key", "past.key_scale", "slots", "value", "past.value", "past.value_scale"],
        presents,
        modes,
        domain,
      )
    : node("ScatterPaKvCache", ["key", "past.key", "slots", "value", "past.value"], presents, modes, domain);
  const read = ["query", "present.key", "present.value", "tables", "lengths"];
  return writeModel(
    buildModel({
      opset: { "": 24, insitu: 1 },
      inputs: [
        value("query", "float32", [1, heads, 1, head]),
        value("key", "float32", [1, kvHeads, head]),
        value("value", "float32", [1, kvHeads, head]),
        ...pools.map((name) => pool("past", name)),
        value("slots", "int64", [1]),
        value("tables", "int32", [1, columns]),
        value("lengths", "int32", [1]),
      ],
      outputs: [value("attended", "float32", [1, heads, 1, head]), ...pools.map((name) => pool("present", name))],
      nodes: [
        write,
        node(
          "PagedAttention",
          quantized ? [...read, "present.key_scale", "present.value_scale"] : read,
          ["attended"],
          { is_causal: 1, cache_mode: form.layout },
          domain,
        ),
      ],
    }),
  );
}

/** The blocks of the sequence: every one of the pool. */
function tableOf({ blockSize, order }: PageForm, { capacity }: AttentionSizes): readonly number[] {
  const random = order === "in order" ? () => 0 : seededRandom(7);
  return Array.from({ length: Math.ceil(capacity / blockSize) }, (_, block) => ({ block, key: random() }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ block }) => block);
}

/** Feeds of `pagedModel` without the pools. */
export function pagedFeeds(form: PageForm, sizes: AttentionSizes, feeds: AttentionFeeds): Tensors {
  const { kvHeads, head, valid } = sizes;
  const table = tableOf(form, sizes);
  const last = valid - 1;
  const slot = table[Math.floor(last / form.blockSize)] * form.blockSize + (last % form.blockSize);
  return {
    query: feeds.query,
    key: feeds.key.reshape([1, kvHeads, head]),
    value: feeds.value.reshape([1, kvHeads, head]),
    slots: integers("int64", [slot], [1]),
    tables: integers("int32", table, [1, table.length]),
    lengths: integers("int32", [valid], [1]),
  };
}

/** Pools that hold what the cache without pages holds. */
export function poolsOf(form: PageForm, sizes: AttentionSizes, feeds: AttentionFeeds): Tensors {
  const { kvHeads, head, valid, capacity } = sizes;
  const table = tableOf(form, sizes);
  const slots = integers(
    "int64",
    Array.from(
      { length: valid },
      (_, row) => table[Math.floor(row / form.blockSize)] * form.blockSize + (row % form.blockSize),
    ),
    [valid],
  );
  const rowsOf = (cache: Tensor): Tensor => {
    const from = cache.data as Float32Array;
    const rows = new Float32Array(valid * kvHeads * head);
    for (let row = 0; row < valid; row++)
      for (let each = 0; each < kvHeads; each++) {
        const start = (each * capacity + row) * head;
        rows.set(from.subarray(start, start + head), (row * kvHeads + each) * head);
      }
    return new Tensor("float32", rows, [valid, kvHeads, head]);
  };
  const empty = (type: "float32" | "int8", dims: readonly number[]): Tensor =>
    Tensor.fromView(View.allocate(type, dims));
  const inputs = {
    key: rowsOf(feeds.cache.key),
    value: rowsOf(feeds.cache.value),
    slotMapping: slots,
    keyCache: empty(form.type, poolDims(form, sizes)),
    valueCache: empty(form.type, poolDims(form, sizes)),
  };
  if (form.type === "int8") {
    const scales = {
      keyScale: empty("float32", scaleDims(form, sizes)),
      valueScale: empty("float32", scaleDims(form, sizes)),
    };
    const pools = quantizedScatterPaKvCache({ ...inputs, ...scales }, { cacheMode: form.layout, inPlace: true });
    return {
      "past.key": pools.keyCache,
      "past.key_scale": pools.keyScale,
      "past.value": pools.valueCache,
      "past.value_scale": pools.valueScale,
    };
  }
  const { keyCache, valueCache } = scatterPaKvCache(inputs, {
    cacheMode: form.layout === "PA_NZ" ? "PA_NZ" : "Norm",
    scatterMode: form.layout === "NHSD" ? "NHSD" : "None",
    inPlace: true,
  });
  return { "past.key": keyCache, "past.value": valueCache! };
}

/** Copies of pools, so that runs can go round through them. */
export const poolCopies = (pools: Tensors, count: number): readonly Tensors[] =>
  Array.from({ length: count }, () =>
    Object.fromEntries(Object.entries(pools).map(([name, tensor]) => [name, copied(tensor)])),
  );
