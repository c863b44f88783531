/**
 * Models by hand: for demos, tests and rewrites. Fills in what a model must have and infers what can be inferred from
 * JavaScript values; checks nothing against ONNX's rules.
 */
import { InsituError } from "../base/error.js";
import type { ElementType } from "../tensor/element-type.js";
import { Tensor, type TensorData } from "../tensor/tensor.js";
import type {
  AttributeKind,
  Model,
  ModelAttribute,
  ModelDimension,
  ModelFunction,
  ModelGraph,
  ModelNode,
  ModelTensor,
  ModelType,
  ModelValue,
} from "./model.js";

const noEntries: ReadonlyMap<string, string> = new Map();

type WithoutName<T> = T extends ModelAttribute ? Omit<T, "name" | "docString" | "source"> : never;

/** An attribute's kind and value, still without a name. */
export type AttributeValue = WithoutName<ModelAttribute>;

/**
 * What an attribute can be made of. Integers (and booleans, as 0 and 1) become `int`, other numbers `float`; a list is
 * `ints` when all its numbers are integers, the empty list included. Where that guess is wrong, say `float(1)`.
 */
export type AttributeInput =
  | number
  | bigint
  | boolean
  | string
  | readonly (number | bigint)[]
  | readonly string[]
  | Tensor
  | ModelTensor
  | ModelGraph
  | AttributeValue;

/** An `int` attribute. */
const int = (value: number | bigint): AttributeValue => ({ kind: "int", value: BigInt(value) });
/** A `float` attribute. */
export const float = (value: number): AttributeValue => ({ kind: "float", value: Math.fround(value) });
/** An `ints` attribute. */
export const ints = (value: readonly (number | bigint)[]): AttributeValue => ({
  kind: "ints",
  value: BigInt64Array.from(value, BigInt),
});
/** A `floats` attribute. */
export const floats = (value: readonly number[]): AttributeValue => ({
  kind: "floats",
  value: Float32Array.from(value),
});
/** A `strings` attribute. */
export const strings = (value: readonly string[]): AttributeValue => ({ kind: "strings", value });
/** In a function body: the value of the function's attribute `refName`. */
export const reference = (refName: string, declared: AttributeKind): AttributeValue => ({
  kind: "attribute-reference",
  refName,
  declared,
});

function attributeValue(name: string, input: AttributeInput): AttributeValue {
  if (typeof input === "bigint" || typeof input === "boolean")
    return int(typeof input === "boolean" ? Number(input) : input);
  if (typeof input === "number") return Number.isSafeInteger(input) ? int(input) : float(input);
  if (typeof input === "string") return { kind: "string", value: input };
  if (input instanceof Tensor) return { kind: "tensor", value: initializer("", input) };
  if (isList(input)) {
    if (input.every((item) => typeof item === "string")) return input.length === 0 ? ints([]) : strings(input);
    const numbers = input.filter((item) => typeof item !== "string");
    if (numbers.length < input.length)
      throw new InsituError("invalid-argument", `attribute "${name}": a list must hold only numbers or only strings`);
    return numbers.every((item) => typeof item === "bigint" || Number.isSafeInteger(item))
      ? ints(numbers)
      : floats(numbers.map(Number));
  }
  if ("kind" in input) return input;
  return "nodes" in input ? { kind: "graph", value: input } : { kind: "tensor", value: input };
}

/** Array.isArray does not narrow read-only arrays. */
const isList = (input: unknown): input is readonly (number | bigint | string)[] => Array.isArray(input);

/** Attributes by name, from JavaScript values. */
export function attributes(inputs: Readonly<Record<string, AttributeInput>>): ReadonlyMap<string, ModelAttribute> {
  return new Map(
    Object.entries(inputs).map(([name, input]) => [
      name,
      { ...attributeValue(name, input), name, docString: "" } as ModelAttribute,
    ]),
  );
}

/** A node; an undefined input or output is an omitted one. */
export function node(
  opType: string,
  inputs: readonly (string | undefined)[],
  outputs: readonly (string | undefined)[],
  attributeInputs: Readonly<Record<string, AttributeInput>> = {},
  more: Partial<Pick<ModelNode, "name" | "domain" | "overload" | "metadata" | "docString">> = {},
): ModelNode {
  return {
    name: "",
    opType,
    domain: "",
    overload: "",
    inputs: inputs.map((name) => name ?? ""),
    outputs: outputs.map((name) => name ?? ""),
    attributes: attributes(attributeInputs),
    metadata: noEntries,
    docString: "",
    ...more,
  };
}

