// Which build of the kernels is chosen, and what is said where none can be had.
import { inflateSync } from "node:zlib";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Platform } from "../../src/base/platform.js";
import { compileKernels, loadKernelModule } from "../../src/backends/wasm/load-module.js";
import { relaxedBuildWorks } from "../../src/backends/wasm/self-test.js";
import { relaxedModule, simdModule } from "../../src/wasm-kernels/modules.gen.js";
import { nodePlatform } from "../../src/platform/node.js";

const bytesOf = (module: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(inflateSync(Buffer.from(module, "base64")));
const none: Platform = { ...nodePlatform, switchOn() {} };
const empty = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);

afterEach(() => void vi.restoreAllMocks());

describe("the kernels", () => {
  test("with relaxed SIMD compute right on this engine and are chosen, compiled once", async () => {
    const chosen = await loadKernelModule(nodePlatform, true);
    expect(relaxedBuildWorks(await WebAssembly.compile(bytesOf(relaxedModule)))).toBe(true);
    expect(chosen.relaxed).toBe(true);
    expect(await loadKernelModule(nodePlatform, true)).toBe(chosen);
    expect((await loadKernelModule(nodePlatform, false)).relaxed).toBe(false);
  });

  test("with relaxed SIMD are passed over where the engine computes wrong with them", async () => {
    // A build without exports stands for one that a broken engine runs.
    const compile = WebAssembly.compile.bind(WebAssembly);
    const relaxed = bytesOf(relaxedModule).length;
    vi.spyOn(WebAssembly, "compile").mockImplementation((bytes) =>
      compile((bytes as Uint8Array<ArrayBuffer>).length === relaxed ? empty : bytes),
    );
    const { module, relaxed: chosen } = await compileKernels(nodePlatform, true);
    expect(chosen).toBe(false);
    expect(WebAssembly.Module.exports(module).length).toBeGreaterThan(5);
  });

  test("with plain SIMD are chosen where the engine has no relaxed one", async () => {
    const validate = WebAssembly.validate.bind(WebAssembly);
    const plain = bytesOf(simdModule).length;
    vi.spyOn(WebAssembly, "validate").mockImplementation(
      (bytes) => (bytes as Uint8Array).length === plain && validate(bytes),
    );
    expect((await compileKernels(none, true)).relaxed).toBe(false);
  });

  test("are refused clearly where the engine has no SIMD, may not compile, or has no WebAssembly", async () => {
    const validate = vi.spyOn(WebAssembly, "validate").mockReturnValue(false);
    await expect(compileKernels(none, true)).rejects.toMatchObject({
      code: "invalid-argument",
      message: 'this engine has no WebAssembly SIMD with threads; use backend: "reference", which is slow',
    });
    validate.mockRestore();
    const compile = vi.spyOn(WebAssembly, "compile").mockRejectedValue(new Error("blocked by policy"));
    await expect(compileKernels(none, true)).rejects.toThrow(
      /^the kernels did not compile \(blocked by policy\); use backend/,
    );
    compile.mockRestore();
    vi.stubGlobal("WebAssembly", undefined);
    try {
      await expect(compileKernels(none, true)).rejects.toThrow(
        /^this engine has no WebAssembly; use backend: "reference"/,
      );
    } finally {
      vi.unstubAllGlobals();
    }
  });
});
