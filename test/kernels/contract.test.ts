// What a compiled module of kernels may export, import and weigh.
import { inflateSync } from "node:zlib";
import { expect, test } from "vitest";
import { kernelJobs, reservedBytes } from "../../src/wasm-kernels/exports.js";
import { relaxedModule, simdModule } from "../../src/wasm-kernels/modules.gen.js";
import "./workbench.js";

test("a module exports the kernels, imports the memory, holds no data and is small", () => {
  for (const text of [simdModule, relaxedModule]) {
    const deflated = Buffer.from(text, "base64");
    const bytes = inflateSync(deflated);
    const module = new WebAssembly.Module(bytes);
    const exported = WebAssembly.Module.exports(module);
    expect(
      exported
        .filter(({ kind }) => kind === "function")
        .map(({ name }) => name)
        .sort(),
    ).toEqual(Object.keys(kernelJobs).sort());
    expect(WebAssembly.Module.imports(module)).toEqual([{ module: "env", name: "memory", kind: "memory" }]);
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 65536, shared: true });
    void new WebAssembly.Instance(module, { env: { memory } });
    expect(new Uint8Array(memory.buffer).subarray(reservedBytes).every((byte) => byte === 0)).toBe(true);
    expect(bytes.length).toBeLessThan(194_000);
    expect(deflated.length).toBeLessThan(52_500);
  }
});
