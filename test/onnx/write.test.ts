/** Writing: what was not touched comes out byte for byte, what was touched comes out right. */
import { describe, expect, it } from "vitest";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { float, initializer, node } from "../../src/onnx/build.js";
import { mapTensors } from "../../src/onnx/map-tensors.js";
import type { Model } from "../../src/onnx/model.js";
import { moveIntoModel, moveToExternalData } from "../../tools/demo/move-external.js";
import { ModelProtoSchema } from "./onnx_pb.js";
import { concatenate } from "../../src/onnx/pieces.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel, writeModelPieces } from "../../src/onnx/write.js";
import { loadExternalData } from "../../src/onnx/external.js";
import { everything, everythingBytes } from "./everything.js";
import { expectError, storedModels, withoutSource } from "./support.js";

const models = new Map([...storedModels, ["everything", everythingBytes()]]);

describe("round trips", () => {
  for (const [name, bytes] of models) {
    it(`${name}: read and written, byte for byte`, () => {
      expect(writeModel(readModel(bytes))).toEqual(bytes);
      expect(writeModel(readModel(bytes.slice(), { owned: true }))).toEqual(bytes);
    });

    it(`${name}: written in parts, byte for byte`, () => {
      const model = readModel(bytes.slice(), { owned: true });
      const { graph } = model;
      const copies: Model = {
        ...model,
        functions: model.functions.map((part) => ({ ...part, nodes: part.nodes.map((item) => ({ ...item })) })),
        graph: {
          ...graph,
          nodes: graph.nodes.map((item) => ({
            ...item,
            attributes: new Map([...item.attributes].map(([key, value]) => [key, { ...value }])),
          })),
          inputs: graph.inputs.map((item) => ({ ...item, type: item.type && { ...item.type } })),
          initializers: [...graph.initializers],
          sparseInitializers: graph.sparseInitializers.map((item) => ({ ...item, values: { ...item.values } })),
        },
      };
      expect(writeModel(copies)).toEqual(bytes);
    });

    it(`${name}: written from nothing, reads the same`, () => {
      const plain = withoutSource(readModel(bytes));
      expect(withoutSource(readModel(writeModel(plain)))).toEqual(plain);
    });
  }

  it("the generated schema reads what is written from nothing", () => {
    const message = fromBinary(ModelProtoSchema, writeModel(withoutSource(readModel(everythingBytes()))));
    const expected = everything();
    expect(message.graph?.node[0].attribute.map(({ name, type }) => [name, type])).toEqual(
      expected.graph?.node[0].attribute.map(({ name, type }) => [name, type]),
    );
    expect(message.functions[0].node[0]).toEqual(expected.functions[0].node[0]);
    expect(message.graph?.output).toEqual(
      expected.graph?.output.map((value) => expect.objectContaining({ name: value.name })),
    );
    expect(message.opsetImport.map(({ domain, version }) => [domain, version])).toEqual([
      ["", 24n],
      ["com.example", 2n],
    ]);
  });
});

