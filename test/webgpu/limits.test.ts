// Models and states that are larger than what a device binds or holds: weights lie in pieces and are read as one, everything else is refused with
// its name, its size, the limit and the way out, before anything runs.
import { describe, expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { linearEngine } from "../../src/engine/decoder-engine.js";
import { readTokens } from "../../src/engine/pulled-text.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { readNumbers, writeNumbers } from "../../src/tensor/access.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { piecesFor, variable } from "../../src/webgpu-kernels/shader-part.js";
import { noWebgpu } from "../support/backends.js";
import { largestDifference } from "../support/compare.js";
import { int64, step, tokenAt, tokenFeeds, tokens } from "../support/decoding.js";
import { limitedGpu, PlacedSession, smallGpu } from "../support/gpu.js";
import { soak } from "../support/soak.js";

const sizes = { ...smallSizes, layers: 1, vocabulary: 600, positions: 64 };
const decoder = writeModel(generatedDecoder(sizes));

test("a variable in pieces is read and written through functions that find the piece", () => {
  const lying = { bytes: 300, inPieces: piecesFor(300, 256)! };
  const whole = variable("a", { bytes: 256 }, { type: "float32" });
  expect([whole.load("i"), whole.set("i", "0u"), whole.code]).toEqual(["bitcast<f32>(a[(i)])", "a[i] = 0u;", ""]);
  const apart = variable("a", lying, { element: "vec4<u32>", type: "float32", writes: true });
  expect(apart.loadFour("i + 1u")).toBe("bitcast<vec4f>(a_at(u32(i + 1u)))");
  expect(apart.storeFour("i", "x")).toBe("a_set(u32(i), bitcast<vec4u>(x));");
  expect(apart.bindings.map(({ name, piece }) => [name, piece])).toEqual([
    ["a_0", 0],
    ["a_1", 1],
  ]);
  expect(apart.code).toBe(
    `fn a_at(i: u32) -> vec4<u32> {
  if (i < 16u) { return a_0[i]; }
  { return a_1[i - 16u]; }
}
fn a_set(i: u32, value: vec4<u32>) {
  if (i < 16u) { a_0[i] = value; return; }
  { a_1[i - 16u] = value; return; }
}`,
  );
});

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  // The embedding and the head are 76,800 bytes as floats: four pieces.
  const tight = PlacedSession.place(limitedGpu({ maxStorageBufferBindingSize: 20000 }));

  test.each(soak ? (["float32", { bits: 4, blockSize: 16 }] as const) : (["float32"] as const))(
    "embeddings and heads in pieces, %s",
    async (weights) => {
      const model = writeModel(generatedDecoder(sizes, { weights }));
      const [device, host] = [
        await PlacedSession.on(tight, model, { inPlace: "require" }),
        await InferenceSession.create(model, { backend: "reference" }),
      ];
      const dims = { batch: 1, capacity: 16 };
      const [ours, theirs] = [device.createState({ dims }), host.createState({ dims })];
      for (const ids of [tokens(0, 5), [599], [0], [tokenAt(9)]]) {
        const [a, b] = await Promise.all(
          [
            [device, ours],
            [host, theirs],
          ].map(async ([session, state]) => {
            const own = state as typeof ours;
            const { logits } = await (session as InferenceSession).run(tokenFeeds([ids], own.lengths), { state: own });
            return logits.data as Float32Array;
          }),
        );
        expect(largestDifference(a, b)).toBeLessThan(2e-5);
      }
      expect(device.explain()).not.toMatch(/on the reference: (?!its operands)/);
      await Promise.all([device.release(), host.release()]);
    },
  );

  test("halves and transposed weights in pieces", async () => {
    const [rows, width] = [700, 24];
    const table = View.allocate("float16", [rows, width]);
    writeNumbers(
      table,
      Float64Array.from({ length: table.size }, (_, at) => Math.sin(at)),
    );
    const model = buildModel({
      opset: 21,
      inputs: [value("ids", "int64", ["n"])],
      outputs: [value("y", "float16"), value("z", "float16")],
      nodes: [node("Gather", ["table", "ids"], ["y"]), node("Gemm", ["y", "table"], ["z"], { transB: 1 })],
      initializers: [initializer("table", Tensor.fromView(table))],
    });
    const bytes = writeModel(model);
    const feeds = { ids: int64([0, 699, 416, 417, 3]) };
    const [device, host] = [
      await PlacedSession.on(tight, bytes),
      await InferenceSession.create(bytes, { backend: "reference" }),
    ];
    const [ours, theirs] = [await device.run(feeds), await host.run(feeds)];
    expect(ours.y.toView().data).toEqual(theirs.y.toView().data);
    expect(largestDifference(readNumbers(ours.z.toView()), readNumbers(theirs.z.toView()))).toBeLessThan(1e-2);
    await Promise.all([device.release(), host.release()]);
  });

  test("a weight of too many pieces is refused with its name when the model is loaded", async () => {
    const platform = PlacedSession.place(
      limitedGpu({ maxStorageBufferBindingSize: 4096, maxStorageBuffersPerShaderStage: 8 }),
    );
    await expect(PlacedSession.on(platform, decoder)).rejects.toMatchObject({
      code: "out-of-memory",
      message: expect.stringMatching(
        /weight "\S+": 76800 bytes are 19 pieces of the 4096 that one binding of .* holds, and a shader binds 8 in all; take a model of fewer bits a weight/,
      ) as string,
    });
  });

  test("a cache and a value that no binding holds are refused with their names, and nothing has run", async () => {
    const session = await PlacedSession.on(tight, decoder, { inPlace: "require" });
    expect(() => session.createState({ dims: { batch: 1, capacity: 1000 } })).toThrow(
      /cache "past\.0\.key": 64000 bytes are needed, and one buffer of .* holds 20000; ask for a smaller capacity or batch/,
    );
    const state = session.createState({ dims: { batch: 1, capacity: 32 } });
    const before = await state.save();
    await expect(step(session, state, tokens(0, 20))).rejects.toMatchObject({
      code: "out-of-memory",
      message: expect.stringMatching(
        /"logits" and what shares its memory: 48000 bytes are needed, and one buffer of .* holds 20000; ask for fewer tokens at a time/,
      ) as string,
    });
    expect(state.lengths).toEqual([0]);
    expect(await state.save()).toEqual(before);
    const { logits } = await session.run(tokenFeeds([tokens(0, 5)], [0]), { state });
    expect(logits.dims).toEqual([1, 5, 600]);
    await session.release();
  });

  test("a prompt is read in smaller parts where there is no room for what many rows of it become", async () => {
    // The logits of 2,048 tokens and of 1,024 are larger than a binding, those of 512 are not.
    const small = PlacedSession.place(limitedGpu({ maxStorageBufferBindingSize: 2_000_000 }));
    const long = writeModel(generatedDecoder({ ...sizes, positions: 2304 }));
    const prompt = tokens(0, 2100);
    const ends: (readonly number[])[] = [];
    for (const session of [
      await PlacedSession.on(small, long),
      await InferenceSession.create(long, { backend: "reference" }),
    ]) {
      const model = linearEngine(session, { capacity: 2304, chunk: undefined, sinks: 4 });
      const context = model.open();
      const [logits] = await readTokens(model.engine, [{ context, tokens: prompt }], true, () => undefined);
      ends.push([...logits!]);
      expect(context.tokens).toEqual(prompt);
      context.release();
      await session.release();
    }
    expect(largestDifference(ends[0], ends[1])).toBeLessThan(5e-5);
  });

  test("a model larger than the device's memory is refused when it is loaded", async () => {
    const large = buildModel({
      opset: 21,
      inputs: [value("x", "float32", [1, 4096])],
      outputs: [value("y", "float32")],
      nodes: [node("MatMul", ["x", "w"], ["y"])],
      initializers: [initializer("w", "float32", new Float32Array(4096 * 4200), [4096, 4200])],
    });
    await expect(PlacedSession.on(PlacedSession.place(smallGpu(40 << 20)), writeModel(large))).rejects.toMatchObject({
      code: "out-of-memory",
      message: expect.stringMatching(
        /weights of 68812800 bytes in all: \d+ bytes beside 0 that the session has on .*no memory is left.*; take a model of fewer bits/,
      ) as string,
    });
  });

  test.skipIf(!soak)("a state larger than it is refused before it runs, and a smaller one runs", async () => {
    const session = await PlacedSession.on(PlacedSession.place(smallGpu(1_000_000)), decoder);
    const state = session.createState({ dims: { batch: 1, capacity: 20_000 } });
    const refused = {
      code: "out-of-memory",
      message: expect.stringMatching(/\d+ bytes beside \d+ that the session has on .*no memory is left/) as string,
    };
    await expect(step(session, state, tokens(0, 5))).rejects.toMatchObject(refused);
    expect(state.lengths).toEqual([0]);
    await expect(step(session, state, tokens(0, 5))).rejects.toMatchObject({
      code: "state-lost",
      message: expect.stringMatching(/"past\.0\.\w+" has no memory on .*: create a smaller state/) as string,
    });
    const smaller = session.createState({ dims: { batch: 1, capacity: 8 } });
    const { logits } = await session.run(tokenFeeds([tokens(0, 5)], [0]), { state: smaller });
    expect(logits.dims).toEqual([1, 5, 600]);
    await session.release();
  });
});
