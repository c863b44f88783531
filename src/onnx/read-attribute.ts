/** AttributeProto to ModelAttribute. `type` decides which value counts; without one, the only value that is there. */
import type { Cursor } from "./cursor.js";
import { fieldTable } from "./fields.js";
import type { AttributeKind, ModelAttribute, ModelGraph, ModelType } from "./model.js";
import { AttributeProto_AttributeType as Code, AttributeProtoSchema } from "./messages.gen.js";
import { quote } from "./read-basics.js";
import { readSparseTensorProto, readTensorProto } from "./read-tensor.js";
import { readType } from "./read-type.js";
import { Source } from "./source.js";
import { decodeUtf8, decodeUtf8Lossy } from "./utf8.js";

/** The fields of an AttributeProto. */
export const attributeFields: ReturnType<typeof fieldTable<keyof typeof AttributeProtoSchema.field>> =
  fieldTable(AttributeProtoSchema);

/** AttributeProto.AttributeType by kind. */
export const attributeCodes: Readonly<Record<AttributeKind, number>> = {
  float: Code.FLOAT,
  int: Code.INT,
  string: Code.STRING,
  tensor: Code.TENSOR,
  graph: Code.GRAPH,
  floats: Code.FLOATS,
  ints: Code.INTS,
  strings: Code.STRINGS,
  tensors: Code.TENSORS,
  graphs: Code.GRAPHS,
  "sparse-tensor": Code.SPARSE_TENSOR,
  "sparse-tensors": Code.SPARSE_TENSORS,
  type: Code.TYPE_PROTO,
  types: Code.TYPE_PROTOS,
};
const kinds = Object.keys(attributeCodes) as AttributeKind[];
const kindOfCode = new Map<number, AttributeKind>(kinds.map((kind) => [attributeCodes[kind], kind]));

/** The kind of value that each field holds. */
const kindOfField = {
  f: "float",
  i: "int",
  s: "string",
  t: "tensor",
  g: "graph",
  floats: "floats",
  ints: "ints",
  strings: "strings",
  tensors: "tensors",
  graphs: "graphs",
  sparseTensor: "sparse-tensor",
  sparseTensors: "sparse-tensors",
  tp: "type",
  typeProtos: "types",
} as const;

/** Reads the AttributeProto from the cursor's position to its end; `readGraph` reads the graphs in it. */
export function readAttribute(cursor: Cursor, readGraph: (cursor: Cursor) => ModelGraph): ModelAttribute {
  const start = cursor.position;
  let name = "";
  let docString = "";
  let refName = "";
  let code = 0;
  let only: AttributeKind | "several" | undefined;
  for (let field = cursor.next(attributeFields); field !== undefined; field = cursor.next(attributeFields)) {
    if (field === "name") name = cursor.string("the name of an attribute");
    else if (field === "docString") docString = cursor.string("an attribute's doc_string");
    else if (field === "refAttrName") refName = cursor.string("a ref_attr_name");
    else if (field === "type") code = cursor.integer("the type of an attribute");
    else {
      const kind = kindOfField[field];
      only = only === undefined || only === kind ? kind : "several";
      cursor.skip();
    }
  }
  const end = cursor.position;
  if (name === "") cursor.fail("an attribute has no name", start);
  const declared = kindOfCode.get(code);
  if (code !== 0 && declared === undefined) {
    cursor.fail(`attribute ${quote(name)} has type ${code}, which is not one of ONNX's`, start);
  }
  const kind = declared ?? only;
  const made = (
    refName === ""
      ? { name, docString, ...readValue({ cursor, start, end, name, readGraph }, kind) }
      : { name, docString, kind: "attribute-reference", refName, declared }
  ) as ModelAttribute & { source?: Source };
  made.source = new Source(cursor.source, start, end, made);
  cursor.position = end;
  return made;
}

/** An attribute whose kind is known, and whose value is read in a second walk over it. */
interface Found {
  readonly cursor: Cursor;
  readonly start: number;
  readonly end: number;
  readonly name: string;
  readonly readGraph: (cursor: Cursor) => ModelGraph;
}

type Value = ModelAttribute extends infer A
  ? A extends ModelAttribute
    ? Omit<A, "name" | "docString">
    : never
  : never;

