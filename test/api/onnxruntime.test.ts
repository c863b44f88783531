// What onnxruntime's packages export, by their names: env and its defaults, backends, factories, and a default export that has all of it.
import { existsSync, readFileSync } from "node:fs";
import { afterEach, describe, expect, test, vi } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { optionsWithEnv } from "../../src/entry/env.js";
import * as web from "../../src/index.js";
import * as insitu from "../../src/index.node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import * as webStandIn from "../../src/onnxruntime.js";
import * as standIn from "../../src/onnxruntime.node.js";

const { env, InferenceSession, Tensor } = insitu;
const root = new URL("../../", import.meta.url);
const common = new URL("peers/node_modules/onnxruntime-common/dist/esm/index.js", root);
const model = writeModel(
  buildModel({
    opset: 21,
    inputs: [value("x", "float32", ["n"])],
    outputs: [value("y", "float32", ["n"])],
    nodes: [node("Neg", ["x"], ["y"])],
  }),
);

afterEach(() => {
  for (const name of Object.keys(env.wasm)) Reflect.deleteProperty(env.wasm, name);
  for (const name of Object.keys(env.webgpu)) Reflect.deleteProperty(env.webgpu, name);
  env.logLevel = "warning";
  vi.restoreAllMocks();
});

test("the entries have a default export with the same things in it", () => {
  for (const entry of [insitu, web, standIn, webStandIn]) {
    const all = entry as Readonly<Record<string, unknown>>;
    for (const [name, thing] of Object.entries(entry.default)) expect([name, all[name]]).toEqual([name, thing]);
    expect(Object.keys(entry.default)).toEqual(
      expect.arrayContaining(["InferenceSession", "Tensor", "env", "listSupportedBackends", "registerBackend"]),
    );
  }
  expect(standIn.InferenceSession).toBe(insitu.InferenceSession);
  expect(standIn.env).toBe(web.env);
});

test.runIf(existsSync(common))("all that onnxruntime-common exports is there", async () => {
  const peer = (await import(/* @vite-ignore */ common.href)) as Record<string, unknown>;
  for (const [name, thing] of Object.entries(peer)) {
    expect([name, typeof (standIn as Record<string, unknown>)[name]]).toEqual([name, typeof thing]);
    if (typeof thing !== "function") continue;
    const own = (standIn as Readonly<Record<string, object>>)[name];
    const missing = Object.getOwnPropertyNames(thing).filter((each) => !(each in own));
    expect([name, missing]).toEqual([name, []]);
  }
  const members = Object.getOwnPropertyNames((peer["Tensor"] as typeof Tensor).prototype);
  expect(
    members.filter((name) => !["constructor", "ensureValid"].includes(name) && !(name in Tensor.prototype)),
  ).toEqual([]);
  const methods = Object.getOwnPropertyNames((peer["InferenceSession"] as typeof InferenceSession).prototype);
  const session = await InferenceSession.create(model);
  expect(methods.filter((name) => !(name in session))).toEqual([]);
  await session.release();
});

