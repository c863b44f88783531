/** TypeProto and ValueInfoProto to ModelType and ModelValue. */
import { deepestNesting, mostDimensions } from "../base/limits.js";
import { type ElementType, elementTypeOfCode } from "../tensor/element-type.js";
import type { Cursor } from "./cursor.js";
import { type FieldTable, fieldTable } from "./fields.js";
import type { ModelDimension, ModelType, ModelValue } from "./model.js";
import * as schemas from "./messages.gen.js";
import { noEntries, readEntries } from "./read-basics.js";
import { Source } from "./source.js";

const valueFields = fieldTable(schemas.ValueInfoProtoSchema);
const typeFields = fieldTable(schemas.TypeProtoSchema);
const tensorFields = fieldTable(schemas.TypeProto_TensorSchema);
const sparseFields = fieldTable(schemas.TypeProto_SparseTensorSchema);
const sequenceFields = fieldTable(schemas.TypeProto_SequenceSchema);
const optionalFields = fieldTable(schemas.TypeProto_OptionalSchema);
const mapFields = fieldTable(schemas.TypeProto_MapSchema);
const opaqueFields = fieldTable(schemas.TypeProto_OpaqueSchema);
const shapeFields = fieldTable(schemas.TensorShapeProtoSchema);
const dimensionFields = fieldTable(schemas.TensorShapeProto_DimensionSchema);

/** Reads the ValueInfoProto from the cursor's position to its end. */
export function readValue(cursor: Cursor): ModelValue {
  const start = cursor.position;
  const made: { -readonly [K in keyof ModelValue]: ModelValue[K] } = {
    name: "",
    type: undefined,
    metadata: noEntries,
    docString: "",
  };
  cursor.fields(valueFields, {
    name: () => (made.name = cursor.string("the name of a value")),
    docString: () => (made.docString = cursor.string("a value's doc_string")),
    metadataProps: () => (made.metadata = readEntries(cursor, made.metadata)),
    type() {
      if (made.type !== undefined) cursor.fail("a value has its type twice");
      made.type = cursor.message(() => readType(cursor, 0));
    },
  });
  made.source = new Source(cursor.source, start, cursor.position, made);
  return made;
}

type Content = ModelType extends infer T ? (T extends ModelType ? Omit<T, "source" | "denotation"> : never) : never;

/** Reads the TypeProto from the cursor's position to its end; `depth` counts the types around it. */
export function readType(cursor: Cursor, depth: number): ModelType {
  if (depth > deepestNesting) cursor.fail(`types are nested deeper than ${deepestNesting}`);
  const start = cursor.position;
  const made: { content: Content; denotation?: string } = { content: { kind: "undefined" } };
  const contentBy = (read: () => Content) => (): void => {
    if (made.content.kind !== "undefined") cursor.fail("a type has two contents");
    made.content = cursor.message(read);
  };
  cursor.fields(typeFields, {
    denotation: () => (made.denotation = cursor.string("a type's denotation")),
    tensorType: contentBy(() => readTensorType(cursor, "tensor")),
    sparseTensorType: contentBy(() => readTensorType(cursor, "sparse")),
    sequenceType: contentBy(() => ({ kind: "sequence", element: readElement(cursor, sequenceFields, depth) })),
    optionalType: contentBy(() => ({ kind: "optional", element: readElement(cursor, optionalFields, depth) })),
    mapType: contentBy(() => readMapType(cursor, depth)),
    opaqueType: contentBy(() => readOpaqueType(cursor)),
  });
  const { content, ...denotation } = made;
  const type = { ...content, ...denotation } as { -readonly [K in keyof ModelType]: ModelType[K] };
  type.source = new Source(cursor.source, start, cursor.position, type);
  return type as ModelType;
}

function readElementType(cursor: Cursor): ElementType | undefined {
  const code = cursor.integer("elem_type");
  if (code === 0) return undefined;
  return elementTypeOfCode(code) ?? cursor.fail(`elem_type ${code} is not an element type of ONNX`);
}

function readTensorType(cursor: Cursor, kind: "tensor" | "sparse"): Content {
  const made: { elementType: ElementType | undefined; shape: ModelDimension[] | undefined } = {
    elementType: undefined,
    shape: undefined,
  };
  cursor.fields(kind === "tensor" ? tensorFields : sparseFields, {
    elemType: () => (made.elementType = readElementType(cursor)),
    shape() {
      if (made.shape !== undefined) cursor.fail("a type has its shape twice");
      const shape: ModelDimension[] = (made.shape = []);
      const dim = (): void => {
        if (shape.push(readDimension(cursor)) > mostDimensions)
          cursor.fail(`a shape has more than ${mostDimensions} dimensions`);
      };
      cursor.message(() => cursor.fields(shapeFields, { dim }));
    },
  });
  return { kind, ...made };
}

function readDimension(cursor: Cursor): ModelDimension {
  const made: { dimension: ModelDimension } = { dimension: undefined };
  cursor.message(() =>
    cursor.fields(dimensionFields, {
      dimValue() {
        const value = cursor.integer("dim_value");
        // Some exporters write -1 for an unknown dimension.
        made.dimension = value < 0 ? undefined : value;
      },
      dimParam: () => (made.dimension = cursor.string("a dim_param") || undefined),
      denotation: () => cursor.skip(),
    }),
  );
  return made.dimension;
}

function readElement(cursor: Cursor, table: FieldTable<"elemType">, depth: number): ModelType | undefined {
  const made: { element?: ModelType } = {};
  cursor.fields(table, {
    elemType() {
      if (made.element !== undefined) cursor.fail("a type has its element type twice");
      made.element = cursor.message(() => readType(cursor, depth + 1));
    },
  });
  return made.element;
}

function readMapType(cursor: Cursor, depth: number): Content {
  const made: { key: ElementType | undefined; value: ModelType | undefined } = { key: undefined, value: undefined };
  cursor.fields(mapFields, {
    keyType: () => (made.key = readElementType(cursor)),
    valueType() {
      if (made.value !== undefined) cursor.fail("a map type has its value type twice");
      made.value = cursor.message(() => readType(cursor, depth + 1));
    },
  });
  return { kind: "map", ...made };
}

function readOpaqueType(cursor: Cursor): Content {
  const made = { domain: "", name: "" };
  cursor.fields(opaqueFields, {
    domain: () => (made.domain = cursor.string("an opaque type's domain")),
    name: () => (made.name = cursor.string("an opaque type's name")),
  });
  return { kind: "opaque", ...made };
}
