/** Reading models: every message and field arrives where it belongs. */
import { describe, expect, it } from "vitest";
import { create, toBinary } from "@bufbuild/protobuf";
import { ModelProtoSchema } from "./onnx_pb.js";
import { readModel } from "../../src/onnx/read.js";
import { everythingBytes } from "./everything.js";
import { expectError, withoutSource } from "./support.js";

describe("readModel", () => {
  const model = readModel(everythingBytes(), { path: "a/model.onnx" });
  const plain = withoutSource(model);

  it("reads the model's own fields", () => {
    expect(plain).toMatchObject({
      irVersion: 14,
      producerName: "producer",
      producerVersion: "1.2",
      domain: "org.example",
    });
    expect(plain).toMatchObject({ modelVersion: 7, docString: "a model", path: "a/model.onnx" });
    expect([...plain.opsets]).toEqual([
      ["", 24],
      ["com.example", 2],
    ]);
    expect([...plain.metadata]).toEqual([
      ["a", "b"],
      ["ä", "→"],
    ]);
  });

  it("reads values with types and shapes", () => {
    const tensor = {
      kind: "tensor",
      elementType: "float32",
      shape: [3, "length", undefined, undefined],
      denotation: "IMAGE",
    };
    const { inputs, outputs, valueInfo } = plain.graph;
    expect(inputs).toEqual([{ name: "x", type: tensor, docString: "a value", metadata: new Map([["v", "w"]]) }]);
    expect(outputs[0].type).toEqual({ kind: "sequence", element: tensor });
    expect(valueInfo.map(({ type }) => type)).toEqual([
      { kind: "map", key: "int64", value: tensor },
      { kind: "optional", element: tensor },
      { kind: "opaque", domain: "d", name: "n" },
      { kind: "sparse", elementType: "float64", shape: undefined },
      undefined,
    ]);
  });

  it("reads initializers, sparse and external ones included", () => {
    const [w, far, words] = plain.graph.initializers;
    expect(w).toMatchObject({ name: "w", type: "float32", dims: [40], docString: "a tensor" });
    expect(w.data).toEqual(Float32Array.from({ length: 40 }, (_, i) => i));
    expect(far).toMatchObject({ external: { location: "far.bin", offset: 8, length: 8 } });
    expect(far.data).toBeUndefined();
    expect(words.data).toEqual(["one", "zwölf"]);
    expect(plain.graph.sparseInitializers[0]).toMatchObject({
      values: { name: "thin" },
      indices: { data: BigInt64Array.of(1n, 3n) },
      dims: [2, 2],
    });
  });

  it("reads every kind of attribute", () => {
    const [node] = plain.graph.nodes;
    expect(node).toMatchObject({
      opType: "Custom",
      domain: "com.example",
      overload: "second",
      inputs: ["x", "", "w"],
      outputs: ["", "y"],
    });
    const value = (name: string): unknown => {
      const attribute = node.attributes.get(name);
      return attribute !== undefined && "value" in attribute ? attribute.value : attribute;
    };
    expect([...node.attributes.values()].map(({ kind }) => kind)).toEqual([
      "float",
      "int",
      "string",
      "string",
      "tensor",
      "graph",
      "floats",
      "ints",
      "strings",
      "tensors",
      "graphs",
      "sparse-tensor",
      "sparse-tensors",
      "type",
      "types",
      "ints",
      "int",
    ]);
    expect(value("f")).toBe(0.5);
    expect(node.attributes.get("f")?.docString).toBe("an attribute");
    expect(value("i")).toBe(-(2n ** 63n));
    expect(value("s")).toBe("déjà");
    expect(node.attributes.get("s")).not.toHaveProperty("bytes");
    expect(node.attributes.get("blob")).toMatchObject({ value: "\ufffd\ufffd\0", bytes: Uint8Array.of(0xff, 0xfe, 0) });
    expect(value("t")).toMatchObject({ data: Float32Array.of(1, 2) });
    expect(value("g")).toMatchObject({ name: "inner", initializers: [{ name: "deep" }] });
    expect(value("floats")).toEqual(Float32Array.of(1, -0, 2.5));
    expect(value("ints")).toEqual(BigInt64Array.of(1n, -1n, 2n ** 62n));
    expect(node.attributes.get("strings")).toMatchObject({
      value: ["a", "\ufffd"],
      bytes: [Uint8Array.of(0x61), Uint8Array.of(0xc0)],
    });
    expect(value("tensors")).toMatchObject([{ dims: [1] }, { dims: [0] }]);
    expect(value("graphs")).toHaveLength(2);
    expect(value("tps")).toMatchObject([{ kind: "tensor" }, { kind: "undefined" }]);
    expect(value("empty")).toEqual(new BigInt64Array(0));
    expect(value("zero")).toBe(0n);
  });

  it("reads functions", () => {
    const [twice] = plain.functions;
    expect(twice).toMatchObject({
      name: "Twice",
      domain: "com.example",
      overload: "second",
      inputs: ["a"],
      outputs: ["b"],
      attributes: ["alpha"],
    });
    expect(twice.attributeDefaults.get("beta")).toMatchObject({ kind: "float", value: 2 });
    expect([...twice.opsets]).toEqual([["", 24]]);
    expect(twice.nodes[0].attributes.get("alpha")).toMatchObject({
      kind: "attribute-reference",
      refName: "alpha",
      declared: "float",
    });
  });

  it("takes ai.onnx for the empty domain, and the highest version of a domain", () => {
    const message = create(ModelProtoSchema, {
      opsetImport: [{ domain: "ai.onnx", version: 9n }, { version: 21n }, { domain: "", version: 13n }],
      graph: { node: [{ opType: "Relu", domain: "ai.onnx" }] },
    });
    const read = readModel(toBinary(ModelProtoSchema, message));
    expect([...read.opsets]).toEqual([["", 21]]);
    expect(read.graph.nodes[0].domain).toBe("");
  });

  it("infers the kind of an attribute that has no type", () => {
    const message = create(ModelProtoSchema, {
      graph: {
        node: [
          {
            opType: "X",
            attribute: [
              { name: "a", ints: [1n] },
              { name: "b", s: Uint8Array.of(65) },
            ],
          },
        ],
      },
    });
    const { attributes } = readModel(toBinary(ModelProtoSchema, message)).graph.nodes[0];
    expect(withoutSource([...attributes.values()])).toMatchObject([
      { kind: "ints", value: BigInt64Array.of(1n) },
      { kind: "string", value: "A" },
    ]);
  });

  it("reads from shared memory and from the middle of a buffer", () => {
    const bytes = everythingBytes();
    const shared = new Uint8Array(new SharedArrayBuffer(bytes.length + 3), 3);
    shared.set(bytes);
    expect(withoutSource(readModel(shared, { path: "a/model.onnx" }))).toEqual(plain);
  });

  it("names what is wrong", () => {
    const bytes = (graph: object): Uint8Array => toBinary(ModelProtoSchema, create(ModelProtoSchema, { graph }));
    expectError(() => readModel(new Uint8Array()), "invalid-model", /there are no bytes/);
    expectError(() => readModel(new TextEncoder().encode("<html></html>")), "invalid-model", /is an HTML page/);
    expectError(
      () => readModel(toBinary(ModelProtoSchema, create(ModelProtoSchema, { irVersion: 8n }))),
      "invalid-model",
      /no graph/,
    );
    expectError(() => readModel(bytes({ node: [{ name: "n" }] })), "invalid-model", /node 0: node "n" has no op_type/);
    expectError(
      () => readModel(bytes({ node: [{ opType: "Add", name: "n", attribute: [{ name: "axis" }] }] })),
      "invalid-model",
      /node 0: Add "n": attribute "axis" has neither/,
    );
    expectError(
      () =>
        readModel(
          bytes({
            node: [
              {
                opType: "A",
                attribute: [
                  { name: "a", type: 2 },
                  { name: "a", type: 2 },
                ],
              },
            ],
          }),
        ),
      "invalid-model",
      /"a" is given twice/,
    );
    expectError(
      () => readModel(bytes({ initializer: [{ dataType: 1, dims: [0n] }] })),
      "invalid-model",
      /initializer of a graph has no name/,
    );
    expectError(
      () =>
        readModel(bytes({ input: [{ name: "x", type: { value: { case: "tensorType", value: { elemType: 99 } } } }] })),
      "invalid-model",
      /elem_type 99/,
    );
    expectError(() => readModel(Uint8Array.of(1), { path: "m.onnx" }), "invalid-model", /^m\.onnx: /);
  });
});
