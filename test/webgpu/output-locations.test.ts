// onnxruntime's preferredOutputLocation: outputs stay on the device, are brought when they are asked for, and are fed as they lie.
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { noWebgpu } from "../support/backends.js";
import { decoderSession, step, tokenFeeds, tokens } from "../support/decoding.js";

const model = writeModel(
  buildModel({
    opset: 17,
    inputs: [value("x", "float32", ["n"])],
    outputs: [value("y", "float32", ["n"]), value("z", "float32", ["n"])],
    nodes: [node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["z"])],
  }),
);
const x = new Tensor("float32", Float32Array.of(1, -2, 3), [3]);

describe.skipIf(noWebgpu)("on WebGPU", () => {
  test("an output stays, is brought, and is fed without coming to the host", async () => {
    const session = await InferenceSession.create(model, {
      backend: "webgpu",
      preferredOutputLocation: { y: "gpu-buffer", z: "cpu", other: "gpu-buffer" },
    });
    const { y, z } = await session.run({ x });
    expect([y.location, z.location]).toEqual(["gpu-buffer", "cpu"]);
    expect(() => y.data).toThrow(/getData\(\)/);
    expect(await y.getData()).toEqual(Float32Array.of(-1, 2, -3));
    expect(z.data).toEqual(Float32Array.of(1, 2, 3));
    const again = await session.run({ x: y });
    expect(await again["y"].getData()).toEqual(Float32Array.of(1, -2, 3));
    // What another run left is its own.
    expect(await y.getData()).toEqual(Float32Array.of(-1, 2, -3));
    expect(session.explain()).not.toMatch(/x: 12 bytes from the host/);
    // A tensor of the caller's is where the caller has it.
    const target = new Tensor("float32", new Float32Array(3), [3]);
    expect((await session.run({ x }, { y: target }))["y"]).toBe(target);
    expect(target.data).toEqual(Float32Array.of(-1, 2, -3));
    y.dispose();
    expect(y.location).toBe("none");
    await session.release();
    expect(y.location).toBe("none");
  });

  test("what is still held when its session is released is brought to the host", async () => {
    const session = await InferenceSession.create(model, { backend: "webgpu", preferredOutputLocation: "gpu-buffer" });
    const other = await InferenceSession.create(model, { backend: "webgpu" });
    const { y, z } = await session.run({ x });
    const [shaped, reading, running] = [z.reshape([1, 3]), y.getData(), session.run({ x: y })];
    z.dispose();
    await session.release();
    expect(await reading).toEqual(Float32Array.of(-1, 2, -3));
    const results = await running;
    expect([y, shaped, results["y"]].map(({ location }) => location)).toEqual(["cpu", "cpu", "cpu"]);
    expect(y.data).toEqual(Float32Array.of(-1, 2, -3));
    expect(shaped.data).toEqual(Float32Array.of(1, 2, 3));
    expect(await results["y"].getData()).toEqual(Float32Array.of(1, -2, 3));
    expect((await other.run({ x: y }))["y"].data).toEqual(Float32Array.of(1, -2, 3));
    y.dispose();
    expect(y.location).toBe("none");
    await other.release();
  });

  test("memory of what is disposed is given back", async () => {
    const session = await InferenceSession.create(model, { backend: "webgpu", preferredOutputLocation: "gpu-buffer" });
    let fed: Tensor = new Tensor("float32", Float32Array.of(1, -2, 3), [3]);
    for (let round = 0; round < 20; round++) {
      const results = await session.run({ x: fed });
      fed.dispose();
      results["z"].dispose();
      fed = results["y"];
    }
    expect(await fed.getData()).toEqual(Float32Array.of(1, -2, 3));
    const other = fed.reshape([3]);
    fed.dispose();
    expect(await other.getData()).toEqual(Float32Array.of(1, -2, 3));
    other.dispose();
    await expect(other.getData()).rejects.toThrow(/disposed/);
    await session.release();
  });

  test("another session takes it through the host", async () => {
    const session = await InferenceSession.create(model, { backend: "webgpu", preferredOutputLocation: "gpu-buffer" });
    const { y } = await session.run({ x });
    for (const backend of ["webgpu", "wasm"] as const) {
      const other = await InferenceSession.create(model, { backend });
      expect((await other.run({ x: y }))["y"].data).toEqual(Float32Array.of(1, -2, 3));
      await other.release();
    }
    await session.release();
  });

  test("a run with a state leaves its outputs there too", async () => {
    const options = { dims: { batch: 1, capacity: 16 } };
    const plain = await decoderSession({ backend: "webgpu" });
    const expected = await step(plain, plain.createState(options), tokens(0, 3));
    const session = await decoderSession({ backend: "webgpu", preferredOutputLocation: "gpu-buffer" });
    const state = session.createState(options);
    const { logits } = await session.run(tokenFeeds([tokens(0, 3)], [0]), { state });
    expect(logits.location).toBe("gpu-buffer");
    expect(((await logits.getData()) as Float32Array).slice(-expected.length)).toEqual(expected);
    await Promise.all([plain.release(), session.release()]);
  });
});

test("without a device it is refused, and left aside where one was asked for and is not there", async () => {
  const options = { preferredOutputLocation: "gpu-buffer" } as const;
  await expect(InferenceSession.create(model, { backend: "wasm", ...options })).rejects.toThrow(
    /option preferredOutputLocation: "gpu-buffer" needs a backend with memory of its own, got "wasm"/,
  );
  const session = await InferenceSession.create(model, { backend: "auto", ...options });
  const { y } = await session.run({ x });
  expect(await y.getData()).toEqual(Float32Array.of(-1, 2, -3));
  await session.release();
});