describe("env", () => {
  test("levels as onnxruntime has them, flags of any kind", () => {
    expect(env.logLevel).toBe("warning");
    env.logLevel = "error";
    env.logLevel = undefined;
    expect(env.logLevel).toBe("error");
    for (const odd of ["loud", 2, null, {}])
      expect(() => Reflect.set(env, "logLevel", odd)).toThrow(/env\.logLevel must be one of "verbose", .*, got /);
    expect(env.logLevel).toBe("error");
    env.wasm.wasmPaths = "/there/";
    env.wasm.proxy = true;
    env["debug"] = true;
    expect([env.wasm, env.debug]).toEqual([{ wasmPaths: "/there/", proxy: true }, true]);
    delete env.debug;
  });

  test("versions", () => {
    const read = (path: string) =>
      (JSON.parse(readFileSync(new URL(path, root), "utf8")) as { version: string }).version;
    expect(env.versions.insitu).toBe(read("package.json"));
    if (existsSync(common))
      expect(env.versions.common).toBe(read("peers/node_modules/onnxruntime-common/package.json"));
  });

  test("wasm.numThreads is the default of a session's threads, and what cannot be had is done without", async () => {
    env.wasm.numThreads = 2;
    const warned = vi.spyOn(console, "warn").mockReturnValue();
    const options = optionsWithEnv({ inPlace: "require", threads: undefined });
    expect(options).toEqual({ inPlace: "require", threads: 2, onFallback: expect.any(Function) });
    options.onFallback?.("one thread instead of several");
    expect(warned).toHaveBeenCalledExactlyOnceWith("insitu: one thread instead of several");
    env.logLevel = "error";
    options.onFallback?.("again");
    expect(warned).toHaveBeenCalledTimes(1);
    for (const own of [{ threads: 1 }, { intraOpNumThreads: 3 }, { threads: 0 }]) expect(optionsWithEnv(own)).toBe(own);
    const onFallback = (): void => {};
    expect(optionsWithEnv({ onFallback })).toEqual({ threads: 2, onFallback });
    await (await InferenceSession.create(model)).release();
    env.wasm.numThreads = 1000;
    expect(optionsWithEnv({}).threads).toBe(64);
    for (const odd of [0, -1, 1.5, "2", null, {}, undefined]) {
      Reflect.set(env.wasm, "numThreads", odd);
      expect(optionsWithEnv({})).toEqual({});
    }
  });

  test("webgpu.powerPreference is checked where a session asks for WebGPU", async () => {
    Reflect.set(env.webgpu, "powerPreference", "most");
    await expect(InferenceSession.create(model, { backend: "webgpu" })).rejects.toThrow(
      /webgpu\.powerPreference must be/,
    );
    await (await InferenceSession.create(model)).release();
  });
});

test("backends are listed, and others accepted but never called", () => {
  const names = insitu.listSupportedBackends().map(({ name }) => name);
  expect(names).toEqual(["cpu", "wasm", "webgpu", "reference"]);
  const backend = { init: vi.fn(), createInferenceSessionHandler: vi.fn() };
  insitu.registerBackend("mine", backend, 10);
  expect(backend.init).not.toHaveBeenCalled();
  for (const odd of [{}, null, { init: backend.init }]) {
    expect(() => insitu.registerBackend("mine", odd as object, 10)).toThrow(TypeError);
    expect(() => insitu.registerBackend("mine", odd as object, 10)).toThrow(InsituError);
  }
  standIn.TRACE("a", "b");
  standIn.TRACE_FUNC_BEGIN();
  standIn.TRACE_FUNC_END();
  standIn.TRACE_EVENT_BEGIN("a");
  standIn.TRACE_EVENT_END("a");
});

test("factories and pictures are refused by name, with the way out", async () => {
  const tensor = new Tensor("float32", [1, 2], [2]);
  await expect(Tensor.fromImage("picture.png")).rejects.toThrow(/^Tensor: fromImage is not there in insitu; draw/);
  for (const [name, call] of Object.entries({
    fromTexture: () => Tensor.fromTexture({}, {}),
    fromGpuBuffer: () => Tensor.fromGpuBuffer({}, { dims: [1] }),
    fromMLTensor: () => Tensor.fromMLTensor({}, { dims: [1] }),
    toDataURL: () => tensor.toDataURL(),
    toImageData: () => tensor.toImageData(),
    texture: () => tensor.texture,
    gpuBuffer: () => tensor.gpuBuffer,
    mlTensor: () => tensor.mlTensor,
  }))
    expect(call).toThrow(new RegExp(`^Tensor: ${name} is not there in insitu; .+`));
  const pinned = Float32Array.of(1, 2);
  expect(Tensor.fromPinnedBuffer("float32", pinned, [1, 2]).data).toBe(pinned);
  const nibbles = new Tensor("int4", Int8Array.of(0x21, -1), [4]);
  expect(nibbles.data).toEqual(Uint8Array.of(0x21, 255));
});
