/** Graphs, nodes, attributes and functions to their messages. One file, because graphs lie in attributes and attributes in nodes. */
import { fieldTable } from "./fields.js";
import type { AttributeKind, ModelAttribute, ModelFunction, ModelGraph, ModelNode } from "./model.js";
import { FunctionProtoSchema, GraphProtoSchema, NodeProtoSchema } from "./messages.gen.js";
import type { Pieces } from "./pieces.js";
import { attributeCodes, attributeFields } from "./read-attribute.js";
import { decodeUtf8Lossy, encodeUtf8 } from "./utf8.js";
import {
  entries,
  type FieldWriter,
  type MessageWriter,
  messages,
  opsets,
  text,
  texts,
  writeMessage,
} from "./write-message.js";
import { writeSparseTensorProto, writeTensorProto } from "./write-tensor.js";
import { writeType, writeValue } from "./write-type.js";

const graphFields = fieldTable(GraphProtoSchema);
const nodeFields = fieldTable(NodeProtoSchema);
const functionFields = fieldTable(FunctionProtoSchema);

const valueKeys = ["kind", "value", "bytes", "refName", "declared"] as const;

/** A value field: written when the attribute is of `kind`. */
const valueOf = <Kind extends AttributeKind>(
  kind: Kind,
  write: (out: Pieces, number: number, attribute: Extract<ModelAttribute, { kind: Kind }>) => void,
): FieldWriter<ModelAttribute> => ({
  from: valueKeys,
  write(out, number, attribute) {
    if (attribute.kind === kind) write(out, number, attribute as Extract<ModelAttribute, { kind: Kind }>);
  },
});

/** The bytes as read where they still stand for the text, else the text's own. */
const bytesOf = (value: string, bytes: Uint8Array | undefined): Uint8Array =>
  bytes !== undefined && decodeUtf8Lossy(bytes) === value ? bytes : encodeUtf8(value);

const attributeWriters: MessageWriter<ModelAttribute, keyof (typeof attributeFields)["byName"]> = {
  name: text("name"),
  f: valueOf("float", (out, number, { value }) => out.float(number, value)),
  i: valueOf("int", (out, number, { value }) => out.integer(number, value)),
  s: valueOf("string", (out, number, { value, bytes }) => out.bytes(number, bytesOf(value, bytes))),
  t: valueOf("tensor", (out, number, { value }) => out.message(number, (content) => writeTensorProto(content, value))),
  g: valueOf("graph", (out, number, { value }) => out.message(number, (content) => writeGraph(content, value))),
  floats: valueOf("floats", (out, number, { value }) => value.forEach((item) => out.float(number, item))),
  ints: valueOf("ints", (out, number, { value }) => value.forEach((item) => out.integer(number, item))),
  strings: valueOf("strings", (out, number, { value, bytes }) =>
    value.forEach((item, i) => out.bytes(number, bytesOf(item, bytes?.[i]))),
  ),
  tensors: valueOf("tensors", (out, number, { value }) => {
    for (const item of value) out.message(number, (content) => writeTensorProto(content, item));
  }),
  graphs: valueOf("graphs", (out, number, { value }) => {
    for (const item of value) out.message(number, (content) => writeGraph(content, item));
  }),
  docString: text("docString"),
  tp: valueOf("type", (out, number, { value }) => out.message(number, (content) => writeType(content, value))),
  typeProtos: valueOf("types", (out, number, { value }) => {
    for (const item of value) out.message(number, (content) => writeType(content, item));
  }),
  type: {
    from: valueKeys,
    write(out, number, attribute) {
      const kind = attribute.kind === "attribute-reference" ? attribute.declared : attribute.kind;
      if (kind !== undefined) out.integer(number, attributeCodes[kind]);
    },
  },
  refAttrName: {
    from: valueKeys,
    write(out, number, attribute) {
      if (attribute.kind === "attribute-reference") out.string(number, attribute.refName);
    },
  },
  sparseTensor: valueOf("sparse-tensor", (out, number, { value }) =>
    out.message(number, (content) => writeSparseTensorProto(content, value)),
  ),
  sparseTensors: valueOf("sparse-tensors", (out, number, { value }) => {
    for (const item of value) out.message(number, (content) => writeSparseTensorProto(content, item));
  }),
};

function writeAttribute(out: Pieces, attribute: ModelAttribute): void {
  writeMessage(out, attributeFields, attributeWriters, attribute);
}

const nodeWriters: MessageWriter<ModelNode, keyof (typeof nodeFields)["byName"]> = {
  input: texts("inputs"),
  output: texts("outputs"),
  name: text("name"),
  opType: text("opType"),
  attribute: messages(({ attributes }) => attributes.values(), "attributes", writeAttribute),
  docString: text("docString"),
  domain: text("domain"),
  overload: text("overload"),
  metadataProps: entries("metadata"),
};

function writeNode(out: Pieces, node: ModelNode): void {
  writeMessage(out, nodeFields, nodeWriters, node);
}

const graphWriters: MessageWriter<ModelGraph, keyof (typeof graphFields)["byName"]> = {
  node: messages(({ nodes }) => nodes, "nodes", writeNode),
  name: text("name"),
  initializer: messages(({ initializers }) => initializers, "initializers", writeTensorProto),
  docString: text("docString"),
  input: messages(({ inputs }) => inputs, "inputs", writeValue),
  output: messages(({ outputs }) => outputs, "outputs", writeValue),
  valueInfo: messages(({ valueInfo }) => valueInfo, "valueInfo", writeValue),
  sparseInitializer: messages(
    ({ sparseInitializers }) => sparseInitializers,
    "sparseInitializers",
    writeSparseTensorProto,
  ),
  metadataProps: entries("metadata"),
};

/** Adds the content of a graph's message. */
export function writeGraph(out: Pieces, graph: ModelGraph): void {
  writeMessage(out, graphFields, graphWriters, graph);
}

const functionWriters: MessageWriter<ModelFunction, keyof (typeof functionFields)["byName"]> = {
  name: text("name"),
  input: texts("inputs"),
  output: texts("outputs"),
  attribute: texts("attributes"),
  node: messages(({ nodes }) => nodes, "nodes", writeNode),
  docString: text("docString"),
  opsetImport: opsets(),
  domain: text("domain"),
  attributeProto: messages(({ attributeDefaults }) => attributeDefaults.values(), "attributeDefaults", writeAttribute),
  valueInfo: messages(({ valueInfo }) => valueInfo, "valueInfo", writeValue),
  overload: text("overload"),
  metadataProps: entries("metadata"),
};

/** Adds the content of a function's message. */
export function writeFunction(out: Pieces, part: ModelFunction): void {
  writeMessage(out, functionFields, functionWriters, part);
}