function readValue(found: Found, kind: AttributeKind | "several" | undefined): Value {
  const { cursor, start, name, readGraph } = found;
  switch (kind) {
    case "float":
      return { kind, value: last(found, "f", () => cursor.float()) ?? 0 };
    case "int":
      return { kind, value: last(found, "i", () => cursor.int64()) ?? 0n };
    case "string": {
      const bytes = last(found, "s", () => cursor.bytes()) ?? new Uint8Array();
      const value = decodeUtf8(bytes);
      return value === undefined ? { kind, value: decodeUtf8Lossy(bytes), bytes } : { kind, value };
    }
    case "tensor":
      return { kind, value: single(found, "t", kind, readTensorProto) };
    case "graph":
      return { kind, value: single(found, "g", kind, readGraph) };
    case "sparse-tensor":
      return { kind, value: single(found, "sparseTensor", kind, readSparseTensorProto) };
    case "type":
      return { kind, value: single(found, "tp", kind, readOuterType) };
    case "floats":
      return { kind, value: readFloats(found) };
    case "ints":
      return { kind, value: readInts(found) };
    case "strings":
      return { kind, ...readStrings(found) };
    case "tensors":
      return { kind, value: list(found, "tensors", readTensorProto) };
    case "graphs":
      return { kind, value: list(found, "graphs", readGraph) };
    case "sparse-tensors":
      return { kind, value: list(found, "sparseTensors", readSparseTensorProto) };
    case "types":
      return { kind, value: list(found, "typeProtos", readOuterType) };
    case "several":
      return cursor.fail(`attribute ${quote(name)} has no type and several values`, start);
    case undefined:
      return cursor.fail(`attribute ${quote(name)} has neither a type nor a value`, start);
    default:
      return kind satisfies never;
  }
}

type ValueField = keyof typeof kindOfField;

/** Goes through the attribute again, and calls `read` at each occurrence of one field. */
function eachOf({ cursor, start, end }: Found, wanted: ValueField, read: () => void): void {
  const outer = cursor.end;
  cursor.position = start;
  cursor.end = end;
  for (let field = cursor.next(attributeFields); field !== undefined; field = cursor.next(attributeFields)) {
    if (field === wanted) read();
    else cursor.skip();
  }
  cursor.end = outer;
}

/** A field's last occurrence: the one that counts. */
function last<T>(found: Found, field: ValueField, read: () => T): T | undefined {
  let value: T | undefined;
  eachOf(found, field, () => (value = read()));
  return value;
}

/** All occurrences of a message field. */
function list<T>(found: Found, field: ValueField, read: (cursor: Cursor) => T): T[] {
  const { cursor } = found;
  const items: T[] = [];
  eachOf(found, field, () => items.push(cursor.object(read)));
  return items;
}

/** The one occurrence of a message field. */
function single<T>(found: Found, field: ValueField, kind: AttributeKind, read: (cursor: Cursor) => T): T {
  const items = list(found, field, read);
  if (items.length === 1) return items[0];
  const count = items.length === 0 ? "no value" : `${items.length} values`;
  return found.cursor.fail(`attribute ${quote(found.name)} is of kind ${kind} and has ${count}`, found.start);
}

const readOuterType = (cursor: Cursor): ModelType => readType(cursor, 0);

/** Nothing is allocated before the entries were counted. */
function readFloats(found: Found): Float32Array {
  const { cursor } = found;
  let count = 0;
  eachOf(found, "floats", () => (count += cursor.countEntries(4)));
  const value = new Float32Array(count);
  let index = 0;
  eachOf(found, "floats", () => cursor.forEachEntry(() => (value[index++] = cursor.float())));
  return value;
}

function readInts(found: Found): BigInt64Array {
  const { cursor } = found;
  let count = 0;
  eachOf(found, "ints", () => (count += cursor.countEntries(0)));
  const value = new BigInt64Array(count);
  let index = 0;
  eachOf(found, "ints", () => cursor.forEachEntry(() => (value[index++] = cursor.int64())));
  return value;
}

function readStrings(found: Found): { value: string[]; bytes?: Uint8Array[] } {
  const { cursor } = found;
  const value: string[] = [];
  let valid = true;
  eachOf(found, "strings", () => {
    const bytes = cursor.bytes();
    const text = decodeUtf8(bytes);
    if (text === undefined) {
      // Its bytes will be kept, as an object of their own.
      cursor.countObject();
      valid = false;
    }
    value.push(text ?? decodeUtf8Lossy(bytes));
  });
  if (valid) return { value };
  const bytes: Uint8Array[] = [];
  eachOf(found, "strings", () => bytes.push(cursor.bytes()));
  return { value, bytes };
}
