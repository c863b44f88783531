// The suites of WebGPU kernels run with workgroup memory that is full of NaN: see poison.ts.
import { afterAll, beforeAll, expect } from "vitest";
import { poisoned } from "./poison.js";

let restore: (() => void) | undefined;

beforeAll(async () => {
  if (!/\/test\/webgpu\/kernels\//.test(expect.getState().testPath ?? "")) return;
  const dawn = await import("webgpu").catch(() => undefined);
  if (dawn === undefined) return;
  const { prototype } = (dawn.globals as { readonly GPUDevice: { readonly prototype: GPUDevice } }).GPUDevice;
  const own = prototype.createShaderModule;
  prototype.createShaderModule = function (this: GPUDevice, given) {
    return own.call(this, { ...given, code: poisoned(given.code) });
  };
  restore = () => void (prototype.createShaderModule = own);
});

afterAll(() => {
  restore?.();
  restore = undefined;
});
