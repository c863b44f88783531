/**
 * What a token costs as the context grows: a decoder with Concat caches as exporters write it, and what `insitu rewrite` makes of it. The
 * rewritten one's attentions are also measured alone: what is left must not grow.
 */
import { buildModel, float, node, value } from "#insitu/onnx/build.js";
import type { Model, ModelNode } from "#insitu/onnx/model.js";
import { writeModel } from "#insitu/onnx/write.js";
import { rewrite } from "#insitu/rewrite/rewrite.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import {
  cacheNames,
  type DecoderLoad,
  filledCaches,
  inPlaceDecoder,
  inPlaceFeeds,
  parameterCount,
} from "./decoder-work.js";
import { type Contestant, type Group, likeTheFirst, type Result, type Setting } from "./load.js";
import { openInsitu, openPeer, Shared } from "./shared-session.js";
import { farOnTheWhole, once } from "./work.js";

/** What the group's name begins with. */
export const contextGroupTitle = "a llama with Concat caches, rewritten and not, as the context grows";

/** What the contestants' names begin with, and how they end by what is measured. */
export const contextTitle = "context";
export const contextNames = {
  rewritten: "insitu, rewritten",
  attention: "insitu, rewritten, its attentions alone",
  original: "insitu, original",
  theirs: "onnxruntime-node, original",
} as const;

const contexts = [256, 512, 1024, 2048, 4096, 8192];

/** About 26 million parameters; a token has 12 KiB of keys and values. */
const llama: DecoderLoad["sizes"] = {
  layers: 6,
  hidden: 512,
  heads: 8,
  keyValueHeads: 4,
  headSize: 64,
  intermediate: 1408,
  vocabulary: 8000,
  positions: 8192,
  seed: 3,
};

const tiny: DecoderLoad["sizes"] = {
  layers: 2,
  hidden: 64,
  heads: 4,
  keyValueHeads: 2,
  headSize: 16,
  intermediate: 96,
  vocabulary: 96,
  positions: 64,
  seed: 3,
};

/** The decoder as exporters write it: new rows joined to the past, a causal mask compared from row numbers. */
function concatDecoder(load: DecoderLoad): Model {
  const { keyValueHeads, headSize } = load.sizes;
  const model = inPlaceDecoder(load);
  const scalar = (name: string, of: string, axis: number): ModelNode[] => [
    node("Shape", [of], [`${name}.list`], { start: axis, end: axis + 1 }),
    node("Squeeze", [`${name}.list`], [name]),
  ];
  const mask = [
    ...scalar("past_rows", "past.0.key", 2),
    ...scalar("new_rows", "input_ids", 1),
    node("Add", ["past_rows", "new_rows"], ["all_rows"]),
    node("Constant", [], ["zero"], { value_int: 0 }),
    node("Constant", [], ["one"], { value_int: 1 }),
    node("Range", ["zero", "all_rows", "one"], ["columns"]),
    node("Range", ["past_rows", "all_rows", "one"], ["rows"]),
    node("Constant", [], ["last_axis"], { value_ints: [1] }),
    node("Unsqueeze", ["rows", "last_axis"], ["rows.column"]),
    node("LessOrEqual", ["columns", "rows.column"], ["causal"]),
    node("Constant", [], ["first_axes"], { value_ints: [0, 1] }),
    node("Unsqueeze", ["causal", "first_axes"], ["mask"]),
  ];
  const nodes = model.graph.nodes.map((each) => {
    const { opType, name, inputs, outputs } = each;
    if (opType === "TensorScatter") return node("Concat", inputs.slice(0, 2), outputs, { axis: 2 }, { name });
    if (opType !== "Attention") return each;
    return node(opType, [...inputs.slice(0, 3), "mask"], outputs, { scale: float(1 / Math.sqrt(headSize)) }, { name });
  });
  const caches = (name: string, rows: string): ReturnType<typeof value>[] =>
    cacheNames(load, name).map((each) => value(each, "float32", ["batch", keyValueHeads, rows, headSize]));
  return buildModel({
    name: "concat_decoder",
    opset: { "": 24, "com.microsoft": 1 },
    inputs: [
      value("input_ids", "int64", ["batch", "sequence"]),
      value("position_ids", "int64", ["batch", "sequence"]),
      ...caches("past", "past_sequence"),
    ],
    outputs: [model.graph.outputs[0], ...caches("present", "total_sequence")],
    nodes: [...mask, ...nodes],
    initializers: model.graph.initializers,
  });
}

