/** TensorProto and SparseTensorProto to ModelTensor: which field holds the elements, and whether their number fits the dims. */
import { InsituError } from "../base/error.js";
import { mostDimensions } from "../base/limits.js";
import { byteLengthOf, elementTypeOfCode } from "../tensor/element-type.js";
import type { Cursor } from "./cursor.js";
import { fieldTable, Wire } from "./fields.js";
import { noEntries, quote, readEntries } from "./read-basics.js";
import type { ExternalReference, ModelSparseTensor, ModelTensor } from "./model.js";
import { SparseTensorProtoSchema } from "./messages.gen.js";
import { Source } from "./source.js";
import {
  emptyStorage,
  entryWidth,
  type Run,
  storageOfRun,
  storageOfTypedField,
  tensorFields,
  type TypedField,
  typedFieldOf,
  typedLengthOf,
} from "./tensor-data.js";

const sparseFields = fieldTable(SparseTensorProtoSchema);

/** Dims for messages: cut short, since hostile ones can be very long. */
export const showDims = (dims: readonly number[]): string =>
  `[${dims.slice(0, 16).join(",")}${dims.length > 16 ? `,… ${dims.length} dims` : ""}]`;

/** Reads the TensorProto from the cursor's position to its end. */
export function readTensorProto(cursor: Cursor): ModelTensor {
  const start = cursor.position;
  let name = "";
  let docString = "";
  let code = 0;
  let location = 0;
  let metadata: ReadonlyMap<string, string> | undefined;
  let externalData: ReadonlyMap<string, string> | undefined;
  let raw: Run | undefined;
  let packed: Run | undefined;
  let typed: TypedField | undefined;
  let entries = 0;
  let segmented = false;
  const dims: number[] = [];
  const fail = (message: string): never => {
    throw new InsituError("invalid-model", `tensor ${quote(name)}: ${message}`);
  };
  for (let field = cursor.next(tensorFields); field !== undefined; field = cursor.next(tensorFields)) {
    const fieldStart = cursor.fieldStart;
    switch (field) {
      case "name":
        name = cursor.string("the name of a tensor");
        break;
      case "docString":
        docString = cursor.string("a tensor's doc_string");
        break;
      case "dims":
        readDims(cursor, dims);
        break;
      case "dataType":
        code = cursor.integer("data_type");
        break;
      case "dataLocation":
        location = cursor.integer("data_location");
        break;
      case "metadataProps":
        metadata = readEntries(cursor, metadata ?? noEntries);
        break;
      case "externalData":
        externalData = readEntries(cursor, externalData ?? noEntries);
        break;
      case "rawData": {
        const length = cursor.length();
        raw = { start: fieldStart, content: cursor.position, length };
        cursor.position += length;
        break;
      }
      case "segment":
        segmented = true;
        cursor.skip();
        break;
      default: {
        const before: number = entries;
        if (field === "stringData") {
          entries++;
          cursor.skip();
        } else {
          const isRun = cursor.wire === Wire.bytes;
          entries += cursor.countEntries(entryWidth[field]);
          const length = (entries - before) * entryWidth[field];
          packed = isRun && before === 0 ? { start: fieldStart, content: cursor.position - length, length } : undefined;
        }
        if (entries > before) {
          if (typed !== undefined && typed !== field)
            fail(`both ${onnxName(typed)} and ${onnxName(field)} hold elements`);
          typed = field;
        }
      }
    }
  }
  const end = cursor.position;
  const type = elementTypeOfCode(code) ?? fail(`data_type ${code} is not an element type of ONNX`);
  const count = countElements(dims, fail);
  if (segmented) fail("segmented tensors are not supported");
  const made: { -readonly [K in keyof ModelTensor]: ModelTensor[K] } = {
    name,
    type,
    dims,
    metadata: metadata ?? noEntries,
    docString,
  };
  if (location === 1) {
    if (type === "string") fail("strings cannot be external data");
    if (raw !== undefined && raw.length > 0) fail("both raw_data and external data hold elements");
    if (typed !== undefined) fail(`both ${onnxName(typed)} and external data hold elements`);
    made.external = readReference(externalData ?? noEntries, name);
  } else if (location !== 0) {
    fail(`data_location must be 0 (DEFAULT) or 1 (EXTERNAL), got ${location}`);
  } else if (raw !== undefined && (raw.length > 0 || typed === undefined)) {
    if (typed !== undefined) fail(`both raw_data and ${onnxName(typed)} hold elements`);
    if (type === "string") return fail("strings must be in string_data, not in raw_data");
    const expected = byteLengthOf(type, count);
    if (raw.length !== expected)
      fail(`raw_data must have ${expected} bytes for ${type}${showDims(dims)}, got ${raw.length}`);
    made.data = count === 0 ? emptyStorage(type) : storageOfRun(cursor, type, count, raw);
  } else {
    const field = typedFieldOf(type);
    if (typed !== undefined && typed !== field)
      fail(`elements of type ${type} must be in ${onnxName(field)}, got ${onnxName(typed)}`);
    const expected = typedLengthOf(type, count);
    if (entries !== expected)
      fail(`${onnxName(field)} must have ${expected} entries for ${type}${showDims(dims)}, got ${entries}`);
    if (count === 0) made.data = emptyStorage(type);
    else if (packed !== undefined && packed.length > 0 && type !== "string")
      made.data = storageOfRun(cursor, type, count, packed);
    else made.data = storageOfTypedField(cursor, start, end, type, count);
  }
  cursor.position = end;
  made.source = new Source(cursor.source, start, end, made);
  return made;
}

