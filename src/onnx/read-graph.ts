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
  let name = "";
  let docString = "";
  let metadata: ReadonlyMap<string, string> | undefined;
  for (let field = cursor.next(graphFields); field !== undefined; field = cursor.next(graphFields)) {
    if (field === "name") {
      name = cursor.string("the name of a graph");
      continue;
    }
    if (field === "docString") {
      docString = cursor.string("a graph's doc_string");
      continue;
    }
    if (field === "metadataProps") {
      metadata = readEntries(cursor, metadata);
      continue;
    }
    if (field === "quantizationAnnotation") {
      cursor.skip();
      continue;
    }
    const outer = cursor.enterObject();
    switch (field) {
      case "node":
        nodes.push(
          within(
            () => `node ${nodes.length}`,
            () => readNode(cursor, depth),
          ),
        );
        break;
      case "input":
        inputs.push(named(cursor, "input", readValue(cursor)));
        break;
      case "output":
        outputs.push(named(cursor, "output", readValue(cursor)));
        break;
      case "valueInfo": {
        // One without a name says nothing about any value.
        const value = readValue(cursor);
        if (value.name !== "") valueInfo.push(value);
        break;
      }
      case "initializer":
        initializers.push(named(cursor, "initializer", readTensorProto(cursor)));
        break;
      case "sparseInitializer": {
        const tensor = readSparseTensorProto(cursor);
        named(cursor, "sparse_initializer", tensor.values);
        sparseInitializers.push(tensor);
        break;
      }
      default:
        field satisfies never;
    }
    cursor.leave(outer);
  }
  const made: Mutable<ModelGraph> = {
    name,
    nodes,
    inputs,
    outputs,
    valueInfo,
    initializers,
    sparseInitializers,
    metadata: metadata ?? noEntries,
    docString,
  };
  made.source = new Source(cursor.source, start, cursor.position, made);
  return made;
}

function named<T extends { readonly name: string }>(cursor: Cursor, what: string, value: T): T {
  if (value.name === "") cursor.fail(`an ${what} of a graph has no name`);
  return value;
}

function readNode(cursor: Cursor, depth: number): ModelNode {
  const start = cursor.position;
  let name = "";
  let opType = "";
  let domain = "";
  let overload = "";
  let docString = "";
  const inputs: string[] = [];
  const outputs: string[] = [];
  let attributes: Map<string, ModelAttribute> | undefined;
  let metadata: ReadonlyMap<string, string> | undefined;
  for (let field = cursor.next(nodeFields); field !== undefined; field = cursor.next(nodeFields)) {
    switch (field) {
      case "input":
        inputs.push(cursor.string("the name of a node's input"));
        break;
      case "output":
        outputs.push(cursor.string("the name of a node's output"));
        break;
      case "name":
        name = cursor.string("the name of a node");
        break;
      case "opType":
        opType = cursor.string("an op_type");
        break;
      case "domain":
        domain = normalDomain(cursor.string("the domain of a node"));
        break;
      case "overload":
        overload = cursor.string("the overload of a node");
        break;
      case "docString":
        docString = cursor.string("a node's doc_string");
        break;
      case "metadataProps":
        metadata = readEntries(cursor, metadata);
        break;
      case "attribute":
        attributes ??= new Map();
        within(
          () => `${opType} ${quote(name)}`,
          () => readAttributeInto(cursor, attributes!, depth),
        );
        break;
      case "deviceConfigurations":
        cursor.skip();
        break;
      default:
        field satisfies never;
    }
  }
  if (opType === "") cursor.fail(`node ${quote(name)} has no op_type`, start);
  const made: Mutable<ModelNode> = {
    name,
    opType,
    domain,
    overload,
    inputs,
    outputs,
    attributes: attributes ?? noAttributes,
    metadata: metadata ?? noEntries,
    docString,
  };
  made.source = new Source(cursor.source, start, cursor.position, made);
  return made;
}

function readAttributeInto(cursor: Cursor, attributes: Map<string, ModelAttribute>, depth: number): void {
  const outer = cursor.enterObject();
  const attribute = readAttribute(cursor, (inner) => readGraph(inner, depth + 1));
  cursor.leave(outer);
  if (attributes.has(attribute.name)) cursor.fail(`attribute ${quote(attribute.name)} is given twice`);
  attributes.set(attribute.name, attribute);
}

/** Reads the FunctionProto from the cursor's position to its end. */
export function readFunction(cursor: Cursor): ModelFunction {
  const start = cursor.position;
  let name = "";
  let domain = "";
  let overload = "";
  let docString = "";
  const inputs: string[] = [];
  const outputs: string[] = [];
  const attributes: string[] = [];
  const nodes: ModelNode[] = [];
  const valueInfo: ModelValue[] = [];
  const opsets = new Map<string, number>();
  let attributeDefaults: Map<string, ModelAttribute> | undefined;
  let metadata: ReadonlyMap<string, string> | undefined;
  for (let field = cursor.next(functionFields); field !== undefined; field = cursor.next(functionFields)) {
    switch (field) {
      case "name":
        name = cursor.string("the name of a function");
        break;
      case "domain":
        domain = normalDomain(cursor.string("the domain of a function"));
        break;
      case "overload":
        overload = cursor.string("the overload of a function");
        break;
      case "docString":
        docString = cursor.string("a function's doc_string");
        break;
      case "input":
        inputs.push(cursor.string("the name of a function's input"));
        break;
      case "output":
        outputs.push(cursor.string("the name of a function's output"));
        break;
      case "attribute":
        attributes.push(cursor.string("the name of a function's attribute"));
        break;
      case "attributeProto":
        attributeDefaults ??= new Map();
        within(
          () => `function ${quote(name)}`,
          () => readAttributeInto(cursor, attributeDefaults!, 0),
        );
        break;
      case "opsetImport":
        readOpset(cursor, opsets);
        break;
      case "metadataProps":
        metadata = readEntries(cursor, metadata);
        break;
      case "valueInfo": {
        const outer = cursor.enterObject();
        const value = readValue(cursor);
        if (value.name !== "") valueInfo.push(value);
        cursor.leave(outer);
        break;
      }
      case "node": {
        const outer = cursor.enterObject();
        nodes.push(
          within(
            () => `function ${quote(name)}: node ${nodes.length}`,
            () => readNode(cursor, 0),
          ),
        );
        cursor.leave(outer);
        break;
      }
      default:
        field satisfies never;
    }
  }
  if (name === "") cursor.fail("a function has no name", start);
  const made: Mutable<ModelFunction> = {
    domain,
    name,
    overload,
    inputs,
    outputs,
    attributes,
    attributeDefaults: attributeDefaults ?? noAttributes,
    nodes,
    opsets,
    valueInfo,
    metadata: metadata ?? noEntries,
    docString,
  };
  made.source = new Source(cursor.source, start, cursor.position, made);
  return made;
}
