// Models and states that are larger than what a device binds or holds: weights lie in pieces and are read as one, everything else is refused with
// its name, its size, the limit and the way out, before anything runs.
import { describe, expect, test } from "vitest";
import { pieceFunctions, throughPieces } from "../../src/backends/webgpu/pieces.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { readNumbers, writeNumbers } from "../../src/tensor/access.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { noWebgpu } from "../support/backends.js";
import { largestDifference } from "../support/compare.js";
import { int64, step, tokenAt, tokenFeeds, tokens } from "../support/decoding.js";
import { limitedGpu, PlacedSession, smallGpu } from "../support/gpu.js";

const soak = process.env["INSITU_SOAK"] !== undefined;
const sizes = { ...smallSizes, layers: 1, vocabulary: 600, positions: 64 };
const decoder = writeModel(generatedDecoder(sizes));

test("what a shader reads and writes goes through the pieces", () => {
  expect(throughPieces("let x = weights[at[weights[3]]].x + myweights[1] + p.weights[2];", "weights")).toBe(
    "let x = weights_at(u32(at[weights_at(u32(3))])).x + myweights[1] + p.weights[2];",
  );
  expect(throughPieces("if (a[i] == b) { a[i + 1u] = vec2u(a[0], 1); }", "a")).toBe(
    "if (a_at(u32(i)) == b) { a_set(u32(i + 1u), vec2u(a_at(u32(0)), 1)); }",
  );
  expect(pieceFunctions("a", "f32", 2, 64, true)).toBe(
    `fn a_at(i: u32) -> f32 {
  if (i < 64u) { return a_0[i]; }
  { return a_1[i - 64u]; }
}
fn a_set(i: u32, value: f32) {
  if (i < 64u) { a_0[i] = value; return; }
  { a_1[i - 64u] = value; return; }
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
