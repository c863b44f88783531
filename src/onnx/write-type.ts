/** ModelType and ModelValue to their messages. */
import { type ElementType, traitsOf } from "../tensor/element-type.js";
import { fieldTable } from "./fields.js";
import type { ModelDimension, ModelType, ModelValue } from "./model.js";
import * as schemas from "./messages.gen.js";
import type { Pieces } from "./pieces.js";
import { entries, type FieldWriter, type MessageWriter, text, writeMessage } from "./write-message.js";

const valueFields = fieldTable(schemas.ValueInfoProtoSchema);
const typeFields = fieldTable(schemas.TypeProtoSchema);
const tensor = schemas.TypeProto_TensorSchema.field;
const sparse = schemas.TypeProto_SparseTensorSchema.field;
const map = schemas.TypeProto_MapSchema.field;
const opaque = schemas.TypeProto_OpaqueSchema.field;
const dimension = schemas.TensorShapeProto_DimensionSchema.field;

function writeElementType(out: Pieces, number: number, type: ElementType | undefined): void {
  if (type !== undefined) out.integer(number, traitsOf(type).code);
}

function writeShape(out: Pieces, shape: readonly ModelDimension[]): void {
  for (const dim of shape) {
    out.message(schemas.TensorShapeProtoSchema.field.dim.number, (entry) => {
      if (typeof dim === "number") entry.integer(dimension.dimValue.number, dim);
      else if (dim !== undefined) entry.string(dimension.dimParam.number, dim);
    });
  }
}

/** A content field: written when the type is of `kind`. */
const content = <Kind extends ModelType["kind"]>(
  kind: Kind,
  write: (out: Pieces, type: Extract<ModelType, { kind: Kind }>) => void,
): FieldWriter<ModelType> => ({
  from: ["kind", "elementType", "shape", "element", "key", "value", "domain", "name"],
  write(out, number, type) {
    if (type.kind === kind) out.message(number, (inner) => write(inner, type as Extract<ModelType, { kind: Kind }>));
  },
});

type TensorType = { readonly elementType?: ElementType; readonly shape?: readonly ModelDimension[] };

function writeTensorType(out: Pieces, fields: typeof tensor, { elementType, shape }: TensorType): void {
  writeElementType(out, fields.elemType.number, elementType);
  if (shape !== undefined) out.message(fields.shape.number, (inner) => writeShape(inner, shape));
}

function writeElement(out: Pieces, number: number, element: ModelType | undefined): void {
  if (element !== undefined) out.message(number, (inner) => writeType(inner, element));
}

const typeWriters: MessageWriter<ModelType, keyof (typeof typeFields)["byName"]> = {
  tensorType: content("tensor", (out, type) => writeTensorType(out, tensor, type as TensorType)),
  sparseTensorType: content("sparse", (out, type) => writeTensorType(out, sparse, type as TensorType)),
  sequenceType: content("sequence", (out, type) =>
    writeElement(out, schemas.TypeProto_SequenceSchema.field.elemType.number, elementOf(type)),
  ),
  optionalType: content("optional", (out, type) =>
    writeElement(out, schemas.TypeProto_OptionalSchema.field.elemType.number, elementOf(type)),
  ),
  mapType: content("map", (out, { key, value }) => {
    writeElementType(out, map.keyType.number, key);
    writeElement(out, map.valueType.number, value);
  }),
  opaqueType: content("opaque", (out, { domain, name }) => {
    if (domain !== "") out.string(opaque.domain.number, domain);
    if (name !== "") out.string(opaque.name.number, name);
  }),
  denotation: text("denotation"),
};

const elementOf = (type: ModelType): ModelType | undefined =>
  type.kind === "sequence" || type.kind === "optional" ? type.element : undefined;

/** Adds the content of a type's message. */
export function writeType(out: Pieces, type: ModelType): void {
  writeMessage(out, typeFields, typeWriters, type);
}

const valueWriters: MessageWriter<ModelValue, keyof (typeof valueFields)["byName"]> = {
  name: text("name"),
  type: {
    from: ["type"],
    write(out, number, { type }) {
      if (type !== undefined) out.message(number, (content) => writeType(content, type));
    },
  },
  docString: text("docString"),
  metadataProps: entries("metadata"),
};

/** Adds the content of a value's message. */
export function writeValue(out: Pieces, value: ModelValue): void {
  writeMessage(out, valueFields, valueWriters, value);
}
