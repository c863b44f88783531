/** A model as text to read: one line a value, a constant or a node. Not a format: nothing reads it back. */
import { linesText } from "./lines-text.js";
import { byteLengthOf } from "#insitu/tensor/element-type.js";
import type {
  Model,
  ModelAttribute,
  ModelFunction,
  ModelGraph,
  ModelNode,
  ModelTensor,
  ModelType,
  ModelValue,
} from "#insitu/onnx/model.js";
import { showDims } from "#insitu/onnx/read-tensor.js";

/** How much to show. */
interface PrintOptions {
  /** Elements shown of each constant and list; 8 unless told. */
  readonly elements?: number;
}

/** A model, its graph and its functions as text. */
export function printModel(model: Model, options: PrintOptions = {}): string {
  const elements = options.elements ?? 8;
  const producer = [model.producerName, model.producerVersion].filter((part) => part !== "").join(" ");
  const lines = [
    `model${model.path === undefined ? "" : ` ${model.path}`}: IR version ${model.irVersion}, ${printOpsets(model.opsets)}${producer === "" ? "" : `, by ${producer}`}`,
    ...[...model.metadata].map(([key, value]) => `  ${key}: ${shorten(JSON.stringify(value), 80)}`),
    ...printGraph(model.graph, elements),
    ...model.functions.flatMap((part) => printFunction(part, elements)),
  ];
  return `${linesText(lines)}\n`;
}

const shorten = (text: string, length: number): string => (text.length > length ? `${text.slice(0, length)}…` : text);

const printOpsets = (opsets: ReadonlyMap<string, number>): string =>
  [...opsets].map(([domain, version]) => (domain === "" ? `opset ${version}` : `${domain} ${version}`)).join(", ");

const indent = (lines: readonly string[]): string[] => lines.map((line) => `  ${line}`);

function printGraph(graph: ModelGraph, elements: number): string[] {
  const bytes = graph.initializers.reduce((sum, tensor) => sum + byteLengthOf(tensor.type, count(tensor)), 0);
  return [
    `graph ${graph.name}`,
    ...section("inputs", graph.inputs.map(printValue)),
    ...section("outputs", graph.outputs.map(printValue)),
    ...section(
      `constants (${graph.initializers.length}, ${printBytes(bytes)})`,
      graph.initializers.map((tensor) => printTensor(tensor, elements)),
    ),
    ...section(
      `sparse constants (${graph.sparseInitializers.length})`,
      graph.sparseInitializers.map(
        ({ values, dims }) => `${values.name}: ${values.type}${showDims(dims)}, ${count(values)} elements given`,
      ),
    ),
    ...section(
      `nodes (${graph.nodes.length})`,
      graph.nodes.flatMap((node) => printNode(node, elements)),
    ),
  ];
}

const section = (title: string, lines: readonly string[]): string[] =>
  lines.length === 0 ? [] : indent([title, ...indent(lines)]);

const count = (tensor: ModelTensor): number => tensor.dims.reduce((product, dim) => product * dim, 1);

function printBytes(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit < units.length - 1; unit++) bytes /= 1024;
  return `${unit === 0 ? bytes : bytes.toFixed(1)} ${units[unit]}`;
}

const printValue = (value: ModelValue): string =>
  `${value.name}: ${value.type === undefined ? "?" : printType(value.type)}`;

/** A type as text: `float32[batch,8,?]`. */
function printType(type: ModelType): string {
  switch (type.kind) {
    case "tensor":
    case "sparse": {
      const shape = type.shape === undefined ? "[…]" : `[${type.shape.map((dim) => dim ?? "?").join(",")}]`;
      return `${type.kind === "sparse" ? "sparse " : ""}${type.elementType ?? "?"}${shape}`;
    }
    case "sequence":
    case "optional":
      return `${type.kind}(${type.element === undefined ? "?" : printType(type.element)})`;
    case "map":
      return `map(${type.key ?? "?"}, ${type.value === undefined ? "?" : printType(type.value)})`;
    case "opaque":
      return `opaque(${type.domain}, ${type.name})`;
    case "undefined":
      return "?";
    default:
      return type satisfies never;
  }
}

