/**
 * Rotary tables that are chosen by the length of a text (LongRoPE): published files have an If over the mask's columns with a table for short
 * texts in one branch and one for long texts in the other. Here the two become one table, the long one behind the short one, and a note in the
 * model says so: a token of a long text looks its angles up so many rows further on. Model → Model; chooses nothing at run time.
 */
import { graph as makeGraph, initializer, node as makeNode, value as makeValue } from "#insitu/onnx/build.js";
import { type Model, type ModelGraph, type ModelNode, type ModelTensor, tensorView } from "#insitu/onnx/model.js";
import { readIntegers } from "#insitu/tensor/access.js";
import { copyView } from "#insitu/tensor/copy.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { View } from "#insitu/tensor/view.js";
import { readsOf } from "./model-edit.js";

/** Tables of two kinds of text that lie one behind the other. */
export interface RotaryTables {
  /** The names of the tables. */
  readonly names: readonly string[];
  /** Texts of more tokens than this are long. */
  readonly limit: number;
  /** The row where the table for long texts begins. */
  readonly offset: number;
}

const noteName = "insitu.rotary_tables";

/** What a model made by `joinTables` notes of its tables. */
export function tablesOf({ metadata }: Model): RotaryTables | undefined {
  const note = metadata.get(noteName);
  return note === undefined ? undefined : (JSON.parse(note) as RotaryTables);
}

/** Texts that are read with other tables, from their first token on. */
export interface LongTexts {
  /** Those of more tokens than this. */
  readonly from: number;
  /** Rows that the tables for short texts have: in joined tables those for long texts stand so much further on. */
  readonly offset: number;
}

/** What a model reads otherwise; undefined where it has one kind of table. */
export function longTextsOf(model: Model): LongTexts | undefined {
  const tables = found(model);
  return tables && { from: tables.limit, offset: tables.short[0].dims[0] };
}

interface FoundTables {
  readonly node: ModelNode;
  readonly limit: number;
  readonly short: readonly ModelTensor[];
  readonly long: readonly ModelTensor[];
}

/** The model with one table where an If chose between two by the mask's columns; the model itself where none does. */
export function joinTables(model: Model): Model {
  const tables = found(model);
  if (tables === undefined) return model;
  const { node, limit, short, long } = tables;
  const note: RotaryTables = { names: node.outputs, limit, offset: short[0].dims[0] };
  const changed = withTables(
    model,
    node,
    node.outputs.map((name, at) => joined(name, short[at], long[at])),
  );
  return { ...changed, metadata: new Map([...model.metadata, [noteName, JSON.stringify(note)]]) };
}

/** The model with joined tables whose rows are the positions that it is fed, so that whoever feeds them chooses the table. */
export function joinByPosition(model: Model): Model {
  const joined = joinTables(model);
  if (joined === model) return model;
  return { ...joined, metadata: new Map([...joined.metadata].filter(([name]) => name !== noteName)) };
}

/** The model with the tables for short texts alone, for whoever sees to it that texts are no longer. */
export function takeShortTables(model: Model): Model {
  const tables = found(model);
  if (tables === undefined) return model;
  const { node, short } = tables;
  return withTables(
    model,
    node,
    node.outputs.map((name, at) => initializer(name, Tensor.fromView(tensorView(short[at])))),
  );
}

const withTables = (model: Model, chosen: ModelNode, tables: readonly ModelTensor[]): Model => ({
  ...model,
  graph: withoutUnread({
    ...model.graph,
    nodes: model.graph.nodes.filter((node) => node !== chosen),
    initializers: [...model.graph.initializers, ...tables],
  }),
});

/**
 * The model with an If over the mask's columns in place of tables that lie one behind the other already, as files for some providers have them, which
 * are told the row where the second one begins; the model itself where it has no such tables.
 */
export function splitTables(model: Model, offset: number): Model {
  const { graph } = model;
  const mask = graph.inputs.find(({ name }) => name === "attention_mask");
  const tables = ["cos_cache", "sin_cache"].map((name) => graph.initializers.find((each) => each.name === name));
  const [cos, sin] = tables;
  if (mask === undefined || cos === undefined || sin === undefined) return model;
  if ([cos, sin].some(({ dims }) => dims.length !== 2 || dims[0] <= offset)) return model;
  const branch = (word: string, from: number, to: number): ModelGraph =>
    makeGraph({
      name: `${word} texts`,
      outputs: [cos, sin].map(({ name, type, dims }) => makeValue(`${name}/${word}`, type, [to - from, dims[1]])),
      initializers: [cos, sin].map((table) => part(`${table.name}/${word}`, table, from, to)),
    });
  const [then_branch, else_branch] = [branch("long", offset, cos.dims[0]), branch("short", 0, offset)];
  const constant = (name: string, number: number): ModelTensor => initializer(name, "int64", [BigInt(number)], []);
  const made = [
    makeNode("Shape", [mask.name], ["insitu/mask_shape"]),
    makeNode("Gather", ["insitu/mask_shape", "insitu/one"], ["insitu/mask_columns"]),
    makeNode("Greater", ["insitu/mask_columns", "insitu/short"], ["insitu/is_long"]),
    makeNode("If", ["insitu/is_long"], [cos.name, sin.name], { then_branch, else_branch }),
  ];
  return {
    ...model,
    graph: {
      ...graph,
      nodes: [...made, ...graph.nodes],
      initializers: [
        ...graph.initializers.filter((each) => each !== cos && each !== sin),
        constant("insitu/one", 1),
        constant("insitu/short", offset),
      ],
    },
  };
}

