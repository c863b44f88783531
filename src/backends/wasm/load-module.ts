/** Chooses, loads and compiles the kernels: with relaxed SIMD where the engine has it and computes right with it, else with plain SIMD. */
import type { Platform } from "../../base/platform.js";
import { Unavailable } from "../unavailable.js";
import { relaxedBuildWorks } from "./self-test.js";

/** The compiled kernels, and which build they are. */
interface KernelModule {
  readonly module: WebAssembly.Module;
  readonly relaxed: boolean;
}

/** The module in the text of a build: base64 of deflated bytes. Without fetch's parts, which want address space of their own in Node. */
async function unpack(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = binary.charCodeAt(at);
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  for (const reader = inflated.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(pieces).arrayBuffer());
    pieces.push(value);
  }
}

/** Compiled once for each choice. */
const compiled = new Map<boolean, Promise<KernelModule>>();

/** The compiled kernels; as `compileKernels`, but each build only once. */
export function loadKernelModule(platform: Platform, allowRelaxed: boolean): Promise<KernelModule> {
  let loading = compiled.get(allowRelaxed);
  if (loading === undefined) {
    loading = compileKernels(platform, allowRelaxed);
    compiled.set(allowRelaxed, loading);
    loading.catch(() => compiled.delete(allowRelaxed));
  }
  return loading;
}

/** Chooses and compiles a build. Throws where the engine has no WebAssembly, or no SIMD, or may not compile. */
export async function compileKernels(platform: Platform, allowRelaxed: boolean): Promise<KernelModule> {
  if (typeof WebAssembly === "undefined") throw refusal("this engine has no WebAssembly");
  if (allowRelaxed) {
    const bytes = await load(async () => (await import("../../wasm-kernels/relaxed.gen.js")).relaxedModule);
    // Node 20 has it and keeps it switched off.
    if (!WebAssembly.validate(bytes)) platform.switchOn("wasm-relaxed-simd");
    if (WebAssembly.validate(bytes)) {
      const module = await compile(bytes);
      if (relaxedBuildWorks(module)) return { module, relaxed: true };
    }
  }
  const bytes = await load(async () => (await import("../../wasm-kernels/simd.gen.js")).simdModule);
  if (!WebAssembly.validate(bytes)) throw refusal("this engine has no WebAssembly SIMD with threads");
  return { module: await compile(bytes), relaxed: false };
}

/** The bytes of a build. Each is a file of its own, which a page may fail to fetch. */
async function load(text: () => Promise<string>): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await unpack(await text());
  } catch (cause) {
    throw refusal(`the kernels could not be loaded (${cause instanceof Error ? cause.message : String(cause)})`, cause);
  }
}

/** A page's content security policy may forbid what validation allows. */
async function compile(bytes: Uint8Array<ArrayBuffer>): Promise<WebAssembly.Module> {
  try {
    return await WebAssembly.compile(bytes);
  } catch (cause) {
    throw refusal(`the kernels did not compile (${cause instanceof Error ? cause.message : String(cause)})`, cause);
  }
}

const refusal = (reason: string, cause?: unknown): Unavailable =>
  new Unavailable("backend", "invalid-argument", `${reason}; use backend: "reference", which is slow`, { cause });