/** ONNX's spelling of a field. */
const onnxName = (field: TypedField): string => field.replace("Data", "_data");

/** Reads a dims field, or one entry of it. */
function readDims(cursor: Cursor, dims: number[]): void {
  cursor.forEachEntry(() => {
    if (dims.push(cursor.integer("dims entry")) > mostDimensions) cursor.fail(`more than ${mostDimensions} dims`);
  });
}

/** The product of dims, refusing what is negative or cannot be addressed. */
function countElements(dims: readonly number[], fail: (message: string) => never): number {
  let count = 1;
  for (const dim of dims) {
    if (dim < 0) fail(`dims must not be negative, got ${showDims(dims)}`);
    count *= dim;
  }
  if (dims.includes(0)) return 0;
  // The bound leaves room for the widest element in bits.
  if (count > Number.MAX_SAFE_INTEGER / 128) fail(`dims ${showDims(dims)} have more elements than can be addressed`);
  return count;
}

/** The reference in external_data entries; what it refers to is checked when it is loaded. */
function readReference(entries: ReadonlyMap<string, string>, name: string): ExternalReference {
  const fail = (message: string): never => {
    throw new InsituError("external-data", `tensor ${quote(name)}: external_data ${message}`);
  };
  const number = (key: string): number | undefined => {
    const text = entries.get(key);
    if (text === undefined) return undefined;
    const value = /^\d{1,16}$/.test(text) ? Number(text) : -1;
    return Number.isSafeInteger(value) && value >= 0
      ? value
      : fail(`${key} must be a non-negative integer, got ${quote(text)}`);
  };
  const location = entries.get("location") ?? "";
  if (location === "") fail("has no location");
  const offset = number("offset") ?? 0;
  const length = number("length");
  return length === undefined ? { location, offset } : { location, offset, length };
}

/** Reads the SparseTensorProto from the cursor's position to its end. */
export function readSparseTensorProto(cursor: Cursor): ModelSparseTensor {
  const start = cursor.position;
  let values: ModelTensor | undefined;
  let indices: ModelTensor | undefined;
  const dims: number[] = [];
  for (let field = cursor.next(sparseFields); field !== undefined; field = cursor.next(sparseFields)) {
    if (field === "dims") {
      readDims(cursor, dims);
      continue;
    }
    if ((field === "values" ? values : indices) !== undefined) cursor.fail(`a sparse tensor has ${field} twice`);
    if (field === "values") values = cursor.object(readTensorProto);
    else indices = cursor.object(readTensorProto);
  }
  if (values === undefined || indices === undefined) cursor.fail("a sparse tensor needs values and indices");
  const fail = (message: string): never => {
    throw new InsituError("invalid-model", `sparse tensor ${quote(values.name)}: ${message}`);
  };
  countElements(dims, fail);
  if (indices.type !== "int64") fail(`indices must be int64, got ${indices.type}`);
  const made: { -readonly [K in keyof ModelSparseTensor]: ModelSparseTensor[K] } = { values, indices, dims };
  made.source = new Source(cursor.source, start, cursor.position, made);
  return made;
}