/** The first If that chooses between tables by the mask's columns. */
function found({ graph }: Model): FoundTables | undefined {
  const makers = new Map(graph.nodes.flatMap((node) => node.outputs.map((name) => [name, node] as const)));
  const constants = new Map(graph.initializers.map((tensor) => [tensor.name, tensor]));
  for (const node of graph.nodes) {
    if (node.opType !== "If" || node.domain !== "") continue;
    const limit = limitOf(makers.get(node.inputs[0]), makers, constants, graph);
    const [long, short] = ["then_branch", "else_branch"].map((name) => constantsOf(node, name));
    if (limit === undefined || long === undefined || short === undefined) continue;
    const isTable = ({ dims, type }: ModelTensor, at: number): boolean =>
      dims.length === 2 && dims[1] === short[at].dims[1] && type === short[at].type && dims[0] >= short[at].dims[0];
    const offset = short[0]?.dims[0];
    if (long.length === short.length && long.every(isTable) && short.every(({ dims }) => dims[0] === offset))
      return { node, limit, short, long };
  }
  return undefined;
}

/** The N of `columns of attention_mask > N`. */
function limitOf(
  condition: ModelNode | undefined,
  makers: ReadonlyMap<string, ModelNode>,
  constants: ReadonlyMap<string, ModelTensor>,
  graph: ModelGraph,
): number | undefined {
  if (condition?.opType !== "Greater") return undefined;
  const numberOf = (name: string): number | undefined => {
    const maker = makers.get(name);
    const value = maker?.opType === "Constant" ? maker.attributes.get("value") : undefined;
    const tensor = constants.get(name) ?? (value?.kind === "tensor" ? value.value : undefined);
    return tensor?.data === undefined || tensor.type !== "int64" ? undefined : readIntegers(tensorView(tensor))[0];
  };
  const columns = makers.get(condition.inputs[0]);
  const shape = columns?.opType === "Gather" ? makers.get(columns.inputs[0]) : undefined;
  const isMask = graph.inputs.some(({ name }) => name === "attention_mask" && name === shape?.inputs[0]);
  const isColumns = shape?.opType === "Shape" && isMask && numberOf(columns!.inputs[1]) === 1;
  return isColumns ? numberOf(condition.inputs[1]) : undefined;
}

/** What a branch gives, where it is constants alone and they are loaded. */
function constantsOf(node: ModelNode, name: string): readonly ModelTensor[] | undefined {
  const attribute = node.attributes.get(name);
  if (attribute?.kind !== "graph") return undefined;
  const { nodes, initializers, outputs } = attribute.value;
  const tensors = outputs.map(({ name: output }) => {
    const own = initializers.find((each) => each.name === output);
    const value = nodes
      .find((each) => each.outputs[0] === output && each.opType === "Constant")
      ?.attributes.get("value");
    return own ?? (value?.kind === "tensor" ? value.value : undefined);
  });
  return tensors.every((tensor) => tensor?.data !== undefined) ? (tensors as ModelTensor[]) : undefined;
}

/** Two tables as one. */
function joined(name: string, short: ModelTensor, long: ModelTensor): ModelTensor {
  const [first, second] = [short.dims[0], long.dims[0]];
  const whole = View.allocate(short.type, [first + second, short.dims[1]]);
  copyView(tensorView(short), whole.slice(0, 0, first));
  copyView(tensorView(long), whole.slice(0, first, first + second));
  return initializer(name, Tensor.fromView(whole));
}

/** Some rows of a table, as a table of its own. */
function part(name: string, table: ModelTensor, from: number, to: number): ModelTensor {
  const rows = View.allocate(table.type, [to - from, table.dims[1]]);
  copyView(tensorView(table).slice(0, from, to), rows);
  return initializer(name, Tensor.fromView(rows));
}

/** The graph without what only led to a node that is gone. */
function withoutUnread(graph: ModelGraph): ModelGraph {
  let { nodes } = graph;
  const kept = new Set(graph.outputs.map(({ name }) => name));
  for (let before = -1; before !== nodes.length;) {
    before = nodes.length;
    const read = new Set(nodes.flatMap((node) => [...readsOf(node)]));
    nodes = nodes.filter(({ outputs }) => outputs.some((name) => kept.has(name) || read.has(name)));
  }
  return nodes.length === graph.nodes.length ? graph : { ...graph, nodes };
}