/** The writes and attentions of all layers, and nothing else. */
function attentionsAlone(load: DecoderLoad): Model {
  const { layers, heads, keyValueHeads, headSize } = load.sizes;
  const [rows, cache] = [
    ["batch", keyValueHeads, "sequence", headSize],
    ["batch", keyValueHeads, "capacity", headSize],
  ];
  const queries = value("queries", "float32", ["batch", heads, "sequence", headSize]);
  const each = Array.from({ length: layers }, (_, layer) => {
    const written = ["key", "value"].map((which) =>
      node("TensorScatter", [`past.${layer}.${which}`, "rows", "write_indices"], [`present.${layer}.${which}`], {
        axis: 2,
      }),
    );
    const operands = ["queries", `present.${layer}.key`, `present.${layer}.value`, "", "", "", "nonpad_kv_seqlen"];
    const attributes = { is_causal: 1, scale: float(1 / Math.sqrt(headSize)) };
    return [...written, node("Attention", operands, [`attended.${layer}`], attributes)];
  });
  return buildModel({
    opset: 24,
    inputs: [
      queries,
      value("rows", "float32", rows),
      value("write_indices", "int64", ["batch"]),
      value("nonpad_kv_seqlen", "int64", ["batch"]),
      ...cacheNames(load, "past").map((name) => value(name, "float32", cache)),
    ],
    outputs: [
      ...Array.from({ length: layers }, (_, layer) => ({ ...queries, name: `attended.${layer}` })),
      ...cacheNames(load, "present").map((name) => value(name, "float32", cache)),
    ],
    nodes: each.flat(),
  });
}

const waves = (dims: readonly number[]): Tensor => {
  const size = dims.reduce((product, dim) => product * dim, 1);
  return new Tensor(
    "float32",
    Float32Array.from({ length: size }, (_, at) => Math.sin(at)),
    dims,
  );
};

/** All contexts in one group, so that what disturbs the machine disturbs them alike. Each runtime has one session for all of them. */
export function contextGroup(setting: Setting): Group {
  const sizes = setting.quick ? tiny : llama;
  const list = setting.quick ? [16, 32] : contexts;
  const capacity = list.at(-1)!;
  const load: DecoderLoad = { sizes, capacity, prompt: 0, context: capacity };
  const original = once(() => concatDecoder(load));
  const originalBytes = once(() => writeModel(original()));
  const filled = once(() => filledCaches(load, capacity - 1, capacity));
  const held = { options: { dims: { batch: 1, capacity } }, contents: filled };
  const rewritten = new Shared(() => openInsitu(writeModel(rewrite(original()).model), setting, held));
  const alone = new Shared(() => openInsitu(writeModel(attentionsAlone(load)), setting, held));
  const fed = new Shared(() => openInsitu(originalBytes(), setting));
  const peer = setting.peers.find(({ name }) => name === "onnxruntime-node");
  const theirs = peer && new Shared(() => openPeer(originalBytes(), peer));
  const { heads, keyValueHeads, headSize } = sizes;
  const attended = { queries: waves([1, heads, 1, headSize]), rows: waves([1, keyValueHeads, 1, headSize]) };
  const contestants = list.flatMap((context): Contestant[] => {
    const { input_ids, position_ids, ...lengths } = inPlaceFeeds(load, context - 1, context);
    const tokens = { input_ids, position_ids };
    // Both runtimes are fed the same bytes.
    const grown = once(() => ({ ...tokens, ...filledCaches(load, context - 1, context - 1) }));
    const at = (name: string): string => `${contextTitle} ${context}: ${name}`;
    return [
      rewritten.contestant(at(contextNames.rewritten), "insitu", () => ({ ...tokens, ...lengths }), "logits"),
      alone.contestant(at(contextNames.attention), "insitu", () => ({ ...attended, ...lengths }), "attended.0"),
      fed.contestant(at(contextNames.original), "insitu", grown, "logits"),
      ...(theirs === undefined ? [] : [theirs.contestant(at(contextNames.theirs), peer!.name, grown, "logits")]),
    ];
  });
  const parameters = `${(parameterCount(load) / 1e6).toPrecision(2)} M parameters`;
  return { name: `${contextGroupTitle}, ${parameters}`, contestants, check };
}

/** At each context, all that give logits agree. */
function check(results: ReadonlyMap<string, Result>): Map<string, string> {
  const byContext = new Map<string, Map<string, Result>>();
  for (const [name, result] of results) {
    if (name.endsWith(contextNames.attention)) continue;
    const context = name.slice(0, name.indexOf(":"));
    byContext.set(context, (byContext.get(context) ?? new Map<string, Result>()).set(name, result));
  }
  return new Map([...byContext.values()].flatMap((same) => [...logitsAgree(same)]));
}

/** What logits may be off by: peers may round activations to 8 bits in every product. */
const logitsAgree: Group["check"] = likeTheFirst((result, expected) =>
  farOnTheWhole(result as Float32Array, expected as Float32Array, 0.05),
);
