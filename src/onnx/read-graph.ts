/** GraphProto, NodeProto and FunctionProto to their model interfaces. Checks names that must be there, not what they refer to. */
import { InsituError } from "../base/error.js";
import { deepestNesting } from "../base/limits.js";
import type { Cursor } from "./cursor.js";
import { fieldTable } from "./fields.js";
import type {
  ModelAttribute,
  ModelFunction,
  ModelGraph,
  ModelNode,
  ModelSparseTensor,
  ModelTensor,
  ModelValue,
} from "./model.js";
import { FunctionProtoSchema, GraphProtoSchema, NodeProtoSchema } from "./messages.gen.js";
import { readAttribute } from "./read-attribute.js";
import { noEntries, normalDomain, quote, readEntries, readOpset } from "./read-basics.js";
import { readSparseTensorProto, readTensorProto } from "./read-tensor.js";
import { readValue } from "./read-type.js";
import { Source } from "./source.js";

const graphFields = fieldTable(GraphProtoSchema);
const nodeFields = fieldTable(NodeProtoSchema);
const functionFields = fieldTable(FunctionProtoSchema);

const noAttributes: ReadonlyMap<string, ModelAttribute> = new Map();

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Puts `where` before the message of an error of ours. */
function within<T>(where: () => string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    // Deep nesting would repeat itself at every level.
    if (!(error instanceof InsituError) || error.message.length > 500) throw error;
    throw new InsituError(error.code, `${where()}: ${error.message}`, { cause: error.cause });
  }
}

/** Reads the GraphProto from the cursor's position to its end; `depth` counts the graphs around it. */
export function readGraph(cursor: Cursor, depth = 0): ModelGraph {
  if (depth > deepestNesting) cursor.fail(`graphs are nested deeper than ${deepestNesting}`);
  const start = cursor.position;
  const nodes: ModelNode[] = [];
  const inputs: ModelValue[] = [];
  const outputs: ModelValue[] = [];
  const valueInfo: ModelValue[] = [];
  const initializers: ModelTensor[] = [];
  const sparseInitializers: ModelSparseTensor[] = [];
  const made: Mutable<ModelGraph> = {
    name: "",
    nodes,
    inputs,
    outputs,
    valueInfo,
    initializers,
    sparseInitializers,
    metadata: noEntries,
    docString: "",
  };
  cursor.fields(graphFields, {
    name: () => (made.name = cursor.string("the name of a graph")),
    docString: () => (made.docString = cursor.string("a graph's doc_string")),
    metadataProps: () => (made.metadata = readEntries(cursor, made.metadata)),
    quantizationAnnotation: () => cursor.skip(),
    node: () => nodes.push(readNodeOf(cursor, () => `node ${nodes.length}`, depth)),
    input: () => inputs.push(named(cursor, "input", cursor.object(readValue))),
    output: () => outputs.push(named(cursor, "output", cursor.object(readValue))),
    valueInfo: () => readInfo(cursor, valueInfo),
    initializer: () => initializers.push(named(cursor, "initializer", cursor.object(readTensorProto))),
    sparseInitializer() {
      const tensor = cursor.object(readSparseTensorProto);
      named(cursor, "sparse_initializer", tensor.values);
      sparseInitializers.push(tensor);
    },
  });
  made.source = new Source(cursor.source, start, cursor.position, made);
  return made;
}

/** One without a name says nothing about any value. */
function readInfo(cursor: Cursor, into: ModelValue[]): void {
  const value = cursor.object(readValue);
  if (value.name !== "") into.push(value);
}

function named<T extends { readonly name: string }>(cursor: Cursor, what: string, value: T): T {
  if (value.name === "") cursor.fail(`an ${what} of a graph has no name`);
  return value;
}

const readNodeOf = (cursor: Cursor, where: () => string, depth: number): ModelNode =>
  cursor.object(() => within(where, () => readNode(cursor, depth)));

