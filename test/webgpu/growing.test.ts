// A past that is fed and grows by a row in every run: shaders are compiled for the first few, and one serves all that follow.
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { noWebgpu } from "../support/backends.js";
import { distance } from "../support/compare.js";
import { Made, PlacedSession } from "../support/gpu.js";

const rows = (name: string, heads: number, count: string): ReturnType<typeof value> =>
  value(name, "float32", ["batch", heads, count, 8]);

const model = writeModel(
  buildModel({
    opset: 24,
    inputs: [
      rows("q", 4, "sequence"),
      rows("k", 2, "sequence"),
      rows("v", 2, "sequence"),
      rows("past_key", 2, "past"),
      rows("past_value", 2, "past"),
    ],
    outputs: [rows("y", 4, "sequence"), rows("present_key", 2, "total"), rows("present_value", 2, "total")],
    nodes: [
      node("Attention", ["q", "k", "v", "", "past_key", "past_value"], ["x", "present_key", "present_value"], {
        is_causal: 1,
      }),
      node("Neg", ["x"], ["y"]),
    ],
  }),
);

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  test("a growing past compiles nothing after the first few tokens", async () => {
    const counted = new Made();
    const session = await PlacedSession.on(PlacedSession.place(counted.gpu), model, { presents: "copy" });
    const oracle = await InferenceSession.create(model, { backend: "reference", presents: "copy" });
    const random = seededRandom(16);
    const noise = (heads: number, count: number): Tensor =>
      new Tensor("float32", Float32Array.from({ length: heads * count * 8 }, random), [1, heads, count, 8]);
    let pasts = { past_key: noise(2, 3), past_value: noise(2, 3) };
    let early = 0;
    for (let token = 0; token < 12; token++) {
      const feeds = { q: noise(4, 1), k: noise(2, 1), v: noise(2, 1), ...pasts };
      const [actual, expected] = [await session.run(feeds), await oracle.run(feeds)];
      for (const name of ["y", "present_key", "present_value"])
        expect(distance(actual[name].data as Float32Array, expected[name].data as Float32Array)).toBeLessThan(1e-5);
      pasts = { past_key: actual["present_key"], past_value: actual["present_value"] };
      if (token === 5) early = counted.made.pipelines;
    }
    expect(early).toBeGreaterThan(0);
    expect(counted.made.pipelines).toBe(early);
    await Promise.all([session.release(), oracle.release()]);
  });
});
