/** The kernels on WebGPU that operators have, by declaration. The list itself is generated from the folders. */
import { type KernelTable, kernelTable } from "../graph/kernel.js";
import type { WebgpuKernel } from "../webgpu-kernels/webgpu-kernel.js";
import { kernels } from "./webgpu.gen.js";

/** Kernels by declaration, in the order they are tried. */
export const webgpuKernels: KernelTable<WebgpuKernel> = kernelTable(kernels);