describe("edits", () => {
  it("a changed node leaves every other byte as it was", () => {
    const message = everything();
    const model = readModel(toBinary(ModelProtoSchema, message));
    const [first] = model.graph.nodes;
    const edited = {
      ...model,
      graph: { ...model.graph, nodes: [{ ...first, inputs: ["x", "x", "w"] }, node("Relu", ["y"], ["z"])] },
    };
    message.graph!.node[0].input = ["x", "x", "w"];
    message.graph!.node.push(
      create(ModelProtoSchema, { graph: { node: [{ opType: "Relu", input: ["y"], output: ["z"] }] } }).graph!.node[0],
    );
    expect(writeModel(edited)).toEqual(toBinary(ModelProtoSchema, message));
  });

  it("changed attributes, types, constants and texts", () => {
    const message = everything();
    const model = readModel(toBinary(ModelProtoSchema, message));
    const { graph } = model;
    const attributes = new Map(graph.nodes[0].attributes);
    attributes.set("f", { ...attributes.get("f")!, ...float(3), kind: "float", value: 3 });
    attributes.delete("blob");
    const [x] = graph.inputs;
    const edited: Model = {
      ...model,
      docString: "",
      metadata: new Map([["only", "one"]]),
      graph: {
        ...graph,
        nodes: [{ ...graph.nodes[0], attributes }],
        inputs: [
          {
            ...x,
            type: { kind: "tensor", elementType: "int8", shape: [1], denotation: "IMAGE", source: x.type?.source },
          },
        ],
        initializers: graph.initializers.map((tensor) => (tensor.name === "w" ? { ...tensor, dims: [4, 10] } : tensor)),
      },
    };
    const read = fromBinary(ModelProtoSchema, writeModel(edited));
    expect(read.docString).toBe("");
    expect(read.metadataProps).toMatchObject([{ key: "only", value: "one" }]);
    expect(read.trainingInfo).toEqual(message.trainingInfo);
    expect(read.configuration).toEqual(message.configuration);
    expect(read.graph!.quantizationAnnotation).toEqual(message.graph!.quantizationAnnotation);
    expect(read.graph!.node[0].deviceConfigurations).toEqual(message.graph!.node[0].deviceConfigurations);
    expect(read.graph!.node[0].attribute[0]).toMatchObject({ name: "f", f: 3, docString: "an attribute" });
    expect(read.graph!.node[0].attribute.map(({ name }) => name)).not.toContain("blob");
    expect(read.graph!.input[0]).toMatchObject({
      name: "x",
      type: { denotation: "IMAGE", value: { value: { elemType: 3 } } },
    });
    expect(read.graph!.initializer[0]).toMatchObject({ dims: [4n, 10n], docString: "a tensor" });
    expect(read.graph!.initializer.slice(1)).toEqual(message.graph!.initializer.slice(1));
  });

  it("keeps unknown fields, in changed parts too", () => {
    const unknown = Uint8Array.of(0xfa, 0x3e, 2, 0xca, 0xfe); // field 1007, two bytes
    const bytes = new Uint8Array([...everythingBytes(), ...unknown]);
    const model = readModel(bytes);
    expect(writeModel(model)).toEqual(bytes);
    const edited = writeModel({ ...model, producerName: "other" });
    expect(edited.slice(-unknown.length)).toEqual(unknown);
    expect(readModel(edited).producerName).toBe("other");
  });

  it("new data replaces whatever held the old", () => {
    const bytes = toBinary(
      ModelProtoSchema,
      create(ModelProtoSchema, { graph: { initializer: [{ name: "w", dims: [2n], dataType: 1, floatData: [1, 2] }] } }),
    );
    const model = readModel(bytes);
    const edited = mapTensors(model, (tensor) => ({ ...tensor, data: Float32Array.of(3, 4) }));
    const [tensor] = fromBinary(ModelProtoSchema, writeModel(edited)).graph!.initializer;
    expect(tensor.floatData).toEqual([]);
    expect(new Float32Array(tensor.rawData.slice().buffer)).toEqual(Float32Array.of(3, 4));
    expectError(
      () => writeModel(mapTensors(model, (old) => ({ ...old, data: Float32Array.of(3) }))),
      "invalid-argument",
      /"w": float32\[2\] needs 2 entries of data, got 1/,
    );
  });

  it("does not copy weights into the pieces", () => {
    const weights = new Float32Array(10_000);
    const model = readModel(everythingBytes());
    const edited = { ...model, graph: { ...model.graph, initializers: [initializer("big", "float32", weights)] } };
    expect(writeModelPieces(edited).some((piece) => piece.buffer === weights.buffer)).toBe(true);
  });
});

describe("external data", () => {
  it("moves out and back in", async () => {
    const model = readModel(everythingBytes().slice(), { owned: true });
    const kept = {
      ...model,
      graph: { ...model.graph, initializers: model.graph.initializers.filter(({ name }) => name !== "far") },
    };
    const { model: moved, pieces } = moveToExternalData(kept, { location: "weights.bin", threshold: 8, alignment: 64 });
    const file = concatenate(pieces);
    const read = readModel(writeModel(moved));
    const [w] = read.graph.initializers;
    expect(w.external).toEqual({ location: "weights.bin", offset: 0, length: 160 });
    expect(w.data).toBeUndefined();
    const loaded = await loadExternalData(read, undefined, { externalData: [{ path: "./weights.bin", data: file }] });
    const back = moveIntoModel(loaded);
    expect(withoutSource(back).graph).toEqual(withoutSource(kept).graph);
    expect(withoutSource(readModel(writeModel(back))).graph).toEqual(withoutSource(kept).graph);
    expect(withoutSource(back).functions).toEqual(withoutSource(kept).functions);
  });

  it("a loaded reference is written as the reference it was", async () => {
    const model = readModel(everythingBytes());
    const loaded = await loadExternalData(model, undefined, {
      externalData: [{ path: "far.bin", data: new Uint8Array(16) }],
    });
    expect(loaded.graph.initializers[1].data).toEqual(Float32Array.of(0, 0));
    expect(writeModel(loaded)).toEqual(everythingBytes());
  });
});
