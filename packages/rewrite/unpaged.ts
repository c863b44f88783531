/**
 * Model → Model: a decoder whose PagedAttention is onnxruntime's, with tokens of all texts behind each other and pages that its own engine hands out, becomes one
 * with GroupQueryAttention over texts of [batch, tokens]: what the same tool writes without pages. From there it goes on like any other, on pages too.
 */
import { attributes, initializer, node as makeNode, value as makeValue } from "#insitu/onnx/build.js";
import type { Model, ModelNode, ModelTensor, ModelValue } from "#insitu/onnx/model.js";
import { Tensor } from "#insitu/tensor/tensor.js";

const domain = "com.microsoft";
const [tokens, mask, logits] = ["input_ids", "attention_mask", "logits"];
const own = (name: string): string => `insitu/unpaged/${name}`;

/** What the operator's inputs are, by place. */
const [keyCache, valueCache, cumulative, pastLengths, table, slots, metadata] = [3, 4, 5, 6, 7, 10, 16];

/** Where GroupQueryAttention has them behind its lengths: tables, nothing, sinks, scales and norms. */
const moved = [8, 9, -1, -1, 11, 14, 15, 12, 13];

const kept = [
  "num_heads",
  "kv_num_heads",
  "scale",
  "softcap",
  "local_window_size",
  "do_rotary",
  "rotary_interleaved",
  "qk_norm_epsilon",
];

const isPaged = ({ domain: of, opType }: ModelNode): boolean => of === domain && opType === "PagedAttention";

const shapeOf = (value: ModelValue | undefined): readonly unknown[] =>
  value?.type?.kind === "tensor" ? (value.type.shape ?? []) : [];

/** The model without pages of that kind; the model itself where it has none, or such that have no counterpart. */
export function withoutPages(model: Model): Model {
  const { graph } = model;
  const attentions = graph.nodes.filter(isPaged);
  const ids = graph.inputs.find(({ name }) => name === tokens);
  const predicted = graph.outputs.find(({ name }) => name === logits);
  if (attentions.length === 0 || ids === undefined || shapeOf(ids).length !== 1 || shapeOf(predicted).length !== 2)
    return model;
  if (!attentions.every(isPlain) || graph.inputs.some(({ name }) => name === mask)) return model;
  const gone = new Set(
    attentions.flatMap(({ inputs }) => [cumulative, pastLengths, table, metadata].map((at) => inputs[at] ?? "")),
  );
  const pruned = lastTokens(graph.nodes, new Set(attentions.map(({ inputs }) => inputs[cumulative])));
  const read = (name: string): string =>
    name === tokens ? own(tokens) : name === logits ? own(logits) : (pruned.rows.get(name) ?? name);
  const nodes = graph.nodes.flatMap((node) => {
    if (pruned.nodes.has(node)) return [];
    const renamed = { ...node, inputs: node.inputs.map(read), outputs: node.outputs.map(read) };
    return isPaged(node) ? unpaged(renamed) : [renamed];
  });
  for (const node of pruned.nodes) for (const name of node.outputs) gone.add(name);
  // Something else reads what the engine would say.
  if (nodes.some(({ inputs }) => inputs.some((name) => name !== "" && gone.has(name)))) return model;
  const caches = new Map(
    attentions.flatMap(({ inputs, outputs }) =>
      [inputs[keyCache], inputs[valueCache], outputs[1], outputs[2]].map(
        (name, at) => [name, at < 2 ? "past_sequence_length" : "total_sequence_length"] as const,
      ),
    ),
  );
  const cache = (each: ModelValue): ModelValue => {
    const [, , heads, size] = shapeOf(each) as (number | string)[];
    const rows = caches.get(each.name);
    return rows === undefined || each.type?.kind !== "tensor"
      ? each
      : { ...each, type: { ...each.type, shape: ["batch_size", heads, rows, size] } };
  };
  const rest = graph.inputs.filter(({ name }) => name !== tokens && !gone.has(name));
  return {
    ...model,
    graph: {
      ...graph,
      inputs: [
        makeValue(tokens, typeOf(ids), ["batch_size", "sequence_length"]),
        makeValue(mask, "int64", ["batch_size", "total_sequence_length"]),
        ...rest.map(cache),
      ],
      outputs: graph.outputs.map((each) =>
        each === predicted
          ? makeValue(logits, typeOf(each), ["batch_size", "sequence_length", shapeOf(each)[1] as number])
          : cache(each),
      ),
      // What was said of tokens behind each other is found out again.
      valueInfo: [],
      initializers: [...graph.initializers, ...constants()],
      nodes: [...before(), ...nodes, makeNode("Reshape", [own(logits), own("rows")], [logits])],
    },
  };
}

