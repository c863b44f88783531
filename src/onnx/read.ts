/** Bytes to Model: the front door of the reader. Every failure is an `invalid-model`; external data is loaded elsewhere. */
import { InsituError } from "../base/error.js";
import { foreignFile } from "../base/foreign-file.js";
import { Cursor } from "./cursor.js";
import { fieldTable } from "./fields.js";
import type { Model, ModelFunction, ModelTensor } from "./model.js";
import { ModelProtoSchema } from "./messages.gen.js";
import { readEntries, readOpset } from "./read-basics.js";
import { readFunction, readGraph } from "./read-graph.js";
import { readTensorProto } from "./read-tensor.js";
import { Source, SourceBytes } from "./source.js";

const modelFields = fieldTable(ModelProtoSchema);

/** How to read. */
interface ReadOptions {
  /** The bytes are handed over: the reader may rearrange them to align weights without a copy. */
  readonly owned?: boolean;
  /** Where the bytes came from; kept in the model. */
  readonly path?: string;
}

/** Reads a model. Its weights share the memory of `bytes` wherever their alignment allows. */
export function readModel(bytes: Uint8Array, options: ReadOptions = {}): Model {
  // Reading may rearrange what it is given.
  const beginning = bytes.slice(0, 512);
  try {
    return guarded(
      () => readModelProto(new Cursor(new SourceBytes(bytes), options.owned ?? false), options.path),
      options.path,
    );
  } catch (cause) {
    const foreign = foreignFile(beginning);
    if (foreign === undefined) throw cause;
    throw new InsituError("invalid-model", `${options.path ?? "not an ONNX model: this"} ${foreign}`, { cause });
  }
}

/** Reads a TensorProto, as kept in `.pb` files. */
export function readTensor(bytes: Uint8Array, options: Pick<ReadOptions, "owned"> = {}): ModelTensor {
  return guarded(() => readTensorProto(new Cursor(new SourceBytes(bytes), options.owned ?? false)), undefined);
}

/** Turns whatever the bytes provoked into an error of ours. */
function guarded<T>(read: () => T, path: string | undefined): T {
  const where = path === undefined ? "" : `${path}: `;
  try {
    return read();
  } catch (error) {
    if (error instanceof InsituError) {
      throw path === undefined ? error : new InsituError(error.code, where + error.message, { cause: error.cause });
    }
    const reason = error instanceof Error ? error.message : String(error);
    throw new InsituError("invalid-model", `${where}the bytes cannot be read as an ONNX model: ${reason}`, {
      cause: error,
    });
  }
}

function readModelProto(cursor: Cursor, path: string | undefined): Model {
  if (cursor.end === 0) cursor.fail("not an ONNX model: there are no bytes");
  const start = cursor.position;
  const functions: ModelFunction[] = [];
  const opsets = new Map<string, number>();
  const made: { -readonly [K in keyof Model]?: Model[K] } & { metadata: Model["metadata"] } = {
    irVersion: 0,
    producerName: "",
    producerVersion: "",
    domain: "",
    modelVersion: 0,
    docString: "",
    opsets,
    graph: undefined,
    functions,
    metadata: new Map(),
  };
  cursor.fields(modelFields, {
    irVersion: () => (made.irVersion = cursor.integer("ir_version")),
    modelVersion: () => (made.modelVersion = cursor.integer("model_version")),
    producerName: () => (made.producerName = cursor.string("producer_name")),
    producerVersion: () => (made.producerVersion = cursor.string("producer_version")),
    domain: () => (made.domain = cursor.string("the model's domain")),
    docString: () => (made.docString = cursor.string("the model's doc_string")),
    metadataProps: () => (made.metadata = readEntries(cursor, made.metadata)),
    opsetImport: () => readOpset(cursor, opsets),
    graph() {
      if (made.graph !== undefined) cursor.fail("a model has its graph twice");
      made.graph = cursor.message((inner) => readGraph(inner));
    },
    functions: () => functions.push(cursor.object(readFunction)),
    trainingInfo: () => cursor.skip(),
    configuration: () => cursor.skip(),
  });
  if (made.graph === undefined) cursor.fail("not an ONNX model: there is no graph");
  if (path !== undefined) made.path = path;
  made.source = new Source(cursor.source, start, cursor.end, made as Model);
  return made as Model;
}
