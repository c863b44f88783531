/** TypeProto and ValueInfoProto to ModelType and ModelValue. */
import { deepestNesting, mostDimensions } from "../base/limits.js";
import { type ElementType, elementTypeOfCode } from "../tensor/element-type.js";
import type { Cursor } from "./cursor.js";
import { type FieldTable, fieldTable } from "./fields.js";
import type { ModelDimension, ModelType, ModelValue } from "./model.js";
import {
  TensorShapeProto_DimensionSchema,
  TensorShapeProtoSchema,
  TypeProto_MapSchema,
  TypeProto_OpaqueSchema,
  TypeProto_OptionalSchema,
  TypeProto_SequenceSchema,
  TypeProto_SparseTensorSchema,
  TypeProto_TensorSchema,
  TypeProtoSchema,
  ValueInfoProtoSchema,
} from "./messages.gen.js";
import { noEntries, readEntries } from "./read-basics.js";
import { Source } from "./source.js";

const valueFields = fieldTable(ValueInfoProtoSchema);
const typeFields = fieldTable(TypeProtoSchema);
const tensorFields = fieldTable(TypeProto_TensorSchema);
const sparseFields = fieldTable(TypeProto_SparseTensorSchema);
const sequenceFields = fieldTable(TypeProto_SequenceSchema);
const optionalFields = fieldTable(TypeProto_OptionalSchema);
const mapFields = fieldTable(TypeProto_MapSchema);
const opaqueFields = fieldTable(TypeProto_OpaqueSchema);
const shapeFields = fieldTable(TensorShapeProtoSchema);
const dimensionFields = fieldTable(TensorShapeProto_DimensionSchema);

/** Reads the ValueInfoProto from the cursor's position to its end. */
export function readValue(cursor: Cursor): ModelValue {
  const start = cursor.position;
  let name = "";
  let docString = "";
  let type: ModelType | undefined;
  let metadata: ReadonlyMap<string, string> | undefined;
  for (let field = cursor.next(valueFields); field !== undefined; field = cursor.next(valueFields)) {
    if (field === "name") name = cursor.string("the name of a value");
    else if (field === "docString") docString = cursor.string("a value's doc_string");
    else if (field === "metadataProps") metadata = readEntries(cursor, metadata);
    else {
      if (type !== undefined) cursor.fail("a value has its type twice");
      const outer = cursor.enter();
      type = readType(cursor, 0);
      cursor.leave(outer);
    }
  }
  const made: { -readonly [K in keyof ModelValue]: ModelValue[K] } = {
    name,
    type,
    metadata: metadata ?? noEntries,
    docString,
  };
  made.source = new Source(cursor.source, start, cursor.position, made);
  return made;
}

type Content = ModelType extends infer T ? (T extends ModelType ? Omit<T, "source" | "denotation"> : never) : never;

/** Reads the TypeProto from the cursor's position to its end; `depth` counts the types around it. */
export function readType(cursor: Cursor, depth: number): ModelType {
  if (depth > deepestNesting) cursor.fail(`types are nested deeper than ${deepestNesting}`);
  const start = cursor.position;
  let content: Content = { kind: "undefined" };
  let denotation: string | undefined;
  for (let field = cursor.next(typeFields); field !== undefined; field = cursor.next(typeFields)) {
    if (field === "denotation") {
      denotation = cursor.string("a type's denotation");
      continue;
    }
    if (content.kind !== "undefined") cursor.fail("a type has two contents");
    const outer = cursor.enter();
    switch (field) {
      case "tensorType":
        content = readTensorType(cursor, "tensor");
        break;
      case "sparseTensorType":
        content = readTensorType(cursor, "sparse");
        break;
      case "sequenceType":
        content = { kind: "sequence", element: readElement(cursor, sequenceFields, depth) };
        break;
      case "optionalType":
        content = { kind: "optional", element: readElement(cursor, optionalFields, depth) };
        break;
      case "mapType":
        content = readMapType(cursor, depth);
        break;
      case "opaqueType":
        content = readOpaqueType(cursor);
        break;
      default:
        field satisfies never;
    }
    cursor.leave(outer);
  }
  const made = (denotation === undefined ? content : { ...content, denotation }) as {
    -readonly [K in keyof ModelType]: ModelType[K];
  };
  made.source = new Source(cursor.source, start, cursor.position, made);
  return made as ModelType;
}

function readElementType(cursor: Cursor): ElementType | undefined {
  const code = cursor.integer("elem_type");
  if (code === 0) return undefined;
  return elementTypeOfCode(code) ?? cursor.fail(`elem_type ${code} is not an element type of ONNX`);
}

function readTensorType(cursor: Cursor, kind: "tensor" | "sparse"): Content {
  let elementType: ElementType | undefined;
  let shape: ModelDimension[] | undefined;
  const table = kind === "tensor" ? tensorFields : sparseFields;
  for (let field = cursor.next(table); field !== undefined; field = cursor.next(table)) {
    if (field === "elemType") elementType = readElementType(cursor);
    else {
      if (shape !== undefined) cursor.fail("a type has its shape twice");
      shape = [];
      const outer = cursor.enter();
      while (cursor.next(shapeFields) !== undefined) {
        if (shape.push(readDimension(cursor)) > mostDimensions)
          cursor.fail(`a shape has more than ${mostDimensions} dimensions`);
      }
      cursor.leave(outer);
    }
  }
  return { kind, elementType, shape };
}

function readDimension(cursor: Cursor): ModelDimension {
  let dimension: ModelDimension;
  const outer = cursor.enter();
  for (let field = cursor.next(dimensionFields); field !== undefined; field = cursor.next(dimensionFields)) {
    if (field === "dimValue") {
      const value = cursor.integer("dim_value");
      // Some exporters write -1 for an unknown dimension.
      dimension = value < 0 ? undefined : value;
    } else if (field === "dimParam") dimension = cursor.string("a dim_param") || undefined;
    else cursor.skip();
  }
  cursor.leave(outer);
  return dimension;
}

function readElement(cursor: Cursor, table: FieldTable<"elemType">, depth: number): ModelType | undefined {
  let element: ModelType | undefined;
  while (cursor.next(table) !== undefined) {
    if (element !== undefined) cursor.fail("a type has its element type twice");
    const outer = cursor.enter();
    element = readType(cursor, depth + 1);
    cursor.leave(outer);
  }
  return element;
}

function readMapType(cursor: Cursor, depth: number): Content {
  let key: ElementType | undefined;
  let value: ModelType | undefined;
  for (let field = cursor.next(mapFields); field !== undefined; field = cursor.next(mapFields)) {
    if (field === "keyType") key = readElementType(cursor);
    else {
      if (value !== undefined) cursor.fail("a map type has its value type twice");
      const outer = cursor.enter();
      value = readType(cursor, depth + 1);
      cursor.leave(outer);
    }
  }
  return { kind: "map", key, value };
}

function readOpaqueType(cursor: Cursor): Content {
  let domain = "";
  let name = "";
  for (let field = cursor.next(opaqueFields); field !== undefined; field = cursor.next(opaqueFields)) {
    if (field === "domain") domain = cursor.string("an opaque type's domain");
    else name = cursor.string("an opaque type's name");
  }
  return { kind: "opaque", domain, name };
}
