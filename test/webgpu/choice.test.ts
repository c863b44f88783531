// Which backend runs a session, and what is said where a GPU cannot be had, is no GPU, is too small, or goes away.
import { describe, expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { backends } from "../../src/entry/backends.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { nodePlatform } from "../../src/platform/node.js";
import { nextBest } from "../../src/session/open-backend.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { noWebgpu } from "../support/backends.js";
import { adapterOf, infoOf, PlacedSession, proxied } from "../support/gpu.js";

const decoder = writeModel(generatedDecoder(smallSizes));

/** A session on a GPU of a test's. */
const placed = (gpu: () => Promise<GPU | string>, options: SessionOptions): Promise<PlacedSession> =>
  PlacedSession.on(PlacedSession.place(gpu), decoder, options);

test("without WebGPU a session is refused with the way out, and auto takes the next", async () => {
  const gpu = async (): Promise<string> => "no package";
  await expect(placed(gpu, { backend: "webgpu" })).rejects.toThrow("WebGPU is not available here: no package");
  const said: string[] = [];
  const session = await placed(gpu, { backend: "auto", onFallback: (message) => said.push(message) });
  expect(session.backend).toBe("wasm");
  expect(said).toEqual(['backend "wasm" instead of "webgpu": WebGPU is not available here: no package']);
  expect(session.explain()).toMatch(
    /backends that were passed over\n {2}webgpu: WebGPU is not available here: no package/,
  );
  await session.release();
});

test("where WebGPU is asked for and onFallback allows another, the next best is WASM, and the reference only after it", async () => {
  const gpu = async (): Promise<string> => "no package";
  const said: string[] = [];
  const onFallback = (message: string): void => void said.push(message);
  const session = await placed(gpu, { backend: "webgpu", onFallback });
  expect(session.backend).toBe("wasm");
  expect(said).toEqual(['backend "wasm" instead of "webgpu": WebGPU is not available here: no package']);
  await session.release();
  await expect(placed(gpu, { backend: "webgpu", onFallback, fallback: "never" })).rejects.toThrow("no package");
  const after = (name: string): string[] =>
    nextBest(
      backends,
      backends.find((choice) => choice.name === name)!,
    ).map((choice) => choice.name);
  expect([after("webgpu"), after("wasm"), after("reference")]).toEqual([["wasm", "reference"], ["reference"], []]);
});

test("what is no backend, and what only devices have, is refused", async () => {
  await expect(InferenceSession.create(decoder, { backend: "gpu" as "webgpu" })).rejects.toThrow(
    'option backend must be one of "auto", "wasm", "webgpu", "reference", got "gpu"',
  );
  await expect(InferenceSession.create(decoder, { backend: "wasm", fallback: "never" })).rejects.toThrow(
    'option fallback: "never" is for devices; "wasm" computes on the host\'s own memory',
  );
  const wrong = { backend: "webgpu", webgpu: { speed: 9 } } as SessionOptions;
  await expect(InferenceSession.create(decoder, wrong)).rejects.toThrow("option webgpu.speed is not known");
});

describe.skipIf(noWebgpu !== undefined)("with WebGPU", () => {
  test("auto does not take a program that plays a GPU, and takes a GPU", async () => {
    const real = await nodePlatform.gpu!();
    const isProgram = (await (real as GPU).requestAdapter())!.info.isFallbackAdapter;
    const session = await InferenceSession.create(decoder, { backend: "auto" });
    expect(session.backend).toBe(isProgram ? "wasm" : "webgpu");
    if (isProgram) expect(session.explain()).toMatch(/webgpu: WebGPU has no GPU here: SwiftShader/);
    await session.release();
    const playing = adapterOf((adapter) =>
      proxied(adapter, { info: { ...infoOf(adapter), isFallbackAdapter: false } }),
    );
    const other = await placed(playing, { backend: "auto" });
    expect(other.backend).toBe("webgpu");
    await other.release();
  });

  test("no adapter is told", async () => {
    await expect(
      placed(
        adapterOf(() => null),
        { backend: "webgpu" },
      ),
    ).rejects.toThrow("WebGPU has no adapter here");
  });

  test("a weight that no buffer holds, and a state that does not fit, are refused with their sizes", async () => {
    const small = adapterOf((adapter) =>
      proxied(adapter, {
        info: { ...infoOf(adapter), isFallbackAdapter: false },
        requestDevice: async (descriptor?: GPUDeviceDescriptor) => {
          const device = await adapter.requestDevice(descriptor);
          return proxied(device, { limits: proxied(device.limits, { maxStorageBufferBindingSize: 1024 }) });
        },
      }),
    );
    await expect(placed(small, { backend: "webgpu", webgpu: { powerPreference: "low-power" } })).rejects.toMatchObject({
      code: "out-of-memory",
      message: expect.stringMatching(/weight "embedding": 16384 bytes are 16 pieces of the 1024/) as string,
    });
    const session = await placed(small, { backend: "auto", webgpu: { powerPreference: "low-power" } });
    expect(session.backend).toBe("wasm");
    await session.release();
    const whole = await InferenceSession.create(decoder, { backend: "webgpu" });
    expect(() => whole.createState({ dims: { batch: 1, capacity: 2 ** 25 } })).toThrow(
      /take .* there is no memory for all of them: cache "past.0.key": \d+ bytes are needed, and one buffer of/,
    );
    await whole.release();
  });

  test("a cache whose elements no shader can copy is copied by its bytes", async () => {
    const model = buildModel({
      opset: 24,
      inputs: [
        value("past", "complex128", [1, 4, 2]),
        value("rows", "complex128", [1, "n", 2]),
        value("at", "int64", [1]),
      ],
      outputs: [value("present", "complex128", [1, 4, 2])],
      nodes: [node("TensorScatter", ["past", "rows", "at"], ["present"], { axis: 1 })],
    });
    const session = await InferenceSession.create(writeModel(model), { backend: "webgpu" });
    const feeds = (at: number, number: number): Record<string, Tensor> => ({
      rows: new Tensor("complex128", new Float64Array(4).fill(number), [1, 1, 2]),
      at: new Tensor("int64", [BigInt(at)], [1]),
    });
    const state = session.createState();
    await session.run(feeds(0, 1), { state });
    const fork = state.fork();
    await session.run(feeds(1, 2), { state });
    const { present } = await session.run(feeds(1, 3), ["present"], { state: fork });
    expect(Array.from(present.data as Float64Array).slice(0, 8)).toEqual([1, 1, 1, 1, 3, 3, 3, 3]);
    await session.release();
  });

  test('fallback: "never" refuses what has no kernel, before anything is written', async () => {
    const model = buildModel({
      opset: 21,
      inputs: [value("x", "float32", ["n"])],
      outputs: [value("y", "float32")],
      nodes: [node("Det", ["m"], ["y"]), node("Reshape", ["x", "s"], ["m"])].toReversed(),
      initializers: [{ ...shapeOf([2, 2]), name: "s" }],
    });
    const session = await InferenceSession.create(writeModel(model), { backend: "webgpu", fallback: "never" });
    const x = new Tensor("float32", [1, 2, 3, 4], [4]);
    await expect(session.run({ x })).rejects.toThrow(/Det .*cannot run on .*: it has no kernel; fallback: "host"/);
    await session.release();
    const allowed = await InferenceSession.create(writeModel(model), { backend: "webgpu" });
    expect([...((await allowed.run({ x })).y.data as Float32Array)]).toEqual([-2]);
    expect(allowed.explain()).toMatch(/Det .*on the reference: it has no kernel/);
    await allowed.release();
  });
});

const shapeOf = (dims: readonly number[]): ReturnType<typeof buildModel>["graph"]["initializers"][number] => ({
  name: "",
  type: "int64",
  dims: [dims.length],
  data: BigInt64Array.from(dims, BigInt),
  metadata: new Map(),
  docString: "",
});
