import { type Env, env } from "onnxruntime-web";

env.logLevel = "error";
env.debug = false;
env.wasm.numThreads = 1;
env.wasm.simd = true;
env.wasm.proxy = false;
env.wasm.wasmPaths = "https://example.org/";
env.wasm.wasmPaths = { wasm: "/ort.wasm", mjs: new URL("https://example.org/ort.mjs") };
env.webgl.pack = true;
env.webgpu.powerPreference = "high-performance";
env.webgpu.profiling = { mode: "default" };
const flags: Env.WebAssemblyFlags = env.wasm;
export const version: string = env.versions.common;
export const web: string | undefined = env.versions.web;
export const same: Env = env;
console.log(flags.numThreads);