function readNode(cursor: Cursor, depth: number): ModelNode {
  const start = cursor.position;
  const inputs: string[] = [];
  const outputs: string[] = [];
  const made: Mutable<ModelNode> = {
    name: "",
    opType: "",
    domain: "",
    overload: "",
    inputs,
    outputs,
    attributes: noAttributes,
    metadata: noEntries,
    docString: "",
  };
  cursor.fields(nodeFields, {
    input: () => inputs.push(cursor.string("the name of a node's input")),
    output: () => outputs.push(cursor.string("the name of a node's output")),
    name: () => (made.name = cursor.string("the name of a node")),
    opType: () => (made.opType = cursor.string("an op_type")),
    domain: () => (made.domain = normalDomain(cursor.string("the domain of a node"))),
    overload: () => (made.overload = cursor.string("the overload of a node")),
    docString: () => (made.docString = cursor.string("a node's doc_string")),
    metadataProps: () => (made.metadata = readEntries(cursor, made.metadata)),
    attribute() {
      const where = (): string => `${made.opType} ${quote(made.name)}`;
      made.attributes = within(where, () => readAttributeInto(cursor, made.attributes, depth));
    },
    deviceConfigurations: () => cursor.skip(),
  });
  if (made.opType === "") cursor.fail(`node ${quote(made.name)} has no op_type`, start);
  made.source = new Source(cursor.source, start, cursor.position, made);
  return made;
}

/** The attributes with one more; those of a map of their own are added to. */
function readAttributeInto(
  cursor: Cursor,
  into: ReadonlyMap<string, ModelAttribute>,
  depth: number,
): ReadonlyMap<string, ModelAttribute> {
  const attributes = (into === noAttributes ? new Map<string, ModelAttribute>() : into) as Map<string, ModelAttribute>;
  const attribute = cursor.object(() => readAttribute(cursor, (inner) => readGraph(inner, depth + 1)));
  if (attributes.has(attribute.name)) cursor.fail(`attribute ${quote(attribute.name)} is given twice`);
  return attributes.set(attribute.name, attribute);
}

/** Reads the FunctionProto from the cursor's position to its end. */
export function readFunction(cursor: Cursor): ModelFunction {
  const start = cursor.position;
  const inputs: string[] = [];
  const outputs: string[] = [];
  const attributes: string[] = [];
  const nodes: ModelNode[] = [];
  const valueInfo: ModelValue[] = [];
  const opsets = new Map<string, number>();
  const made: Mutable<ModelFunction> = {
    domain: "",
    name: "",
    overload: "",
    inputs,
    outputs,
    attributes,
    attributeDefaults: noAttributes,
    nodes,
    opsets,
    valueInfo,
    metadata: noEntries,
    docString: "",
  };
  const where = (): string => `function ${quote(made.name)}`;
  cursor.fields(functionFields, {
    name: () => (made.name = cursor.string("the name of a function")),
    domain: () => (made.domain = normalDomain(cursor.string("the domain of a function"))),
    overload: () => (made.overload = cursor.string("the overload of a function")),
    docString: () => (made.docString = cursor.string("a function's doc_string")),
    input: () => inputs.push(cursor.string("the name of a function's input")),
    output: () => outputs.push(cursor.string("the name of a function's output")),
    attribute: () => attributes.push(cursor.string("the name of a function's attribute")),
    attributeProto() {
      made.attributeDefaults = within(where, () => readAttributeInto(cursor, made.attributeDefaults, 0));
    },
    opsetImport: () => readOpset(cursor, opsets),
    metadataProps: () => (made.metadata = readEntries(cursor, made.metadata)),
    valueInfo: () => readInfo(cursor, valueInfo),
    node: () => nodes.push(readNodeOf(cursor, () => `${where()}: node ${nodes.length}`, 0)),
  });
  if (made.name === "") cursor.fail("a function has no name", start);
  made.source = new Source(cursor.source, start, cursor.position, made);
  return made;
}
