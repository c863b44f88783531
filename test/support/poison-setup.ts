// The suites of WebGPU kernels run with workgroup memory that is full of NaN (see poison.ts), and with kept texts of shaders compared with what would be
// written anew.
import { afterAll, beforeAll, expect } from "vitest";
import { poisoned } from "./poison.js";

/** What is replaced of a device. */
interface Modules {
  createShaderModule: (this: GPUDevice, given: GPUShaderModuleDescriptor) => GPUShaderModule;
}

let restore: (() => void) | undefined;

beforeAll(async () => {
  const path = expect.getState().testPath ?? "";
  if (!/\/test\/webgpu\//.test(path)) return;
  const { checking } = await import("../../src/webgpu-kernels/shader-part.js");
  checking.texts = true;
  restore = () => void (checking.texts = false);
  if (!/\/test\/webgpu\/kernels\//.test(path)) return;
  const dawn = await import("webgpu").catch(() => undefined);
  if (dawn === undefined) return;
  const { prototype } = (dawn.globals as { readonly GPUDevice: { readonly prototype: Modules } }).GPUDevice;
  const own = prototype.createShaderModule;
  prototype.createShaderModule = function (given) {
    return own.call(this, { ...given, code: poisoned(given.code) });
  };
  restore = () => {
    prototype.createShaderModule = own;
    checking.texts = false;
  };
});

afterAll(() => {
  restore?.();
  restore = undefined;
});
