/** ModelTensor and ModelSparseTensor to their messages. Elements are written as raw_data, strings as string_data. */
import { InsituError } from "../base/error.js";
import { byteLengthOf, storageLengthOf, traitsOf } from "../tensor/element-type.js";
import { elementCount } from "../tensor/view.js";
import { fieldTable } from "./fields.js";
import type { ModelSparseTensor, ModelTensor } from "./model.js";
import { SparseTensorProtoSchema } from "./messages.gen.js";
import type { Pieces } from "./pieces.js";
import { tensorFields } from "./tensor-data.js";
import {
  entries,
  type FieldWriter,
  integers,
  type MessageWriter,
  text,
  writeEntry,
  writeMessage,
} from "./write-message.js";

const sparseFields = fieldTable(SparseTensorProtoSchema);

/** The bytes of a tensor as raw_data and external files hold them: no copy. Throws for strings and unloaded data. */
export function tensorBytes(tensor: ModelTensor): Uint8Array {
  const { data, name, type, dims } = tensor;
  if (data === undefined) throw new InsituError("external-data", `tensor "${name}": its data was not loaded`);
  if (Array.isArray(data)) throw new InsituError("invalid-argument", `tensor "${name}": strings have no raw bytes`);
  checkLength(tensor, data.length);
  return new Uint8Array(data.buffer, data.byteOffset, byteLengthOf(type, elementCount(dims)));
}

function checkLength({ name, type, dims }: ModelTensor, length: number): void {
  const expected = storageLengthOf(type, elementCount(dims));
  if (length === expected) return;
  const message = `${type}[${dims.join(",")}] needs ${expected} entries of data, got ${length}`;
  throw new InsituError("invalid-argument", `tensor "${name}": ${message}`);
}

const gone: FieldWriter<ModelTensor> = { from: ["data", "external", "type"], write: () => undefined };

const writers: MessageWriter<ModelTensor, keyof (typeof tensorFields)["byName"]> = {
  dims: integers("dims"),
  dataType: { from: ["type"], write: (out, number, { type }) => out.integer(number, traitsOf(type).code) },
  // Typed fields survive only where nothing changed.
  floatData: gone,
  int32Data: gone,
  int64Data: gone,
  doubleData: gone,
  uint64Data: gone,
  stringData: {
    from: gone.from,
    write(out, number, tensor) {
      if (!Array.isArray(tensor.data)) return;
      checkLength(tensor, tensor.data.length);
      for (const element of tensor.data) out.string(number, element);
    },
  },
  name: text("name"),
  rawData: {
    from: gone.from,
    write(out, number, tensor) {
      if (tensor.external === undefined && !Array.isArray(tensor.data)) out.bytes(number, tensorBytes(tensor));
    },
  },
  docString: text("docString"),
  externalData: {
    from: ["external"],
    write(out, number, { external }) {
      if (external === undefined) return;
      writeEntry(out, number, "location", external.location);
      writeEntry(out, number, "offset", String(external.offset));
      if (external.length !== undefined) writeEntry(out, number, "length", String(external.length));
    },
  },
  dataLocation: {
    from: ["external"],
    write(out, number, { external }) {
      if (external !== undefined) out.integer(number, 1);
    },
  },
  metadataProps: entries("metadata"),
};

/** Adds the content of a tensor's message. */
export function writeTensorProto(out: Pieces, tensor: ModelTensor): void {
  writeMessage(out, tensorFields, writers, tensor);
}

const sparseWriters: MessageWriter<ModelSparseTensor, keyof (typeof sparseFields)["byName"]> = {
  values: {
    from: ["values"],
    write: (out, number, { values }) => out.message(number, (content) => writeTensorProto(content, values)),
  },
  indices: {
    from: ["indices"],
    write: (out, number, { indices }) => out.message(number, (content) => writeTensorProto(content, indices)),
  },
  dims: integers("dims"),
};

/** Adds the content of a sparse tensor's message. */
export function writeSparseTensorProto(out: Pieces, tensor: ModelSparseTensor): void {
  writeMessage(out, sparseFields, sparseWriters, tensor);
}
