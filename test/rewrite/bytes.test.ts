// What rewriting does not touch keeps its bytes: nodes, weights, names, doc strings and metadata, compared on the wire.
import { describe, expect, test } from "vitest";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { rewrite } from "../../packages/rewrite/rewrite.js";
import { bytesOf, models } from "./exports.js";
import { styledDecoder } from "./styles.js";

interface Field {
  readonly number: number;
  /** The whole field, and what is in it. */
  readonly raw: string;
  readonly content: Uint8Array;
}

/** The fields of a protobuf message, in order. */
function fieldsOf(bytes: Uint8Array): Field[] {
  const fields: Field[] = [];
  let at = 0;
  const varint = (): number => {
    let [value, factor] = [0, 1];
    for (;;) {
      const byte = bytes[at++];
      value += (byte & 127) * factor;
      factor *= 128;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const start = at;
    const key = varint();
    const wire = key % 8;
    let content = at;
    if (wire === 2) {
      const length = varint();
      content = at;
      at += length;
    } else if (wire === 0) varint();
    else at += wire === 1 ? 8 : 4;
    fields.push({
      number: Math.floor(key / 8),
      raw: Buffer.from(bytes.subarray(start, at)).toString("latin1"),
      content: bytes.subarray(content, at),
    });
  }
  return fields;
}

const only = (fields: readonly Field[], number: number): Field[] => fields.filter((field) => field.number === number);

/** ModelProto's graph, and GraphProto's lists. */
const graphOf = (bytes: Uint8Array): Field[] => fieldsOf(only(fieldsOf(bytes), 7)[0].content);
const [nodeField, initializerField, graphDocField, inputField, outputField] = [1, 5, 10, 11, 12];

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString("utf8");
/** NodeProto: outputs are field 2, the operator 4. ValueInfoProto: the name is field 1. */
const outputsOf = ({ content }: Field): string[] => only(fieldsOf(content), 2).map((field) => text(field.content));
const operatorOf = ({ content }: Field): string => text(only(fieldsOf(content), 4)[0].content);
const valueNameOf = ({ content }: Field): string => text(only(fieldsOf(content), 1)[0].content);
/** TensorProto's name is field 8. */
const tensorNameOf = ({ content }: Field): string => text(only(fieldsOf(content), 8)[0]?.content ?? new Uint8Array());

function compare(before: Uint8Array): { readonly kept: number; readonly own: number } {
  const { model, report } = rewrite(readModel(before));
  const after = writeModel(model);
  const [old, now] = [graphOf(before), graphOf(after)];
  const nodes = new Map(only(old, nodeField).map((field) => [outputsOf(field).join(), field.raw]));
  const caches = new Set(report.caches.map(({ output }) => output));
  let [kept, own] = [0, 0];
  for (const field of only(now, nodeField)) {
    const [first] = outputsOf(field);
    const raw = nodes.get(outputsOf(field).join());
    if (raw === field.raw) {
      kept++;
      continue;
    }
    own++;
    const isNew = first.startsWith("insitu/");
    const isPosition = report.positions.includes(first);
    const isAttention = ["Attention", "Reshape", "Transpose", "Identity"].includes(operatorOf(field));
    expect(isNew || isPosition || isAttention || caches.has(first), `${operatorOf(field)} "${first}"`).toBe(true);
  }
  const weights = new Map(only(old, initializerField).map((field) => [tensorNameOf(field), field.raw]));
  for (const field of only(now, initializerField)) {
    const name = tensorNameOf(field);
    if (!name.startsWith("insitu/")) expect(field.raw === weights.get(name), name).toBe(true);
  }
  expect(only(now, graphDocField).map(({ raw }) => raw)).toEqual(only(old, graphDocField).map(({ raw }) => raw));
  // Inputs and outputs that are neither caches nor lengths.
  for (const number of [inputField, outputField]) {
    const declared = new Map(only(old, number).map((field) => [valueNameOf(field), field.raw]));
    for (const field of only(now, number)) {
      const name = valueNameOf(field);
      const changed = caches.has(name) || report.caches.some(({ input }) => input === name) || name === "position_ids";
      if (!changed && !report.inputs.added.includes(name)) expect(field.raw === declared.get(name), name).toBe(true);
    }
  }
  // IR version (1), opsets (8) and the note in the metadata (14) change; the rest of the model does not.
  const rest = (bytes: Uint8Array): string[] =>
    fieldsOf(bytes)
      .filter(({ number }) => ![1, 7, 8, 14].includes(number))
      .map(({ raw }) => raw);
  expect(rest(after)).toEqual(rest(before));
  const [metadata, previous] = [after, before].map((bytes) => only(fieldsOf(bytes), 14).map(({ raw }) => raw));
  expect(metadata.slice(0, -1)).toEqual(previous);
  expect(metadata.at(-1)).toContain("insitu.rewrite");
  return { kept, own };
}

describe("on the wire", () => {
  test.each(models.filter((name) => /op2[0-9]|op18_sdpa/.test(name)))("%s", (name) => {
    const { kept, own } = compare(bytesOf(name));
    expect(kept).toBeGreaterThan(own);
  });

  test("doc strings, metadata and fields that nobody knows", () => {
    const plain = styledDecoder({ opset: 24, mask: "window" });
    const model = {
      ...plain,
      docString: "a decoder",
      domain: "example",
      modelVersion: 7,
      metadata: new Map([["made by", "hand"]]),
      graph: {
        ...plain.graph,
        docString: "its graph",
        nodes: plain.graph.nodes.map((node, at) => ({
          ...node,
          docString: `node ${at}`,
          metadata: new Map([["place", String(at)]]),
        })),
        initializers: plain.graph.initializers.map((tensor) => ({ ...tensor, docString: `weights ${tensor.name}` })),
      },
    };
    const bytes = writeModel(model as ReturnType<typeof readModel>);
    // An unknown field at the end of the model: number 1000, two bytes.
    const unknown = Buffer.concat([bytes, Buffer.from([0xc2, 0x3e, 2, 104, 105])]);
    expect(readModel(bytes).graph.nodes[3].docString).toBe("node 3");
    expect(compare(unknown).kept).toBeGreaterThan(15);
  });
});
