/** A model with every message and nearly every field of ONNX set, encoded by the generated schema: the reader's oracle. */
import { create, toBinary } from "@bufbuild/protobuf";
import { AttributeProto_AttributeType as T, type ModelProto, ModelProtoSchema } from "./onnx_pb.js";

const entry = (key: string, value: string) => ({ key, value });
const tensor = (name: string, values: number[]) => ({
  name,
  dims: [BigInt(values.length)],
  dataType: 1,
  rawData: new Uint8Array(Float32Array.from(values).buffer),
  docString: "a tensor",
  metadataProps: [entry("tensor key", "tensor value")],
});
const sparse = (name: string) => ({
  values: tensor(name, [5, 6]),
  indices: { dims: [2n], dataType: 7, int64Data: [1n, 3n] },
  dims: [2n, 2n],
});
const tensorType = {
  value: {
    case: "tensorType" as const,
    value: {
      elemType: 1,
      shape: {
        dim: [
          { value: { case: "dimValue" as const, value: 3n }, denotation: "DATA_BATCH" },
          { value: { case: "dimParam" as const, value: "length" } },
          {},
          { value: { case: "dimValue" as const, value: -1n } },
        ],
      },
    },
  },
  denotation: "IMAGE",
};
const value = (name: string, type: object) => ({ name, type, docString: "a value", metadataProps: [entry("v", "w")] });
const small = { name: "inner", node: [{ opType: "Identity", input: ["x"], output: ["y"] }] };

/** The message; `name` is the graph's. */
export const everything = (): ModelProto =>
  create(ModelProtoSchema, {
    irVersion: 14n,
    producerName: "producer",
    producerVersion: "1.2",
    domain: "org.example",
    modelVersion: 7n,
    docString: "a model",
    opsetImport: [
      { domain: "", version: 24n },
      { domain: "com.example", version: 2n },
    ],
    metadataProps: [entry("a", "b"), entry("ä", "→")],
    trainingInfo: [{ algorithm: small, updateBinding: [entry("w", "w2")] }],
    configuration: [{ name: "pair", numDevices: 2, device: ["gpu:0", "gpu:1"] }],
    graph: {
      name: "everything",
      docString: "a graph",
      metadataProps: [entry("graph key", "graph value")],
      quantizationAnnotation: [{ tensorName: "w", quantParameterTensorNames: [entry("SCALE_TENSOR", "s")] }],
      initializer: [
        tensor(
          "w",
          Array.from({ length: 40 }, (_, i) => i),
        ),
        {
          name: "far",
          dims: [2n],
          dataType: 1,
          dataLocation: 1,
          externalData: [
            entry("location", "far.bin"),
            entry("offset", "8"),
            entry("length", "8"),
            entry("checksum", "00"),
          ],
        },
        {
          name: "words",
          dims: [2n],
          dataType: 8,
          stringData: [new TextEncoder().encode("one"), new TextEncoder().encode("zwölf")],
        },
      ],
      sparseInitializer: [sparse("thin")],
      input: [value("x", tensorType)],
      output: [value("y", { value: { case: "sequenceType", value: { elemType: tensorType } } })],
      valueInfo: [
        value("m", { value: { case: "mapType", value: { keyType: 7, valueType: tensorType } } }),
        value("o", { value: { case: "optionalType", value: { elemType: tensorType } } }),
        value("p", { value: { case: "opaqueType", value: { domain: "d", name: "n" } } }),
        value("s", { value: { case: "sparseTensorType", value: { elemType: 11 } } }),
        { name: "nothing" },
      ],
      node: [
        {
          name: "all attributes",
          opType: "Custom",
          domain: "com.example",
          overload: "second",
          docString: "a node",
          input: ["x", "", "w"],
          output: ["", "y"],
          metadataProps: [entry("node key", "node value")],
          deviceConfigurations: [
            {
              configurationId: "pair",
              pipelineStage: 1,
              shardingSpec: [
                {
                  tensorName: "x",
                  device: [0n, 1n],
                  shardedDim: [{ axis: 0n, simpleSharding: [{ dim: { case: "dimValue", value: 4n }, numShards: 2n }] }],
                  indexToDeviceGroupMap: [{ key: 1n, value: [1n, 2n] }],
                },
              ],
            },
          ],
          attribute: [
            { name: "f", type: T.FLOAT, f: 0.5, docString: "an attribute" },
            { name: "i", type: T.INT, i: -(2n ** 63n) },
            { name: "s", type: T.STRING, s: new TextEncoder().encode("déjà") },
            { name: "blob", type: T.STRING, s: Uint8Array.of(0xff, 0xfe, 0x00) },
            { name: "t", type: T.TENSOR, t: tensor("", [1, 2]) },
            { name: "g", type: T.GRAPH, g: { ...small, initializer: [tensor("deep", [9])] } },
            { name: "floats", type: T.FLOATS, floats: [1, -0, 2.5] },
            { name: "ints", type: T.INTS, ints: [1n, -1n, 2n ** 62n] },
            { name: "strings", type: T.STRINGS, strings: [new TextEncoder().encode("a"), Uint8Array.of(0xc0)] },
            { name: "tensors", type: T.TENSORS, tensors: [tensor("", [1]), tensor("", [])] },
            { name: "graphs", type: T.GRAPHS, graphs: [small, small] },
            { name: "sparse", type: T.SPARSE_TENSOR, sparseTensor: sparse("") },
            { name: "sparses", type: T.SPARSE_TENSORS, sparseTensors: [sparse("")] },
            { name: "tp", type: T.TYPE_PROTO, tp: tensorType },
            { name: "tps", type: T.TYPE_PROTOS, typeProtos: [tensorType, {}] },
            { name: "empty", type: T.INTS },
            { name: "zero", type: T.INT },
          ],
        },
      ],
    },
    functions: [
      {
        name: "Twice",
        domain: "com.example",
        overload: "second",
        docString: "a function",
        input: ["a"],
        output: ["b"],
        attribute: ["alpha"],
        attributeProto: [{ name: "beta", type: T.FLOAT, f: 2 }],
        opsetImport: [{ version: 24n }],
        valueInfo: [value("b", tensorType)],
        metadataProps: [entry("k", "v")],
        node: [
          {
            opType: "Custom",
            input: ["a"],
            output: ["b"],
            attribute: [{ name: "alpha", refAttrName: "alpha", type: T.FLOAT }],
          },
          { opType: "Constant", output: ["c"], attribute: [{ name: "value", type: T.TENSOR, t: tensor("", [3]) }] },
        ],
      },
    ],
  });

/** The message's bytes. */
export const everythingBytes = (): Uint8Array => toBinary(ModelProtoSchema, everything());