/** A named value: `value("past", "float32", ["batch", 8, "capacity", 64])`; without a shape its rank is unknown. */
export function value(name: string, type?: ElementType | ModelType, shape?: readonly ModelDimension[]): ModelValue {
  const declared: ModelType | undefined =
    typeof type === "string" ? { kind: "tensor", elementType: type, shape } : type;
  return { name, type: declared, metadata: noEntries, docString: "" };
}

/** A constant: `initializer("w", "float32", [1, 2], [2])`, or a name and a tensor. */
export function initializer(name: string, tensor: Tensor): ModelTensor;
export function initializer(name: string, type: ElementType, data: TensorData, dims?: readonly number[]): ModelTensor;
export function initializer(
  name: string,
  first: Tensor | ElementType,
  data?: TensorData,
  dims?: readonly number[],
): ModelTensor {
  const tensor = typeof first === "string" ? new Tensor(first, data ?? [], dims) : first;
  return { name, type: tensor.type, dims: tensor.dims, data: tensor.data, metadata: noEntries, docString: "" };
}

/** The parts of a graph; those left out are empty. */
type GraphParts = Partial<Omit<ModelGraph, "source">>;

/** A graph. */
export function graph(parts: GraphParts): ModelGraph {
  return {
    name: "graph",
    nodes: [],
    inputs: [],
    outputs: [],
    valueInfo: [],
    initializers: [],
    sparseInitializers: [],
    metadata: noEntries,
    docString: "",
    ...parts,
  };
}

/** An opset version of ai.onnx, or versions by domain. */
type OpsetInput = number | Readonly<Record<string, number>>;

const opsetMap = (opset: OpsetInput): ReadonlyMap<string, number> =>
  new Map(
    typeof opset === "number"
      ? [["", opset]]
      : Object.entries(opset).map(([domain, version]) => [domain === "ai.onnx" ? "" : domain, version]),
  );

/** The parts of a function; `name`, `domain` and `opset` are needed. */
export type FunctionParts = Partial<Omit<ModelFunction, "source" | "opsets" | "attributeDefaults">> &
  Pick<ModelFunction, "name" | "domain"> & {
    readonly opset: OpsetInput;
    readonly defaults?: Readonly<Record<string, AttributeInput>>;
  };

/** A model-local function. */
export function modelFunction({ opset, defaults = {}, ...parts }: FunctionParts): ModelFunction {
  return {
    overload: "",
    inputs: [],
    outputs: [],
    attributes: [],
    nodes: [],
    valueInfo: [],
    metadata: noEntries,
    docString: "",
    attributeDefaults: attributes(defaults),
    opsets: opsetMap(opset),
    ...parts,
  };
}

/** The parts of a model: those of its graph, and of itself; only `opset` is needed. */
export interface ModelParts extends Omit<GraphParts, "metadata" | "docString"> {
  readonly opset: OpsetInput;
  readonly functions?: readonly ModelFunction[];
  readonly irVersion?: number;
  readonly producerName?: string;
  readonly metadata?: ReadonlyMap<string, string>;
  readonly docString?: string;
}

/** The first opset of ai.onnx that came with each IR version. */
const irVersions: readonly (readonly [opset: number, ir: number])[] = [
  [25, 13],
  [24, 12],
  [23, 11],
  [21, 10],
  [19, 9],
  [15, 8],
  [12, 7],
  [11, 6],
  [10, 5],
  [9, 4],
];

/** A model. Its IR version is the one its opset came with, and at least 10 where there are functions. */
export function buildModel({
  opset,
  functions = [],
  irVersion,
  producerName = "insitu",
  metadata,
  docString,
  ...parts
}: ModelParts): Model {
  const opsets = opsetMap(opset);
  const version = opsets.get("") ?? 1;
  const least = irVersions.find(([first]) => version >= first)?.[1] ?? 3;
  return {
    irVersion: irVersion ?? (functions.length > 0 ? Math.max(least, 10) : least),
    producerName,
    producerVersion: "",
    domain: "",
    modelVersion: 0,
    docString: docString ?? "",
    opsets,
    graph: graph(parts),
    functions,
    metadata: metadata ?? noEntries,
  };
}
