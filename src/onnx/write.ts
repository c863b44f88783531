/** Model to bytes: the front door of the writer. Unchanged parts come out as they were read; nothing is checked against ONNX's rules. */
import { InsituError } from "../base/error.js";
import { fieldTable } from "./fields.js";
import type { Model, ModelTensor } from "./model.js";
import { ModelProtoSchema } from "./messages.gen.js";
import { concatenate, Pieces } from "./pieces.js";
import { entries, integer, type MessageWriter, messages, opsets, text, writeMessage } from "./write-message.js";
import { writeFunction, writeGraph } from "./write-graph.js";
import { writeTensorProto } from "./write-tensor.js";

const modelFields = fieldTable(ModelProtoSchema);

/** The most bytes that protobuf's readers take in one message. */
const largestMessage = 2 ** 31 - 1;

const writers: MessageWriter<Model, keyof (typeof modelFields)["byName"]> = {
  irVersion: integer("irVersion"),
  producerName: text("producerName"),
  producerVersion: text("producerVersion"),
  domain: text("domain"),
  modelVersion: integer("modelVersion"),
  docString: text("docString"),
  graph: {
    from: ["graph"],
    write: (out, number, { graph }) => out.message(number, (content) => writeGraph(content, graph)),
  },
  opsetImport: opsets(),
  metadataProps: entries("metadata"),
  functions: messages(({ functions }) => functions, "functions", writeFunction),
};

/**
 * The bytes of a model, in pieces to be written one after another. Weights are not copied: the pieces share their
 * memory. Throws `invalid-argument` when a protobuf file cannot hold that much.
 */
export function writeModelPieces(model: Model): readonly Uint8Array[] {
  const out = new Pieces();
  writeMessage(out, modelFields, writers, model);
  if (out.length > largestMessage) {
    throw new InsituError(
      "invalid-argument",
      `the model takes ${out.length} bytes and a protobuf file holds at most ${largestMessage}: move weights out with moveToExternalData`,
    );
  }
  return out.list();
}

/** The bytes of a model: one copy of everything, and no other. */
export function writeModel(model: Model): Uint8Array {
  return concatenate(writeModelPieces(model));
}

/** The bytes of a TensorProto, as kept in `.pb` files. */
export function writeTensor(tensor: ModelTensor): Uint8Array {
  const out = new Pieces();
  writeTensorProto(out, tensor);
  return concatenate(out.list());
}