const typeOf = ({ type }: ModelValue): "int64" => (type?.kind === "tensor" ? (type.elementType as "int64") : "int64");

/**
 * The nodes that choose the last token of each text before the head (`prune_lm_head`), and of which rows: without them the logits are those of
 * all tokens. The ends of texts are cumulative_sequence_lengths without its first number.
 */
function lastTokens(
  nodes: readonly ModelNode[],
  lengths: ReadonlySet<string>,
): { readonly nodes: ReadonlySet<ModelNode>; readonly rows: ReadonlyMap<string, string> } {
  const reading = (opType: string, names: ReadonlySet<string>, at: number): ModelNode[] =>
    nodes.filter((node) => node.opType === opType && names.has(node.inputs[at]));
  const made = (by: readonly ModelNode[]): Set<string> => new Set(by.flatMap(({ outputs }) => outputs));
  const ends = reading("Slice", lengths, 0);
  const lasts = reading("Sub", made(ends), 0);
  const chosen = reading("Gather", made(lasts), 1);
  return {
    nodes: new Set([...ends, ...lasts, ...chosen]),
    rows: new Map(chosen.map(({ inputs, outputs }) => [outputs[0], inputs[0]])),
  };
}

/** True for what GroupQueryAttention does alike. */
function isPlain({ inputs, attributes: given }: ModelNode): boolean {
  const layout = given.get("kv_cache_layout");
  const offset = given.get("rotary_offset");
  const isQuantized = ["k_quant_type", "v_quant_type"].some((name) => {
    const kind = given.get(name);
    return kind?.kind === "string" && kind.value !== "NONE";
  });
  return (
    (inputs[slots] ?? "") === "" &&
    (inputs[keyCache] ?? "") !== "" &&
    (inputs[valueCache] ?? "") !== "" &&
    !isQuantized &&
    (layout === undefined || (layout.kind === "string" && layout.value === "SEPARATE")) &&
    (offset === undefined || (offset.kind === "int" && Number(offset.value) === 0))
  );
}

/** The node as GroupQueryAttention, between rows behind each other. */
function unpaged(node: ModelNode): ModelNode[] {
  const rows = node.inputs.slice(0, 3);
  const split = (name: string, at: number): string => (name === "" ? "" : own(`${node.name}/${at}`));
  const inputs = [
    ...rows.map(split),
    ...node.inputs.slice(keyCache, valueCache + 1),
    own("seqlens"),
    own("total"),
    ...moved.map((at) => (at < 0 ? "" : (node.inputs[at] ?? ""))),
  ];
  const result = own(`${node.name}/result`);
  const given = new Map([...node.attributes].filter(([name]) => kept.includes(name)));
  const attention = makeNode(
    "GroupQueryAttention",
    inputs,
    [result, ...node.outputs.slice(1)],
    {},
    { name: node.name, domain },
  );
  return [
    ...rows.flatMap((name, at) => (name === "" ? [] : [makeNode("Reshape", [name, own("rows")], [split(name, at)])])),
    { ...attention, attributes: given },
    { ...makeNode("Flatten", [result], [node.outputs[0]]), attributes: attributes({ axis: 2 }) },
  ];
}

const int64 = (name: string, values: readonly bigint[], dims: readonly number[]): ModelTensor =>
  initializer(own(name), new Tensor("int64", BigInt64Array.from(values), dims));

const constants = (): ModelTensor[] => [int64("one", [1n], [1]), int64("at one", [1n], []), int64("any", [-1n], [1])];

/** Tokens behind each other, the shape of their rows, and the lengths that the attentions read. */
const before = (): ModelNode[] => [
  makeNode("Reshape", [tokens, own("any")], [own(tokens)]),
  makeNode("Shape", [tokens], [own("shape")]),
  makeNode("Concat", [own("shape"), own("any")], [own("rows")], { axis: 0 }),
  makeNode("ReduceSum", [mask, own("one")], [own("sum")], { keepdims: 0 }),
  makeNode("Sub", [own("sum"), own("one")], [own("last")]),
  makeNode("Cast", [own("last")], [own("seqlens")], { to: 6 }),
  makeNode("Shape", [mask], [own("mask shape")]),
  makeNode("Gather", [own("mask shape"), own("at one")], [own("columns")], { axis: 0 }),
  makeNode("Cast", [own("columns")], [own("total")], { to: 6 }),
];