function printTensor(tensor: ModelTensor, elements: number): string {
  const head = `${tensor.name === "" ? "" : `${tensor.name}: `}${tensor.type}${showDims(tensor.dims)}`;
  if (tensor.data === undefined)
    return `${head} in ${tensor.external?.location ?? "?"} at ${tensor.external?.offset ?? 0}`;
  return `${head} = ${printList(tensor.data, elements)}`;
}

/** Storage entries as they lie: small floats and packed types show their bit patterns. */
function printList(list: ArrayLike<number | bigint | string>, elements: number): string {
  const shown = Array.from({ length: Math.min(list.length, elements) }, (_, i) => {
    const item = list[i];
    return typeof item === "string"
      ? shorten(JSON.stringify(item), 40)
      : String(typeof item === "number" ? Number(item.toPrecision(6)) : item);
  });
  return `[${shown.join(", ")}${list.length > elements ? ", …" : ""}]`;
}

function printNode(node: ModelNode, elements: number): string[] {
  const graphs: string[] = [];
  const attributes = [...node.attributes.values()].map((attribute) => {
    if (attribute.kind === "graph") graphs.push(`${attribute.name}:`, ...indent(printGraph(attribute.value, elements)));
    if (attribute.kind === "graphs")
      for (const graph of attribute.value) graphs.push(`${attribute.name}:`, ...indent(printGraph(graph, elements)));
    return `${attribute.name}: ${printAttribute(attribute, elements)}`;
  });
  const operator = `${node.domain === "" ? "" : `${node.domain}.`}${node.opType}${node.overload === "" ? "" : `:${node.overload}`}`;
  const names = (list: readonly string[]): string => list.map((name) => (name === "" ? "_" : name)).join(", ");
  const call = `${names(node.outputs)} = ${operator}(${names(node.inputs)})`;
  const line = `${call}${attributes.length === 0 ? "" : ` {${attributes.join(", ")}}`}${node.name === "" ? "" : `  # ${node.name}`}`;
  return [line, ...indent(graphs)];
}

function printAttribute(attribute: ModelAttribute, elements: number): string {
  switch (attribute.kind) {
    case "int":
      return String(attribute.value);
    case "float":
      // The point tells a float from an int.
      return Number.isInteger(attribute.value)
        ? attribute.value.toFixed(1)
        : String(Number(attribute.value.toPrecision(7)));
    case "string":
      return shorten(JSON.stringify(attribute.value), 80);
    case "ints":
    case "floats":
    case "strings":
      return printList(attribute.value, elements);
    case "tensor":
      return printTensor(attribute.value, elements);
    case "tensors":
      return `[${attribute.value.map((tensor) => printTensor(tensor, elements)).join(", ")}]`;
    case "sparse-tensor":
      return `sparse ${attribute.value.values.type}${showDims(attribute.value.dims)}`;
    case "sparse-tensors":
      return `${attribute.value.length} sparse tensors`;
    case "graph":
      return "graph";
    case "graphs":
      return `${attribute.value.length} graphs`;
    case "type":
      return printType(attribute.value);
    case "types":
      return `[${attribute.value.map(printType).join(", ")}]`;
    case "attribute-reference":
      return `@${attribute.refName}`;
    default:
      return attribute satisfies never;
  }
}

function printFunction(part: ModelFunction, elements: number): string[] {
  const parameters = [
    ...part.attributes,
    ...[...part.attributeDefaults.values()].map(
      (attribute) => `${attribute.name} = ${printAttribute(attribute, elements)}`,
    ),
  ];
  const name = `${part.domain === "" ? "" : `${part.domain}.`}${part.name}${part.overload === "" ? "" : `:${part.overload}`}`;
  return [
    `function ${name}(${part.inputs.join(", ")})${parameters.length === 0 ? "" : ` {${parameters.join(", ")}}`} → (${part.outputs.join(", ")}), ${printOpsets(part.opsets)}`,
    ...section(
      `nodes (${part.nodes.length})`,
      part.nodes.flatMap((node) => printNode(node, elements)),
    ),
  ];
}
