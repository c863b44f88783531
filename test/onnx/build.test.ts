/** Models by hand, and models as text. */
import { describe, expect, it } from "vitest";
import { Tensor } from "../../src/tensor/tensor.js";
import {
  attributes,
  buildModel,
  float,
  floats,
  graph,
  initializer,
  ints,
  modelFunction,
  node,
  reference,
  strings,
  value,
} from "../../src/onnx/build.js";
import { printModel } from "../../packages/explain/print-model.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { everythingBytes } from "./everything.js";
import { expectError, withoutSource } from "./support.js";

const model = buildModel({
  opset: { "ai.onnx": 24, local: 1 },
  name: "append",
  inputs: [
    value("past", "float32", ["batch", 8, "capacity", 64]),
    value("update", "float32", ["batch", 8, undefined, 64]),
    value("idx", "int64"),
  ],
  outputs: [value("present", "float32", ["batch", 8, "capacity", 64])],
  initializers: [initializer("scale", "float32", [0.5], []), initializer("names", "string", ["a", "b"])],
  nodes: [
    node("TensorScatter", ["past", "update", "idx"], ["written"], { axis: -2, mode: "linear" }, { name: "append_k" }),
    node("Twice", ["written", undefined], ["present"], { alpha: 1.5 }, { domain: "local" }),
    node("If", ["c"], ["d"], { then_branch: graph({ name: "then", nodes: [node("Identity", ["x"], ["y"])] }) }),
  ],
  functions: [
    modelFunction({
      name: "Twice",
      domain: "local",
      opset: 24,
      inputs: ["x"],
      outputs: ["y"],
      attributes: ["alpha"],
      defaults: { beta: float(1) },
      nodes: [node("LeakyRelu", ["x"], ["y"], { alpha: reference("alpha", "float") })],
    }),
  ],
});

describe("buildModel", () => {
  it("survives being written and read", () => {
    const read = withoutSource(readModel(writeModel(model)));
    expect(read).toEqual(model);
    expect(read.irVersion).toBe(12);
    expect([...read.opsets]).toEqual([
      ["", 24],
      ["local", 1],
    ]);
  });

  it("infers attributes from JavaScript values", () => {
    const inferred = attributes({
      a: 1,
      b: 1.5,
      c: 3n,
      d: true,
      e: "text",
      f: [1, 2n],
      g: [1, 2.5],
      h: ["x"],
      i: [],
      j: float(1),
      k: floats([1]),
      l: ints([]),
      m: strings([]),
      n: new Tensor("float32", [1, 2], [2]),
      o: graph({}),
      p: initializer("t", "int8", [1]),
      q: -0,
    });
    expect([...inferred.values()].map(({ kind }) => kind).join(" ")).toBe(
      "int float int int string ints floats strings ints float floats ints strings tensor graph tensor int",
    );
    expect(inferred.get("d")).toMatchObject({ value: 1n, name: "d" });
    expect(inferred.get("f")).toMatchObject({ value: BigInt64Array.of(1n, 2n) });
    expectError(
      () => attributes({ x: [1, "a"] as unknown[] as string[] }),
      "invalid-argument",
      /"x": a list must hold only/,
    );
  });
});

describe("printModel", () => {
  it("shows what a model says", () => {
    expect(printModel(model)).toBe(`model: IR version 12, opset 24, local 1, by insitu
graph append
  inputs
    past: float32[batch,8,capacity,64]
    update: float32[batch,8,?,64]
    idx: int64[…]
  outputs
    present: float32[batch,8,capacity,64]
  constants (2, 4 bytes)
    scale: float32[] = [0.5]
    names: string[2] = ["a", "b"]
  nodes (3)
    written = TensorScatter(past, update, idx) {axis: -2, mode: "linear"}  # append_k
    present = local.Twice(written, _) {alpha: 1.5}
    d = If(c) {then_branch: graph}
      then_branch:
        graph then
          nodes (1)
            y = Identity(x)
function local.Twice(x) {alpha, beta = 1.0} → (y), opset 24
  nodes (1)
    y = LeakyRelu(x) {alpha: @alpha}
`);
  });

  it("prints every kind", () => {
    const text = printModel(readModel(everythingBytes(), { path: "m.onnx" }), { elements: 2 });
    expect(text).toMatch(/^model m\.onnx: IR version 14, opset 24, com\.example 2, by producer 1\.2\n {2}a: "b"/);
    expect(text).toContain("w: float32[40] = [0, 1, …]");
    expect(text).toContain("far: float32[2] in far.bin at 8");
    expect(text).toContain("thin: float32[2,2], 2 elements given");
    expect(text).toContain("y: sequence(float32[3,length,?,?])");
    expect(text).toContain("com.example.Custom:second(x, _, w)");
  });
});
